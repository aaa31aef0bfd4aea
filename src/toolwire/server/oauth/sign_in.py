"""Signing in and out."""
# AS-19

from __future__ import annotations

import re

from toolwire.auth.clients import hash_secret
from toolwire.auth.oauth_error import OAuthError
from toolwire.core.http import Response

from .pages import build_error_page, build_login_page
from .server_context import Account, BusyError, OAuthRequest, ServerContext, build_redirect, take_slot
from .sessions import BrowserSession, begin_session, build_cookie, find_session, read_form, read_own_form

_LOCAL_PATH = re.compile(r"/(?![/\\])[!-\[\]-~]*")
_MAX_ATTEMPTS, _MAX_ATTEMPTS_OF_ADDRESS, _MAX_ATTEMPTS_OF_NAME, _ATTEMPT_S = 5, 30, 20, 60.0
"""How many wrong tries a minute count: of one name from one address, from one address, and of one name."""
_WAIT_S = 3.0


async def handle_login(context: ServerContext, request: OAuthRequest) -> Response:
    """Return the page to sign in on, or take what came from it."""
    session = await find_session(context, request)
    if request.method != "POST":
        asked = read_form(request.query)
        return (
            _show_refusal(asked)
            if isinstance(asked, OAuthError)
            else _show_login(context, session, asked.get("next", [""])[0])
        )
    fields = read_own_form(context, request, session)
    if isinstance(fields, OAuthError):
        return _show_refusal(fields)
    try:
        user = await _check_user(context, fields.get("name", ""), fields.get("password", ""), request.network)
    except BusyError:
        text = "Too many people sign in at this moment: try again in a few seconds."
        return _show_login(context, session, fields.get("next", ""), text, 503)
    if isinstance(user, str):
        return _show_login(context, session, fields.get("next", ""), user)
    begun = await context.run_in_thread(begin_session, context, user, session)
    return build_redirect(_keep_inside(context, fields.get("next", "")), build_cookie(context, begun.secret))


async def handle_logout(context: ServerContext, request: OAuthRequest) -> Response:
    """End the session of a person who pressed the button for it, and nobody else's."""
    session = await find_session(context, request)
    fields = read_own_form(context, request, session)
    if isinstance(fields, OAuthError):
        return _show_refusal(fields)
    await context.run_in_thread(_end_session, context, session)
    return build_redirect(_keep_inside(context, fields.get("next", "")), build_cookie(context, ""))


async def _check_user(context: ServerContext, name: str, password: str, network: str) -> Account | str:
    """Return who signs in, or a sentence that says why nobody does.

    Raises:
        BusyError: too many wait for that.
    """
    tries = AttemptKeys(name, network)
    wait_s = await context.run_in_thread(_count_attempt, context, tries)
    if wait_s is None:
        return "Too many tries from your address: wait a minute."
    if wait_s:
        with take_slot(context.delayed_sign_ins):
            await context.pause(wait_s)
    user = await context.check_password(name, password)
    await context.run_in_thread(_record_attempt, context, tries, user)
    return "This name and password do not go together." if user is None else user


class AttemptKeys:
    """Under which keys a try to sign in counts: for the name, for the address, and for both together."""

    def __init__(self, name: str, network: str) -> None:
        folded = name.strip().casefold()
        self.name = hash_secret(f"login {folded}")
        self.address = hash_secret(f"login from {network}")
        self.both = hash_secret(f"login {folded} from {network}")


def _count_attempt(context: ServerContext, tries: AttemptKeys) -> float | None:
    """Return how many seconds a try waits before it is looked at, or None where it is not even looked at.

    A name is never locked, or anybody could lock it for whoever it belongs to: tries from other addresses only make
    each one wait.
    """
    now = context.now()
    with context.store.write_transaction() as rows:
        if (
            rows.count_attempts(tries.both, now) >= _MAX_ATTEMPTS
            or rows.count_attempts(tries.address, now) >= _MAX_ATTEMPTS_OF_ADDRESS
        ):
            return None
        wait_s = _WAIT_S if rows.count_attempts(tries.name, now) >= _MAX_ATTEMPTS_OF_NAME else 0.0
        for key in (tries.both, tries.address, tries.name):
            # Counted before the password is checked, so that many attempts at once all count.
            rows.add_attempt(key, now=now, until=now + _ATTEMPT_S)
    return wait_s


def _record_attempt(context: ServerContext, tries: AttemptKeys, user: Account | None) -> None:
    with context.store.write_transaction() as rows:
        if user is not None:
            rows.clear_attempts(tries.both)
            rows.clear_attempts(tries.name)
        context.record_event(rows, "signed in" if user is not None else "sign-in refused", user=user.id if user else "")


def _end_session(context: ServerContext, session: BrowserSession) -> None:
    with context.store.write_transaction() as rows:
        rows.end_session(hash_secret(session.secret))


def _show_login(
    context: ServerContext, session: BrowserSession, onward: str, problem: str = "", status: int = 403
) -> Response:
    hidden = [("next", _keep_inside(context, onward)), ("token", session.form_token)]
    page = build_login_page(context.settings.name, f"{context.settings.base_path}/login", hidden, problem, status)
    headers = list(page.headers)
    headers += [(b"retry-after", b"5")] if status == 503 else []
    headers += [build_cookie(context, session.secret)] if session.is_new else []
    return page._replace(headers=tuple(headers))


def _show_refusal(refusal: OAuthError) -> Response:
    return build_error_page(refusal.description, refusal.status)


def _keep_inside(context: ServerContext, onward: str) -> str:
    """Return where to go next: a path of this very site, whatever was asked for."""
    return onward if _LOCAL_PATH.fullmatch(onward) else context.settings.base_path.removesuffix("/oauth") + "/"
