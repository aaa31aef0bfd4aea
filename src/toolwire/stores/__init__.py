"""Store what must outlive a call or a process: consent, credentials, the ledger, rate limits, and OAuth.

The rooms do not import each other; each imports the ring that has its rules. Names that need a file or an extra are
imported from their room.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .consent.memory import MemoryAudit, MemoryGrants

__all__ = ["MemoryAudit", "MemoryGrants"]


def __getattr__(name: str) -> Any:
    """Return a store in memory. It is imported when it is first used, since most servers use none."""
    if name in __all__:
        return getattr(import_module("toolwire.stores.consent.memory"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
