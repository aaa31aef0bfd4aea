"""Ask the user at the terminal whether a command may run."""

from __future__ import annotations

import sys

from toolwire.client.transport.server_command import ServerCommand

from .keyboard import discard_input, read_line
from .screen import apply_style, escaped, print_error

_MAX_SHOWN_LENGTH = 2_000


def confirm_command(command: ServerCommand) -> bool:
    """Return whether the user lets ``command`` run, now and later. Without a terminal the answer is no."""
    # MC-02
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        print_error("This program was not run before, and there is no terminal to ask at: use the target there once.")
        return False
    print("This target runs a program on this machine, with all that you may do here:", file=sys.stderr)
    print(f"  {_shorten(command.name)}", file=sys.stderr)
    print(f"  the program   {_describe_program(command)}", file=sys.stderr)
    print(f"  in the folder {_shorten(command.folder)}", file=sys.stderr)
    # AT-33: what is written in a file is no secret of the user, and may decide what runs.
    for name, text in sorted(command.written.items()):
        print(f"  it is given   {name}={_shorten(text)}", file=sys.stderr)
    if names := ", ".join(command.code_variables):
        print(
            apply_style(f"  {names} can make it run other code: check the value.", "bold", sys.stderr), file=sys.stderr
        )
    discard_input()  # what was typed before the question does not answer it
    question = "Run it, now and whenever you name exactly this command for this folder? [y/N] "
    print(apply_style(question, "bold", sys.stderr), end="", file=sys.stderr, flush=True)
    answer = read_line()
    if not answer.endswith("\n"):
        print(file=sys.stderr)
    return answer.strip().lower() in ("y", "yes")


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
