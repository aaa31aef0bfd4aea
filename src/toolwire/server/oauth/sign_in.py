"""Signing in and out."""
# AS-19

from __future__ import annotations

import re

from toolwire.auth.clients import digest
from toolwire.auth.oauth_error import OAuthError
from toolwire.core.http import Response

from .pages import error_page, login_page
from .server_context import Account, BusyError, OAuthRequest, ServerContext, see_other, take_place
from .sessions import BrowserSession, begin, cookie, read_form, read_own_form, session_of

_HERE = re.compile(r"/(?![/\\])[!-\[\]-~]*")
_TRIES, _TRIES_OF_ADDRESS, _TRIES_OF_NAME, _TRIES_S = 5, 30, 20, 60.0
"""How many wrong tries a minute count: of one name from one address, from one address, and of one name."""
_WAIT_S = 3.0


async def login(desk: ServerContext, visit: OAuthRequest) -> Response:
    """Return the page to sign in on, or take what came from it."""
    session = await session_of(desk, visit)
    if visit.method != "POST":
        asked = read_form(visit.query)
        return _unreadable(asked) if isinstance(asked, OAuthError) else _page(desk, session, asked.get("next", [""])[0])
    fields = read_own_form(desk, visit, session)
    if isinstance(fields, OAuthError):
        return _unreadable(fields)
    try:
        user = await _check(desk, fields.get("name", ""), fields.get("password", ""), visit.network)
    except BusyError:
        text = "Too many people sign in at this moment: try again in a few seconds."
        return _page(desk, session, fields.get("next", ""), text, 503)
    if isinstance(user, str):
        return _page(desk, session, fields.get("next", ""), user)
    begun = await desk.run_in_thread(begin, desk, user, session)
    return see_other(_inside(desk, fields.get("next", "")), cookie(desk, begun.secret))


async def logout(desk: ServerContext, visit: OAuthRequest) -> Response:
    """End the session of a person who pressed the button for it, and nobody else's."""
    session = await session_of(desk, visit)
    fields = read_own_form(desk, visit, session)
    if isinstance(fields, OAuthError):
        return _unreadable(fields)
    await desk.run_in_thread(_end, desk, session)
    return see_other(_inside(desk, fields.get("next", "")), cookie(desk, ""))


async def _check(desk: ServerContext, name: str, password: str, network: str) -> Account | str:
    """Return who signs in, or a sentence that says why nobody does.

    Raises:
        BusyError: too many wait for that.
    """
    tries = SignInAttempts(name, network)
    wait_s = await desk.run_in_thread(_count_try, desk, tries)
    if wait_s is None:
        return "Too many tries from your address: wait a minute."
    if wait_s:
        with take_place(desk.waiting):
            await desk.pause(wait_s)
    user = await desk.check_password(name, password)
    await desk.run_in_thread(_note_try, desk, tries, user)
    return "This name and password do not go together." if user is None else user


class SignInAttempts:
    """Under which keys a try to sign in counts: for the name, for the address, and for both together."""

    def __init__(self, name: str, network: str) -> None:
        folded = name.strip().casefold()
        self.name = digest(f"login {folded}")
        self.address = digest(f"login from {network}")
        self.both = digest(f"login {folded} from {network}")


def _count_try(desk: ServerContext, tries: SignInAttempts) -> float | None:
    """Return how many seconds a try waits before it is looked at, or None where it is not even looked at.

    A name is never locked, or anybody could lock it for whoever it belongs to: tries from other addresses only make
    each one wait.
    """
    now = desk.now()
    with desk.store.changing() as rows:
        if rows.attempts(tries.both, now) >= _TRIES or rows.attempts(tries.address, now) >= _TRIES_OF_ADDRESS:
            return None
        wait_s = _WAIT_S if rows.attempts(tries.name, now) >= _TRIES_OF_NAME else 0.0
        for key in (tries.both, tries.address, tries.name):
            rows.attempt(key, now + _TRIES_S)  # counted before it is known, so that many at once all count
    return wait_s


def _note_try(desk: ServerContext, tries: SignInAttempts, user: Account | None) -> None:
    with desk.store.changing() as rows:
        if user is not None:
            rows.forgive(tries.both)
            rows.forgive(tries.name)
        desk.note(rows, "signed in" if user is not None else "sign-in refused", user=user.id if user else "")


def _end(desk: ServerContext, session: BrowserSession) -> None:
    with desk.store.changing() as rows:
        rows.end_session(digest(session.secret))


def _page(desk: ServerContext, session: BrowserSession, onward: str, problem: str = "", status: int = 403) -> Response:
    hidden = [("next", _inside(desk, onward)), ("token", session.token)]
    page = login_page(desk.settings.name, f"{desk.settings.base}/login", hidden, problem, status)
    headers = list(page.headers)
    headers += [(b"retry-after", b"5")] if status == 503 else []
    headers += [cookie(desk, session.secret)] if session.fresh else []
    return page._replace(headers=tuple(headers))


def _unreadable(refusal: OAuthError) -> Response:
    return error_page(refusal.description, refusal.status)


def _inside(desk: ServerContext, onward: str) -> str:
    """Return where to go next: a path of this very site, whatever was asked for."""
    return onward if _HERE.fullmatch(onward) else desk.settings.base.removesuffix("/oauth") + "/"
