"""Who sits at the browser: the session cookie, and the proof that a form came from one of our own pages.

Rules:
- Every visitor has a cookie; it is exchanged for a new one when they sign in, and the old one is worth nothing.
- A form is taken only from our own origin and with the token of its session.
"""
# D-22

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from hashlib import sha256
from hmac import compare_digest
from inspect import isawaitable
from urllib.parse import parse_qs

from toolwire.auth.clients import digest
from toolwire.auth.oauth_error import OAuthError

from .server_context import Account, OAuthRequest, ServerContext

_FIELDS = 100
_ID = re.compile(r"[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserSession:
    """A visitor: the secret of their cookie, and who they signed in as. ``fresh`` has no cookie yet."""

    secret: str
    user: Account | None = None
    fresh: bool = False

    @property
    def token(self) -> str:
        """What a form must carry to be taken in this session."""
        return sha256(b"form " + self.secret.encode()).hexdigest()


async def session_of(desk: ServerContext, visit: OAuthRequest) -> BrowserSession:
    """Return the session of ``visit``, a new one where its cookie is none of ours.

    Who sits there is what our cookie says, or what your application says where people sign in there.
    """
    session = await desk.run_in_thread(_session, desk, visit.field(b"cookie"))
    if desk.signed_in is None:
        return session
    said = desk.signed_in(visit.scope)
    user_id = await said if isawaitable(said) else said
    user = None if user_id is None else await desk.run_in_thread(desk.users.find, user_id)
    return replace(session, user=user)


def cookie(desk: ServerContext, secret: str) -> tuple[bytes, bytes]:
    """Return the field that gives a browser its session; by https only, except on this machine."""
    # AS-19
    text = f"{_name(desk)}={secret}; Path=/; HttpOnly; SameSite=Lax; Max-Age={int(desk.settings.session_s)}"
    return b"set-cookie", (text + "; Secure" if desk.settings.secure else text).encode()


def begin(desk: ServerContext, user: Account, old: BrowserSession) -> BrowserSession:
    """Return the session of a person who has just signed in; what the cookie was before is forgotten."""
    # AS-19
    session = BrowserSession(secret=desk.secret(), user=user, fresh=True)
    with desk.store.changing() as rows:
        rows.end_session(digest(old.secret))
        rows.add_session(digest(session.secret), user.id, desk.now() + desk.settings.session_s)
    return session


def forged(desk: ServerContext, visit: OAuthRequest, session: BrowserSession, token: str) -> OAuthError | None:
    """Return why a form is not taken: it came from elsewhere, or without the token of its session."""
    # D-22
    origin, site = visit.field(b"origin"), visit.field(b"sec-fetch-site")
    if (origin and origin != desk.settings.origin) or (site and site not in ("same-origin", "none")):
        return OAuthError(error="access_denied", description="This form came from another site.", status=403)
    if session.fresh or not compare_digest(token.encode(), session.token.encode()):
        return OAuthError(
            error="access_denied", description="This form is too old. Go back, reload, and try again.", status=403
        )
    return None


def read_own_form(desk: ServerContext, visit: OAuthRequest, session: BrowserSession) -> dict[str, str] | OAuthError:
    """Return the first value of each field of a form that one of our own pages sent in ``session``."""
    # D-22
    fields = read_form(visit.body.decode("latin-1"))
    if isinstance(fields, OAuthError):
        return fields
    found = {name: values[0] for name, values in fields.items()}
    return forged(desk, visit, session, found.get("token", "")) or found


def read_form(text: str) -> dict[str, list[str]] | OAuthError:
    """Return the fields of a form or a query."""
    try:
        return parse_qs(text, max_num_fields=_FIELDS)
    except ValueError:
        return OAuthError(error="invalid_request", description="This form cannot be read: it has too many fields.")


def _session(desk: ServerContext, cookies: str) -> BrowserSession:
    for part in cookies.split(";"):
        name, _, value = part.strip().partition("=")
        if name == _name(desk) and _ID.fullmatch(value):
            with desk.store.looking() as rows:
                user_id = rows.session(digest(value), desk.now())
            return BrowserSession(secret=value, user=None if user_id is None else desk.users.find(user_id))
    return BrowserSession(secret=desk.secret(), fresh=True)


def _name(desk: ServerContext) -> str:
    """A browser takes a ``__Host-`` cookie from this very host and by https alone, so on http it has another name."""
    return "__Host-toolwire" if desk.settings.secure else "toolwire-session"
