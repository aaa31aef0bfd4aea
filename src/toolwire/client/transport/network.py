"""Send requests over the network: a request goes out, a response or a Problem comes back.

All rules are in ``exchange``; here is what touches a socket, once for async and once for sync. ``http1`` has the
protocol, ``connections`` and ``blocking_connections`` have the sockets. Nothing decides for itself: no redirects, no
proxies, no cookies, no referers, no decompression and no look-up of names but the checked one.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Awaitable, Callable, Container, Iterable, Sequence

from toolwire.core.http import Request, Response
from toolwire.core.model import Problem

from .async_pool import ConnectionPool, build_pool_key, open_connection
from .dns import Resolve, resolve_in_thread, resolve_with_system
from .drivers import PieceHandler, Pieces, SyncPieceHandler, consume_pieces
from .failures import forbidden_target, local_close, timeout, unreachable
from .http1 import ResponseReader, write_request
from .limits import TransportLimits
from .request_rules import Credentials, RequestRules, ResolveHost, SendRequest, Steps
from .response_reader import ResponseCollector
from .sync_pool import SyncConnectionPool, open_sync_connection

__all__ = ["Credentials", "Network", "SyncNetwork", "TransportLimits"]

_SERVER_ERROR = 500
"""From here on a server has failed. Many hang up then after a moment, without a word.

All connections to it are closed: the next call, which may be one that must not be sent twice, opens a new one instead
of finding that out.
"""


class Network:
    """The transport for async code. One serves any number of event loops, one after the other or at once.

    ``credentials`` go to their own origins only. Names and addresses of the own network are refused but for the
    origins in ``allow_private``, and so is every origin but ``origins``, where they are given. ``may_connect`` is asked
    with the IP address before each exchange, and a False refuses it. ``resolve`` and ``clock`` are there for tests.
    """

    def __init__(
        self,
        *,
        limits: TransportLimits = TransportLimits(),  # noqa: B008 - a frozen value
        credentials: Credentials | None = None,
        allow_private: Iterable[str] = (),
        origins: Container[str] | None = None,
        may_connect: Callable[[str], Awaitable[bool]] | None = None,
        resolve: Resolve = resolve_with_system,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._exchange = RequestRules(
            limits=limits, credentials=credentials, allow_private=allow_private, origins=origins, clock=clock
        )
        self._may_connect = may_connect
        self._resolve = resolve
        self._pools: dict[asyncio.AbstractEventLoop, ConnectionPool] = {}

    async def send(self, request: Request, *, total_s: float | None = None) -> Response | Problem:
        """Return the response to ``request``, or the Problem that there is none. Cancelling closes the exchange.

        ``total_s`` takes the place of the limit of that name. [D-05, D-06, D-08, D-11, D-13, D-14]
        """
        return await self._drive(self._exchange.steps(request, total_s), None)

    async def listen(self, request: Request, hear: PieceHandler, *, brief: bool = False) -> Response | Problem:
        """Return what ``send`` would, but give a stream of events to ``hear`` as it comes, and keep nothing of it.

        A ``brief`` exchange has the time of ``send``.
        """
        total_s = None if brief else self._exchange.limits.stream_s
        return await self._drive(self._exchange.steps(request, total_s), hear)

    async def _drive(self, steps: Steps[Response | Problem], hear: PieceHandler | None) -> Response | Problem:
        came: object = None
        while True:
            try:
                step = steps.send(came)
            except StopIteration as end:
                result: Response | Problem = end.value
                return result
            if not isinstance(step, SendRequest):
                came = await self._look_up(step)
            elif self._may_connect is not None and not await self._may_connect(build_pool_key(step).address):
                text = f"{step.target.origin} is not connected to: its address was asked too often of late."
                came = forbidden_target(text)
            else:
                came = await self._send_to_address(step, hear)

    async def aclose(self) -> None:
        """Close all connections, and end the calls that are under way. A later ``send`` opens new ones."""
        here = asyncio.get_running_loop()
        while self._pools:
            loop, pool = self._pools.popitem()
            if loop is here:
                await pool.aclose()
            elif loop.is_closed():
                pool.close()
            else:
                loop.call_soon_threadsafe(pool.close)

    async def _look_up(self, step: ResolveHost) -> Sequence[str] | Problem:
        answer = asyncio.wrap_future(resolve_in_thread(self._resolve, step.host, step.port))
        try:
            return await asyncio.wait_for(answer, step.within_s)
        except (OSError, UnicodeError) as error:
            return _dns_failure(step.origin, error)

    async def _send_to_address(self, hop: SendRequest, hear: PieceHandler | None) -> Response | Problem:
        limits, loop, key = self._exchange.limits, asyncio.get_running_loop(), build_pool_key(hop)
        pool = self._pools.get(loop)
        if pool is None:
            pool = await self._open_pool(loop)
        until = loop.time() + hop.within_s
        connection = pool.take(key, loop.time())
        if connection is None:
            opened = await open_connection(hop, key, min(limits.connect_s, hop.within_s))
            if isinstance(opened, Problem):
                return opened
            connection = opened
            if pool.closed:
                connection.abort()
                return local_close(hop.target.origin)
            pool.add(connection)
        incoming = ResponseCollector(hop.target.origin, limits, streaming=hear is not None, echoes=hop.echoes)
        reader = ResponseReader(hop.target.origin, hop.method, incoming, limits)
        try:
            connection.start(write_request(hop), reader, until - loop.time())
            while True:
                await connection.wait()
                if hear is not None and reader.has_pieces:
                    problem = await hear(incoming.drain())
                    if problem is not None:
                        return problem
                elif reader.is_done:
                    break
        finally:
            pool.release(connection, now=loop.time(), keep=reader.status < _SERVER_ERROR)
            if reader.status >= _SERVER_ERROR:
                pool.drop(key)
        return reader.outcome()

    async def _open_pool(self, loop: asyncio.AbstractEventLoop) -> ConnectionPool:
        for other in [other for other in self._pools if other.is_closed()]:
            self._pools.pop(other).close()
        pool = self._pools[loop] = ConnectionPool()
        await pool.watch_loop()
        return pool


class SyncNetwork:
    """The transport for sync code: what Network is, said without ``await``. Threads may share one."""

    def __init__(
        self,
        *,
        limits: TransportLimits = TransportLimits(),  # noqa: B008 - a frozen value
        credentials: Credentials | None = None,
        allow_private: Iterable[str] = (),
        origins: Container[str] | None = None,
        resolve: Resolve = resolve_with_system,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._exchange = RequestRules(
            limits=limits, credentials=credentials, allow_private=allow_private, origins=origins, clock=clock
        )
        self._resolve = resolve
        self._pool = SyncConnectionPool()
        weakref.finalize(self, self._pool.close)

    def send(self, request: Request, *, total_s: float | None = None) -> Response | Problem:
        """Return the response to ``request``, or the Problem that there is none.

        ``total_s`` takes the place of the limit of that name. [D-05, D-06, D-08, D-11, D-13, D-14]
        """
        steps, came = self._exchange.steps(request, total_s), None
        while True:
            try:
                step = steps.send(came)
            except StopIteration as end:
                result: Response | Problem = end.value
                return result
            came = self._fetch_response(step) if isinstance(step, SendRequest) else self._look_up(step)

    def listen(self, request: Request, hear: SyncPieceHandler, *, brief: bool = False) -> Response | Problem:
        """Return what ``send`` would, but give a stream of events to ``hear`` as it comes, and keep nothing of it.

        A ``brief`` exchange has the time of ``send``.
        """
        return consume_pieces(self.pieces(request, brief=brief), hear)

    def pieces(self, request: Request, *, brief: bool = False) -> Pieces:
        """Yield a stream of events piece by piece, and return what ``send`` would; closing it closes the exchange.

        The next piece is read when it is asked for: that is the back-pressure. A Problem sent in ends the exchange.
        """
        total_s = None if brief else self._exchange.limits.stream_s
        steps: Steps[Response | Problem] = self._exchange.steps(request, total_s)
        came: object = None
        while True:
            try:
                step = steps.send(came)
            except StopIteration as end:
                result: Response | Problem = end.value
                return result
            came = (yield from self._stream_response(step)) if isinstance(step, SendRequest) else self._look_up(step)

    def close(self) -> None:
        """Close all connections; other threads' calls that are under way end. A later ``send`` opens new ones."""
        self._pool.close()

    def _look_up(self, step: ResolveHost) -> Sequence[str] | Problem:
        try:
            return resolve_in_thread(self._resolve, step.host, step.port).result(step.within_s)
        except (OSError, UnicodeError) as error:
            return _dns_failure(step.origin, error)

    def _fetch_response(self, hop: SendRequest) -> Response | Problem:
        incoming = ResponseCollector(hop.target.origin, self._exchange.limits, echoes=hop.echoes)
        return consume_pieces(self._exchange_pieces(hop, incoming), _discard_piece)

    def _stream_response(self, hop: SendRequest) -> Pieces:
        return self._exchange_pieces(
            hop, ResponseCollector(hop.target.origin, self._exchange.limits, streaming=True, echoes=hop.echoes)
        )

    def _exchange_pieces(self, hop: SendRequest, incoming: ResponseCollector) -> Pieces:
        """Yield the pieces of a stream, if one comes, and return the response."""
        limits, key, now = self._exchange.limits, build_pool_key(hop), time.monotonic()
        until = now + hop.within_s
        connection = self._pool.take(key, now)
        if connection is None:
            opened = open_sync_connection(hop, key, min(limits.connect_s, hop.within_s))
            if isinstance(opened, Problem):
                return opened
            connection = opened
            self._pool.add(connection)
        reader = ResponseReader(hop.target.origin, hop.method, incoming, limits)
        try:
            connection.send(write_request(hop), reader, until)
            while not reader.is_done:
                connection.receive(reader, until)
                if reader.has_pieces:
                    problem = yield incoming.drain()
                    if problem is not None:
                        return problem
        finally:
            reusable = reader.is_done and reader.is_reusable and reader.status < _SERVER_ERROR
            self._pool.release(connection, time.monotonic(), keep=reusable)
            if reader.status >= _SERVER_ERROR:
                self._pool.drop(key)
        return reader.outcome()


def _discard_piece(_: bytes) -> None:
    """Take a piece that nobody listens for; there is none where ``Incoming`` keeps the body."""


def _dns_failure(origin: str, error: Exception) -> Problem:
    if isinstance(error, TimeoutError):
        return timeout(origin, sent=False)
    return unreachable(f"{origin} has no address: is its name right?", "dns", sent=False)
