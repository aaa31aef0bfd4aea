"""Store what must outlive a call or a process: consent, credentials, the ledger, rate limits, and OAuth.

The rooms do not import each other; each imports the ring that has its rules. Names that need a file or an extra are
imported from their room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolwire.core.lazy_import import export_lazily

if TYPE_CHECKING:
    from .consent.memory import MemoryAudit, MemoryGrants

__all__ = ["MemoryAudit", "MemoryGrants"]

# Most servers use no store in memory, so it is imported when it is first used.
__getattr__, __dir__ = export_lazily(__name__, dict.fromkeys(__all__, "consent.memory"))
