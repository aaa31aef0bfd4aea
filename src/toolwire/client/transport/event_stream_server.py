"""Speak the HTTP+SSE transport of MCP 2024-11-05: all answers come on one stream, which a GET opens.

Rules:
- The first event names the endpoint that takes the messages. It must be on the origin of the stream; a later event
  cannot change it.
- The stream is opened by the first request, and again after it ended: a call that finds it ended begins a new session.
- ``server/discover`` is younger than this transport, so it is refused here: some servers end at what they do not know.
- An event, the messages that wait for a reader or that no request waits for, the requests under way and the time of
  each have limits.
- Threads read and write, so the blocking and the asynchronous client share one implementation.
"""
# MC-13

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final
from urllib.parse import urljoin

from toolwire.core.http import JSON_HEADERS, Request, Response, get_header
from toolwire.core.model import Json, Kind, Problem
from toolwire.core.url_origin import get_origin, has_same_origin
from toolwire.framing import jsontext, sse
from toolwire.framing.jsonrpc import METHOD_NOT_FOUND
from toolwire.protocols.mcp.revision import DISCOVER, SESSION_HEADER

from .failures import bad_response, local_close, unreachable
from .limits import DEFAULT_LIMITS, TransportLimits
from .message_exchange import (
    ACCEPTED,
    MIB,
    NO_SESSION,
    NO_STREAM,
    Deliver,
    ExchangeEnd,
    ExchangeTable,
    MessageExchange,
    build_cancellation,
)
from .network import SyncNetwork

OPENING_S: Final = 10.0
"""How long a server may take to name its endpoint, in seconds."""
MAX_EVENT: Final = 16 * MIB
"""The largest event that is read, in bytes."""
MAX_PENDING: Final = 100
"""How many requests may be under way at once."""
MAX_ENDPOINT: Final = 4_000
"""The longest URL of an endpoint, in characters."""
STREAM_LIMITS: Final = TransportLimits(stream_s=24 * 3600.0, stream_bytes=4096 * MIB)
"""The limits of one stream; then the next request opens another."""
BAD_STREAM: Final = frozenset({"endpoint", "no_endpoint"})
"""The reasons of a Problem that says that there is a stream without a usable endpoint."""
_HEADERS: Final = ((b"accept", b"text/event-stream"), (b"cache-control", b"no-store"))
_CHALLENGES: Final = (401, 403)
_GONE: Final = (404, 410)


class EventStreamServer:
    """An MCP server of the HTTP+SSE transport at ``url``. ``open_network`` returns a network with the given limits."""

    def __init__(self, url: str, open_network: Callable[[TransportLimits], SyncNetwork]) -> None:
        self.url = url
        self.lock = threading.RLock()
        self._open_network = open_network
        self._writing = open_network(DEFAULT_LIMITS)
        # A look at a URL must not tell a server who looks, unless it asks.
        self._omits_credentials = True
        self._stream: _EventStream | None = None
        self._generation = 0
        self._closed = False

    @property
    def name(self) -> str:
        """What messages call the server: its origin."""
        return get_origin(self.url)

    def open(self, within_s: float = OPENING_S) -> Problem | Response | None:
        """Open the stream. Return None if it names an endpoint within ``within_s`` seconds, else what came."""
        with self.lock:
            outcome = self._start(within_s)
            if isinstance(outcome, Response) and outcome.status in _CHALLENGES:
                self._omits_credentials = False
                outcome = self._start(within_s)
            return None if isinstance(outcome, _EventStream) else outcome

    def begin(self, request: Request, deliver: Deliver) -> MessageExchange | Response | Problem:
        """Post ``request`` to the endpoint. Return its exchange, or the response where none is awaited."""
        if request.method == "GET":
            return self._listen(request, deliver)
        message = jsontext.read(request.body) if request.method == "POST" else None
        if not isinstance(message, dict):
            return NO_STREAM
        method = message.get("method")
        if method == DISCOVER:
            return _refuse_discovery(message.get("id"))
        if not isinstance(method, str) or "id" not in message:
            return self._notify(request, message)
        with self.lock:
            begun = self._begin(request, message, method, deliver)
        if isinstance(begun, MessageExchange):
            body = jsontext.write({**message, "id": begun.number})
            # Some servers answer the POST only after the call, and the stream must be heard meanwhile.
            threading.Thread(
                target=self._post, args=(request._replace(body=body), begun), name="toolwire-sse-post", daemon=True
            ).start()
        return begun

    def cancel(self, exchange: MessageExchange) -> None:
        """Stop waiting for the answer of ``exchange``, and tell the server."""
        with self.lock:
            stream = self._find_stream()
            is_told = exchange.table.remove(exchange) and stream is not None and stream.exchanges is exchange.table
        if is_told:
            self.send_later(build_cancellation(exchange))

    def stop(self) -> None:
        """End the stream and all requests; the next one opens it again."""
        with self.lock:
            stream, self._stream = self._stream, None
        if stream is not None:
            stream.end(local_close(self.name))
        self._writing.close()

    def close(self) -> None:
        """End the stream and all requests."""
        with self.lock:
            self._closed = True
        self.stop()

    def send(self, message: Json) -> None:
        """Post ``message``, to which no answer is awaited."""
        self._post(Request("POST", self.url, JSON_HEADERS, jsontext.write(message)), None)

    def send_later(self, message: Json) -> None:
        """Post ``message`` without waiting."""
        threading.Thread(target=self.send, args=(message,), name="toolwire-sse-post", daemon=True).start()

    def _begin(
        self, request: Request, message: dict[str, Json], method: str, deliver: Deliver
    ) -> MessageExchange | Response | Problem:
        if self._closed:
            return local_close(self.name)
        session, stream = get_header(request.headers, SESSION_HEADER), self._find_stream()
        if session and (session != str(self._generation) or stream is None):
            return NO_SESSION
        if stream is None:
            started = self._start()
            if not isinstance(started, _EventStream):
                return started
            stream = started
        if len(stream.exchanges.pending) >= MAX_PENDING:
            text = f"{self.name} is already processing {MAX_PENDING} requests of this connection. Wait for one of them."
            return Problem(kind=Kind.OVERLOADED, message=text, can_retry=True, retry_after_ms=1_000)
        exchange = stream.exchanges.begin(message, method, deliver)
        if isinstance(exchange, MessageExchange):
            exchange.is_taken = False
        return exchange

    def _listen(self, request: Request, deliver: Deliver) -> MessageExchange | Response:
        with self.lock:
            stream = self._find_stream()
            is_current = get_header(request.headers, SESSION_HEADER) == str(self._generation)
            return NO_SESSION if stream is None or not is_current else stream.exchanges.listen(deliver)

    def _find_stream(self) -> _EventStream | None:
        stream = self._stream
        return stream if stream is not None and not stream.has_ended else None

    def _start(self, within_s: float = OPENING_S) -> _EventStream | Response | Problem:
        stream = _EventStream(self, self._open_network(STREAM_LIMITS), self._generation + 1)
        request = Request("GET", self.url, _HEADERS, signed=self._omits_credentials)
        threading.Thread(target=stream.read, args=(request,), name="toolwire-sse-read", daemon=True).start()
        outcome = stream.wait(within_s)
        if outcome is not None:
            return outcome
        self._generation += 1
        self._stream = stream
        return stream

    def _notify(self, request: Request, message: dict[str, Json]) -> Response | Problem:
        """Post a notification, or an answer to a request of the server, before anything that comes later."""
        with self.lock:
            stream = self._find_stream()
            cancelled = None if stream is None else stream.exchanges.find_cancelled(message)
        for exchange in cancelled or ():
            self.cancel(exchange)
        if stream is not None and cancelled is None:
            self._post(request, None)
        return ACCEPTED

    def _post(self, request: Request, exchange: MessageExchange | None) -> None:
        """Post ``request``, and end its exchange if it is refused: an answer comes on the stream alone."""
        stream = self._find_stream()
        reply: Response | Problem = NO_SESSION
        if stream is not None and (exchange is None or stream.exchanges is exchange.table):
            headers = [field for field in request.headers if field[0] != SESSION_HEADER]
            total_s = DEFAULT_LIMITS.total_s if exchange is None else DEFAULT_LIMITS.stream_s
            reply = self._writing.send(request._replace(url=stream.endpoint, headers=headers), total_s=total_s)
            if isinstance(reply, Response) and reply.status in _GONE:
                stream.end(reply)
                reply = NO_SESSION  # the server knows this session no longer, and did not take the call
        if exchange is None:
            return
        if stream is not None and isinstance(reply, Response) and reply.status < 300:
            if not self._mark_taken(exchange, stream):
                return
            reply = stream.problem
        with self.lock:
            is_awaited = exchange.table.remove(exchange)
        if is_awaited:
            exchange.deliver(ExchangeEnd(reply) if isinstance(reply, Problem) else ExchangeEnd(response=reply))

    def _mark_taken(self, exchange: MessageExchange, stream: _EventStream) -> bool:
        """Return whether ``exchange``, which the server has taken now, can get no answer: its stream has ended."""
        with self.lock:
            exchange.is_taken = True
            return stream.has_ended


class _EventStream:
    """One stream: its endpoint, and the requests whose answers it brings."""

    def __init__(self, server: EventStreamServer, network: SyncNetwork, session: int) -> None:
        self.endpoint = ""
        self.exchanges = ExchangeTable(server.name, session, "events")
        self.has_ended = False
        self._server, self._network = server, network
        self._events = sse.Decoder(MAX_EVENT)
        self._is_open = threading.Event()
        self._outcome: Response | Problem | None = None
        text = f"{server.name} closed its stream before it answered."
        self.problem = unreachable(text, "closed", sent=True)

    def wait(self, within_s: float) -> Response | Problem | None:
        """Wait for the endpoint; return None when it is there, else how the stream ended without one."""
        if not self._is_open.wait(within_s):
            text = f"{self._server.name} opened a stream, but did not name an endpoint in time."
            self.end(unreachable(text, "no_endpoint", sent=True))
        return self._outcome

    def read(self, request: Request) -> None:
        """Read the stream, which ``request`` opens, to its end."""
        self.end(self._network.listen(request, self._read_piece))

    def end(self, outcome: Response | Problem) -> None:
        """End the stream, and every request that waits for its answer; ``outcome`` says why."""
        is_refusal = isinstance(outcome, Problem) or outcome.status >= 300
        if isinstance(outcome, Problem):
            self.problem = outcome
        if not self._is_open.is_set():
            text = f"{self._server.name} did not answer with an event stream."
            self._outcome = outcome if is_refusal else bad_response(text, "not_http")
            self.has_ended = True
            self._network.close()
            self._is_open.set()
            return
        with self._server.lock:
            self.has_ended = True
            # What is still being posted is ended by the answer to its POST, which may say that it was not taken.
            pending = self.exchanges.clear()
        self._network.close()
        for exchange in pending:
            exchange.deliver(ExchangeEnd(self.problem))

    def _read_piece(self, piece: bytes) -> Problem | None:
        if self.has_ended:
            return local_close(self._server.name)
        try:
            for event in self._events.feed(piece):
                problem = self._read_event(event)
                if problem is not None:
                    return problem
        except ValueError:
            text = f"{self._server.name} sent an event larger than {MAX_EVENT:,} bytes."
            return bad_response(text, "too_large")
        return None

    def _read_event(self, event: sse.Event) -> Problem | None:
        if not self._is_open.is_set():
            return self._read_endpoint(event) if event.name == "endpoint" else None
        if event.name != "message":
            return None
        data = jsontext.read(event.data.encode("utf-8", "replace"))
        try:
            with self._server.lock:
                replies = self.exchanges.receive(data, len(event.data))
        except ValueError as error:
            text = f"The stream of {self._server.name} was closed: it sent {error}."
            return bad_response(text, "too_large")
        for reply in replies:
            self._server.send(reply)  # one at a time: the stream is read on when it has left
        return None

    def _read_endpoint(self, event: sse.Event) -> Problem | None:
        server, named = self._server, event.data.strip()
        endpoint = urljoin(server.url, named) if _is_plain(named) else ""
        if not endpoint or not has_same_origin(endpoint, server.url):
            # Messages may hold arguments and credentials, which the user gave for this origin.
            return bad_response(
                f"{server.name} names an endpoint on another origin, so nothing was sent to it.", "endpoint"
            )
        self.endpoint = endpoint
        self._is_open.set()
        return None


def _refuse_discovery(id_: Json) -> Response:
    error: Json = {"code": METHOD_NOT_FOUND, "message": "The HTTP+SSE transport does not support this method."}
    return Response(400, JSON_HEADERS, jsontext.write({"jsonrpc": "2.0", "id": id_, "error": error}))


def _is_plain(text: str) -> bool:
    return 0 < len(text) <= MAX_ENDPOINT and text.isascii() and text.isprintable() and not set(text) & set(' \\"<>')
