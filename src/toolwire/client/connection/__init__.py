"""Connections to servers: ``connect`` and the ``Remote`` it returns. Imports every other room of the client."""
