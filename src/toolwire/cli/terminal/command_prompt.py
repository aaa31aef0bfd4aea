"""Ask the user at the terminal whether a command may run."""

from __future__ import annotations

import shutil
import sys

from toolwire.client.transport.server_command import ServerCommand

from .keyboard import discard_input, read_line
from .screen import apply_style, escaped, print_error


def confirm_command(command: ServerCommand) -> bool:
    """Return whether the user lets ``command`` run, now and later. Without a terminal the answer is no."""
    # MC-02
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        print_error("This program was not run before, and there is no terminal to ask at: use the target there once.")
        return False
    place = shutil.which(command.words[0], path=command.build_environment().get("PATH"))
    print("This target runs a program on this machine, with all that you may do here:", file=sys.stderr)
    print(f"  {escaped(str(command))}", file=sys.stderr)
    print(f"  the program   {escaped(place or 'was not found')}", file=sys.stderr)
    if command.folder:
        print(f"  in the folder {escaped(command.folder)}", file=sys.stderr)
    if command.variables:
        print(f"  it is given   {escaped(', '.join(sorted(command.variables)))}", file=sys.stderr)
    discard_input()  # what was typed before the question does not answer it
    question = "Run it, now and whenever you name exactly this command? [y/N] "
    print(apply_style(question, "bold", sys.stderr), end="", file=sys.stderr, flush=True)
    answer = read_line()
    if not answer.endswith("\n"):
        print(file=sys.stderr)
    return answer.strip().lower() in ("y", "yes")
