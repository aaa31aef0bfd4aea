"""Say who the user at the terminal is, and let them sign in to a site."""
# XL-102

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from getpass import getuser
from typing import TYPE_CHECKING, Final

from toolwire.core.url_origin import complete_url, get_origin

from .prompt import confirm, is_terminal
from .screen import escaped, print_instruction

if TYPE_CHECKING:  # signing in is rare, and imports much
    from toolwire.client.login import SignInUser

CHANNEL: Final = "terminal"
"""Where the user decides, for a log of decisions."""


def build_terminal_user(sign_in_at: Sequence[str] = ()) -> SignInUser | None:
    """Return the user who can be asked to sign in, or None without a terminal.

    ``sign_in_at`` are the origins that a site may send them to.
    """
    if not is_terminal():
        return None
    from toolwire.client.login import SignInUser  # only needed at a terminal

    return SignInUser(
        show=print_instruction, allow=_confirm_sign_in, allow_server=_build_server_prompt(sign_in_at, ask=True)
    )


def build_login_user(sign_in_at: Sequence[str] = ()) -> SignInUser:
    """Return the user who gave the command to sign in: they are asked nothing more, except about another site."""
    from toolwire.client.login import SignInUser  # only needed to sign in

    return SignInUser(
        show=lambda sentence: print(escaped(sentence), file=sys.stderr),
        allow_server=_build_server_prompt(sign_in_at, ask=is_terminal()),
    )


def _build_server_prompt(allowed: Sequence[str], *, ask: bool) -> Callable[[str, str], bool]:
    """Return the function that says whether ``site`` may send the user to sign in at ``origin``."""
    origins = {get_origin(complete_url(text)) for text in allowed}

    def allow_server(site: str, origin: str) -> bool:
        if origin in origins:
            return True
        return ask and confirm(escaped(f"{site} wants you to sign in at another site, {origin}. Go there? [y/N] "))

    return allow_server


def _confirm_sign_in(site: str, scopes: Sequence[str]) -> bool:
    """Ask before a browser opens: a user must not sign in to a page that they did not expect."""
    wanted = f" for {', '.join(scopes)}" if scopes else ""
    return confirm(escaped(f"{site} wants you to sign in{wanted}. Sign in? [y/N] "))


def find_user_name() -> str:
    """Return the name of this user on this machine, for a log of decisions."""
    try:
        return getuser()
    except (OSError, KeyError):  # a container whose user has no name
        return f"user {os.getuid()}" if hasattr(os, "getuid") else "a user of this machine"
