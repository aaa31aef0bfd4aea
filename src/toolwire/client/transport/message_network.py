"""Send requests to an MCP server that answers on one channel, asynchronously and blocking.

Such a server is a program, for which a request is a line, or one of the HTTP+SSE transport.

Rules:
- A program sees what a server sees over HTTP, without header fields: no credential is sent to it.
- Leaving a call tells the server that it is cancelled.
- Older programs do not know ``server/discover``. No answer within 10 s means that the program does not know it.
"""
# MC-02

from __future__ import annotations

import asyncio
import queue
import time
from collections.abc import Callable
from typing import Final

import anyio
import anyio.to_thread

from toolwire.core.http import Headers, Request, Response
from toolwire.core.model import Problem
from toolwire.framing import jsontext
from toolwire.framing.jsonrpc import METHOD_NOT_FOUND
from toolwire.protocols.mcp.revision import DISCOVER

from .drivers import PieceHandler, SyncPieceHandler
from .failures import timeout
from .limits import TransportLimits
from .message_exchange import ExchangeEnd, MessageExchange, MessageServer

DISCOVER_S: Final = 10.0
"""How long a program may take to answer ``server/discover``, in seconds."""
_STREAM: Final = (b"content-type", b"text/event-stream")


class SyncMessageNetwork:
    """The blocking transport to one such server, which stays open when this is closed."""

    def __init__(self, server: MessageServer, limits: TransportLimits) -> None:
        self._server, self._limits = server, limits

    def send(self, request: Request, *, total_s: float | None = None) -> Response | Problem:
        """Return the response to ``request``; see ``SyncNetwork.send``."""
        return self._exchange(request, None, total_s or self._limits.total_s)

    def listen(self, request: Request, on_piece: SyncPieceHandler, *, brief: bool = False) -> Response | Problem:
        """Return what ``send`` would, and give each message to ``on_piece`` as an event."""
        return self._exchange(request, on_piece, self._limits.total_s if brief else self._limits.stream_s)

    def close(self) -> None:
        """Do nothing: the server belongs to the connection."""

    def _exchange(self, request: Request, on_piece: SyncPieceHandler | None, within_s: float) -> Response | Problem:
        items: queue.SimpleQueue[bytes | ExchangeEnd] = queue.SimpleQueue()
        begun = self._server.begin(request, items.put)
        if not isinstance(begun, MessageExchange):
            return begun
        answer = _ProgramAnswer(self._server, begun, streams=on_piece is not None)
        deadline = time.monotonic() + answer.limit(within_s)
        try:
            while True:
                try:
                    item = items.get(timeout=max(0.0, deadline - time.monotonic()))
                except queue.Empty:
                    return answer.time_out()
                event = answer.take(item)
                problem = on_piece(event) if on_piece is not None and event else None
                if problem is not None:
                    return problem
                if isinstance(item, ExchangeEnd):
                    return answer.build(item)
        finally:
            # After the answer this has no effect. Before it, the server learns that it can stop.
            self._server.cancel(begun)


class MessageNetwork:
    """The asynchronous transport to one such server, which stays open when this is closed."""

    def __init__(self, server: MessageServer, limits: TransportLimits) -> None:
        self._server, self._limits = server, limits

    async def send(self, request: Request, *, total_s: float | None = None) -> Response | Problem:
        """Return the response to ``request``; see ``Network.send``."""
        return await self._exchange(request, None, total_s or self._limits.total_s)

    async def listen(self, request: Request, on_piece: PieceHandler, *, brief: bool = False) -> Response | Problem:
        """Return what ``send`` would, and give each message to ``on_piece`` as an event."""
        return await self._exchange(request, on_piece, self._limits.total_s if brief else self._limits.stream_s)

    async def aclose(self) -> None:
        """Do nothing: the server belongs to the connection."""

    async def _exchange(self, request: Request, on_piece: PieceHandler | None, within_s: float) -> Response | Problem:
        items: asyncio.Queue[bytes | ExchangeEnd] = asyncio.Queue()
        deliver, exchanges = _build_delivery(items), list[MessageExchange]()

        def begin() -> MessageExchange | Response | Problem:
            begun = self._server.begin(request, deliver)
            if isinstance(begun, MessageExchange):
                exchanges.append(begun)  # a task that is cancelled meanwhile does not get what this returns
            return begun

        try:
            # Starting a program takes a while, and would stall every other task.
            begun = await anyio.to_thread.run_sync(begin)
            if not isinstance(begun, MessageExchange):
                return begun
            return await self._read(items, on_piece, begun, within_s)
        finally:
            for exchange in exchanges:
                self._server.cancel(exchange)

    async def _read(
        self,
        items: asyncio.Queue[bytes | ExchangeEnd],
        on_piece: PieceHandler | None,
        begun: MessageExchange,
        within_s: float,
    ) -> Response | Problem:
        answer = _ProgramAnswer(self._server, begun, streams=on_piece is not None)
        try:
            with anyio.fail_after(answer.limit(within_s)):
                while True:
                    item = await items.get()
                    event = answer.take(item)
                    problem = await on_piece(event) if on_piece is not None and event else None
                    if problem is not None:
                        return problem
                    if isinstance(item, ExchangeEnd):
                        return answer.build(item)
        except TimeoutError:
            return answer.time_out()


def _build_delivery(items: asyncio.Queue[bytes | ExchangeEnd]) -> Callable[[bytes | ExchangeEnd], None]:
    loop = asyncio.get_running_loop()

    def deliver(item: bytes | ExchangeEnd) -> None:
        # Threads of the server call this, and only the loop itself may change the queue.
        if not loop.is_closed():
            loop.call_soon_threadsafe(items.put_nowait, item)

    return deliver


class _ProgramAnswer:
    """Builds the response from the messages of one exchange: events if other messages came before the answer."""

    def __init__(self, server: MessageServer, exchange: MessageExchange, *, streams: bool) -> None:
        self._server, self._begun = server, exchange
        self._streams, self._has_events = streams, False
        self._is_discovery = exchange.method == DISCOVER

    def take(self, item: bytes | ExchangeEnd) -> bytes:
        """Return ``item`` as an event of a stream, or ``b""`` if it is not one."""
        if isinstance(item, ExchangeEnd):
            # An answer alone is no stream: an event has a smaller bound than a response.
            return _build_event(item.answer) if self._has_events and item.answer else b""
        self._begun.count_read(item)
        self._has_events = self._streams
        return _build_event(item)

    def limit(self, within_s: float) -> float:
        """Return the time limit of the exchange."""
        return min(within_s, DISCOVER_S) if self._is_discovery else within_s

    def time_out(self) -> Response | Problem:
        """Return the response of a server that did not answer in time."""
        return self._refuse_discovery() if self._is_discovery else timeout(self._server.name, sent=True)

    def build(self, end: ExchangeEnd) -> Response | Problem:
        """Return the response after the last message."""
        if end.response is not None:
            return end.response
        if end.problem is not None:
            return self._refuse_discovery() if self._is_discovery else end.problem
        if not self._has_events:
            return Response(200, self._begun.headers, end.answer)
        fields: Headers = [field for field in self._begun.headers if field[0] != b"content-type"]
        return Response(200, (*fields, _STREAM), b"")

    def _refuse_discovery(self) -> Response:
        """Return what a server answers that does not know the request: some programs hang or end instead."""
        error = {"code": METHOD_NOT_FOUND, "message": "The program did not answer."}
        return Response(400, (), jsontext.write({"jsonrpc": "2.0", "id": self._begun.id, "error": error}))


def _build_event(message: bytes) -> bytes:
    return b"data: " + message + b"\n\n"
