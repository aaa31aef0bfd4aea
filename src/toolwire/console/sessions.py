"""Let an operator into a console by a key, and know the browser again by a cookie.

Rules:
- The key of a start is good for one browser. It is in the fragment of a URL, which no browser sends.
- A session ends after twelve hours, and with the program. Its cookie is for this console only, and no script reads it.
- A form carries the token of its session. Wrong keys are counted for each address.
"""
# CO-02, D-19, D-22

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from typing import Final, TypeAlias

SignInKey: TypeAlias = Callable[[str], str | None]
"""Returns the name of the operator whose key it is, or None. It is called with what anyone typed."""

SESSION_S: Final = 12 * 3_600.0
_MAX_SESSIONS: Final = 200
_MAX_WRONG: Final = 10
_WRONG_WINDOW_S: Final = 60.0
_MAX_ADDRESSES: Final = 1_000


@dataclass(frozen=True, slots=True)
class OperatorSession:
    """A browser that has signed in: the operator's name, and the token that each form of it has."""

    name: str
    form_token: str
    until: float

    def owns(self, token: str) -> bool:
        """Return whether a form with ``token`` came from a page of this session."""
        return compare_digest(token.encode(), self.form_token.encode())


class OneTimeKey:
    """A key that lets one browser in. ``announce`` gets the next one as soon as one is used."""

    def __init__(self, name: str, announce: Callable[[str], object] = lambda _: None) -> None:
        self._name, self._announce = name, announce
        self._lock = threading.Lock()
        self.key = secrets.token_urlsafe(24)

    def __call__(self, key: str) -> str | None:
        """Return the name of the operator if ``key`` is the present one, which is then used up."""
        with self._lock:
            if not compare_digest(key.encode(), self.key.encode()):
                return None
            self.key = secrets.token_urlsafe(24)
        self._announce(self.key)
        return self._name


class OperatorSessions:
    """The sessions of one console. ``clock`` returns seconds and never goes back."""

    def __init__(self, sign_in: SignInKey, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._sign_in = sign_in
        self._clock = clock
        self._lock = threading.Lock()
        self._sessions: OrderedDict[bytes, OperatorSession] = OrderedDict()
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()

    def start(self, key: str, address: str) -> str | None:
        """Return the value of the cookie for the browser that has ``key``, or None if it is no key of an operator.

        After ten wrong keys within a minute, an address has to wait.
        """
        with self._lock:
            wrong = self._find_wrong(address)
            if len(wrong) >= _MAX_WRONG:
                return None
        name = self._sign_in(key)
        with self._lock:
            if name is None:
                wrong.append(self._clock())
                return None
            cookie = secrets.token_urlsafe(32)
            session = OperatorSession(name, secrets.token_urlsafe(24), self._clock() + SESSION_S)
            self._sessions[_hash(cookie)] = session
            if len(self._sessions) > _MAX_SESSIONS:
                self._sessions.popitem(last=False)
        return cookie

    def find(self, cookie: str) -> OperatorSession | None:
        """Return the session of a cookie, or None."""
        session = self._sessions.get(_hash(cookie))
        return session if session is not None and self._clock() < session.until else None

    def end(self, cookie: str) -> None:
        """End the session of a cookie."""
        self._sessions.pop(_hash(cookie), None)

    def _find_wrong(self, address: str) -> deque[float]:
        found = self._wrong.pop(address, None) or deque(maxlen=_MAX_WRONG)
        while found and found[0] <= self._clock() - _WRONG_WINDOW_S:
            found.popleft()
        self._wrong[address] = found
        if len(self._wrong) > _MAX_ADDRESSES:
            self._wrong.popitem(last=False)
        return found


def _hash(cookie: str) -> bytes:
    # A look-up by the digest takes the same time whatever part of a guess is right.
    return sha256(cookie.encode()).digest()
