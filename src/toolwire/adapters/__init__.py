"""Adapters to the SDKs of models: the tools to declare, and the calls that a model asks for.

May import core, consent, framing, and one SDK in each adapter.
"""
