"""Let Ctrl-C end the program at once while it still loads its code."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def end_on_interrupt() -> Generator[None, None, None]:
    """Let the system end this process on SIGINT within the block, as a shell expects it; it changes nothing yet.

    An exception in the middle of an import would print a traceback, and takes some native modules down with it. Where
    a program has its own handler, or in another thread than the main one, nothing is changed.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
