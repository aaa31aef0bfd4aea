"""A grant: a person's "always" for exactly one definition of one tool of one site."""

from __future__ import annotations

from hashlib import sha256
from typing import Protocol

from toolwire.core.model import Tool


class Grants(Protocol):
    """Remembers what was allowed "always"."""

    def holds(self, key: str) -> bool:
        """Return whether this was allowed and not revoked."""
        ...

    def add(self, key: str) -> None:
        """Remember that this was allowed."""
        ...


def grant_key(site: str, tool: Tool) -> str:
    """Return the key of a grant: it changes with the site, and with every part of the tool's definition. [XL-047]"""
    return sha256(repr((site, tool)).encode("utf-8", "surrogatepass")).hexdigest()
