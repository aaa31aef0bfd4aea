"""Remember a key's owner in one browser, so that pages need the key once and not for each action.

Rules:
- A session lasts an hour, but never longer than its token. Its cookie is for this server only. Scripts cannot read it,
  and other sites cannot use it.
- The cookie of a key contains the key's digest, which only the server can read. If the key is removed, the session ends
  at once. The cookie of a token contains its caller, and lasts as long as a verified token. It counts only if its
  session was stored when it began, because the signing secret is in the state.
- A cookie admits a browser to pages only. It is not a credential for a protocol.
- When a user ends a session, copies of its cookie stop working too.
"""
# LC-05, D-22, D-27

from __future__ import annotations

import secrets
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

from toolwire.core.codec import BlockingTask, Reader, Reading
from toolwire.core.http import Request, Response
from toolwire.core.model import Problem
from toolwire.framing import jsontext
from toolwire.framing.csrf import find_form_origin
from toolwire.server.http.cookies import build_cookie, find_cookie, is_by_https, name_server_cookie
from toolwire.server.http.exchange import Scope
from toolwire.server.page.browser_request import FOREIGN_FORM, parse_form_fields

from .api_keys import ApiKeyCallers
from .browser_session import BrowserSession, BrowserUser, SessionSigner
from .callers import Caller, Callers, CombinedCallers, Fields
from .session_ends import SessionEnds

SESSION_S: Final = 3_600.0
_TOKEN_S: Final = 900.0
_MAX_COOKIE: Final = 3_800
"""A browser drops a cookie above 4,096 bytes, with its name and attributes."""


class _FoundSession(NamedTuple):
    """Whose session a cookie is, and the session."""

    user: BrowserUser
    session: BrowserSession

    @property
    def is_of_key(self) -> bool:
        """Whether the session began with one of the server's keys, which can be removed, and not with a token."""
        return self.session.kind == "key"


class KeySessions:
    """The sessions of browsers at one server. Processes that have the same ``secret`` know each other's.

    ``callers`` knows the keys. An ended session is over in all processes that share ``place``, a folder or the URL of a
    PostgreSQL database. ``wall`` returns seconds since 1970.
    """

    def __init__(
        self, callers: Callers, secret: bytes, *, place: Path | str = "", wall: Callable[[], float] = time.time
    ) -> None:
        self._callers, self._wall = callers, wall
        self._signer = SessionSigner(secret, "calls", wall=wall)
        self._ends = SessionEnds(place)

    async def begin(
        self, scope: Scope, fields: Fields, credential: bytes, caller: Caller
    ) -> tuple[bytes, bytes] | Problem | None:
        """Return the header field that begins a session of ``caller``, who has just sent ``credential``.

        Return None if the caller does not fit into a cookie, or a Problem if the session cannot be stored for all
        processes.
        """
        # AT-42
        value = self._write(credential, caller)
        found = None if value is None else self._read(value)
        if value is None or found is None:
            return None
        problem = None if found.is_of_key else await self._ends.begin(found.session)
        return problem or self._build_cookie(scope, fields, value, f"SameSite=Strict; Max-Age={int(SESSION_S)}")

    def _write(self, credential: bytes, caller: Caller) -> str | None:
        """Return the cookie of ``caller``, or None if it is too long."""
        own = sha256(credential).digest()
        if _find_owner(self._callers, own) is not None:
            nonce = secrets.token_hex(16)
            details: dict[str, object] = {"nonce": nonce, "key": self._signer.mask(nonce, own).hex()}
            value = self._signer.write("key", "", SESSION_S, details)
        else:
            rest = find_remaining_s(credential.decode("latin-1"), self._wall(), _TOKEN_S)
            scopes = None if caller.scopes is None else sorted(caller.scopes)
            details = {"client_id": caller.client_id, "scopes": scopes, "group": caller.group}
            value = self._signer.write("token", caller.name, rest, details)
        return value if len(value) <= _MAX_COOKIE else None

    async def end(self, scope: Scope, fields: Fields) -> tuple[bytes, bytes] | Problem:
        """End the session of the browser that sent these fields. Return the field that deletes its cookie."""
        if find_form_origin(fields) == "cross_site":  # D-22
            return FOREIGN_FORM
        found = self._find(scope, fields)
        problem = None if found is None else await self._ends.end(found.session)
        return problem or self._build_cookie(scope, fields, "", "SameSite=Strict; Max-Age=0")

    async def find(self, scope: Scope, fields: Fields) -> BrowserUser | Problem | None:
        """Return who is signed in at the browser that sent these header fields, or None; a Problem if it is unknown."""
        found = self._find(scope, fields) if b"cookie" in fields else None
        if found is None:
            return None
        has_ended = await self._ends.has_ended(found.session, is_kept=not found.is_of_key)
        if isinstance(has_ended, Problem):
            return has_ended
        return None if has_ended else found.user

    def _find(self, scope: Scope, fields: Fields) -> _FoundSession | None:
        """Return the session of the cookie in ``fields``. It can have been ended already."""
        name, is_secure = _name_cookie(scope, fields), is_by_https(scope, fields)
        # Behind a proxy, a GET does not show that the browser used https.
        cookie = find_cookie(fields, name, is_secure=True) or ("" if is_secure else find_cookie(fields, name))
        return self._read(cookie)

    def _read(self, cookie: str) -> _FoundSession | None:
        session = self._signer.read(cookie)
        if session is None:
            return None
        details = session.details
        if session.kind == "key":
            key = self._signer.mask(details["nonce"], bytes.fromhex(details["key"]))
            caller = _find_owner(self._callers, key)
        else:
            scopes = details["scopes"]
            caller = Caller(
                session.name,
                None if scopes is None else frozenset(scopes),
                details["client_id"],
                details.get("group", ""),  # Cookies of earlier versions have none.
            )
        if caller is None:
            return None
        return _FoundSession(BrowserUser(caller, caller.name, has_key=True), replace(session, name=caller.name))

    def _build_cookie(self, scope: Scope, fields: Fields, value: str, more: str) -> tuple[bytes, bytes]:
        name, path = _name_cookie(scope, fields), scope.get("root_path") or "/"
        return build_cookie(name, value, is_secure=is_by_https(scope, fields), path=path, more=more)


def find_form_step(body: bytes | Problem) -> str:
    """Return the action that a page's form requests, such as ``sign-in`` or ``sign-out``."""
    return "" if isinstance(body, Problem) else parse_form_fields(body.decode("utf-8", "replace")).get("step", "")


def read_session_change(
    root: str, cookie: tuple[bytes, bytes] | Problem | None, fallback: Reader, request: Request
) -> Reading | BlockingTask:
    """Return the response that sets ``cookie`` and reloads the page, or without one the response of ``fallback``.

    If ``cookie`` is a Problem, the page shows it.
    """
    # Here, because a server that no browser visits loads no HTML.
    from toolwire.framing.html_page import NO_STORE
    from toolwire.server.page.refusal_page import build_refusal_page

    # D-22: another site's form could sign a browser in as somebody else.
    if find_form_origin(dict(request.headers)) == "cross_site":
        return build_refusal_page(FOREIGN_FORM)
    if cookie is None:
        return fallback(request)
    if isinstance(cookie, Problem):
        return build_refusal_page(cookie)
    # 303: the browser then fetches the page, and reloading it does not send the key again.
    address = f"{root}{quote(request.url.partition('?')[0])}"
    return Response(303, ((b"location", address.encode("latin-1")), cookie, NO_STORE))


def find_remaining_s(token: str, now: float, most: float) -> float:
    """Return how long a session with ``token``, which is valid ``now``, can last, in seconds: at most ``most``."""
    parts = token.split(".")
    try:
        claims = (
            jsontext.read(urlsafe_b64decode(f"{parts[1]}{'=' * (-len(parts[1]) % 4)}")) if len(parts) == 3 else None
        )
    except ValueError:
        claims = None
    until = claims.get("exp") if isinstance(claims, dict) else None
    if isinstance(until, int | float) and not isinstance(until, bool):
        return max(0.0, min(most, until - now))
    return most


def _find_owner(callers: Callers, key_digest: bytes) -> Caller | None:
    """Return the owner of the key with this SHA-256 digest, or None if ``callers`` has no such key."""
    if isinstance(callers, ApiKeyCallers):
        return callers.find_by_digest(key_digest)
    if isinstance(callers, CombinedCallers):
        return next((found for one in callers.sources if (found := _find_owner(one, key_digest))), None)
    return None


def _name_cookie(scope: Scope, fields: Fields) -> str:
    return name_server_cookie("toolwire_calls", scope, fields)
