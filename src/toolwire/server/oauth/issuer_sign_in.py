"""Let users sign in at an external issuer: lead them to its page, and take the answer that their browser brings back.

Rules:
- The state, the nonce and the verifier of PKCE are derived from the secret of the browser's session. So an answer
  counts in the browser alone where its sign-in began, for ten minutes, and never after it has signed somebody in.
- The answer of the issuer leads to a page of this server, whatever it says.
"""
# PL-03

from __future__ import annotations

import logging
import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from hmac import compare_digest, digest
from typing import Final

from toolwire.auth.clients import hash_secret
from toolwire.auth.request_parameters import OAuthError
from toolwire.core.http import Response
from toolwire.core.model import Kind, Problem
from toolwire.server.http.cookies import build_cookie as build_browser_cookie
from toolwire.server.http.cookies import find_cookie

from .pages import build_error_page
from .server_context import OAuthRequest, ServerContext, build_redirect
from .sessions import AccountSession, begin_session, build_cookie, find_session, keep_inside, read_form

_log = logging.getLogger("toolwire.oauth")
_STATE: Final = re.compile(r"([0-9]{1,12}\.[A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})")
_VALID_S: Final = 600
_MAX_ONWARD: Final = 2_900
"""The characters of a path that a cookie holds: a browser drops a cookie above 4,096 bytes."""
_MAX_ANSWERS, _ANSWERS_S = 30, 60.0
"""How many answers a minute from one address may fail: each makes this server ask the issuer."""
_TOO_OLD: Final = "This sign-in has expired, or it started in another browser."


async def handle_issuer_login(context: ServerContext, request: OAuthRequest) -> Response:
    """Return the redirect to the page of the issuer."""
    provider, asked = context.identity_provider, read_form(request.query)
    if provider is None or isinstance(asked, OAuthError):
        return build_error_page("The address contains too many parameters.")
    session = await find_session(context, request)
    text = f"{int(context.now()) + _VALID_S}.{secrets.token_urlsafe(16)}"
    state = f"{text}.{_derive(session, 'state', text)}"
    url = await provider.build_login_url(
        _build_callback_url(context),
        state=state,
        nonce=_derive(session, "nonce", state),
        verifier=_derive(session, "verifier", state),
    )
    if isinstance(url, Problem):
        return _show_fault(url)
    onward = keep_inside(context, asked.get("next", [""])[0])
    cookie_value = f"{text}.{urlsafe_b64encode(onward.encode()).decode()}" if len(onward) <= _MAX_ONWARD else ""
    cookies = [_build_onward_cookie(context, cookie_value)]
    return build_redirect(url, *cookies, *([build_cookie(context, session.secret)] if session.is_new else []))


async def handle_issuer_callback(context: ServerContext, request: OAuthRequest) -> Response:
    """Sign in the user whom the issuer names, and return the redirect to where they wanted to go."""
    provider, fields = context.identity_provider, read_form(request.query)
    if provider is None or isinstance(fields, OAuthError) or any(len(values) > 1 for values in fields.values()):
        return build_error_page("The address contains too many parameters.")
    answer = {name: values[0] for name, values in fields.items()}
    session, state = await find_session(context, request), answer.get("state", "")
    # D-22: before anything else is read, or a link of another site could sign its visitors in as somebody.
    found = None if session.is_new else _STATE.fullmatch(state)
    if found is None or not compare_digest(found[2], _derive(session, "state", found[1])):
        return build_error_page(_TOO_OLD, 403)
    if int(found[1].partition(".")[0]) < context.now():
        return build_error_page(_TOO_OLD, 403)
    failures = hash_secret(f"issuer answer from {request.network}")
    if not await context.run_in_thread(_count_answer, context, failures):
        return build_error_page("Too many sign-ins from your address failed. Wait a minute.", 429)
    identity = await provider.identify(
        answer,
        _build_callback_url(context),
        nonce=_derive(session, "nonce", state),
        verifier=_derive(session, "verifier", state),
    )
    if isinstance(identity, Problem):
        return _show_fault(identity)
    account = await context.run_in_thread(provider.save, identity)
    new_session = await context.run_in_thread(begin_session, context, account, session)
    await context.run_in_thread(_record_sign_in, context, failures, account.id)
    onward = keep_inside(context, _read_onward(context, request, found[1]))
    return build_redirect(onward, build_cookie(context, new_session.secret), _build_onward_cookie(context, ""))


def _derive(session: AccountSession, purpose: str, text: str) -> str:
    """Return 43 characters that nobody can guess who has not the cookie of ``session``."""
    return urlsafe_b64encode(digest(session.secret.encode(), f"{purpose} {text}".encode(), sha256)).decode().rstrip("=")


def _build_callback_url(context: ServerContext) -> str:
    settings = context.settings
    return f"{settings.origin}{settings.base_path}/callback"


def _build_onward_cookie(context: ServerContext, value: str) -> tuple[bytes, bytes]:
    settings = context.settings
    more = f"SameSite=Lax; Max-Age={_VALID_S if value else 0}"
    name = f"{settings.cookie_name}-onward"
    return build_browser_cookie(name, value, is_secure=settings.is_secure, path="/", more=more)


def _read_onward(context: ServerContext, request: OAuthRequest, text: str) -> str:
    """Return where the user wanted to go when the sign-in with this ``text`` began; empty if it is not known."""
    settings = context.settings
    value = find_cookie(request.headers, f"{settings.cookie_name}-onward", is_secure=settings.is_secure)
    if not value.startswith(f"{text}."):
        return ""
    try:
        return urlsafe_b64decode(value[len(text) + 1 :]).decode()
    except ValueError:
        return ""


def _count_answer(context: ServerContext, key: str) -> bool:
    with context.store.write_transaction() as rows:
        now = context.now()
        if rows.count_attempts(key, now) >= _MAX_ANSWERS:
            return False
        rows.add_attempt(key, now=now, until=now + _ANSWERS_S)
    return True


def _record_sign_in(context: ServerContext, key: str, user: str) -> None:
    with context.store.write_transaction() as rows:
        rows.clear_attempts(key)
        context.record_event(rows, "signed in", user=user)


def _show_fault(problem: Problem) -> Response:
    _log.warning("nobody was signed in: %s", problem.message)
    return build_error_page(problem.message, 403 if problem.kind in (Kind.UNAUTHORIZED, Kind.FORBIDDEN) else 502)
