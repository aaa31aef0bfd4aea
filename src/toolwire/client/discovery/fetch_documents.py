"""Fetch what discovery asks for: from a local file, the cache or the network, within one time limit.

Rules:
- Discovery has a limit of time, ``total_s``: no request begins after it, and none takes longer. So all of them take at
  most twice as long: 30 s by default.
- Files are read only if a file was named, and only from its folder.
"""

# XL-012: a server cannot keep a user waiting by answering slowly, one document after the other.

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from toolwire.client.transport.failures import unreachable
from toolwire.core.codec import Flow, FlowStep, Listen, intercept
from toolwire.core.http import Request, Response
from toolwire.core.model import Problem
from toolwire.core.selection import DOCUMENT_BYTES

from .cache import CachedResponse
from .document_snapshot import SnapshotBuilder
from .local_files import find_folder, read_file

T = TypeVar("T")

TOTAL_S = 15.0
"""The usual time limit of one discovery, in seconds."""
PROGRAM_START_S = 60.0
"""The same for a program, which its first start may fetch."""


def fetch_documents(
    flow: Flow[T],
    url: str,
    builder: SnapshotBuilder,
    *,
    max_bytes: int = DOCUMENT_BYTES,
    total_s: float = TOTAL_S,
    clock: Callable[[], float] = time.monotonic,
) -> Flow[T]:
    """Run ``flow`` and return its value; the time limit begins with this call.

    ``url`` is what is discovered; if it is a ``file:`` URL, files of its folder may be read. ``builder`` has the cache,
    and records each document. A file may have ``max_bytes``. ``total_s`` is the time limit, and ``clock`` returns
    seconds.
    """
    fetcher = _Fetcher(url, builder, max_bytes, clock, clock() + total_s)
    return intercept(flow, fetcher.prepare, fetcher.receive)


def limit_time(flow: Flow[T], total_s: float) -> Flow[T]:
    """Run ``flow`` and return its value. After ``total_s`` seconds no request begins: each gets a Problem instead."""
    until = time.monotonic() + total_s
    return intercept(flow, lambda step: step if time.monotonic() < until else _timeout(), lambda _, reply: reply)


class _Fetcher:
    """Answers the requests of one discovery that need no network, and records the responses to all others."""

    def __init__(
        self, url: str, builder: SnapshotBuilder, max_bytes: int, clock: Callable[[], float], until: float
    ) -> None:
        self._folder = find_folder(url)
        self._builder = builder
        self._cache, self._identity = builder.cache, builder.identity
        self._max_bytes = max_bytes
        self._clock = clock
        self._until = until
        self._cached: CachedResponse | None = None  # the entry that the present request would confirm

    def prepare(self, step: Request | Listen) -> Request | Listen | Response | Problem:
        """Return what is sent for ``step``, or its reply if that is known."""
        if isinstance(step, Listen):
            return step if self._clock() < self._until else _timeout()
        if step.url.startswith("file:"):
            return self._record(step, self._read_file(step.url))
        self._cached = self._find(step)
        prepared = self._cache.prepare(step, self._cached)
        if isinstance(prepared, Response):
            return self._record(step, prepared)
        # Also without time left through receive(), which may find a cached document that still serves.
        return prepared if self._clock() < self._until else self.receive(step, _timeout())

    def receive(self, step: FlowStep, reply: Any) -> Any:
        """Return the reply to ``step``, which is the cached response if that is still valid or still serves."""
        if not isinstance(step, Request):
            return reply
        outcome = self._cache.receive(step, self._cached, reply, self._identity)
        if isinstance(reply, Response) and isinstance(outcome, Response):
            self._builder.store_outcome(step, reply, outcome)
        return self._record(step, outcome)

    def _find(self, step: Request) -> CachedResponse | None:
        cached = self._builder.find(step) if step.method == "GET" else None
        # A document that was kept under a higher limit is fetched, so that the network refuses its size.
        return None if cached is None or len(cached.response.body) > self._max_bytes else cached

    def _read_file(self, url: str) -> Response | Problem:
        reply = read_file(url, self._folder, self._max_bytes)
        if isinstance(reply, Response):
            self._cache.store(url, reply, self._identity)
        return reply

    def _record(self, request: Request, reply: Response | Problem) -> Response | Problem:
        self._builder.record(request, reply)
        return reply


def _timeout() -> Problem:
    return unreachable("Discovery did not finish in time.", "timeout", sent=False)
