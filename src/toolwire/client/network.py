"""The only door to the network: a request goes out, a response or a Problem comes back.

All rules are in ``exchange``; here is what touches a socket, once for async and once for sync. pyreqwest (Rust's
reqwest) does TLS, HTTP and the pool of connections, with everything off that would decide for itself: redirects,
proxies, cookies, referers, decompression and its own look-up of names.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Container, Iterable, Sequence
from datetime import timedelta
from typing import TypeAlias, TypeVar

from pyreqwest.client import Client, ClientBuilder, SyncClient, SyncClientBuilder
from pyreqwest.exceptions import DetailedPyreqwestError
from pyreqwest.http import HeaderMap
from pyreqwest.request import RequestBuilder, SyncRequestBuilder

from toolwire.core.http import Request, Response
from toolwire.core.model import Problem

from .drive import Hear, Pieces, SyncHear, heard
from .exchange import Credentials, Exchange, Hop, Lookup, Steps
from .failures import failure, too_slow, unreachable
from .incoming import Incoming
from .limits import Limits
from .lookup import Resolve, looking_up, system_resolve
from .outgoing import Fields

__all__ = ["Credentials", "Limits", "Network", "SyncNetwork"]

C = TypeVar("C", Client, SyncClient)
B = TypeVar("B", ClientBuilder, SyncClientBuilder)
R = TypeVar("R", RequestBuilder, SyncRequestBuilder)
_Pin: TypeAlias = tuple[str, str] | None

_CLIENTS_KEPT = 64
_USER_AGENT = "toolwire/0.1"
_ACCEPT_ENCODING = ("accept-encoding", "gzip")


class Network:
    """The door for async code. One serves any number of event loops, one after the other or at once.

    ``credentials`` go to their own origins only. Names and addresses of the own network are refused but for the
    origins in ``allow_private``, and so is every origin but ``origins``, where they are given. ``resolve`` and
    ``clock`` are there for tests.
    """

    def __init__(
        self,
        *,
        limits: Limits = Limits(),  # noqa: B008 - a frozen value
        credentials: Credentials | None = None,
        allow_private: Iterable[str] = (),
        origins: Container[str] | None = None,
        resolve: Resolve = system_resolve,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._exchange = Exchange(
            limits=limits, credentials=credentials, allow_private=allow_private, origins=origins, clock=clock
        )
        self._resolve = resolve
        self._clients: dict[_Pin, Client] = {}

    async def send(self, request: Request, *, total_s: float | None = None) -> Response | Problem:
        """Return the response to ``request``, or the Problem that there is none. Cancelling closes the exchange.

        ``total_s`` takes the place of the limit of that name. [D-05, D-06, D-08, D-11, D-13, D-14]
        """
        return await self._drive(self._exchange.steps(request, total_s), None)

    async def listen(self, request: Request, hear: Hear) -> Response | Problem:
        """Return what ``send`` would, but give a stream of events to ``hear`` as it comes, and keep nothing of it."""
        return await self._drive(self._exchange.steps(request, self._exchange.limits.stream_s), hear)

    async def _drive(self, steps: Steps[Response | Problem], hear: Hear | None) -> Response | Problem:
        came: object = None
        while True:
            try:
                step = steps.send(came)
            except StopIteration as end:
                result: Response | Problem = end.value
                return result
            came = await (self._hop(step, hear) if isinstance(step, Hop) else self._look_up(step))

    async def aclose(self) -> None:
        """Close all connections. A later ``send`` opens new ones."""
        while self._clients:
            await self._clients.popitem()[1].close()

    async def _look_up(self, step: Lookup) -> Sequence[str] | Problem:
        answer = asyncio.wrap_future(looking_up(self._resolve, step.host, step.port))
        try:
            return await asyncio.wait_for(answer, step.within_s)
        except (OSError, UnicodeError) as error:
            return _not_found(step.origin, error)

    async def _hop(self, hop: Hop, hear: Hear | None) -> Response | Problem:
        incoming = Incoming(hop.target.origin, self._exchange.limits, heard=hear is not None)
        try:
            request = _filled(self._client(hop).request(hop.method, hop.target.url), hop)
            if hear is not None:
                request = request.streamed_read_buffer_limit(0)  # or pieces are held back to fill a buffer
            async with request.build_streamed() as answer:
                _leave(self._clients, hop, answer.status)
                problem = incoming.begin(answer.status, _fields(answer.headers))
                while problem is None:
                    piece = await answer.body_reader.read_chunk()
                    if piece is None:
                        return incoming.whole()
                    problem = incoming.take(bytes(piece))
                    if problem is None and hear is not None and incoming.streams:
                        problem = await hear(incoming.taken())
                return problem
        except DetailedPyreqwestError as error:
            return failure(error, hop.target.origin)

    def _client(self, hop: Hop) -> Client:
        client = self._clients.get(_pin(hop))
        if client is None:
            _make_room(self._clients)
            client = self._clients[_pin(hop)] = _configured(ClientBuilder(), hop, self._exchange.limits).build()
        return client


class SyncNetwork:
    """The door for sync code: what Network is, said without ``await``. Threads may share one."""

    def __init__(
        self,
        *,
        limits: Limits = Limits(),  # noqa: B008 - a frozen value
        credentials: Credentials | None = None,
        allow_private: Iterable[str] = (),
        origins: Container[str] | None = None,
        resolve: Resolve = system_resolve,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._exchange = Exchange(
            limits=limits, credentials=credentials, allow_private=allow_private, origins=origins, clock=clock
        )
        self._resolve = resolve
        self._clients: dict[_Pin, SyncClient] = {}

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
            came = self._whole(step) if isinstance(step, Hop) else self._look_up(step)

    def listen(self, request: Request, hear: SyncHear) -> Response | Problem:
        """Return what ``send`` would, but give a stream of events to ``hear`` as it comes, and keep nothing of it."""
        return heard(self.pieces(request), hear)

    def pieces(self, request: Request) -> Pieces:
        """Yield a stream of events piece by piece, and return what ``send`` would; closing it closes the exchange.

        The next piece is read when it is asked for: that is the back-pressure. A Problem sent in ends the exchange.
        """
        steps: Steps[Response | Problem] = self._exchange.steps(request, self._exchange.limits.stream_s)
        came: object = None
        while True:
            try:
                step = steps.send(came)
            except StopIteration as end:
                result: Response | Problem = end.value
                return result
            came = (yield from self._heard(step)) if isinstance(step, Hop) else self._look_up(step)

    def close(self) -> None:
        """Close all connections. A later ``send`` opens new ones."""
        while self._clients:
            self._clients.popitem()[1].close()

    def _look_up(self, step: Lookup) -> Sequence[str] | Problem:
        try:
            return looking_up(self._resolve, step.host, step.port).result(step.within_s)
        except (OSError, UnicodeError) as error:
            return _not_found(step.origin, error)

    def _whole(self, hop: Hop) -> Response | Problem:
        incoming = Incoming(hop.target.origin, self._exchange.limits)
        try:
            with _filled(self._client(hop).request(hop.method, hop.target.url), hop).build_streamed() as answer:
                _leave(self._clients, hop, answer.status)
                problem = incoming.begin(answer.status, _fields(answer.headers))
                while problem is None:
                    piece = answer.body_reader.read_chunk()
                    if piece is None:
                        return incoming.whole()
                    problem = incoming.take(bytes(piece))
                return problem
        except DetailedPyreqwestError as error:
            return failure(error, hop.target.origin)

    def _heard(self, hop: Hop) -> Pieces:
        incoming = Incoming(hop.target.origin, self._exchange.limits, heard=True)
        try:
            request = _filled(self._client(hop).request(hop.method, hop.target.url), hop)
            # or pieces are held back to fill a buffer
            with request.streamed_read_buffer_limit(0).build_streamed() as answer:
                _leave(self._clients, hop, answer.status)
                problem = incoming.begin(answer.status, _fields(answer.headers))
                while problem is None:
                    piece = answer.body_reader.read_chunk()
                    if piece is None:
                        return incoming.whole()
                    problem = incoming.take(bytes(piece))
                    if problem is None and incoming.streams:
                        problem = yield incoming.taken()
                return problem
        except DetailedPyreqwestError as error:
            return failure(error, hop.target.origin)

    def _client(self, hop: Hop) -> SyncClient:
        client = self._clients.get(_pin(hop))
        if client is None:
            _make_room(self._clients)
            client = self._clients[_pin(hop)] = _configured(SyncClientBuilder(), hop, self._exchange.limits).build()
        return client


def _pin(hop: Hop) -> _Pin:
    """Return the name and the address a client is made for; one client without serves all URLs that hold an address."""
    return None if hop.address is None else (hop.target.host, hop.address)


def _make_room(clients: dict[_Pin, C]) -> None:
    """Forget the oldest client where there are too many. What it is still doing, it finishes."""
    if len(clients) >= _CLIENTS_KEPT:
        del clients[next(iter(clients))]


def _leave(clients: dict[_Pin, C], hop: Hop, status: int) -> None:
    """Forget the connections to a server that has failed: many hang up then without a word, after a moment.

    The next call, which may be one that must not be sent twice, opens a new one instead of finding out.
    """
    if status >= 500:
        clients.pop(_pin(hop), None)


def _configured(builder: B, hop: Hop, limits: Limits) -> B:
    """Return ``builder`` with nothing left to decide. Making a client costs 5 ms: it reads the TLS roots."""
    builder = builder.no_proxy().follow_redirects(False).referer(False)
    builder = builder.gzip(False).brotli(False).zstd(False).deflate(False)
    builder = builder.user_agent(_USER_AGENT).connect_timeout(timedelta(seconds=limits.connect_s))
    # Port 0 leaves the port to each URL; any other would be that of every URL which names none.
    return builder if hop.address is None else builder.resolve(hop.target.host, hop.address, 0)


def _filled(builder: R, hop: Hop) -> R:
    """Return ``builder`` with the headers, credentials and body of ``hop``."""
    builder = builder.headers([*hop.fields, _ACCEPT_ENCODING]).timeout(timedelta(seconds=hop.within_s))
    for name, secret in hop.secrets:
        builder = builder.header(name, secret.reveal(), is_sensitive=True)
    return builder.body_bytes(hop.body) if hop.body else builder


def _fields(headers: HeaderMap) -> Fields:
    """Return the header fields of a response, without those whose bytes are not text."""
    try:
        return list(headers.items())
    except ValueError:
        return [field for name in dict.fromkeys(headers.keys()) for field in _readable(headers, name)]


def _readable(headers: HeaderMap, name: str) -> Fields:
    try:
        return [(name, value) for value in headers.getall(name)]
    except ValueError:
        return []


def _not_found(origin: str, error: Exception) -> Problem:
    if isinstance(error, TimeoutError):
        return too_slow(origin, sent=False)
    return unreachable(f"{origin} has no address: is its name right?", "dns", sent=False)
