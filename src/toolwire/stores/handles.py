"""State between two calls of one user, without a session: an explicit handle that a tool gives out and takes back.

Rules:
- A handle is good for the user it was given to, and for nobody else: to others it does not exist.
- It is random, ends after a time, and the oldest make room where there are too many.
"""
# OQ-2, D-31

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from toolwire.core.model import Context, Json


class _Kept(NamedTuple):
    principal: str
    until: float
    state: Json


class Handles:
    """Keeps at most ``most`` states of ``valid_s`` seconds each. Threads may share one.

    ``clock`` gives seconds and never goes back. Callers that are not told apart, because a server asks for no
    credentials, are one user.
    """

    def __init__(
        self, *, valid_s: float = 900.0, most: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._valid_s = valid_s
        self._most = most
        self._clock = clock
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._lock = Lock()

    def give(self, context: Context, state: Json) -> str:
        """Return a new handle of ``state`` for the caller of ``context``."""
        handle = secrets.token_urlsafe(18)
        with self._lock:
            self._kept[handle] = _Kept(context.principal, self._clock() + self._valid_s, state)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return handle

    def find(self, context: Context, handle: str) -> Json:
        """Return the state under ``handle``; None where there is none for the caller of ``context``."""
        with self._lock:
            kept = self._kept.get(handle)
            if kept is None or kept.principal != context.principal:
                return None
            if kept.until <= self._clock():
                del self._kept[handle]
                return None
            return kept.state

    def end(self, context: Context, handle: str) -> Json:
        """Return the state under ``handle`` like ``find``, and forget it: for the last step."""
        state = self.find(context, handle)
        if state is not None:
            with self._lock:
                self._kept.pop(handle, None)
        return state
