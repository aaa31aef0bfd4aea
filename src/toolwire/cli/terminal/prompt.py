"""Ask the user at the terminal: read a line, and put the questions that are about no call.

Ctrl-C ends the wait at once. What was typed before a question does not answer it. Without a terminal, every
answer is no.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toolwire.consent.origin_display import display_origin, find_lookalike_warning

from .screen import apply_style, escaped, print_error

if TYPE_CHECKING:  # most commands run no program
    from toolwire.client.transport.server_command import ServerCommand

YES: Final = ("y", "yes")
_MAX_SHOWN_LENGTH: Final = 2_000


def is_terminal() -> bool:
    """Return whether the user can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


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


def read_answer(prompt: str) -> str:
    """Print ``prompt`` in bold on standard error, and return the line that the user types, without its line break."""
    print(apply_style(prompt, "bold", sys.stderr), end="", file=sys.stderr, flush=True)
    answer = read_line()
    if not answer.endswith("\n"):
        print(file=sys.stderr)
    return answer.strip()


def confirm(question: str) -> bool:
    """Return whether the user answers ``question``, printed as ``read_answer`` prints it, with yes."""
    discard_input()
    return read_answer(question).lower() in YES


def confirm_command(command: ServerCommand) -> bool:
    """Return whether the user lets ``command`` run, now and later."""
    # MC-02
    if not is_terminal():
        print_error(
            f"The program {_shorten(command.name)} has not run before, and there is no terminal to ask you. Run this "
            "command once in a terminal, or `toolwire gateway agree` for an upstream of a gateway."
        )
        return False
    print("This target runs a program on this machine, with all that you may do here:", file=sys.stderr)
    print(f"  {_shorten(command.name)}", file=sys.stderr)
    print(f"  the program   {_describe_program(command)}", file=sys.stderr)
    print(f"  in the folder {_shorten(command.folder)}", file=sys.stderr)
    # AT-33: what is written in a file is no secret of the user, and may decide what runs.
    for name, text in sorted(command.written.items()):
        print(f"  it is given   {name}={_shorten(text)}", file=sys.stderr)
    if names := ", ".join(command.code_variables):
        warning = f"  {names} can make it run other code. Check the value."
        print(apply_style(warning, "bold", sys.stderr), file=sys.stderr)
    return confirm("Run it, now and whenever you name exactly this command for this folder? [y/N] ")


def _describe_program(command: ServerCommand) -> str:
    """Return the file that runs, and what a link in its place leads to."""
    # AT-45
    if not command.program:
        return "was not found"
    linked = command.program_file if command.program_file != command.program else ""
    return f"{_shorten(command.program)}{f', a link to {_shorten(linked)}' if linked else ''}"


def _shorten(text: str) -> str:
    shown = escaped(text[:_MAX_SHOWN_LENGTH])
    left = len(text) - _MAX_SHOWN_LENGTH
    return f"{shown} and {left:,} more characters" if left > 0 else shown


def confirm_relocation(here: str, there: str) -> bool:
    """Return whether the user allows ``there``, the origin to which a site redirects, in the place of ``here``."""
    # XL-011
    if not is_terminal():
        print_error(
            f"{display_origin(here)} redirects to {display_origin(there)}, and there is no terminal on which "
            "to ask you."
        )
        return False
    print(f"{display_origin(here)} redirects to {display_origin(there)}.", file=sys.stderr)
    if careful := find_lookalike_warning(there):
        print(f"  {careful}", file=sys.stderr)
    print("  If you gave an API key for the first origin, it would be sent to the second.", file=sys.stderr)
    return confirm("Connect to that one instead? [y/N] ")


def ask_trust(path: Path, lines: Sequence[str], warning: str) -> bool:
    """Show the ``lines`` of a ``toolwire.toml``, and return whether the user wants it to be used."""
    # FU-40, AT-40
    print(f"{escaped(str(path))} says:", file=sys.stderr)
    for line in lines:  # D-21: all of them, or a file could hide what it does behind harmless lines
        print(f"  {escaped(line)}", file=sys.stderr)
    print(warning, file=sys.stderr)
    return confirm("Use this file, until it changes? [y/N] ")
