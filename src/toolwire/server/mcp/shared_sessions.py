"""Share MCP sessions with the other processes of the same state, and pass on what arises in another one.

Rules:
- A request of a session may come to any process. What lasts is in the state: owner, capabilities, level of the log,
  watched resources, and what the client was told of. A call, its stream and its questions stay in one process.
- Events and questions carry the name of their process. An answer, the end of a call and a client that comes back for a
  stream are passed on to that process, which looks for messages ten times a second while something runs there.
- A process believes for 0.25 seconds what it has read of a session. So long may one that was ended go on elsewhere, and
  so long does a new level of the log wait for its answer.
- A notice comes at least once: a client that begins to listen elsewhere may get those of the last 40 seconds again.
- What changes in one process is told to the streams of all, also to those without a session (2026-07-28). A process
  looks for it twice a second while such a stream is open here.
- All that waits for the state waits in one thread, so that a state that hangs costs other requests nothing.
"""
# ST-01, MC-10

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final, TypeVar

from toolwire.core.catalog import Catalog
from toolwire.core.model import DEFAULT_LOG_LEVEL, Json, Tool
from toolwire.core.resource_changes import ResourceChanges
from toolwire.core.server_features import add_uri_prefix
from toolwire.framing import jsontext
from toolwire.framing.jsontext import get_object
from toolwire.protocols.mcp.remote_changes import name_list_changes
from toolwire.protocols.mcp.resource_subscriptions import MAX_SUBSCRIPTIONS, SUBSCRIBE
from toolwire.protocols.mcp.revision import LIST_META
from toolwire.stores.sessions.session_rows import (
    EVENT,
    MAX_UPDATES,
    NoticePosition,
    SessionMessage,
    SessionRows,
    StoredSession,
)

from .change_stream import ChangeStreams
from .event_stream import EventStream
from .host import SET_LEVEL
from .session import McpSession

FRESH_S: Final = 0.25
"""How long a process believes what it has read of a session."""
POLL_S: Final = 0.1
MAX_ANSWER: Final = 256 * 1024
"""The longest answer of a client that is passed on, in bytes."""
MAX_CAPABILITIES: Final = 4 * 1024
FORGET_S: Final = 60.0
"""After how long a process forgets a session of which nothing runs here; it finds the session again in the state."""

_POLL_INTERVAL_S: Final = 0.5
_IDLE_S: Final = 5.0
_STORE_USE_S: Final = 20.0
_PAUSE_S: Final = 1.0
_OPEN_S: Final = 3.0
_READER_S: Final = 45.0
"""Without a sign of its reader for this long, the stream to another process ends. An event comes every 15 seconds."""
_WINDOW: Final = 64 * 1024
_MAX_WAITING: Final = 256
_MAX_CHANNELS: Final = 1_000
_MAX_CHANNELS_EACH: Final = 16
_MAX_DIGESTS: Final = 16
_QUESTION_ID: Final = re.compile(r"toolwire-([0-9a-f]{16})-[0-9]{1,9}(?:-ping)?")

_T = TypeVar("_T")
_log = logging.getLogger("toolwire")


class _Relay:
    """A stream of this process that another process sends to a client. ``unread`` are bytes that are on their way."""

    def __init__(self) -> None:
        self.unread = 0
        self.changed = asyncio.Event()
        self.seen_at = asyncio.get_running_loop().time()

    def take_receipt(self, size: int) -> None:
        """Note that the reader has taken ``size`` bytes."""
        self.unread -= size
        self.seen_at = asyncio.get_running_loop().time()
        self.changed.set()

    async def wait_for_room(self) -> None:
        """Return when the reader has come near enough.

        Raises:
            TimeoutError: it gives no sign.
        """
        while self.unread:
            left = self.seen_at + _READER_S - asyncio.get_running_loop().time()
            if left > 0 and self.unread <= _WINDOW:
                return
            self.changed.clear()
            async with asyncio.timeout(left):
                await self.changed.wait()


class StreamChannel:
    """The events of a stream that runs in another process, for a client that has come back to this one."""

    def __init__(self, sessions: SharedSessions, session: bytes, node: str) -> None:
        self.name: str = secrets.token_hex(16)
        self.messages: asyncio.Queue[SessionMessage] = asyncio.Queue()
        self._sessions = sessions
        self.session = session
        self._node = node
        self._is_over = False
        self._taken = 0
        self._notified_at = 0.0

    async def open(self, number: int, after: int) -> bool:
        """Ask for the stream ``number`` after its event ``after``; return whether that is still kept."""
        wanted = f"{self._sessions.node} {number} {after}".encode()
        if not await self._sessions.send(self.session, self._node, "resume", self.name, wanted):
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(_OPEN_S):
                message = await self.messages.get()
            self._is_over = message.kind == "missing"
            return not self._is_over
        return False  # that process has ended

    async def take(self) -> bytes | None:
        """Return the next bytes of the stream, None at its end."""
        try:
            async with asyncio.timeout(_READER_S):
                message = await self.messages.get()
        except TimeoutError:
            return None
        if message.kind != EVENT:
            self._is_over = True
            return None
        self._taken += len(message.body)
        now = asyncio.get_running_loop().time()
        if self._taken >= _WINDOW // 2 or now > self._notified_at + _IDLE_S:
            taken, self._taken, self._notified_at = self._taken, 0, now
            with suppress(ConnectionError):
                await self._sessions.send(self.session, self._node, "taken", self.name, str(taken).encode())
        return message.body

    async def close(self) -> None:
        """Take no more of the stream."""
        self._sessions.channels.pop(self.name, None)
        if not self._is_over:
            with suppress(ConnectionError):
                await self._sessions.send(self.session, self._node, "leave", self.name)


class SharedSessions:
    """The sessions of all processes with the same state.

    ``sessions`` are those that this process knows, which ``end`` ends here, and ``forget`` drops.
    """

    def __init__(
        self,
        rows: SessionRows,
        sessions: Mapping[bytes, McpSession],
        find_catalog: Callable[[], Catalog],
        end: Callable[[McpSession], None],
        streams: ChangeStreams,
        *,
        idle_s: float,
    ) -> None:
        self.node: str = secrets.token_hex(8)
        self.channels: dict[str, StreamChannel] = {}
        self._rows = rows
        self._sessions = sessions
        self._find_catalog = find_catalog
        self._end = end
        self._streams = streams
        self._store_use_s = max(POLL_S, min(_STORE_USE_S, idle_s / 4))
        self._thread = ThreadPoolExecutor(1, "toolwire-sessions")
        self._waiting = 0
        self._task: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._read_until = 0
        self._stored_at = 0.0
        self._is_lost = False
        self._relays: dict[str, tuple[_Relay, asyncio.Task[None]]] = {}
        self._notified: dict[bytes, tuple[asyncio.Event, NoticePosition]] = {}
        self._digests: OrderedDict[int, tuple[Catalog, dict[str, str]]] = OrderedDict()
        self._catalog: Catalog | None = None
        self._compared = find_catalog()
        self._changes: dict[tuple[str, int], tuple[ResourceChanges, int]] = {}
        # The lists that have changed here and were not told yet; and the number of the last update of another process
        # that the streams were told of.
        self._changed_lists: dict[str, None] = {}
        self._last_position = 0
        self._looked_at = 0.0
        self._preparing = 0

    async def begin(self) -> None:
        """Begin to look for messages, before this process has a part in any session."""
        if self._task is None:
            self._compared = self._watch_catalog()
            number, newest = await self.run(lambda: (self._rows.find_last_message(), self._rows.find_position()))
            if self._task is None:
                self._read_until, self._last_position = number, newest
                self._stored_at = asyncio.get_running_loop().time()
                self._task = asyncio.create_task(self._work())

    async def close(self) -> None:
        """Stop; the sessions stay."""
        for _, task in list(self._relays.values()):
            task.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def prepare_stream(self) -> None:
        """Let a stream that is opened next hear what changes from now on in other processes.

        Without the state it hears later of what has changed meanwhile.
        """
        self._preparing += 1
        try:
            await self.begin()
            position = await self.run(self._rows.find_position)
            if not self._streams.has_readers:
                self._last_position = position
        except ConnectionError as error:
            _log.debug("a stream begins without the state: %s", error)
        finally:
            self._preparing -= 1

    def wake(self) -> None:
        """Look for messages from now on, because something of a session runs here."""
        self._woken.set()

    async def run(self, work: Callable[..., _T], *values: Any) -> _T:
        """Return what ``work`` returns in the thread for the state.

        Raises:
            ConnectionError: the state cannot be asked.
        """
        if self._waiting >= _MAX_WAITING:
            raise ConnectionError("too many requests are waiting for it")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work, *values)
        finally:
            self._waiting -= 1

    async def open(
        self, key: bytes, owner: str, quota_key: str, capabilities: Mapping[str, Json], seen: Catalog
    ) -> bool:
        """Add a session whose host is offered ``seen``, and return whether there was room."""
        await self.begin()
        position_sent = NoticePosition(await self.run(self._digest_lists, seen), 0)
        # The server uses no other capability, and what a client declares has no bound.
        used = {name: value for name, value in capabilities.items() if name in ("elicitation", LIST_META)}
        stored_use = jsontext.write(used)
        if len(stored_use) > MAX_CAPABILITIES:
            stored_use = jsontext.write({name: {"form": {}} if name == "elicitation" else used[name] for name in used})
        stored = StoredSession(owner, quota_key, stored_use.decode(), DEFAULT_LOG_LEVEL, {}, position_sent)
        return await self.run(self._rows.open, key, stored)

    async def find(self, key: bytes) -> StoredSession | None:
        """Return a session of any process, or None."""
        await self.begin()
        return await self.run(self._rows.find, key)

    async def end(self, key: bytes) -> bool:
        """End a session in all processes, and return whether it was there."""
        return await self.run(self._rows.end, key)

    async def send(self, session: bytes, node: str, kind: str, name: str = "", body: bytes = b"") -> int:
        """Send a message to the process ``node``, or to all if that is empty; return its number, 0 without room."""
        return await self.run(self._rows.send, session, node, kind, name, body)

    async def pass_answer_on(self, session: McpSession, message: Mapping[str, Json], body: bytes) -> bool:
        """Give an answer of the host to the process that has asked; return False if there is no room for it now."""
        match = _QUESTION_ID.fullmatch(str(message.get("id"))[:64])
        if match is None or match[1] == self.node:  # nobody waits for it any more
            return True
        return bool(await self.send(session.key, match[1], "answer", "", body))

    async def store_change(self, session: McpSession, message: Mapping[str, Json]) -> bool:
        """Keep what a request that this process has accepted changes; return False if it watches too much."""
        params = get_object(message, "params")
        if message.get("method") == SET_LEVEL:
            await self.run(self._rows.set_level, session.key, session.host.log_level)
            # Every process that has read another level has forgotten it when the client gets its answer.
            await asyncio.sleep(FRESH_S)
            return True
        if message.get("method") == SUBSCRIBE:
            most = MAX_SUBSCRIPTIONS
            return await self.run(lambda: self._rows.watch(session.key, str(params.get("uri")), most=most))
        await self.run(self._rows.unwatch, session.key, str(params.get("uri")))
        return True

    async def begin_listening(self, session: McpSession, now: Catalog, *, resumes_here: bool) -> bytes:
        """Return the notices that the client has missed; a process in which it listened before stops to send them.

        ``resumes_here`` means that this process knows what the client was told of.
        """
        session.listens_since = await self.send(session.key, "", "listen", self.node)
        events = b""
        if resumes_here and session.seen is not None:
            events = session.add_notice(session.seen, now)
        else:
            row = await self.run(self._rows.find, session.key)
            if row is not None:
                lists = await self.run(self._digest_lists, now)
                changed = frozenset(name for name, digest in lists.items() if row.notified.lists.get(name) != digest)
                events = session.add_list_notices(changed, now)
                session.position, session.updated = row.notified.position, {}
        await self._take_updates([session])
        return events + session.take_updates(now)

    def open_channel(self, session: McpSession, node: str) -> StreamChannel | None:
        """Return a way to the streams of ``session`` in the process ``node``; None if too many are open."""
        own = sum(one.session == session.key for one in self.channels.values())
        if len(self.channels) >= _MAX_CHANNELS or own >= _MAX_CHANNELS_EACH:
            return None
        channel = StreamChannel(self, session.key, node)
        self.channels[channel.name] = channel
        self.wake()
        return channel

    async def _work(self) -> None:
        while True:
            try:
                await self._wait()
                await self._exchange_changes()
                if self._is_live():
                    await self._take_messages()
                    await self._take_updates([one for one in self._sessions.values() if one.listening is not None])
                now = asyncio.get_running_loop().time()
                if now >= self._stored_at + self._store_use_s:
                    self._stored_at = now
                    await self._store_use(now)
                if self._is_lost:
                    self._is_lost = False
                    _log.info("The MCP sessions can be read again.")
            except ConnectionError as error:
                if not self._is_lost:
                    self._is_lost = True
                    _log.error("MCP sessions cannot be read and are refused: %s.", error)
                await asyncio.sleep(_PAUSE_S)
            except Exception:  # noqa: BLE001 - one message that cannot be read must not end the others
                _log.exception("A message about an MCP session was left out")
                await asyncio.sleep(_PAUSE_S)

    def _is_live(self) -> bool:
        """Return whether another process may have a message for this one."""
        if self.channels or self._relays:
            return True
        # A stream that is over is kept for a while: its client may come back to another process.
        return any(one.is_busy or one.streams for one in self._sessions.values())

    async def _wait(self) -> None:
        if self._is_live():
            await asyncio.sleep(POLL_S)
            return
        self._woken.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(min(_POLL_INTERVAL_S, self._store_use_s)):
                await self._woken.wait()

    async def _take_messages(self) -> None:
        while messages := await self.run(self._rows.read_messages, self._read_until, self.node):
            for message in messages:
                self._read_until = message.number
                try:
                    self._take_message(message)
                except (ValueError, UnicodeError) as error:
                    # Another program wrote it. It costs the sessions of this process neither time nor their messages.
                    _log.warning("A message about an MCP session was dropped (%s).", type(error).__name__)
            own = [message.number for message in messages if message.node]
            if own:
                await self.run(self._rows.delete_messages, self.node, own[-1])

    def _take_message(self, message: SessionMessage) -> None:
        session = self._sessions.get(message.session)
        if message.name in self.channels:
            self.channels[message.name].messages.put_nowait(message)
        elif message.name in self._relays:
            relay, task = self._relays[message.name]
            if message.kind == "taken":
                relay.take_receipt(int(message.body))
            else:
                task.cancel()
        elif message.kind == "resume":
            self._begin_relay(message, session)
        elif session is not None:
            self._notify_session(message, session)

    def _notify_session(self, message: SessionMessage, session: McpSession) -> None:
        match message.kind:
            case "answer":
                data = jsontext.read(message.body)
                session.host.take_answer(data if isinstance(data, dict) else {})
            case "cancel":
                session.cancel_call(message.body)
            case "end":
                self._end(session)
            case "listen" if message.name != self.node and message.number > session.listens_since:
                if session.listening is not None:
                    session.listening.set()
            case _:  # its stream is over, or it is of a newer version
                pass

    def _begin_relay(self, message: SessionMessage, session: McpSession | None) -> None:
        node, number, after = message.body.decode().split()
        stream = None if session is None else session.streams.get(int(number))
        if stream is not None and not stream.can_read_after(int(after)):
            stream = None
        relay = _Relay()
        task = asyncio.create_task(self._relay(relay, stream, int(after), message, node))
        self._relays[message.name] = relay, task
        task.add_done_callback(lambda _: self._relays.pop(message.name, None))

    async def _relay(
        self, relay: _Relay, stream: EventStream | None, after: int, message: SessionMessage, node: str
    ) -> None:
        """Send the events of ``stream`` to the process ``node``, to which its client has come back."""

        async def send(data: bytes) -> None:
            await relay.wait_for_room()
            relay.unread += len(data)
            await self.send(message.session, node, EVENT, message.name, data)

        # Without a reader or the state it ends, and the client may come again.
        with suppress(ConnectionError, TimeoutError):
            if stream is None:
                await self.send(message.session, node, "missing", message.name)
                return
            await self.send(message.session, node, "open", message.name)
            await stream.read(after, send)
            await self.send(message.session, node, "over", message.name)

    async def _take_updates(self, sessions: Sequence[McpSession]) -> None:
        """Find which watched resources have changed, in any process."""
        if not sessions:
            return
        # As they are now: the state is asked twice at a time where a client begins to listen again.
        positions = [one.position for one in sessions]
        updates = await self.run(self._rows.find_updates, min(positions))
        if not updates:
            return
        newest = updates[-1][1]
        for session, position in zip(sessions, positions, strict=True):
            row = await self.run(self._rows.find, session.key)
            watched = {} if row is None else row.watched
            if position < newest - MAX_UPDATES:  # some are known no more
                session.updated.update(dict.fromkeys(watched))
            for uri, number in updates:
                if uri in watched and number > max(position, watched[uri]):
                    session.updated[uri] = None
            session.position = max(session.position, newest)

    def _watch_catalog(self) -> Catalog:
        """Note whose changes must be told to other processes, and return the catalog."""
        catalog = self._find_catalog()
        if catalog is self._catalog:
            return catalog
        found = [(one.prefix, one.changes) for one in catalog.features.resources if one.changes is not None]
        self._changes = {
            (prefix, id(changes)): self._changes.get((prefix, id(changes)), (changes, 0)) for prefix, changes in found
        }
        self._catalog = catalog
        return catalog

    async def _exchange_changes(self) -> None:
        """Tell other processes what has changed in this one, and the streams of this one what in the others."""
        catalog = self._watch_catalog()
        if catalog is not self._compared:
            # Two large catalogs take long to compare.
            names = await self.run(name_list_changes, self._compared, catalog)
            self._changed_lists.update(dict.fromkeys(names))
            self._compared = catalog
        own = dict(self._changed_lists)
        numbers: dict[tuple[str, int], tuple[ResourceChanges, int]] = {}
        for key, (changes, known) in self._changes.items():
            if (last := changes.last) != known:
                own.update(dict.fromkeys(add_uri_prefix(uri, key[0]) for uri in reversed(changes.find_since(known))))
                numbers[key] = changes, last
        is_reading = self._preparing > 0 or self._streams.has_readers
        newest, now = self._last_position, asyncio.get_running_loop().time()
        updates: Sequence[tuple[str, int]] = ()
        if own:
            found = await self.run(self._rows.add_updates, list(own), newest if is_reading else None)
            updates, self._last_position = found.updates, found.newest
            self._changes.update({key: one for key, one in numbers.items() if key in self._changes})
            self._changed_lists = {name: None for name in self._changed_lists if name not in own}
        elif is_reading and now >= self._looked_at + _POLL_INTERVAL_S:
            self._looked_at = now
            updates = await self.run(self._rows.find_updates, newest)
            self._last_position = updates[-1][1] if updates else newest
        if updates:
            self._streams.report_changes([name for name, _ in updates], has_gap=updates[-1][1] > newest + MAX_UPDATES)

    async def _store_use(self, now: float) -> None:
        """Note in the state which sessions are in use here, and end those here that have ended elsewhere."""
        used: dict[bytes, NoticePosition | None] = {}
        known: dict[bytes, tuple[asyncio.Event, NoticePosition]] = {}
        for session in list(self._sessions.values()):
            if session.is_busy or session.used > now - self._store_use_s:
                used[session.key] = None
            if session.listening is not None and session.seen is not None:
                # What was told some time ago on a stream that is still open has arrived.
                before = self._notified.get(session.key)
                if before is not None and before[0] is session.listening:
                    used[session.key] = before[1]
                position_sent = NoticePosition(await self.run(self._digest_lists, session.seen), session.position)
                known[session.key] = session.listening, position_sent
        self._notified = known
        if not self._sessions:
            return
        keys = list(self._sessions)
        existing = await self.run(self._rows.store, used, keys)
        for key in keys:
            found = self._sessions.get(key)
            if found is not None and (key not in existing or self._can_forget(found, now)):
                self._end(found)

    def _can_forget(self, session: McpSession, now: float) -> bool:
        return not session.is_busy and not session.streams and session.used < now - FORGET_S

    def _digest_lists(self, catalog: Catalog) -> dict[str, str]:
        """Return a digest of each list in ``catalog``, which is the same in every process."""
        found = self._digests.get(id(catalog))
        if found is None:
            found = self._digests[id(catalog)] = catalog, _digest_lists(catalog)
            if len(self._digests) > _MAX_DIGESTS:
                self._digests.popitem(last=False)
        return found[1]


def _digest_lists(catalog: Catalog) -> dict[str, str]:
    features = catalog.features
    resources = ((one.public_uri, one.title, one.media_type, one.description) for one in features.resources)
    prompts = ((one.name, one.title, one.description, repr(one.arguments)) for one in features.prompts)
    return {
        "toolsListChanged": _digest(map(_describe_tool, catalog.tools)),
        "promptsListChanged": _digest(prompts),
        "resourcesListChanged": _digest((*resources, *(repr(one.entry) for one in features.skills))),
    }


def _describe_tool(tool: Tool) -> tuple[object, ...]:
    # Tools of a document make their schemas when they are first used, which takes long for all of them.
    schema = repr(tool.input_schema) if type(tool) is Tool else ""
    return tool.id, tool.description, tool.safe, tool.destructive, schema


def _digest(parts: Any) -> str:
    whole = sha256()
    for part in parts:
        whole.update(repr(part).encode("utf-8", "surrogatepass"))
    return whole.hexdigest()[:16]
