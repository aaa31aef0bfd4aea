"""The person at the terminal, as somebody who can sign in. [XL-102]"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .keyboard import forget_typed, typed_line
from .screen import escaped, instruct, styled

if TYPE_CHECKING:  # signing in is rare, and a lot of code
    from toolwire.client.login import SignInUser


def person_here() -> SignInUser | None:
    """Return the person who can be asked to sign in, or None where there is no terminal to ask at."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    from toolwire.client.login import SignInUser  # noqa: PLC0415 - only somebody at a terminal needs it

    return SignInUser(tell=instruct, allow=_allowed)


def _allowed(site: str, scopes: Sequence[str]) -> bool:
    """Ask before a browser is opened: a page that nobody expects is not to be signed in to."""
    wanted = f" for {', '.join(scopes)}" if scopes else ""
    question = f"{site} wants you to sign in{wanted}. Sign in? [y/N] "
    forget_typed()  # what was typed before the question is no answer to it
    print(styled(escaped(question), "bold", sys.stderr), end="", file=sys.stderr, flush=True)
    return typed_line().strip().lower() in ("y", "yes")
