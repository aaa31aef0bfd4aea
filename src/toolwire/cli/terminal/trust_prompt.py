"""Ask the user at the terminal whether a ``toolwire.toml`` may be used."""
# FU-40, AT-40

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from .keyboard import discard_input, read_line
from .screen import apply_style, escaped


def is_terminal() -> bool:
    """Return whether the user can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask_trust(path: Path, lines: Sequence[str], warning: str) -> bool:
    """Show the ``lines`` of the file and ask whether to use them; return whether the answer is yes."""
    print(f"{escaped(str(path))} says:", file=sys.stderr)
    for line in lines:  # D-21: all of them, or a file could hide what it does behind harmless lines
        print(f"  {escaped(line)}", file=sys.stderr)
    print(warning, file=sys.stderr)
    discard_input()  # what was typed before the question does not answer it
    question = "Use this file, until it changes? [y/N] "
    print(apply_style(question, "bold", sys.stderr), end="", file=sys.stderr, flush=True)
    return read_line().strip().lower() in ("y", "yes")
