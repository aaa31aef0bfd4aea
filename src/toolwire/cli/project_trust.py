"""Ask once whether a ``toolwire.toml`` may be used: a cloned folder can bring one that runs code or sends secrets.

Rules:
- A trusted file is known by its path and each letter of it: another text needs another yes.
- The user's own file needs no yes. ``TOOLWIRE_SETTINGS=trust`` stands for it where nobody can be asked, as in a
  container or a CI job.
"""
# FU-40, AT-40

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from toolwire.core.errors import DefinitionError
from toolwire.stores.consent.agreed_digests import open_trusted_settings
from toolwire.stores.paths import find_state_folder

from .terminal.keyboard import discard_input, read_line
from .terminal.screen import apply_style, escaped

SETTINGS_VARIABLE: Final = "TOOLWIRE_SETTINGS"


def digest_file(path: Path, data: bytes) -> str:
    """Return what a trusted file is known by: it changes with its path and with each letter of it."""
    return hashlib.sha256(str(path).encode() + b"\0" + data).hexdigest()


def is_trusted(digest: str) -> bool:
    """Return whether the user trusts the file with this digest."""
    if os.environ.get(SETTINGS_VARIABLE, "") == "trust":
        return True
    try:
        return open_trusted_settings(find_state_folder()).has(digest)
    except DefinitionError:  # what another user could have written is no yes of this one
        return False


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
