"""Let an operator into a console by a key, and know the browser again by a cookie.

Rules:
- The key of a start is good for one browser. It is in the fragment of a URL, which no browser sends. A server that
  others can reach takes no key from a URL.
- A session ends after twelve hours. Its cookie is for this console only, and no script reads it.
- A session that its user ends is over in all processes; ``EndedSessions`` keeps it.
- A form carries the token of its session. Wrong keys are limited; see ``wrong_keys.py``.
"""
# CO-02, D-19, D-22

from __future__ import annotations

import json
import secrets
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest, digest
from typing import Final, NamedTuple, TypeAlias

from toolwire.stores.consent.ended_sessions import ConsoleSession

from .wrong_keys import WrongKeys

Found: TypeAlias = "str | SignedIn | None"
SignInKey: TypeAlias = Callable[[str], "Found | Awaitable[Found]"]
"""Returns the name of the user whose key it is, or None. It is called with what anyone typed."""

SESSION_S: Final = 12 * 3_600.0
_MAX_NAME: Final = 200
"""The characters of a name that a cookie holds: a browser drops a cookie above 4,096 bytes."""
_KEY, _ACCOUNT = "key", "account"
_CONTENT: Final = 5


class SignedIn(NamedTuple):
    """The name of a user who is known, and for how many seconds at most a session may last.

    ``by_account`` means that the session is valid only while the user is signed in at the server itself.
    """

    name: str
    lasts_s: float
    by_account: bool = False


@dataclass(frozen=True, slots=True)
class OperatorSession:
    """A browser that has signed in: the operator's name, and the token that each form of it has.

    ``by_account`` is that of ``SignedIn``. ``kept`` is what is kept when its user ends the session.
    """

    name: str
    form_token: str
    by_account: bool
    kept: ConsoleSession

    def owns(self, token: str) -> bool:
        """Return whether a form with ``token`` came from a page of this session."""
        return compare_digest(token.encode(), self.form_token.encode())


class OneTimeKey:
    """A key that lets one browser in. ``announce`` gets the next one as soon as one is used."""

    def __init__(self, name: str, announce: Callable[[str], object] = lambda _: None) -> None:
        self._name, self._announce = name, announce
        self._lock = threading.Lock()
        self.key: str = secrets.token_urlsafe(24)

    def __call__(self, key: str) -> str | None:
        """Return the name of the operator if ``key`` is the present one, which is then used up."""
        with self._lock:
            if not compare_digest(key.encode(), self.key.encode()):
                return None
            self.key = secrets.token_urlsafe(24)
        self._announce(self.key)
        return self._name


class OperatorSessions:
    """The sessions of one console.

    A cookie holds the name, its end and a signature by ``secret``: each worker of a server that has the same secret
    knows it. ``find_known`` returns the user of a key at once, or None: it finds keys by their digests. These keys are
    let in however many wrong ones came from their address. ``wall`` returns seconds since 1970, ``clock`` seconds that
    never go back.
    """

    def __init__(
        self,
        sign_in: SignInKey,
        *,
        secret: bytes = b"",
        find_known: Callable[[str], Found] = lambda _: None,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sign_in, self._find_known = sign_in, find_known
        self._secret = secret or secrets.token_bytes(32)
        self._wall = wall
        self._wrong = WrongKeys(clock)

    async def start(self, key: str, address: str) -> str | None:
        """Return the value of the cookie for the browser that has ``key``, or None if it is no key of a user.

        After ten wrong keys within a minute, only known keys are let in from an address.
        """
        found = self._find_known(key)
        if found is None:
            found = await self._check(key, address)
        if found is None:
            return None
        return self.start_for(SignedIn(found, SESSION_S) if isinstance(found, str) else found)

    async def _check(self, key: str, address: str) -> Found:
        # AT-58: counted before the first await, so that keys sent at the same time cannot all be the tenth.
        counted = self._wrong.begin(key, address)
        if counted is None:
            return None
        is_wrong = False
        try:
            answer = self._sign_in(key)
            found = answer if answer is None or isinstance(answer, str | tuple) else await answer
            is_wrong = found is None
        finally:
            if not is_wrong:
                self._wrong.forgive(address, counted)
        if is_wrong:
            self._wrong.remember(key)
        return found

    def start_for(self, user: SignedIn) -> str:
        """Return the value of the cookie for the browser of a user who is known."""
        now = self._wall()
        until = int(now + min(user.lasts_s, SESSION_S))
        kind = _ACCOUNT if user.by_account else _KEY
        content = json.dumps([user.name[:_MAX_NAME], until, secrets.token_hex(16), kind, now]).encode()
        text = urlsafe_b64encode(content).decode().rstrip("=")
        return f"{text}.{self._sign('cookie', text)}"

    def find(self, cookie: str) -> OperatorSession | None:
        """Return the session of a cookie that is signed and not too old, or None. It may have been ended."""
        text, _, signature = cookie.partition(".")
        if not compare_digest(signature.encode(), self._sign("cookie", text).encode()):
            return None
        content = json.loads(urlsafe_b64decode(f"{text}{'=' * (-len(text) % 4)}"))
        if len(content) != _CONTENT:  # a cookie of an earlier version
            return None
        name, until, _, kind, began_at = content
        if self._wall() >= until:
            return None
        kept = ConsoleSession(cookie, name, began_at, until)
        return OperatorSession(name, self._sign("form", text), kind == _ACCOUNT, kept)

    def _sign(self, purpose: str, text: str) -> str:
        return digest(self._secret, f"{purpose} {text}".encode(), sha256).hex()
