"""Tell a user at a terminal what the program does, if it takes longer than a second."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from threading import Timer
from typing import Final

from .screen import apply_style, escaped

SLOW_S: Final = 1.0


@contextmanager
def announce_if_slow(text: str) -> Generator[None, None, None]:
    """Print ``text`` on standard error if the block takes longer than a second and standard error is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    # A whole line, never rewritten: a question of the same command may follow on the screen.
    line = apply_style(f"{escaped(text)} ...", "dim", sys.stderr)
    timer = Timer(SLOW_S, lambda: print(line, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
