"""Keep the sessions of MCP hosts of up to 2025-11-25, in which the server can ask, tell of changes and be told to stop.

Rules:
- The server makes the id of a session: 256 random bits, of which only the digest is kept. It is valid for its principal
  alone; to any other, and after its end, the session is unknown (404).
- Their number is bounded, in all and for one caller (or address, if it has no name). A new one of the caller ends the
  one that it has not used for longest. A session ends after a time without use, after a day, by DELETE, and with the
  server; see ``ServerLimits``.
- A call whose client has gone waits to be taken up again by ``Last-Event-ID``; then it is cancelled.
- What was sent is kept for a minute, and at most 64 MiB of it in all; what a client does not read holds back its tool.
- Ids of requests and events mean nothing outside of their session.
"""
# MC-10

from __future__ import annotations

import asyncio
import re
import secrets
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Final, TypeAlias

from toolwire.core.catalog import Catalog
from toolwire.core.codec import SessionOffer, Subscription
from toolwire.core.http import Headers, Response
from toolwire.core.model import Json, Kind, Problem
from toolwire.core.offered import Offered
from toolwire.framing import jsontext, sse
from toolwire.framing.jsonrpc import INVALID_REQUEST
from toolwire.framing.jsontext import get_object
from toolwire.protocols.mcp import change_notices
from toolwire.protocols.mcp.revision import SESSION_HEADER
from toolwire.server.http.exchange import Exchange, Scope
from toolwire.server.http.messages import send_response
from toolwire.server.limits import ServerLimits

from .change_stream import ChangeStreams, wait_for_disconnect
from .event_stream import EventStream
from .mcp_host import CANCELLED, InnerExchange, McpHost, Write, build_error, write_updates

KEPT_S: Final = 60.0
MAX_KEPT: Final = 64 * 1024 * 1024
MAX_NOTICES: Final = 120
"""Room for one notice of each resource that a session may watch, and for those of lists."""

_EVENTS: Final[Headers] = ((b"content-type", b"text/event-stream"), (b"cache-control", b"no-store"))
_EVENT_ID: Final = re.compile(rb"([0-9]{1,9})-([0-9]{1,9})")
_LISTENING: Final = 0
"""The number of the stream on which a client listens; calls have numbers from 1."""

Serve: TypeAlias = Callable[[Scope, Exchange], Awaitable[None]]

_UNKNOWN = Problem(
    kind=Kind.NOT_FOUND,
    message="There is no such session here: it has ended, or another process has it. Begin again with initialize.",
)
_FULL = Problem(
    kind=Kind.OVERLOADED,
    message="Too many sessions are open here: end one, or begin again later.",
    can_retry=True,
    retry_after_ms=60_000,
)


class _Session:
    """One session: whose it is, what its host declared, and what of it runs."""

    def __init__(
        self, key: bytes, owner: Hashable, share: Hashable, offer: SessionOffer, seen: Catalog, limits: ServerLimits
    ) -> None:
        loop = asyncio.get_running_loop()
        self.key = key
        self.owner = owner
        self.share = share
        self.began = self.used = loop.time()
        self.host = McpHost(offer.capabilities, wait_s=limits.answer_s)
        self.running: dict[bytes, asyncio.Task[None]] = {}
        self.streams: dict[int, EventStream] = {}
        self.next_number = _LISTENING + 1
        self.listening: asyncio.Event | None = None
        # What the host was told of: the tools as it knows them, and the last notices with their numbers.
        self.seen = seen
        self.notices: deque[tuple[int, bytes]] = deque(maxlen=MAX_NOTICES)
        self.noticed = 0

    @property
    def is_busy(self) -> bool:
        return bool(self.running) or self.listening is not None

    def is_over(self, now: float, limits: ServerLimits) -> bool:
        is_idle = not self.is_busy and now - self.used > limits.session_idle_s
        return is_idle or now - self.began > limits.session_s

    def end(self) -> None:
        """Cancel what runs, and end the stream on which the client listens."""
        self.host.cancel_questions()
        for task in list(self.running.values()):
            task.cancel()
        if self.listening is not None:
            self.listening.set()

    def add_notice(self, before: Catalog, now: Catalog) -> bytes:
        """Return the events that tell of the changes between two catalogs, and keep them."""
        self.seen = now
        changed = change_notices.find_changed(before, now)
        events = b""
        for name, method in change_notices.NOTICES.items():
            if name in changed:
                events += self._keep_notice(jsontext.write({"jsonrpc": "2.0", "method": method}))
        return events

    def add_updates(self, now: Catalog) -> bytes:
        """Return the events that tell of changed resources to which the host has subscribed, and keep them."""
        return b"".join(self._keep_notice(one) for one in write_updates(self.host.subscriptions, now.offered))

    def _keep_notice(self, message: bytes) -> bytes:
        self.noticed += 1
        event = b"id: %d-%d\ndata: %b\n\n" % (_LISTENING, self.noticed, message)
        self.notices.append((self.noticed, event))
        return event


class McpSessions:
    """The sessions of one application.

    ``serve`` answers a request without a session, and ``changes`` are the streams of the application.
    """

    def __init__(
        self, serve: Serve, changes: ChangeStreams, find_catalog: Callable[[], Catalog], limits: ServerLimits
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._serve = serve
        self._limits = limits
        self._changes = changes
        self._find_catalog = find_catalog
        self._sessions: OrderedDict[bytes, _Session] = OrderedDict()
        self._shares: Counter[Hashable] = Counter()
        self._ended_streams: OrderedDict[tuple[bytes, int], tuple[float, int]] = OrderedDict()
        self._kept_bytes = 0

    def open(self, offer: SessionOffer, owner: Hashable, share: Hashable, seen: Catalog) -> Response:
        """Return the answer that opens a session for ``owner``, or a refusal if there is no room.

        ``share`` is who counts for the sessions of one caller. ``seen`` is what the caller is offered now.
        """
        now = asyncio.get_running_loop().time()
        for session in [one for one in self._sessions.values() if one.is_over(now, self._limits)]:
            self._end(session)
        if self._shares[share] >= self._limits.sessions_each:
            # The oldest of the same caller, so that a flood harms nobody else.
            own = [one for one in self._sessions.values() if one.share == share]
            self._end(next((one for one in own if not one.is_busy), own[0]))
        if len(self._sessions) >= self._limits.sessions:
            idle = next((one for one in self._sessions.values() if not one.is_busy), None)
            if idle is None:
                return offer.refuse(_FULL)
            self._end(idle)
        id_ = secrets.token_urlsafe(32).encode()
        session = _Session(_digest(id_), owner, share, offer, seen, self._limits)
        self._sessions[session.key] = session
        self._shares[share] += 1
        return offer.lasting._replace(headers=(*offer.lasting.headers, (SESSION_HEADER, id_)))

    def find(self, id_: bytes, owner: Hashable) -> _Session | None:
        """Return the session ``id_`` of ``owner``, or None."""
        session = self._sessions.get(_digest(id_))
        if session is None or session.owner != owner:
            return None
        now = asyncio.get_running_loop().time()
        if session.is_over(now, self._limits):
            self._end(session)
            return None
        session.used = now
        self._sessions.move_to_end(session.key)
        return session

    def drain(self) -> None:
        """End the questions that wait for users, so that running calls end. Any thread may call this."""
        self._loop.call_soon_threadsafe(self._cancel_questions)

    def _cancel_questions(self) -> None:
        for session in self._sessions.values():
            session.host.cancel_questions()

    def end(self) -> None:
        """End all sessions."""
        for session in list(self._sessions.values()):
            self._end(session)

    async def answer(
        self,
        scope: Scope,
        exchange: Exchange,
        session: _Session | None,
        body: bytes,
        *,
        share: Hashable,
        select: Callable[[Catalog], Catalog],
        refuse: Callable[[Problem], Response],
    ) -> None:
        """Answer a request that names a session, by GET, DELETE or POST with ``body``.

        ``select`` returns the part of a catalog that the caller may see.
        """
        fields: Mapping[bytes, bytes] = dict(scope["headers"])
        if session is None:
            await send_response(scope, exchange, refuse(_UNKNOWN))
        elif scope["method"] == "DELETE":
            self._end(session)
            await send_response(scope, exchange, Response(204))
        elif scope["method"] == "POST":
            await self._take_message(scope, exchange, session, body, select)
        elif b"text/event-stream" not in fields.get(b"accept", b"").lower():
            text = "A session is listened to by GET with the header field accept: text/event-stream."
            await send_response(scope, exchange, refuse(Problem(kind=Kind.MALFORMED, message=text)))
        elif b"last-event-id" not in fields:
            await self._listen(scope, exchange, session, b"", share=share, select=select)
        else:
            await self._resume(scope, exchange, session, fields[b"last-event-id"], share, select, refuse)

    async def _take_message(
        self,
        scope: Scope,
        exchange: Exchange,
        session: _Session,
        body: bytes,
        select: Callable[[Catalog], Catalog],
    ) -> None:
        message = jsontext.read(body)
        if not isinstance(message, dict):
            await self._pass_on(scope, exchange, body)
            return
        id_, method = message.get("id"), message.get("method")
        if method is None and ("result" in message or "error" in message):
            session.host.take_answer(message)
            await send_response(scope, exchange, Response(202))
            return
        if method == CANCELLED:
            running = session.running.get(_write_id(get_object(message, "params").get("requestId")))
            if running is not None:
                running.cancel()
            await send_response(scope, exchange, Response(202))
            return
        refusal = _find_refusal(session, message, self._limits.session_calls)
        if refusal is not None:
            await send_response(scope, exchange, refusal)
        elif isinstance(id_, (str, int)) and isinstance(method, str):
            await self._run(scope, exchange, session, message, body, select)
        else:  # another notification, or no message of the protocol
            await self._pass_on(scope, exchange, body)

    async def _pass_on(self, scope: Scope, exchange: Exchange, body: bytes) -> None:
        """Answer what is no request as the application does without a session."""
        inner = InnerExchange(body, _ignore)
        await self._serve(_leave_session(scope), inner)
        await send_response(scope, exchange, inner.response)

    async def _run(
        self,
        scope: Scope,
        exchange: Exchange,
        session: _Session,
        message: Mapping[str, Json],
        body: bytes,
        select: Callable[[Catalog], Catalog],
    ) -> None:
        """Answer a request: at once if nothing is sent before its answer, else as a stream."""
        number, key = session.next_number, _write_id(message["id"])
        session.next_number += 1
        is_primed = dict(scope["headers"]).get(b"mcp-protocol-version") == b"2025-11-25"
        stream = EventStream(number, is_primed=is_primed)
        answers: list[Response] = []

        async def work() -> None:
            try:
                answers.append(await self._call(scope, session, message, body, stream.write, select))
                if not stream.is_empty:
                    stream.end(answers[0].body)
            except (TypeError, ValueError):  # a text of half a surrogate pair, which no JSON can have
                answers.append(build_error(None, INVALID_REQUEST, "This message cannot be written as JSON.", 400))
            finally:
                session.running.pop(key, None)
                stream.end()
                self._keep(session, stream)

        task = session.running[key] = asyncio.ensure_future(work())
        begun = asyncio.ensure_future(stream.wait_for_event())
        leaving = asyncio.ensure_future(wait_for_disconnect(exchange))
        try:
            await asyncio.wait({begun, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not stream.is_empty:
                session.streams[number] = stream
                await self._send_stream(exchange, stream, 0, leaving, b"")
            elif stream.is_over:
                await _finish(task)
                # A call that was cancelled has no answer.
                await send_response(scope, exchange, answers[0] if answers else Response(202))
        finally:
            # The client has gone. It comes back only if it knows an event to come back to.
            if stream.is_empty:
                task.cancel()
            else:
                self._watch(session, stream, task)
            for one in (begun, leaving):
                one.cancel()
            await asyncio.gather(begun, leaving, return_exceptions=True)

    async def _call(
        self,
        scope: Scope,
        session: _Session,
        message: Mapping[str, Json],
        body: bytes,
        write: Write,
        select: Callable[[Catalog], Catalog],
    ) -> Response:
        """Return the answer of the application to one request, after what it asks and tells was written."""
        fields = dict(scope["headers"])
        if b"text/event-stream" not in fields.get(b"accept", b"").lower():
            return await self._post(scope, body, write)  # nothing can be asked or told on the way

        def find_offered() -> Offered:
            return select(self._find_catalog()).offered

        return await session.host.answer(
            message, body, lambda text: self._post(scope, text, write), write, find_offered
        )

    async def _post(self, scope: Scope, body: bytes, write: Write) -> Response:
        decoder, last = sse.Decoder(MAX_KEPT), b""  # an answer of our own has the size that its tool gave it

        async def take_piece(piece: bytes) -> None:
            nonlocal last
            for event in decoder.feed(piece):
                data = event.data.encode()
                message = jsontext.read(data)
                if isinstance(message, dict) and "method" in message:
                    await write(data)
                else:
                    last = data  # the answer: the user may have to be asked before it is sent

        inner = InnerExchange(body, take_piece)
        await self._serve(_leave_session(scope), inner)
        return inner.response._replace(body=last) if last else inner.response

    async def _listen(
        self,
        scope: Scope,
        exchange: Exchange,
        session: _Session,
        missed: bytes,
        *,
        share: Hashable,
        select: Callable[[Catalog], Catalog],
    ) -> None:
        """Send notices of changes until the client leaves; first ``missed``, and what changed while it was away."""
        if session.listening is not None:
            session.listening.set()  # the connection before may be dead
        ended = session.listening = asyncio.Event()
        missed += session.add_notice(session.seen, select(self._find_catalog()))
        opening = missed or b": \n\n"
        subscription = Subscription(
            _EVENTS, lambda _: opening, session.add_notice, b"", _refuse_stream, session.add_updates
        )
        try:
            await self._changes.run(scope, exchange, subscription, owner=share, select=select, ended=ended)
        finally:
            if session.listening is ended:
                session.listening = None
                session.used = asyncio.get_running_loop().time()

    async def _resume(  # noqa: PLR0917 - one caller, which has checked all of it
        self,
        scope: Scope,
        exchange: Exchange,
        session: _Session,
        last_id: bytes,
        share: Hashable,
        select: Callable[[Catalog], Catalog],
        refuse: Callable[[Problem], Response],
    ) -> None:
        """Go on with a stream after the event that the client has last."""
        match = _EVENT_ID.fullmatch(last_id)
        number, after = (int(match[1]), int(match[2])) if match else (-1, -1)
        stream = session.streams.get(number)
        if number == _LISTENING:
            missed = b"".join(event for one, event in session.notices if one > after)
            await self._listen(scope, exchange, session, missed, share=share, select=select)
        elif stream is None or not stream.can_read_after(after):
            text = "The events after this last-event-id are not kept here. Listen without it, or call again."
            await send_response(scope, exchange, refuse(Problem(kind=Kind.MALFORMED, message=text)))
        else:
            leaving = asyncio.ensure_future(wait_for_disconnect(exchange))
            try:
                await self._send_stream(exchange, stream, after, leaving, b": \n\n")
            finally:
                leaving.cancel()
                await asyncio.gather(leaving, return_exceptions=True)

    @staticmethod
    async def _send_stream(
        exchange: Exchange, stream: EventStream, after: int, leaving: asyncio.Task[None], opening: bytes
    ) -> None:
        """Send the events of ``stream`` after one, until it is over or the client has gone."""
        send = exchange.send

        async def send_event(data: bytes) -> None:
            await send({"type": "http.response.body", "body": data, "more_body": True})

        await send({"type": "http.response.start", "status": 200, "headers": list(_EVENTS)})
        if opening:
            await send_event(opening)
        reading = asyncio.ensure_future(stream.read(after, send_event))
        try:
            await asyncio.wait({reading, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if reading.done() and not leaving.done():
                reading.result()
                await send({"type": "http.response.body", "body": b""})
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    def _watch(self, session: _Session, stream: EventStream, task: asyncio.Task[None]) -> None:
        """Cancel the call of ``stream`` if no client comes back for it."""

        def check() -> None:
            if task.done() or self._sessions.get(session.key) is not session:
                return
            if stream.has_reader:
                loop.call_later(self._limits.resume_s, check)
            else:
                task.cancel()

        loop = asyncio.get_running_loop()
        if not task.done():
            loop.call_later(self._limits.resume_s, check)

    def _keep(self, session: _Session, stream: EventStream) -> None:
        """Keep what a stream that is over has sent, for a client that has not got all of it."""
        now = asyncio.get_running_loop().time()
        if not stream.is_empty and self._sessions.get(session.key) is session:
            self._ended_streams[session.key, stream.number] = now, stream.size
            self._kept_bytes += stream.size
        while self._ended_streams:
            (key, number), (ended_at, _) = next(iter(self._ended_streams.items()))
            if now - ended_at <= KEPT_S and self._kept_bytes <= MAX_KEPT:
                break
            self._drop(key, number)

    def _drop(self, key: bytes, number: int) -> None:
        ended = self._ended_streams.pop((key, number), None)
        if ended is None:
            return
        self._kept_bytes -= ended[1]
        session = self._sessions.get(key)
        if session is not None:
            session.streams.pop(number, None)

    def _end(self, session: _Session) -> None:
        for number in list(session.streams):
            self._drop(session.key, number)
        if self._sessions.pop(session.key, None) is None:
            return
        self._shares[session.share] -= 1
        if not self._shares[session.share]:
            del self._shares[session.share]
        session.end()


def _digest(id_: bytes) -> bytes:
    return sha256(id_).digest()


def _write_id(id_: Json) -> bytes:
    """Return the id of a request as JSON text, because 1 and "1" are different ids."""
    return jsontext.write(id_)


def _find_refusal(session: _Session, message: Mapping[str, Json], most_calls: int) -> Response | None:
    """Return why a request has no place in ``session``, or None."""
    id_ = message.get("id")
    if message.get("method") == "initialize":
        return build_error(id_, INVALID_REQUEST, "This session has begun. Begin another one without its id.", 400)
    if id_ is not None and _write_id(id_) in session.running:
        return build_error(id_, INVALID_REQUEST, "A request with this id runs in this session: use another id.", 400)
    if len(session.running) >= most_calls:
        text = f"{most_calls} requests of this session run already; this one did not run."
        return build_error(id_, INVALID_REQUEST, text, 429)
    return None


def _leave_session(scope: Scope) -> Scope:
    """Return ``scope`` without its session: the application answers each request by itself."""
    return {**scope, "headers": [field for field in scope["headers"] if field[0] != SESSION_HEADER]}


async def _ignore(_: bytes) -> None:
    """Drop a piece: the response of such a request is no stream."""


def _refuse_stream(problem: Problem) -> Response:
    """Return the refusal of a stream for which there is no room."""
    return build_error(None, INVALID_REQUEST, problem.message, 503)


async def _finish(task: asyncio.Task[None]) -> None:
    """Wait for ``task``, and raise what it raised, unless it was cancelled."""
    with suppress(asyncio.CancelledError):
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()
