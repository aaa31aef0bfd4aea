"""Offer long calls to workers on other machines. Each engine is one module, and needs its own extra.

An engine carries the id of a call and nothing else. Whether a call runs is decided by the state, so an engine may lose
or repeat what it carries.
"""
