"""Remove what is over from the ledgers of this process each minute, also while no call arrives."""
# GR-03

from __future__ import annotations

import threading
from typing import Final, Protocol
from weakref import WeakSet

SWEEP_S: Final = 60.0


class SweptLedger(Protocol):
    """A ledger whose calls end after a time."""

    def post_sweep(self) -> None:
        """Remove the calls whose time is over, without waiting for it."""
        ...


_LEDGERS: WeakSet[SweptLedger] = WeakSet()
_LOCK = threading.Lock()
_THREADS: list[threading.Thread] = []


def sweep_regularly(ledger: SweptLedger) -> None:
    """Sweep ``ledger`` each minute for as long as it lives."""
    with _LOCK:
        _LEDGERS.add(ledger)
        # A process that was forked has the list, and not the thread.
        if not any(one.is_alive() for one in _THREADS):
            _THREADS[:] = [threading.Thread(target=_work, name="toolwire-sweeper", daemon=True)]
            _THREADS[0].start()


def sweep_all() -> None:
    """Sweep each ledger of this process once."""
    with _LOCK:
        ledgers = list(_LEDGERS)
    for one in ledgers:
        one.post_sweep()


def _work() -> None:
    pause = threading.Event()
    while not pause.wait(SWEEP_S):
        sweep_all()
