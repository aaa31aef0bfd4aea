"""Know a browser and its user again by a signed cookie: one format for console, inbox and the pages about calls.

Rules:
- A cookie is valid for the pages that it was made for, its audience, and until its end.
- Who can read what signs a cookie can make one: where that matters, its sessions are stored when they begin.
- A form carries the token of its session, which no other page can read.
"""
# D-22, LC-05, CO-02, GW-02

from __future__ import annotations

import json
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest, digest
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from toolwire.server.page.browser_request import LoginPlace

from .callers import Caller

if TYPE_CHECKING:  # loads sqlite3
    from toolwire.stores.consent.ended_sessions import ConsoleSession

SessionKind: TypeAlias = Literal["account", "key", "token"]
"""How a browser signed in: at the server itself, by a key of the server, or by a token that the server verifies."""

_MEMBERS: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserSession:
    """A browser that has signed in: how, as whom, and from when until when, in seconds since 1970.

    ``details`` is what the pages of its audience add. ``form_token`` is what each form of the session brings back.
    """

    kind: SessionKind
    name: str
    began_at: float
    until: float
    cookie: str
    form_token: str
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_account(self) -> bool:
        """Whether the session is valid only while the user is signed in at the server itself."""
        return self.kind == "account"

    def owns(self, token: str) -> bool:
        """Return whether a form with ``token`` came from a page of this session."""
        return compare_digest(token.encode(), self.form_token.encode())

    def build_record(self, owner: str) -> ConsoleSession:
        """Return what is stored when the session begins or ends; ``owner`` is whose it is."""
        from toolwire.stores.consent.ended_sessions import ConsoleSession  # loads sqlite3

        return ConsoleSession(self.cookie, owner, self.began_at, self.until)


class SessionSigner:
    """Writes and reads the cookies of one audience. Processes that have the same ``secret`` know each other's.

    ``wall`` returns seconds since 1970.
    """

    def __init__(self, secret: bytes, audience: str, *, wall: Callable[[], float] = time.time) -> None:
        self._secret, self._audience, self._wall = secret, audience, wall

    def write(self, kind: SessionKind, name: str, lasts_s: float, details: Mapping[str, Any] | None = None) -> str:
        """Return the cookie of a session that begins now."""
        now = self._wall()
        content = [self._audience, kind, name, now, int(now + lasts_s), secrets.token_hex(16), details or {}]
        text = urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")
        return f"{text}.{self._sign('cookie', text)}"

    def read(self, cookie: str) -> BrowserSession | None:
        """Return the session of a cookie that is signed and not too old, or None. It may have been ended."""
        text, _, signature = cookie.partition(".")
        if not compare_digest(signature.encode(), self._sign("cookie", text).encode()):
            return None
        content = json.loads(urlsafe_b64decode(f"{text}{'=' * (-len(text) % 4)}"))
        if len(content) != _MEMBERS or content[0] != self._audience:  # that of an earlier version, or of other pages
            return None
        _, kind, name, began_at, until, _, details = content
        if self._wall() >= until:
            return None
        return BrowserSession(
            kind=kind,
            name=name,
            began_at=began_at,
            until=until,
            cookie=cookie,
            form_token=self._sign("form", text),
            details=details,
        )

    def mask(self, nonce: str, data: bytes) -> bytes:
        """Return 32 bytes masked, or masked ones as they were: nobody can guess at a weak key with a stolen cookie."""
        mask = digest(self._secret, f"mask {nonce}".encode(), sha256)
        return bytes(one ^ other for one, other in zip(data, mask, strict=True))

    def _sign(self, purpose: str, text: str) -> str:
        return digest(self._secret, f"{purpose} {text}".encode(), sha256).hex()


class BrowserUser(NamedTuple):
    """Who is signed in at the server itself: as which caller, and the name that pages show.

    ``has_key``: by the key of a caller, in a session that a page can end. ``groups`` are those that the user belongs
    to.
    """

    caller: Caller
    name: str
    has_key: bool = False
    groups: frozenset[str] = frozenset()


FindUser: TypeAlias = Callable[[Sequence[tuple[bytes, bytes]]], Awaitable[BrowserUser | None]]
"""Returns who is signed in at the browser that sent these header fields, or None."""


class PeopleSignIn(NamedTuple):
    """How people sign in at a server: what finds them, and the place of the page."""

    find_user: FindUser
    login: LoginPlace
