"""Keep what a gateway signed for its callers in files; its other decisions only in memory, as without receipts."""
# CC-06

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from toolwire.consent.decision_record import ChainedDecision, Decision
from toolwire.stores.consent.memory import MemoryAudit

if TYPE_CHECKING:  # loads sqlite3, and few sites want receipts
    from toolwire.stores.consent.audit import StoredAudit


class SignedDecisions:
    """The decisions of a gateway. Those with a receipt are in the log of decisions in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._recent = MemoryAudit()
        self._stored: StoredAudit | None = None

    def append(self, record: Decision) -> None:
        """Add ``record``."""
        if not record.receipt:
            self._recent.append(record)
            return
        if self._stored is None:
            from toolwire.stores.consent.audit import StoredAudit  # as above

            self._stored = StoredAudit(self._folder)
        self._stored.append(record)

    def entries(self) -> Iterable[ChainedDecision]:
        """Return the decisions that are only in memory, in order."""
        return self._recent.entries()
