"""Recognize a browser and its user by a signed cookie. Console, inbox and call pages share one format.

Rules:
- A cookie is valid until it expires, and only for its audience: the pages that it was made for.
- Whoever can read the signing secret can forge a cookie. Where that matters, sessions are stored when they begin.
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
"""How a browser signed in: at the server itself, with one of its keys, or with a token that the server verifies."""

_MEMBERS: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserSession:
    """A browser that has signed in: how, as whom, and its start and end in seconds since 1970.

    The pages of its audience add ``details``. Each form of the session sends back ``form_token``.
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
        """Return the record to store when the session begins or ends. It belongs to ``owner``."""
        from toolwire.stores.consent.ended_sessions import ConsoleSession  # loads sqlite3

        return ConsoleSession(self.cookie, owner, self.began_at, self.until)


class SessionSigner:
    """Writes and reads one audience's cookies. Processes with the same ``secret`` accept each other's."""

    def __init__(self, secret: bytes, audience: str, *, wall: Callable[[], float] = time.time) -> None:
        self._secret, self._audience, self._wall = secret, audience, wall

    def write(self, kind: SessionKind, name: str, lasts_s: float, details: Mapping[str, Any] | None = None) -> str:
        """Return the cookie of a session that begins now."""
        now = self._wall()
        content = [self._audience, kind, name, now, int(now + lasts_s), secrets.token_hex(16), details or {}]
        text = urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")
        return f"{text}.{self._sign('cookie', text)}"

    def read(self, cookie: str) -> BrowserSession | None:
        """Return the session of a signed, unexpired cookie, or None. The user can have ended it already."""
        text, _, signature = cookie.partition(".")
        if not compare_digest(signature.encode(), self._sign("cookie", text).encode()):
            return None
        content = json.loads(urlsafe_b64decode(f"{text}{'=' * (-len(text) % 4)}"))
        if len(content) != _MEMBERS or content[0] != self._audience:  # an earlier version's, or of other pages
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
        """Mask 32 bytes, or unmask masked ones. A stolen cookie then does not help to guess a weak key."""
        mask = digest(self._secret, f"mask {nonce}".encode(), sha256)
        return bytes(one ^ other for one, other in zip(data, mask, strict=True))

    def _sign(self, purpose: str, text: str) -> str:
        return digest(self._secret, f"{purpose} {text}".encode(), sha256).hex()


class BrowserUser(NamedTuple):
    """A user who is signed in at the server itself: the caller, and the name that pages show.

    ``has_key``: the user signed in with a caller's key, in a session that a page can end. ``groups``: the user's
    groups.
    """

    caller: Caller
    name: str
    has_key: bool = False
    groups: frozenset[str] = frozenset()


FindUser: TypeAlias = Callable[[Sequence[tuple[bytes, bytes]]], Awaitable[BrowserUser | None]]
"""Returns who is signed in at the browser that sent these header fields, or None."""


class PeopleSignIn(NamedTuple):
    """How users sign in at a server: the function that finds them, and the path of the page."""

    find_user: FindUser
    login: LoginPlace
