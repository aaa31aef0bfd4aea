"""What a person types at the terminal, and Ctrl-C whenever they press it."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import threading


def forget_typed() -> None:
    """Forget what was typed so far and not read."""
    termios.tcflush(sys.stdin, termios.TCIFLUSH)


def typed_line() -> str:
    """Return the next line with its end, ``""`` where there are no more.

    Raises:
        KeyboardInterrupt: at Ctrl-C, also in the moment before the wait begins, which a plain read would sleep through.
    """
    if threading.current_thread() is threading.main_thread():  # signals reach no other
        _wait()
    return sys.stdin.readline()


def _wait() -> None:
    """Wait until a line or a signal has come; Python answers the signal as soon as this ends."""
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    before = signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    try:
        select.select((sys.stdin, woken), (), ())
    finally:
        signal.set_wakeup_fd(before)
        os.close(woken)
        os.close(wakes)
