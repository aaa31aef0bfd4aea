"""Let the user at the terminal sign in to a site."""
# XL-102

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .keyboard import discard_input, read_line
from .screen import apply_style, escaped, print_instruction

if TYPE_CHECKING:  # signing in is rare, and imports much
    from toolwire.client.login import SignInUser


def build_terminal_user() -> SignInUser | None:
    """Return the user who can be asked to sign in, or None without a terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    from toolwire.client.login import SignInUser  # only needed at a terminal

    return SignInUser(show=print_instruction, allow=_confirm_sign_in)


def _confirm_sign_in(site: str, scopes: Sequence[str]) -> bool:
    """Ask before a browser opens: a user must not sign in to a page that they did not expect."""
    wanted = f" for {', '.join(scopes)}" if scopes else ""
    question = f"{site} wants you to sign in{wanted}. Sign in? [y/N] "
    discard_input()  # what was typed before the question does not answer it
    print(apply_style(escaped(question), "bold", sys.stderr), end="", file=sys.stderr, flush=True)
    return read_line().strip().lower() in ("y", "yes")
