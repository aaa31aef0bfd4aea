"""Change threads more often while a worker thread does long work in Python, so that an event loop is not late.

A thread that wants to run waits until the running one has had its interval: 5 ms, unless the program chose another. An
event loop waits so after each look at its sockets, which is several times for one call.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager

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
