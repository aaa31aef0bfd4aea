"""Identify the user of a browser by a session cookie, and check that a form came from our own page.

Rules:
- Every browser gets a cookie. Signing in replaces it, and the old one is void.
- A form must come from our own origin, with the token of its session.
"""
# D-22

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from hashlib import sha256
from hmac import compare_digest
from inspect import isawaitable
from urllib.parse import parse_qs

from toolwire.auth.clients import hash_secret
from toolwire.auth.request_parameters import OAuthError
from toolwire.framing.csrf import find_form_origin
from toolwire.server.http.cookies import build_cookie as build_browser_cookie
from toolwire.server.http.cookies import find_cookie

from .server_context import Account, OAuthRequest, ServerContext

_MAX_FIELDS = 100
_ID = re.compile(r"[A-Za-z0-9_-]{43}")
# A path of this site only: browsers read "//" and "/\" at the beginning as another host.
_LOCAL_PATH = re.compile(r"/(?![/\\])[!-\[\]-~]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountSession:
    """The session of a browser: the secret of its cookie, and the user. ``is_new`` means that it has no cookie yet."""

    secret: str
    user: Account | None = None
    is_new: bool = False

    @property
    def form_token(self) -> str:
        """The token that a form of this session must contain."""
        return sha256(b"form " + self.secret.encode()).hexdigest()


async def find_session(context: ServerContext, request: OAuthRequest) -> AccountSession:
    """Return the session of ``request``, or a new one if it has none.

    The user is the one of the session, or the one that ``identify_user`` returns if users sign in at the application.
    """
    session = await context.run_in_thread(_load_session, context, request)
    if context.identify_user is None:
        return session
    answer = context.identify_user(request.scope)
    user_id = await answer if isawaitable(answer) else answer
    # The account may be gone although the application still has a session for it.
    user = None if user_id is None else await context.run_in_thread(context.users.find, str(user_id))
    return replace(session, user=user)


def build_cookie(context: ServerContext, secret: str) -> tuple[bytes, bytes]:
    """Return the header field that sets the session cookie. It is for https only, except on this machine."""
    # AS-19
    settings = context.settings
    more = f"SameSite=Lax; Max-Age={int(settings.session_s)}"
    return build_browser_cookie(settings.cookie_name, secret, is_secure=settings.is_secure, path="/", more=more)


def begin_session(context: ServerContext, user: Account, old: AccountSession) -> AccountSession:
    """Return a new session for a user who has just signed in, and end the old one."""
    # AS-19
    # A new secret, because an attacker may have set the old cookie (session fixation).
    session = AccountSession(secret=context.make_secret(), user=user, is_new=True)
    with context.store.write_transaction() as rows:
        rows.end_session(hash_secret(old.secret))
        now = context.now()
        rows.add_session(hash_secret(session.secret), user.id, now=now, until=now + context.settings.session_s)
    return session


def find_forgery(
    context: ServerContext, request: OAuthRequest, session: AccountSession, token: str
) -> OAuthError | None:
    """Return an error if a form came from another site, or without the token of its session; else None."""
    # D-22
    if find_form_origin(request.headers, context.settings.origin) == "cross_site":
        return OAuthError(error="access_denied", description="This form was sent from another site.", status=403)
    # A browser without our cookie has not seen our page, so the form cannot be ours.
    if session.is_new or not compare_digest(token.encode(), session.form_token.encode()):
        return OAuthError(
            error="access_denied",
            description="This form has expired. Go back, reload the page, and try again.",
            status=403,
        )
    return None


def read_own_form(
    context: ServerContext, request: OAuthRequest, session: AccountSession
) -> dict[str, str] | OAuthError:
    """Return the first value of each field of a form that our own page sent in ``session``; else an error."""
    # D-22
    fields = read_form(request.body.decode("latin-1"))
    if isinstance(fields, OAuthError):
        return fields
    found = {name: values[0] for name, values in fields.items()}
    return find_forgery(context, request, session, found.get("token", "")) or found


def read_form(text: str) -> dict[str, list[str]] | OAuthError:
    """Return the fields of a form or a query; an error if there are too many."""
    try:
        return parse_qs(text, max_num_fields=_MAX_FIELDS)
    except ValueError:
        return OAuthError(error="invalid_request", description="This form has too many fields.")


def keep_inside(context: ServerContext, onward: str) -> str:
    """Return the path of this site to go to next; ``onward`` if it is one."""
    return onward if _LOCAL_PATH.fullmatch(onward) else context.settings.base_path.removesuffix("/oauth") + "/"


def _load_session(context: ServerContext, request: OAuthRequest) -> AccountSession:
    settings = context.settings
    value = find_cookie(request.headers, settings.cookie_name, is_secure=settings.is_secure)
    if _ID.fullmatch(value):
        with context.store.read_transaction() as rows:
            user_id = rows.find_session(hash_secret(value), context.now())
        return AccountSession(secret=value, user=None if user_id is None else context.users.find(user_id))
    return AccountSession(secret=context.make_secret(), is_new=True)
