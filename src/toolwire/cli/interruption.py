"""What a signal does while the program still loads its code: it ends at once, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from shutil import rmtree
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Final

from toolwire.core.errors import DefinitionError

_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
"""The signals that end a program at once, unlike SIGINT, which Python raises as an exception."""


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


@contextmanager
def open_temporary_folder() -> Generator[str, None, None]:
    """Yield a folder that is removed when the block ends, also where SIGTERM or SIGHUP ends this process in it.

    A signal for which the program has its own handler is left to that, as is one that is ignored. Within the block
    others may take the signals. Only the main thread can call this.

    Raises:
        DefinitionError: there is no place for temporary files.
    """
    # CL-03
    owner = os.getpid()
    try:
        temporary = TemporaryDirectory(prefix="toolwire-")
    except OSError as error:  # RE-05
        text = "No folder for temporary files is writable. Set TMPDIR to one."
        raise DefinitionError(text) from error
    with temporary as folder:

        def remove_and_end(number: int, _: FrameType | None) -> None:
            if os.getpid() == owner:  # a process that was forked has the handler, and not the folder
                rmtree(folder, ignore_errors=True)
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

        taken = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
        for number in taken:
            signal.signal(number, remove_and_end)
        try:
            yield folder
        finally:
            for number in taken:
                if signal.getsignal(number) is remove_and_end:
                    signal.signal(number, signal.SIG_DFL)
