"""Everything that remembers. What needs a file or a server is imported from its own module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .consent.memory import MemoryAudit, MemoryGrants

__all__ = ["MemoryAudit", "MemoryGrants"]


def __getattr__(name: str) -> Any:
    """Return what memory keeps of consent: a client's business, and nothing that every server should load."""
    if name in __all__:
        from .consent import memory  # noqa: PLC0415 - as it says above

        return getattr(memory, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
