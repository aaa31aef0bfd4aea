"""Measure the work of a ledger, and record in the current call what its claim returned."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TypeAlias

from toolwire.core.ledger import CallEnding, Claim, ClaimOutcome, Ledger, StoredResult, Ticket

from .current_call import CURRENT_CALL

RecordDuration: TypeAlias = Callable[[str, str, float], None]
"""Records an operation, the kind of ledger, and the duration in seconds."""


class ObservedLedger:
    """Works like ``ledger``. ``record`` is None if there are no metrics."""

    def __init__(self, ledger: Ledger, record: RecordDuration | None) -> None:
        self._ledger = ledger
        self._record = record
        self._backend = type(ledger).__name__.removesuffix("Ledger").lower()

    async def claim(self, claim: Claim) -> ClaimOutcome:
        """Return the ticket for a call that may run now, or why it does not."""
        started = perf_counter()
        standing = await self._ledger.claim(claim)
        if self._record is not None:
            self._record("claim", self._backend, perf_counter() - started)
        served = CURRENT_CALL.get()
        if served is not None:
            if isinstance(standing, Ticket):
                served.attempt = standing.attempt
            elif isinstance(standing, StoredResult) and claim.awaited_attempt:
                served.has_waited = True
        return standing

    async def settle(self, ticket: Ticket, ending: CallEnding | None) -> None:
        """Record how the call of ``ticket`` ended; None forgets this run of it."""
        started = perf_counter()
        await self._ledger.settle(ticket, ending)
        if self._record is not None:
            self._record("settle", self._backend, perf_counter() - started)
