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

import secrets
import threading
import time
from collections.abc import Awaitable, Callable
from hmac import compare_digest
from typing import Final, NamedTuple, TypeAlias

from toolwire.server.access.browser_session import BrowserSession, SessionKind, SessionSigner

from .wrong_keys import WrongKeys

Found: TypeAlias = "str | SessionUser | None"
SignInKey: TypeAlias = Callable[[str], "Found | Awaitable[Found]"]
"""Returns the name of the user whose key it is, or None. It is called with untrusted input: whatever someone typed."""

SESSION_S: Final = 12 * 3_600.0
_MAX_NAME: Final = 200
"""The characters of a name that a cookie holds: a browser drops a cookie above 4,096 bytes."""


class SessionUser(NamedTuple):
    """The name of a user who is known, and for how many seconds at most a session may last.

    ``has_account`` means that the session is valid only while the user is signed in at the server itself. ``groups``
    are those that the user belongs to now.
    """

    name: str
    lasts_s: float
    has_account: bool = False
    groups: frozenset[str] = frozenset()


class OneTimeKey:
    """A key for one sign-in in a browser. After each use, ``announce`` gets the next key."""

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

    ``secret`` signs the cookies: each worker of a server that has the same secret knows them. ``audience`` names the
    pages. ``find_known`` returns the user of a key at once, or None: it finds keys by their digests. These keys are
    let in however many wrong ones came from their address. ``wall`` returns seconds since 1970, ``clock`` seconds that
    never go back.
    """

    def __init__(
        self,
        sign_in: SignInKey,
        *,
        secret: bytes = b"",
        audience: str = "console",
        find_known: Callable[[str], Found] = lambda _: None,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sign_in, self._find_known = sign_in, find_known
        self._signer = SessionSigner(secret or secrets.token_bytes(32), audience, wall=wall)
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
        return self.start_for(SessionUser(found, SESSION_S) if isinstance(found, str) else found)

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

    def start_for(self, user: SessionUser) -> str:
        """Return the value of the cookie for the browser of a user who is known."""
        kind: SessionKind = "account" if user.has_account else "key"
        return self._signer.write(kind, user.name[:_MAX_NAME], min(user.lasts_s, SESSION_S))

    def find(self, cookie: str) -> BrowserSession | None:
        """Return the session of a cookie that is signed and not too old, or None. It may have been ended."""
        return self._signer.read(cookie)
