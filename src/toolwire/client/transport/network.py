"""Send requests over the network and return a response or a Problem, asynchronously and blocking.

All rules are in ``request_rules``, the protocol is in ``http1``, and the sockets are in ``async_pool`` and
``sync_pool``. Nothing here decides by itself: there are no cookies or referers, and no redirect, proxy, decompression
or DNS lookup outside of the rules.
"""

from __future__ import annotations

import asyncio
import socket
import time
import weakref
from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TypeAlias, TypedDict, Unpack

import anyio.to_thread

from toolwire.core.codec import BlockingTask
from toolwire.core.http import Request, Response
from toolwire.core.model import Problem

from .async_pool import ConnectionPool, open_connection
from .drivers import PieceHandler, Pieces, SyncPieceHandler, consume_pieces
from .failures import forbidden_target, local_close, timeout, unreachable
from .http1 import ResponseReader, write_request
from .limits import DEFAULT_LIMITS, TransportLimits
from .proxies import read_proxies
from .request_rules import (
    Credentials,
    RequestRules,
    ResolveHost,
    SendBySteps,
    SendRequest,
    Signer,
    SiteHeaders,
    Steps,
)
from .response_reader import ResponseCollector
from .sync_pool import PoolKey, SyncConnectionPool, open_sync_connection
from .tls import check_ca_file

Resolve: TypeAlias = Callable[[str, int], Sequence[str]]
"""Takes a host name and a port and returns addresses, best first. It may block, and raise OSError or UnicodeError."""


def resolve_with_system(host: str, port: int) -> Sequence[str]:
    """Return the addresses of ``host`` from the resolver of this machine, without duplicates."""
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in entries))


def resolve_in_thread(resolve: Resolve, host: str, port: int) -> Future[Sequence[str]]:
    """Start ``resolve`` in a thread of its own, and return a future of its addresses."""
    # The system's resolver cannot be interrupted. A daemon thread lets the caller and the program go on without it.
    future: Future[Sequence[str]] = Future()
    future.set_running_or_notify_cancel()

    def work() -> None:
        try:
            future.set_result(resolve(host, port))
        except Exception as error:  # noqa: BLE001 - it is raised again where the future is waited for
            future.set_exception(error)

    Thread(target=work, name="toolwire-lookup", daemon=True).start()
    return future


__all__ = ["Credentials", "Network", "NetworkAccess", "NetworkSettings", "SyncNetwork", "TransportLimits"]

_SERVER_ERROR = 500
"""The first status that says that the server failed.

Many servers close their connections soon after such a response. So all connections to it are closed: the next call may
be one that must not be sent twice, and it should not meet a connection that is about to close.
"""


class NetworkAccess(TypedDict, total=False):
    """What the user allows beyond the public internet; see ``Network``."""

    allow_private: Sequence[str]
    allow_http: Sequence[str]
    ca_file: str | Path | None


class NetworkSettings(NetworkAccess, total=False):
    """The settings of both transports; see ``Network``."""

    limits: TransportLimits
    credentials: Credentials | None
    headers: SiteHeaders | None
    origins: Container[str] | None
    signer: Signer | None
    resolve: Resolve
    clock: Callable[[], float]


class _Transport:
    """What both transports are made of: the rules of an exchange, the resolver and the certificates."""

    def __init__(
        self,
        *,
        limits: TransportLimits = DEFAULT_LIMITS,
        credentials: Credentials | None = None,
        headers: SiteHeaders | None = None,
        allow_private: Iterable[str] = (),
        allow_http: Iterable[str] = (),
        ca_file: str | Path | None = None,
        origins: Container[str] | None = None,
        signer: Signer | None = None,
        resolve: Resolve = resolve_with_system,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._exchange = RequestRules(
            limits=limits,
            credentials=credentials,
            headers=headers,
            allow_private=allow_private,
            allow_http=allow_http,
            origins=origins,
            proxies=read_proxies(),
            clock=clock,
        )
        # D-08: each request passes the signer, also one that answers a server in the middle of its stream.
        send = self._exchange.steps
        self._steps: SendBySteps = send if signer is None else partial(signer.send, send)
        self._resolve = resolve
        self._ca_file = check_ca_file(ca_file)


class Network(_Transport):
    """The asynchronous transport. One can be used in any number of event loops.

    ``credentials`` and ``headers`` are sent to their own origins only. Private addresses are refused, except for the
    origins in ``allow_private`` (https) and ``allow_http`` (http, and private addresses only). The certificates in
    ``ca_file`` are trusted in addition. If ``origins`` is given, every other origin is refused. ``signer`` adds the
    credential of a user. ``may_connect`` is called with the IP address before each exchange; if it returns False, the
    exchange is refused. Tests replace ``resolve`` and ``clock``.
    """

    def __init__(
        self, *, may_connect: Callable[[str], Awaitable[bool]] | None = None, **settings: Unpack[NetworkSettings]
    ) -> None:
        super().__init__(**settings)
        self._may_connect = may_connect
        self._pools: dict[asyncio.AbstractEventLoop, ConnectionPool] = {}

    async def send(self, request: Request, *, total_s: float | None = None) -> Response | Problem:
        """Return the response to ``request``, or the Problem that there is none. Cancelling it closes the exchange.

        ``total_s`` replaces the limit of that name.
        """
        return await self._drive(self._steps(request, total_s), None)

    async def listen(self, request: Request, on_piece: PieceHandler, *, brief: bool = False) -> Response | Problem:
        """Return what ``send`` would, but give a stream of events to ``on_piece`` as it comes, and keep nothing of it.

        A ``brief`` exchange has the time of ``send``.
        """
        total_s = None if brief else self._exchange.limits.stream_s
        return await self._drive(self._steps(request, total_s), on_piece)

    async def _drive(self, steps: Steps[Response | Problem], on_piece: PieceHandler | None) -> Response | Problem:
        outcome: object = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                result: Response | Problem = end.value
                return result
            if isinstance(step, ResolveHost):
                outcome = await self._look_up(step)
            elif isinstance(step, BlockingTask):
                outcome = await anyio.to_thread.run_sync(step.run)
            # Servers of OAuth metadata use this to limit how often one address is fetched.
            elif self._may_connect is not None and not await self._may_connect(step.checked):
                text = f"{step.target.origin} was not contacted: its address was looked up too often recently."
                outcome = forbidden_target(text)
            else:
                outcome = await self._send_to_address(step, on_piece)

    async def aclose(self) -> None:
        """Close all connections and end the running calls. A later ``send`` opens new connections."""
        here = asyncio.get_running_loop()
        while self._pools:
            loop, pool = self._pools.popitem()
            # A pool of another loop must be closed in that loop.
            if loop is here:
                await pool.aclose()
            elif loop.is_closed():
                pool.close()
            else:
                loop.call_soon_threadsafe(pool.close)

    async def _look_up(self, step: ResolveHost) -> Sequence[str] | Problem:
        answer = asyncio.wrap_future(resolve_in_thread(self._resolve, step.host, step.port))
        try:
            # The limit ends the wait, not the lookup, which cannot be interrupted. A TimeoutError is an OSError, and a
            # name that cannot be a host name is a UnicodeError.
            return await asyncio.wait_for(answer, step.within_s)
        except (OSError, UnicodeError) as error:
            return _dns_failure(step.origin, error)

    async def _send_to_address(self, hop: SendRequest, on_piece: PieceHandler | None) -> Response | Problem:
        limits, loop = self._exchange.limits, asyncio.get_running_loop()
        key = PoolKey(hop.target.origin, hop.address, hop.proxy)
        pool = self._pools.get(loop)
        if pool is None:
            pool = await self._open_pool(loop)
        # Before connecting, so that the time for it counts.
        until = loop.time() + hop.within_s
        connection = pool.take(key, loop.time())
        if connection is None:
            opened = await open_connection(hop, key, min(limits.connect_s, hop.within_s), self._ca_file)
            if isinstance(opened, Problem):
                return opened
            connection = opened
            # aclose() has run while this connection was opened.
            if pool.closed:
                connection.abort()
                return local_close(hop.target.origin)
            pool.add(connection)
        incoming = ResponseCollector(hop.target.origin, limits, streaming=on_piece is not None, echoes=hop.echoes)
        reader = ResponseReader(hop.target.origin, hop.method, incoming, limits)
        try:
            connection.start(write_request(hop), reader, until - loop.time())
            while True:
                await connection.wait()
                if incoming.has_pieces and on_piece is not None:
                    problem = await on_piece(incoming.drain())
                    if problem is not None:
                        return problem
                elif reader.is_done:
                    break
        finally:
            # Also after an error: a connection with unread data is closed there.
            pool.release(connection, now=loop.time(), is_reusable=reader.status < _SERVER_ERROR)
            if reader.status >= _SERVER_ERROR:
                pool.drop(key)
        return reader.outcome()

    async def _open_pool(self, loop: asyncio.AbstractEventLoop) -> ConnectionPool:
        # Pools of loops that have ended: they are closed here, because their loop cannot do it any more.
        for other in [other for other in self._pools if other.is_closed()]:
            self._pools.pop(other).close()
        pool = self._pools[loop] = ConnectionPool()
        await pool.watch_loop()
        return pool


class SyncNetwork(_Transport):
    """The blocking transport: see ``Network``. Threads may share one."""

    def __init__(self, **settings: Unpack[NetworkSettings]) -> None:
        super().__init__(**settings)
        self._pool = SyncConnectionPool()
        # A program that forgets close() leaves no sockets: they end with this object.
        weakref.finalize(self, self._pool.close)

    def send(self, request: Request, *, total_s: float | None = None) -> Response | Problem:
        """Return the response to ``request``, or the Problem that there is none.

        ``total_s`` replaces the limit of that name.
        """
        return consume_pieces(self._drive(self._steps(request, total_s), streaming=False), _discard_piece)

    def listen(self, request: Request, on_piece: SyncPieceHandler, *, brief: bool = False) -> Response | Problem:
        """Return what ``send`` would, but give a stream of events to ``on_piece`` as it comes, and keep nothing of it.

        A ``brief`` exchange has the time of ``send``.
        """
        total_s = None if brief else self._exchange.limits.stream_s
        return consume_pieces(self._drive(self._steps(request, total_s), streaming=True), on_piece)

    def pieces(self, request: Request) -> Pieces:
        """Yield a stream of events piece by piece, and return what ``send`` would. Closing it closes the exchange.

        The next piece is read on demand. A Problem that is sent to the generator ends the exchange.
        """
        return self._drive(self._steps(request, self._exchange.limits.stream_s), streaming=True)

    def _drive(self, steps: Steps[Response | Problem], *, streaming: bool) -> Pieces:
        """Do what ``steps`` ask for; yield the pieces of a stream if ``streaming``, and return the response."""
        outcome: object = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                result: Response | Problem = end.value
                return result
            if isinstance(step, SendRequest):
                outcome = yield from self._exchange_pieces(step, streaming=streaming)
            else:
                outcome = step.run() if isinstance(step, BlockingTask) else self._look_up(step)

    def close(self) -> None:
        """Close all connections and end the running calls of other threads. A later ``send`` opens new connections."""
        self._pool.close()

    def _look_up(self, step: ResolveHost) -> Sequence[str] | Problem:
        try:
            return resolve_in_thread(self._resolve, step.host, step.port).result(step.within_s)
        except (OSError, UnicodeError) as error:
            return _dns_failure(step.origin, error)

    def _exchange_pieces(self, hop: SendRequest, *, streaming: bool) -> Pieces:
        """Yield the pieces of a stream, if there is one and ``streaming``, and return the response."""
        limits, now = self._exchange.limits, time.monotonic()
        key = PoolKey(hop.target.origin, hop.address, hop.proxy)
        until = now + hop.within_s
        connection = self._pool.take(key, now)
        if connection is None:
            opened = open_sync_connection(hop, key, min(limits.connect_s, hop.within_s), self._ca_file)
            if isinstance(opened, Problem):
                return opened
            connection = opened
            self._pool.add(connection)
        incoming = ResponseCollector(hop.target.origin, limits, streaming=streaming, echoes=hop.echoes)
        reader = ResponseReader(hop.target.origin, hop.method, incoming, limits)
        try:
            connection.send(write_request(hop), reader, until)
            while not reader.is_done:
                connection.receive(reader, until)
                if incoming.has_pieces:
                    problem = yield incoming.drain()
                    if problem is not None:
                        return problem
        finally:
            reusable = reader.is_done and reader.is_reusable and reader.status < _SERVER_ERROR
            self._pool.release(connection, time.monotonic(), is_reusable=reusable)
            if reader.status >= _SERVER_ERROR:
                self._pool.drop(key)
        return reader.outcome()


def _discard_piece(_: bytes) -> None:
    """Take no piece: the collector keeps the body, so there is none."""


def _dns_failure(origin: str, error: Exception) -> Problem:
    if isinstance(error, TimeoutError):
        return timeout(origin, sent=False)
    return unreachable(f"{origin} was not found. Check the host name.", "dns", sent=False)
