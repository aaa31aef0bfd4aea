"""Grammars that more than one protocol uses: JSON text, JSON-RPC 2.0, server-sent events."""
