"""Set the interpreter for a while: pause garbage collection, or change threads more often.

Reading a large document, or building the tables of many tools, makes many objects. The collector would scan all of them
again and again and free nothing: this takes two thirds of the time of parsing, and half of the time of building.

A thread that wants to run waits until the running one has had its interval: 5 ms, unless the program chose another. An
event loop waits so after each look at its sockets, which is several times for one call.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager

_MANY = 20_000
_RARELY = 200_000
"""After how many new objects the collector looks while code is loaded; usually after 700 or 2,000."""


@contextmanager
def pause_collection() -> Generator[None, None, None]:
    """Pause collection until the block ends. Do nothing inside another such block, or if collection is off.

    If the block made many objects, they move to the oldest generation: only a full collection scans them.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if gc.get_count()[0] > _MANY and not gc.get_freeze_count():  # keep what the program itself froze
            gc.freeze()
            gc.unfreeze()
        gc.enable()


@contextmanager
def collect_rarely() -> Generator[None, None, None]:
    """Let the collector look only after 200,000 new objects, until the block ends.

    This is for code of a user: it cannot be paused there, as nobody knows what the code does and how long it runs.
    """
    # GR-06: of 10,000 tools in a file, a fifth of the time went to the collector, which found nothing.
    before = gc.get_threshold()
    if not 0 < before[0] < _RARELY:
        yield
        return
    gc.set_threshold(_RARELY, *before[1:])
    try:
        yield
    finally:
        if gc.get_threshold()[0] == _RARELY:  # else the code chose its own
            gc.set_threshold(*before)


INTERVAL_S = 0.001
"""The interval during long work: another call is answered in a third of the time, and the work takes hardly longer."""

_lock = threading.Lock()
_before: list[float] = []
"""The interval before each block that is open; the first is that of the program."""


@contextmanager
def switch_threads_often() -> Generator[None, None, None]:
    """Let threads take turns after a millisecond at most, in the whole process, until the last such block ends.

    A shorter interval that the program chose stays.
    """
    with _lock:
        _before.append(sys.getswitchinterval())
        sys.setswitchinterval(min(INTERVAL_S, _before[0]))
    try:
        yield
    finally:
        with _lock:
            chosen = _before[0]
            _before.pop()
            if not _before:
                sys.setswitchinterval(chosen)
