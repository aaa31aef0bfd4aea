"""Read lines that the user types at the terminal; Ctrl-C ends the wait at once."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import threading


def discard_input() -> None:
    """Discard what was typed before and not yet read."""
    termios.tcflush(sys.stdin, termios.TCIFLUSH)


def read_line() -> str:
    """Return the next line with its line break, or ``""`` at the end of the input.

    Raises:
        KeyboardInterrupt: at Ctrl-C, also in the moment before the wait begins, where a plain read would miss it.
    """
    if threading.current_thread() is threading.main_thread():  # Python handles signals in this thread only
        _wait_for_input()
    return sys.stdin.readline()


def _wait_for_input() -> None:
    """Wait for a line or a signal. Python handles the signal as soon as this returns."""
    interrupt_reader, interrupt_writer = os.pipe()
    os.set_blocking(interrupt_writer, False)
    before = signal.set_wakeup_fd(interrupt_writer, warn_on_full_buffer=False)
    try:
        select.select((sys.stdin, interrupt_reader), (), ())
    finally:
        signal.set_wakeup_fd(before)
        os.close(interrupt_reader)
        os.close(interrupt_writer)
