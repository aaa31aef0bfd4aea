"""The transport that looking at a server goes through: a cache, local files, and an end to all looks together.

Rules:
- All looks of one discovery take 30 s at most: none begins after 15 s, and none takes longer than that. [XL-012]
- Files are read only where a file was pointed at, and only from its folder.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from anyio import to_thread

from toolwire.client.transport.drivers import PieceHandler, SyncPieceHandler, SyncTransport, Transport
from toolwire.client.transport.failures import timeout
from toolwire.core.http import Request, Response
from toolwire.core.model import Problem
from toolwire.core.selection import DOCUMENT_BYTES

from .cache import Cache
from .document_snapshot import SnapshotBuilder
from .local_files import find_folder, read_file

TOTAL_S = 15.0


class _RemainingTime:
    """What is left of the time for all looks."""

    __slots__ = ("_clock", "_until")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until = clock() + TOTAL_S

    def __call__(self) -> float:
        return self._until - self._clock()


class ProbeTransport:
    """A transport for discovery. ``identity`` names the credential of ``transport``; ``url`` is what is looked at.
    A file may have ``most_bytes``.

    ``readings`` is what it was given.
    """

    def __init__(
        self,
        transport: Transport,
        url: str,
        *,
        cache: Cache,
        identity: str = "",
        most_bytes: int = DOCUMENT_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport = transport
        self._most_bytes = most_bytes
        self._folder: Path | None = find_folder(url)
        self._cache = cache
        self._identity = identity
        self.readings = SnapshotBuilder(cache, identity)
        self._rest = _RemainingTime(clock)

    async def send(self, request: Request) -> Response | Problem:
        """Return what came back for ``request``, what is kept of it, or the file it names."""
        came = await self._send(request)
        self.readings.record(request, came)
        return came

    async def _send(self, request: Request) -> Response | Problem:
        if request.url.startswith("file:"):
            answer = await to_thread.run_sync(read_file, request.url, self._folder, self._most_bytes)
            if isinstance(answer, Response):
                self._cache.store(request.url, answer, self._identity)
            return answer
        steps = self._cache.fetch(request, self._identity)
        try:
            asked = next(steps)
            while True:
                late = self._rest() <= 0
                asked = steps.send(timeout("Looking", sent=False) if late else await self._transport.send(asked))
        except StopIteration as stop:
            came: Response | Problem = stop.value
            return came

    async def listen(self, request: Request, hear: PieceHandler, *, brief: bool = False) -> Response | Problem:
        """Return what came back for ``request``; nothing of it is kept."""
        if self._rest() <= 0:
            return timeout("Looking", sent=False)
        return await self._transport.listen(request, hear, brief=brief)

    async def aclose(self) -> None:
        """Close the transport behind this one."""
        await self._transport.aclose()


class SyncProbeTransport:
    """What Looking is, blocking."""

    def __init__(
        self,
        transport: SyncTransport,
        url: str,
        *,
        cache: Cache,
        identity: str = "",
        most_bytes: int = DOCUMENT_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport = transport
        self._most_bytes = most_bytes
        self._folder: Path | None = find_folder(url)
        self._cache = cache
        self._identity = identity
        self.readings = SnapshotBuilder(cache, identity)
        self._rest = _RemainingTime(clock)

    def send(self, request: Request) -> Response | Problem:
        """Return what came back for ``request``, what is kept of it, or the file it names."""
        came = self._send(request)
        self.readings.record(request, came)
        return came

    def _send(self, request: Request) -> Response | Problem:
        if request.url.startswith("file:"):
            answer = read_file(request.url, self._folder, self._most_bytes)
            if isinstance(answer, Response):
                self._cache.store(request.url, answer, self._identity)
            return answer
        steps = self._cache.fetch(request, self._identity)
        try:
            asked = next(steps)
            while True:
                late = self._rest() <= 0
                asked = steps.send(timeout("Looking", sent=False) if late else self._transport.send(asked))
        except StopIteration as stop:
            came: Response | Problem = stop.value
            return came

    def listen(self, request: Request, hear: SyncPieceHandler, *, brief: bool = False) -> Response | Problem:
        """Return what came back for ``request``; nothing of it is kept."""
        if self._rest() <= 0:
            return timeout("Looking", sent=False)
        return self._transport.listen(request, hear, brief=brief)

    def close(self) -> None:
        """Close the transport behind this one."""
        self._transport.close()
