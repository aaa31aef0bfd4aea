"""Keep the sessions of MCP hosts of up to 2025-11-25, in which the server can ask, tell of changes and be told to stop.

Rules:
- The server makes the id of a session: 256 random bits, of which only the digest is kept. It is valid for its principal
  alone; to any other, and after its end, the session is unknown (404).
- With a state that several processes share, each of them answers each session; see ``shared_sessions.py``.
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
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final, NamedTuple

from toolwire.core.catalog import Catalog
from toolwire.core.codec import SessionStart, Subscription
from toolwire.core.http import EVENT_HEADERS, Response
from toolwire.core.model import Json, Kind, Problem
from toolwire.core.server_features import ServerFeatures
from toolwire.framing import jsontext, sse
from toolwire.framing.jsonrpc import INVALID_PARAMS, INVALID_REQUEST
from toolwire.framing.jsontext import get_object
from toolwire.protocols.mcp.resource_subscriptions import (
    MAX_SUBSCRIPTIONS,
    SUBSCRIBE,
    UNSUBSCRIBE,
    ResourceSubscriptions,
)
from toolwire.protocols.mcp.revision import INTERNAL_ERROR, LIST_HEADER, SESSION_HEADER
from toolwire.server.http.exchange import Exchange, Scope
from toolwire.server.http.messages import send_response
from toolwire.server.http.response_stream import KEEP_ALIVE_S, wait_for_disconnect
from toolwire.server.limits import ServerLimits
from toolwire.stores.sessions.session_rows import SessionRows, StoredSession

from .change_stream import ChangeStreams, McpClient
from .event_stream import EventStream
from .host import CANCELLED, SET_LEVEL, InnerExchange, Serve, Write, build_error, post_message
from .session import ELICITATION, LISTENING, McpSession
from .shared_sessions import FRESH_S, MAX_ANSWER, SharedSessions, StreamChannel

STORED_S: Final = 60.0
MAX_STORED_BYTES: Final = 64 * 1024 * 1024
MAX_ID: Final = 1_024
"""The longest id of a request whose end is told to other processes, in bytes."""

_EVENT_ID: Final = re.compile(rb"(?:([0-9a-f]{16})-)?([0-9]{1,9})-([0-9]{1,9})")

_LOST = Problem(
    kind=Kind.OVERLOADED,
    message="Sessions cannot be read now, because their store does not answer. Send the request again.",
    can_retry=True,
    retry_after_ms=1_000,
)
_UNKNOWN = Problem(
    kind=Kind.NOT_FOUND,
    message="Unknown session: it has ended, or another process holds it. Start again with initialize.",
)
_NOT_STORED = Problem(
    kind=Kind.MALFORMED,
    message="Events after this last-event-id are not stored. Reconnect without it, or call again.",
)
_FULL = Problem(
    kind=Kind.OVERLOADED,
    message="Too many sessions are open. End one, or try again later.",
    can_retry=True,
    retry_after_ms=60_000,
)


class SessionRequest(NamedTuple):
    """A request of ``client`` within ``session``. ``refuse`` returns the response to it for a Problem."""

    scope: Scope
    exchange: Exchange
    session: McpSession
    client: McpClient
    refuse: Callable[[Problem], Response]

    async def respond(self, response: Response) -> None:
        """Send ``response``."""
        await send_response(self.scope, self.exchange, response)

    async def send_events(self, data: bytes) -> None:
        """Send a piece of a stream of events."""
        await self.exchange.send({"type": "http.response.body", "body": data, "more_body": True})


class McpSessionManager:
    """The sessions of one application.

    ``serve`` answers a request without a session, and ``changes`` are the streams of the application. With ``rows``,
    the sessions are those of all processes that have the same rows.
    """

    def __init__(
        self,
        serve: Serve,
        changes: ChangeStreams,
        find_catalog: Callable[[], Catalog],
        limits: ServerLimits,
        rows: SessionRows | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._serve = serve
        self._limits = limits
        self._changes = changes
        self._find_catalog = find_catalog
        self._sessions: OrderedDict[bytes, McpSession] = OrderedDict()
        self._counts: Counter[Hashable] = Counter()
        self._ended_streams: OrderedDict[tuple[bytes, int], tuple[float, int]] = OrderedDict()
        self._stored_bytes = 0
        self._shared: SharedSessions | None = None
        if rows is not None:
            self._shared = SharedSessions(
                rows, self._sessions, find_catalog, self._end, changes, idle_s=limits.session_idle_s
            )

    async def begin(self) -> None:
        """Begin to tell other processes of what changes here, if there are any."""
        if self._shared is not None:
            await self._shared.begin()

    async def prepare_stream(self) -> None:
        """Hear from now on of what changes in other processes, if there are any."""
        if self._shared is not None:
            await self._shared.prepare_stream()

    async def open_session(self, start: SessionStart, client: McpClient) -> Response:
        """Return the answer that opens a session for ``client``, or a refusal if there is no room."""
        seen = client.view(self._find_catalog())
        id_ = secrets.token_urlsafe(32).encode()
        if self._shared is None:
            is_open = self._open_here(_digest(id_), start, client, seen)
        else:
            names = _write_owner(client.owner), _write_owner(client.quota_key)
            try:
                is_open = await self._shared.open(_digest(id_), *names, start.capabilities, seen)
            except ConnectionError:
                return start.refuse(_LOST) if start.has_forms else start.stateless
        if not is_open:
            return start.refuse(_FULL) if start.has_forms else start.stateless
        return start.lasting._replace(headers=(*start.lasting.headers, (SESSION_HEADER, id_)))

    def _open_here(self, key: bytes, start: SessionStart, client: McpClient, seen: Catalog) -> bool:
        """Add a session that this process alone has, and return whether there was room."""
        now = asyncio.get_running_loop().time()
        for session in [one for one in self._sessions.values() if one.is_over(now, self._limits)]:
            self._end(session)
        if self._counts[client.quota_key] >= self._limits.sessions_each:
            # The oldest of the same caller, so that a flood harms nobody else.
            own = _choose_leaving((one for one in self._sessions.values() if one.quota_key == client.quota_key), start)
            if own is None:
                return False
            self._end(own)
        if len(self._sessions) >= self._limits.sessions:
            idle = _choose_leaving((one for one in self._sessions.values() if not one.is_busy), start)
            if idle is None:
                return False
            self._end(idle)
        self._add(McpSession(key, client.owner, client.quota_key, start.capabilities, self._limits, seen=seen))
        return True

    def _add(self, session: McpSession) -> None:
        self._sessions[session.key] = session
        self._counts[session.quota_key] += 1

    async def find(self, id_: bytes, owner: Hashable) -> McpSession | Problem:
        """Return the session ``id_`` of ``owner``, or why there is none."""
        if self._shared is None:
            return self._find_here(id_, owner) or _UNKNOWN
        try:
            return await self._find_shared(_digest(id_), _write_owner(owner), self._shared) or _UNKNOWN
        except ConnectionError:
            return _LOST

    async def _find_shared(self, key: bytes, owner: str, shared: SharedSessions) -> McpSession | None:
        """Return the session of ``owner`` that any process has opened, or None."""
        session, now = self._sessions.get(key), self._loop.time()
        if session is None or now > session.found_at + FRESH_S:
            row = await shared.find(key)
            session = self._sessions.get(key)  # another request may have found it meanwhile
            if row is None or row.owner != owner:
                if row is None and session is not None:
                    self._end(session)
                return None
            if session is None:
                session = self._add_stored(key, row, shared)
            session.host.log_level = row.log_level
            session.found_at = now
        if session.owner != owner:
            return None
        session.used = self._loop.time()
        self._sessions.move_to_end(key)
        return session

    def _add_stored(self, key: bytes, row: StoredSession, shared: SharedSessions) -> McpSession:
        """Take up a session that is in the state; if this process knows too many, it forgets one that is idle."""
        if len(self._sessions) >= self._limits.sessions:
            idle = (one for one in self._sessions.values() if not one.is_busy and not one.streams)
            if (oldest := next(idle, None)) is not None:
                self._end(oldest)
        capabilities = jsontext.read(row.capabilities.encode())
        session = McpSession(
            key,
            row.owner,
            row.quota_key,
            capabilities if isinstance(capabilities, dict) else {},
            self._limits,
            node=shared.node,
        )
        session.position = row.notified.position
        self._add(session)
        return session

    def _find_here(self, id_: bytes, owner: Hashable) -> McpSession | None:
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

    async def end(self) -> None:
        """End what runs here; sessions that other processes share go on without this one."""
        for session in list(self._sessions.values()):
            self._end(session)
        if self._shared is not None:
            await self._shared.close()

    async def answer(self, request: SessionRequest, body: bytes) -> None:
        """Answer a request by GET, DELETE or POST with ``body``."""
        scope, session = request.scope, request.session
        fields: Mapping[bytes, bytes] = dict(scope["headers"])
        if scope["method"] == "DELETE":
            try:
                if self._shared is not None:
                    await self._shared.end(session.key)
            except ConnectionError:
                await request.respond(request.refuse(_LOST))
                return
            self._end(session)
            await request.respond(Response(204))
        elif scope["method"] == "POST":
            await self._take_message(request, body)
        elif b"text/event-stream" not in fields.get(b"accept", b"").lower():
            text = "To receive a session's events, send GET with the header accept: text/event-stream."
            await request.respond(request.refuse(Problem(kind=Kind.MALFORMED, message=text)))
        elif b"last-event-id" not in fields:
            await self._listen(request, b"")
        else:
            await self._resume(request, fields[b"last-event-id"])

    async def _take_message(self, request: SessionRequest, body: bytes) -> None:
        session = request.session
        message = jsontext.read(body)
        if not isinstance(message, dict):
            await self._pass_on(request, body)
            return
        id_, method = message.get("id"), message.get("method")
        if method is None and ("result" in message or "error" in message):
            is_taken = session.host.take_answer(message)
            response = Response(202) if is_taken else await self._pass_answer_on(session, message, body)
            await request.respond(response)
            return
        if method == CANCELLED:
            id_text = _write_id(get_object(message, "params").get("requestId"))
            is_cancelled = session.cancel_call(id_text)
            response = Response(202) if is_cancelled else await self._pass_cancel_on(session, id_text)
            await request.respond(response)
            return
        is_full = len(session.running) >= self._limits.session_calls or _write_id(id_) in session.running
        if is_full and not session.asks and method != "initialize":  # I-26: as it would be answered without a session
            await self._pass_on(request, body)
            return
        refusal = _find_refusal(session, message, self._limits.session_calls)
        if refusal is not None:
            await request.respond(refusal)
        elif isinstance(id_, (str, int)) and isinstance(method, str):
            await self._run(request, message, body)
        else:  # another notification, or no message of the protocol
            await self._pass_on(request, body)

    async def _pass_answer_on(self, session: McpSession, message: Mapping[str, Json], body: bytes) -> Response:
        """Give an answer that no question of this process waits for to the process that may wait for it."""
        if self._shared is None:
            return Response(202)
        if len(body) > MAX_ANSWER:
            text = f"An answer can have at most {MAX_ANSWER:,} bytes."
            return build_error(None, INVALID_REQUEST, text, 413)
        try:
            has_room = await self._shared.pass_answer_on(session, message, body)
        except ConnectionError:
            has_room = False
        return Response(202) if has_room else _refuse_message(_LOST)

    async def _pass_cancel_on(self, session: McpSession, id_: bytes) -> Response:
        """Tell all processes that a request of ``session`` is cancelled."""
        if self._shared is None or len(id_) > MAX_ID:
            return Response(202)
        try:
            has_room = await self._shared.send(session.key, "", "cancel", "", id_)
        except ConnectionError:
            has_room = False
        return Response(202) if has_room else _refuse_message(_LOST)

    async def _pass_on(self, request: SessionRequest, body: bytes) -> None:
        """Answer what is no request as the application does without a session."""
        inner = InnerExchange(body, _ignore)
        await self._serve(_leave_session(request.scope, request.session), inner)
        await request.respond(inner.response)

    async def _run(self, request: SessionRequest, message: Mapping[str, Json], body: bytes) -> None:
        """Answer a request: at once if nothing is sent before its answer, else as a stream."""
        session = request.session
        number, key = session.next_number, _write_id(message["id"])
        session.next_number += 1
        is_primed = dict(request.scope["headers"]).get(b"mcp-protocol-version") == b"2025-11-25"
        stream = EventStream(number, is_primed=is_primed, prefix=session.prefix)
        answers: list[Response] = []

        async def work() -> None:
            try:
                answers.append(await self._call(request, message, body, stream.write))
                if stream.is_open:
                    stream.end(answers[0].body)
            except (TypeError, ValueError):  # a text of half a surrogate pair, which no JSON can have
                answers.append(build_error(None, INVALID_REQUEST, "Cannot write this message as JSON.", 400))
            finally:
                session.running.pop(key, None)
                stream.end()
                self._store(session, stream)

        task = session.running[key] = asyncio.ensure_future(work())
        if self._shared is not None:
            self._shared.wake()
        begun = asyncio.ensure_future(stream.wait_for_event())
        leaving = asyncio.ensure_future(wait_for_disconnect(request.exchange))
        try:
            silent_s = KEEP_ALIVE_S if _takes_events(request) else None
            done, _ = await asyncio.wait({begun, leaving}, timeout=silent_s, return_when=asyncio.FIRST_COMPLETED)
            if not done:  # a proxy ends a connection on which nothing is sent, often after a minute
                stream.open()
            if stream.is_open:
                session.streams[number] = stream
                await self._send_stream(request, stream, 0, leaving, b"" if done else sse.COMMENT)
            elif stream.is_over:
                await _finish(task)
                # A call that was cancelled has no answer.
                await request.respond(answers[0] if answers else Response(202))
        finally:
            # The client has gone. It comes back only if it knows an event to come back to.
            if stream.is_empty:
                task.cancel()
            else:
                self._watch(session, stream, task)
            for one in (begun, leaving):
                one.cancel()
            await asyncio.gather(begun, leaving, return_exceptions=True)

    async def _call(self, request: SessionRequest, message: Mapping[str, Json], body: bytes, write: Write) -> Response:
        """Return the answer of the application to one request, after what it asks and tells was written."""
        session = request.session
        own = _leave_session(request.scope, session)

        def post(text: bytes) -> Awaitable[Response]:
            return post_message(self._serve, own, text, write, MAX_STORED_BYTES)

        if not _takes_events(request):
            return await session.host.refuse_with_pages(message, body, post)  # nothing can be asked on the way

        def find_features() -> ServerFeatures:
            return request.client.view(self._find_catalog()).features

        if self._shared is None or message.get("method") not in (SET_LEVEL, SUBSCRIBE, UNSUBSCRIBE):
            return await session.host.answer(message, body, post, write, find_features)
        # What the client watches is in the state; only this one request is judged here.
        session.host.subscriptions = ResourceSubscriptions()
        response = await session.host.answer(message, body, post, write, find_features)
        if b'"result"' not in response.body:
            return response
        try:
            is_stored = await self._shared.store_change(session, message)
        except ConnectionError:
            return _refuse_message(_LOST, message.get("id"))
        if is_stored:
            return response
        text = f"At most {MAX_SUBSCRIPTIONS} resources can be watched at a time. Unsubscribe from one first."
        return build_error(message.get("id"), INVALID_PARAMS, text)

    async def _listen(self, request: SessionRequest, missed: bytes, *, resumes_here: bool = False) -> None:
        """Send notices of changes until the client leaves; first ``missed``, and what changed while it was away.

        ``resumes_here`` means that the client has listened to this process before, and to no other one since.
        """
        session, client = request.session, request.client
        if self._shared is not None:
            try:
                missed += await self._shared.begin_listening(
                    session, client.view(self._find_catalog()), resumes_here=resumes_here
                )
            except ConnectionError:
                await request.respond(request.refuse(_LOST))
                return
            if self._sessions.get(session.key) is not session:  # it was ended meanwhile
                await request.respond(request.refuse(_UNKNOWN))
                return
            self._shared.wake()
        if session.listening is not None:
            session.listening.set()  # the connection before may be dead
        ended = session.listening = asyncio.Event()
        now = client.view(self._find_catalog())
        missed += session.add_notice(now if session.seen is None else session.seen, now)
        opening = missed or sse.COMMENT
        add_updates = session.add_updates if self._shared is None else session.take_updates
        subscription = Subscription(
            EVENT_HEADERS, lambda _: opening, session.add_notice, b"", _refuse_stream, add_updates
        )
        try:
            await self._changes.run(request.scope, request.exchange, subscription, client, ended=ended)
        finally:
            if session.listening is ended:
                session.listening = None
                session.used = asyncio.get_running_loop().time()

    async def _resume(self, request: SessionRequest, last_id: bytes) -> None:
        """Go on with a stream after the event that the client has last."""
        session = request.session
        match = _EVENT_ID.fullmatch(last_id)
        number, after = (int(match[2]), int(match[3])) if match else (-1, -1)
        node = (match[1] or b"").decode() if match else ""
        is_here = match is None or match[1] is None or session.prefix == match[1] + b"-"
        stream = session.streams.get(number)
        if number == LISTENING:
            missed = b"".join(event for one, event in session.notices if one > after) if is_here else b""
            resumes_here = is_here and session.has_sent(after)
            await self._listen(request, missed, resumes_here=resumes_here)
        elif self._shared is not None and not is_here:
            await self._follow(request, self._shared, node, number, after)
        elif stream is None or not stream.can_read_after(after):
            await request.respond(request.refuse(_NOT_STORED))
        else:
            leaving = asyncio.ensure_future(wait_for_disconnect(request.exchange))
            try:
                await self._send_stream(request, stream, after, leaving, sse.COMMENT)
            finally:
                leaving.cancel()
                await asyncio.gather(leaving, return_exceptions=True)

    @staticmethod
    async def _send_stream(
        request: SessionRequest, stream: EventStream, after: int, leaving: asyncio.Task[None], opening: bytes
    ) -> None:
        """Send the events of ``stream`` after one, until it is over or the client has gone."""
        send = request.exchange.send
        await send({"type": "http.response.start", "status": 200, "headers": list(EVENT_HEADERS)})
        if opening:
            await request.send_events(opening)
        reading = asyncio.ensure_future(stream.read(after, request.send_events))
        try:
            await asyncio.wait({reading, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if reading.done() and not leaving.done():
                reading.result()
                await send({"type": "http.response.body", "body": b""})
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _follow(
        self, request: SessionRequest, shared: SharedSessions, node: str, number: int, after: int
    ) -> None:
        """Go on with a stream that the process ``node`` has."""
        channel = shared.open_channel(request.session, node)
        if channel is None:
            await request.respond(request.refuse(_FULL))
            return
        leaving = asyncio.ensure_future(wait_for_disconnect(request.exchange))
        try:
            if not await channel.open(number, after):
                await request.respond(request.refuse(_NOT_STORED))
                return
            send = request.exchange.send
            await send({"type": "http.response.start", "status": 200, "headers": list(EVENT_HEADERS)})
            await request.send_events(sse.COMMENT)
            while (data := await _take_until_left(channel, leaving)) is not None:
                await request.send_events(data)
            if not leaving.done():
                await send({"type": "http.response.body", "body": b""})
        except ConnectionError:
            await request.respond(request.refuse(_LOST))
        finally:
            leaving.cancel()
            await channel.close()

    def _watch(self, session: McpSession, stream: EventStream, task: asyncio.Task[None]) -> None:
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

    def _store(self, session: McpSession, stream: EventStream) -> None:
        """Keep what a stream that is over has sent, for a client that has not got all of it."""
        now = asyncio.get_running_loop().time()
        if not stream.is_empty and self._sessions.get(session.key) is session:
            self._ended_streams[session.key, stream.number] = now, stream.size
            self._stored_bytes += stream.size
        while self._ended_streams:
            (key, number), (ended_at, _) = next(iter(self._ended_streams.items()))
            if now - ended_at <= STORED_S and self._stored_bytes <= MAX_STORED_BYTES:
                break
            self._drop(key, number)

    def _drop(self, key: bytes, number: int) -> None:
        ended = self._ended_streams.pop((key, number), None)
        if ended is None:
            return
        self._stored_bytes -= ended[1]
        session = self._sessions.get(key)
        if session is not None:
            session.streams.pop(number, None)

    def _end(self, session: McpSession) -> None:
        for number in list(session.streams):
            self._drop(session.key, number)
        if self._sessions.pop(session.key, None) is None:
            return
        self._counts[session.quota_key] -= 1
        if not self._counts[session.quota_key]:
            del self._counts[session.quota_key]
        session.end()


def _write_owner(name: Hashable) -> str:
    """Return whose a session is, as every process writes it."""
    return jsontext.write(list(name) if isinstance(name, tuple) else str(name)).decode()


async def _take_until_left(channel: StreamChannel, leaving: asyncio.Future[None]) -> bytes | None:
    """Return the next bytes of a stream; None if it is over or its client has gone."""
    taking = asyncio.ensure_future(channel.take())
    try:
        waited: set[asyncio.Future[Any]] = {taking, leaving}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        return taking.result() if taking.done() and not leaving.done() else None
    finally:
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)


def _digest(id_: bytes) -> bytes:
    return sha256(id_).digest()


def _write_id(id_: Json) -> bytes:
    """Return the id of a request as JSON text, because 1 and "1" are different ids."""
    return jsontext.write(id_)


def _choose_leaving(sessions: Iterable[McpSession], start: SessionStart) -> McpSession | None:
    """Return which of ``sessions``, from the least recently used, ends for a new one; None if none does.

    Those whose hosts cannot be asked end first. A new one of such a host ends no others.
    """
    # I-26: they can do without, and they are many where hosts begin anew for each call.
    asks = ELICITATION in start.capabilities
    fitting = (one for one in sessions if asks or not one.asks)
    return min(fitting, key=lambda one: (one.is_busy, one.asks), default=None)


def _find_refusal(session: McpSession, message: Mapping[str, Json], most_calls: int) -> Response | None:
    """Return why a request has no place in ``session``, or None."""
    id_ = message.get("id")
    if message.get("method") == "initialize":
        return build_error(
            id_, INVALID_REQUEST, "This session has already started. To start another one, leave out its ID.", 400
        )
    if id_ is not None and _write_id(id_) in session.running:
        return build_error(
            id_, INVALID_REQUEST, "A request with this ID is already running in this session. Use another ID.", 400
        )
    if len(session.running) >= most_calls:
        text = f"This request did not run: {most_calls} requests are already running in this session."
        return build_error(id_, INVALID_REQUEST, text, 429)
    return None


def _takes_events(request: SessionRequest) -> bool:
    return b"text/event-stream" in dict(request.scope["headers"]).get(b"accept", b"").lower()


def _leave_session(scope: Scope, session: McpSession) -> Scope:
    """Return ``scope`` without its session: the application answers each request by itself.

    All that it needs to know of the session is which list of tools the client has.
    """
    left = [field for field in scope["headers"] if field[0] not in (SESSION_HEADER, LIST_HEADER)]
    return {**scope, "headers": [*left, (LIST_HEADER, session.tool_list)]}


async def _ignore(_: bytes) -> None:
    """Drop a piece: the response of such a request is no stream."""


def _refuse_stream(problem: Problem) -> Response:
    """Return the refusal of a stream for which there is no room."""
    return build_error(None, INVALID_REQUEST, problem.message, 503)


def _refuse_message(problem: Problem, id_: Json = None) -> Response:
    """Return the refusal of a message that can be sent again."""
    response = build_error(id_, INTERNAL_ERROR, problem.message, 503)
    return response._replace(headers=(*response.headers, (b"retry-after", b"1")))


async def _finish(task: asyncio.Task[None]) -> None:
    """Wait for ``task``, and raise what it raised, unless it was cancelled."""
    with suppress(asyncio.CancelledError):
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()
