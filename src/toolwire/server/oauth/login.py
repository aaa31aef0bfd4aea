"""Signing in and out. [AS-19]"""

from __future__ import annotations

import re
from urllib.parse import parse_qs

from toolwire.auth.clients import digest
from toolwire.core.http import Response

from .desk import Account, Desk, Visit, aside, see_other
from .pages import error_page, login_page
from .sessions import Session, begin, cookie, forged, session_of

_HERE = re.compile(r"/(?![/\\])[!-\[\]-~]*")
_TRIES, _TRIES_S = 5, 60.0


async def login(desk: Desk, visit: Visit) -> Response:
    """Return the page to sign in on, or take what came from it."""
    session = await session_of(desk, visit)
    text = visit.body.decode("latin-1") if visit.method == "POST" else visit.query
    fields = {name: values[0] for name, values in parse_qs(text, max_num_fields=50).items()}
    onward = _inside(desk, fields.get("next", ""))
    if visit.method != "POST":
        return _page(desk, session, onward)
    problem = forged(desk, visit, session, fields.get("token", ""))
    if problem is not None:
        return error_page(problem.description, problem.status)
    name, password = fields.get("name", ""), fields.get("password", "")
    user = await aside(_checked, desk, name, password)
    if user is None:
        return _page(desk, session, onward, "This name and password do not go together.")
    if isinstance(user, str):
        return _page(desk, session, onward, user)
    begun = await aside(begin, desk, user, session)
    return see_other(onward, cookie(desk, begun.secret))


async def logout(desk: Desk, visit: Visit) -> Response:
    """End the session of a person who pressed the button for it, and nobody else's."""
    session = await session_of(desk, visit)
    fields = parse_qs(visit.body.decode("latin-1"), max_num_fields=50)
    problem = forged(desk, visit, session, fields.get("token", [""])[0])
    if problem is not None:
        return error_page(problem.description, problem.status)
    await aside(_end, desk, session)
    return see_other(_inside(desk, fields.get("next", [""])[0]), cookie(desk, ""))


def _checked(desk: Desk, name: str, password: str) -> Account | str | None:
    """Return who signs in, or why nobody does. More than five wrong tries in a minute are not even looked at."""
    key = digest(f"login {name.strip().casefold()}")
    with desk.store.changing() as rows:
        if rows.attempts(key, desk.now()) >= _TRIES:
            return "Too many tries for this name: wait a minute."
        rows.attempt(key, desk.now() + _TRIES_S)  # counted before it is known, so that many at once all count
    user = desk.users.check(name, password)
    with desk.store.changing() as rows:
        if user is not None:
            rows.forgive(key)
        desk.note(rows, "signed in" if user is not None else "sign-in refused", user=user.id if user else "")
    return user


def _end(desk: Desk, session: Session) -> None:
    with desk.store.changing() as rows:
        rows.end_session(digest(session.secret))


def _page(desk: Desk, session: Session, onward: str, problem: str = "") -> Response:
    hidden = [("next", onward), ("token", session.token)]
    page = login_page(desk.settings.name, f"{desk.settings.base}/login", hidden, problem)
    return page._replace(headers=(*page.headers, cookie(desk, session.secret))) if session.fresh else page


def _inside(desk: Desk, onward: str) -> str:
    """Return where to go next: a path of this very site, whatever was asked for."""
    return onward if _HERE.fullmatch(onward) else desk.settings.base.removesuffix("/oauth") + "/"
