"""Serve the pages to sign in and out, and limit wrong passwords."""
# AS-19

from __future__ import annotations

from urllib.parse import urlencode

from toolwire.auth.clients import hash_secret
from toolwire.auth.request_parameters import OAuthError
from toolwire.core.http import Response

from .pages import build_error_page, build_login_page
from .server_context import Account, BusyError, OAuthRequest, ServerContext, build_app_url, build_redirect, take_slot
from .sessions import (
    AccountSession,
    begin_session,
    build_cookie,
    find_session,
    keep_inside,
    read_form,
    read_own_form,
)

_MAX_ATTEMPTS, _MAX_ATTEMPTS_OF_ADDRESS, _MAX_ATTEMPTS_OF_NAME, _ATTEMPT_S = 5, 30, 20, 60.0
"""The limits of wrong passwords a minute: for one name from one address, from one address, and for one name.

The first one refuses. Beyond the other two, each attempt waits: all users of a proxy may have one address.
"""
_WAIT_S = 3.0
_MAX_NAME = 200


async def handle_login(context: ServerContext, request: OAuthRequest) -> Response:
    """Return the sign-in page, or process its form."""
    session = await find_session(context, request)
    if request.method != "POST":
        asked = read_form(request.query)
        return (
            _show_refusal(asked)
            if isinstance(asked, OAuthError)
            else _show_login(context, request, session, asked.get("next", [""])[0])
        )
    fields = read_own_form(context, request, session)
    if isinstance(fields, OAuthError):
        return _show_refusal(fields)
    try:
        user = await _check_user(context, fields.get("name", ""), fields.get("password", ""), request.network)
    except BusyError:
        text = "Too many users are signing in. Try again in a few seconds."
        return _show_login(context, request, session, fields.get("next", ""), text, 503, name=fields.get("name", ""))
    if isinstance(user, str):
        return _show_login(context, request, session, fields.get("next", ""), user, name=fields.get("name", ""))
    new_session = await context.run_in_thread(begin_session, context, user, session)
    return build_redirect(keep_inside(context, fields.get("next", "")), build_cookie(context, new_session.secret))


async def handle_logout(context: ServerContext, request: OAuthRequest) -> Response:
    """End the session of the user who sent the form."""
    session = await find_session(context, request)
    fields = read_own_form(context, request, session)
    if isinstance(fields, OAuthError):
        return _show_refusal(fields)
    await context.run_in_thread(_end_session, context, session)
    return build_redirect(keep_inside(context, fields.get("next", "")), build_cookie(context, ""))


async def _check_user(context: ServerContext, name: str, password: str, network: str) -> Account | str:
    """Return the user who signs in, or a sentence that says why the sign-in failed.

    Raises:
        BusyError: too many sign-ins wait.
    """
    keys = AttemptKeys(name, network)
    wait_s = await context.run_in_thread(_count_attempt, context, keys)
    if wait_s is None:
        return "Too many attempts for this name from your address. Wait a minute."
    if wait_s:
        # Waiting sign-ins are bounded too, so that an attacker cannot fill the server with them.
        with take_slot(context.delayed_sign_ins):
            await context.pause(wait_s)
    # An unknown name takes as long as a wrong password, so the time does not tell which accounts exist.
    user = await context.check_password(name, password)
    await context.run_in_thread(_record_attempt, context, keys, user)
    # One sentence for both, for the same reason.
    return "Wrong name or password." if user is None else user


class AttemptKeys:
    """The keys that an attempt counts under: the name, the address, and both together."""

    def __init__(self, name: str, network: str) -> None:
        folded = name.strip().casefold()
        self.name: str = hash_secret(f"login {folded}")
        self.address: str = hash_secret(f"login from {network}")
        self.both: str = hash_secret(f"login {folded} from {network}")


def _count_attempt(context: ServerContext, keys: AttemptKeys) -> float | None:
    """Return how many seconds an attempt must wait before the check, or None if it is refused."""
    # Neither a name nor an address is locked, because an attacker could then lock out its owner, or everyone behind the
    # same proxy (AT-37). Many attempts for one name, or from one address, only make each further attempt wait.
    now = context.now()
    with context.store.write_transaction() as rows:
        if rows.count_attempts(keys.both, now) >= _MAX_ATTEMPTS:
            return None
        is_slow = (
            rows.count_attempts(keys.name, now) >= _MAX_ATTEMPTS_OF_NAME
            or rows.count_attempts(keys.address, now) >= _MAX_ATTEMPTS_OF_ADDRESS
        )
        wait_s = _WAIT_S if is_slow else 0.0
        for key in (keys.both, keys.address, keys.name):
            # Counted before the password is checked, so that many attempts at once all count.
            rows.add_attempt(key, now=now, until=now + _ATTEMPT_S)
    return wait_s


def _record_attempt(context: ServerContext, keys: AttemptKeys, user: Account | None) -> None:
    with context.store.write_transaction() as rows:
        if user is not None:
            # Not those of the address: one correct password must not allow more guesses for other names.
            rows.clear_attempts(keys.both)
            rows.clear_attempts(keys.name)
        context.record_event(rows, "signed in" if user is not None else "sign-in refused", user=user.id if user else "")


def _end_session(context: ServerContext, session: AccountSession) -> None:
    with context.store.write_transaction() as rows:
        rows.end_session(hash_secret(session.secret))


def _show_login(
    context: ServerContext,
    request: OAuthRequest,
    session: AccountSession,
    onward: str,
    problem: str = "",
    status: int = 403,
    *,
    name: str = "",
) -> Response:
    settings, inside = context.settings, keep_inside(context, onward)
    hidden = [("next", inside), ("token", session.form_token)]
    sign_up = build_app_url(request, settings.sign_up_url)
    sign_up += f"{'&' if '?' in sign_up else '?'}{urlencode({'next': inside})}" if sign_up else ""
    shown = name[:_MAX_NAME]
    page = build_login_page(
        settings.name, f"{settings.base_path}/login", hidden, problem, status, name=shown, sign_up=sign_up
    )
    headers = list(page.headers)
    headers += [(b"retry-after", b"5")] if status == 503 else []
    headers += [build_cookie(context, session.secret)] if session.is_new else []
    return page._replace(headers=tuple(headers))


def _show_refusal(refusal: OAuthError) -> Response:
    return build_error_page(refusal.description, refusal.status)
