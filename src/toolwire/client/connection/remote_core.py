"""Hold a connection to a server: its facts, its calls with consent, and its documents, which change.

The asynchronous and the blocking form are in ``remote``; both run what is written here, once, over their ``Driver``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from time import monotonic
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from toolwire.client.calls.input_requests import CallInput, admit_stream_input
from toolwire.client.calls.long_calls import LongCall, WaitLimits
from toolwire.client.calls.prepared_call import CallState
from toolwire.client.calls.retry import new_id
from toolwire.client.discovery.source import DocumentSource
from toolwire.client.transport.drivers import Approver
from toolwire.client.transport.message_exchange import MessageServer
from toolwire.consent.definition_lock import Difference
from toolwire.core.catalog import Catalog
from toolwire.core.check import Question
from toolwire.core.codec import Flow, Peer, Probe
from toolwire.core.content import embed_resource, read_content
from toolwire.core.http import Request
from toolwire.core.model import (
    ANONYMOUS,
    DEFAULT_LOG_LEVEL,
    LISTENING_EVENT,
    Approval,
    Call,
    Context,
    Json,
    Kind,
    Problem,
    Progress,
    Result,
    Tool,
    Value,
    make_call,
)
from toolwire.core.resources import Resource, ResultLimits
from toolwire.core.server_features import ServerFeatures, SkillDefinition
from toolwire.core.toolbox import OutputPromise, ignore_progress
from toolwire.core.user_input import InputProvider

if TYPE_CHECKING:  # most programs look for nothing
    from toolwire.find import Found

from .connection import Connection
from .driver import Driver, Listening, NotifyT, TransportT
from .feature_reading import (
    build_prompt_call,
    build_resource_call,
    get_skill,
    listen_for_changes,
    load_features,
    read_feature,
    read_skill,
    with_features,
)
from .freshness import FetchPeer, Freshness, explain_change, find_differences, suggests_stale_catalog
from .upstream_questions import UpstreamQuestions, ask_caller

T = TypeVar("T")


class RemoteCore(Generic[TransportT, NotifyT]):
    """A connection in either form: its driver is what differs. Its coroutines make the calls of both."""

    _driver_class: Callable[[], Driver[TransportT, NotifyT]]

    def __init__(
        self,
        connection: Connection,
        transport: TransportT,
        approve: Approver | None,
        context: Context = ANONYMOUS,
        *,
        fetch_peer: FetchPeer | None = None,
        provide_input: InputProvider | None = None,
        server: MessageServer | None = None,
    ) -> None:
        self._driver = driver = self._driver_class()
        self._transport = transport
        self._fetch_peer = fetch_peer
        self._server = server
        self._refetch_lock = driver.create_lock()
        self._listening: Listening | None = None
        self._freshness = Freshness(connection)
        self._approve = approve
        self._context = context
        self._provide_input = provide_input
        # The calls that run for a user who can be asked.
        self._running: list[CallInput] = []
        # MC-09: a server in front of others has callers, and no user of its own.
        self._held = UpstreamQuestions() if provide_input is ask_caller else None
        self._has_loaded = bool(connection.peer.catalog.features.readers)
        self.closed: bool = False

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # FU-56: what clients of other MCP frameworks call so.
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(f"{text}: {_OTHER_WORDS[name]}" if name in _OTHER_WORDS else text)

    def close(self) -> None:
        """Refuse further calls and leave the session."""
        if not self.closed:
            self.closed = True
            self._connection.pipeline.session.release(self._connection.pipeline.name)

    def must_listen(self) -> bool:
        """Return whether this connection must listen: the server can ask the user outside of a call's stream."""
        return self._provide_input is not None and self._connection.pipeline.asks_while_listening()

    def end_session(self) -> Request | None:
        """Return the request that ends the MCP session at the server, or None without a session."""
        return self._connection.pipeline.end_session()

    @property
    def _connection(self) -> Connection:
        return self._freshness.connection

    def _get_connection(self) -> Connection:
        return self._freshness.connection

    @property
    def peer(self) -> Peer:
        """The server as discovery found it: its protocol, its tools, and what its document says about signing in."""
        return self._connection.peer

    @property
    def url(self) -> str:
        """The URL where the server was found."""
        return self._connection.peer.url

    def definitions(self) -> list[dict[str, Json]]:
        """Return the definition of each tool as plain data, in the form of ``toolwire.lock``."""
        return self._connection.pipeline.definitions()

    def tags(self) -> Mapping[str, int]:
        """Return how many tools the server offers under each tag, including tools that are not selected."""
        return self._connection.peer.tags

    @property
    def result_limits(self) -> ResultLimits:
        """How much of a result is read, and how much of it a model gets at once."""
        return self._connection.peer.result_limits

    def findings(self) -> tuple[str, ...]:
        """Return a sentence for each part of the server's description that was left out or changed.

        Schemas are read when they are needed, so more findings can follow.
        """
        # XL-088: a user can see what a document means to toolwire.
        return self._connection.findings()

    def resource(self, handle: str) -> Resource | None:
        """Return the bytes behind a handle from a result or from ``store``, or None if they are gone.

        The oldest are dropped first.
        """
        preference_store = self._connection.peer.resources
        return None if preference_store is None else preference_store.find(handle)

    def read_content(self, value: Json) -> Any:
        """Return ``toolwire.read_content(value)``, where this connection's file handles also become content objects."""
        # MC-07: the bytes that an API sends reach a model as a handle, and the program as what they are.
        return read_content(embed_resource(value, self.resource))

    def store(self, data: bytes, *, media_type: str = "application/octet-stream", name: str = "") -> str:
        """Store ``data`` and return a handle to pass to a tool that takes a file, or ``""`` if it is too large."""
        preference_store = self._connection.peer.resources
        return (
            ""
            if preference_store is None
            else preference_store.store(Resource(data=data, media_type=media_type, name=name))
        )

    @property
    def name(self) -> str:
        """The name of this connection in its session."""
        return self._connection.pipeline.name

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The server's tools, sorted by toolkit, name and version."""
        return self._connection.peer.catalog.tools

    def handles_consent(self, _tool: Tool) -> bool:
        """Return True. This connection asks for consent itself, so a server in front of it need not."""
        return True

    def judge_output(self, _tool: Tool) -> OutputPromise:
        """Return that each output schema is only another server's claim."""
        return OutputPromise.FOREIGN

    def needs_consent(self, tool: Tool) -> bool:
        """Return whether every call of ``tool`` needs the user's answer, whatever its arguments."""
        return self._connection.pipeline.needs_consent(tool)

    def find_level(self, tool: Tool) -> Approval:
        """Return how much consent ``tool`` needs: the strictest level that the server, user or client sets."""
        return self._connection.pipeline.find_level(tool)

    def find_question(self, name: str, arguments: Mapping[str, Json]) -> Question | None:
        """Return the question that a call of the tool ``name`` would ask the user now, or None.

        Nothing is asked, counted or sent, and file arguments are not read. Questions that arise during a call, such as
        one about a redirect, are not included.
        """
        tool = self.find(name)
        if isinstance(tool, Problem) or self.closed:
            return None
        call = make_call((tool, arguments, new_id(), self._context, ""))
        return self._connection.pipeline.find_question(call)

    @property
    def protocol(self) -> str:
        """The name of the protocol that was chosen."""
        return self._connection.peer.protocol

    @property
    def probes(self) -> tuple[Probe, ...]:
        """Every probe that discovery made, in order."""
        return self._connection.probes

    @property
    def source(self) -> DocumentSource | None:
        """The document of this connection, with its hash and the time it was fetched."""
        return self._connection.source

    def catalog(self) -> Catalog:
        """Return the server's catalog. The object is replaced when the catalog changes."""
        return self._freshness.connection.peer.catalog  # a gateway looks at those of all its servers in each request

    def find(self, name: str) -> Tool | Problem:
        """Return the tool ``name`` (or with this ID), or a Problem if there is none.

        If the server does not list its tools, any name returns a tool without further details.
        """
        return self._connection.peer.find(name)

    def find_tools(self, words: str, limit: int = 8) -> Found:
        """Return up to ``limit`` tools that match ``words``, best first, and the text that a model reads about them.

        ``print(remote.find_tools("open an issue"))`` shows that text. The search index is built on first use.
        """
        # FI-01
        from toolwire.find import View, find_tools

        return find_tools(self.catalog(), words, View(find_level=self.find_level), limit)

    # Calls

    async def _call(
        self,
        name: str,
        arguments: Mapping[str, Json] | None,
        notify: NotifyT | None,
        context: Context | None,
        state: CallState,
    ) -> Result:
        """Return the result of a call of the tool ``name``, or why it was not made."""
        refusal = await self._ensure_fresh(name)
        if refusal is not None:
            return refusal
        # The same connection for the whole call: a refresh meanwhile can replace the one of this object.
        connection = self._freshness.connection
        tool = connection.peer.find(name)
        if isinstance(tool, Problem):
            return tool
        given = self._context if context is None else context
        if notify is not None and not given.log_level:
            given = replace(given, log_level=DEFAULT_LOG_LEVEL)
        call = make_call((tool, {} if arguments is None else arguments, new_id(), given, ""))
        return await self._run(connection, call, notify, state)

    async def _run(self, connection: Connection, call: Call, notify: NotifyT | None, state: CallState) -> Result:
        if notify is not None:
            # Some protocols must ask the server for progress with the request itself.
            call = call._replace(context=replace(call.context, report=ignore_progress))
        # In line, because every call passes here: numbers are no files, and anything else is looked at.
        is_plain = type(call.arguments) is dict and _NEVER_FILES.issuperset(map(type, call.arguments.values()))
        if self._provide_input is not None and self._held is None:  # else the caller of the server in front says so
            call = call._replace(context=replace(call.context, takes_input=True))
        flow = connection.run(call, state, may_hold_files=not is_plain)
        if self._provide_input is not None:
            flow = connection.pipeline.admit_input(flow, call, self._running)
        result = await self._driver.run(
            flow,
            self._transport,
            self._approve,
            notify,
            self._provide_input,
            connection.pipeline.cancel,
        )
        if self._fetch_peer is None or isinstance(result, Value):
            return result
        if not suggests_stale_catalog(result, state.status, connection.snapshot):
            return result
        # OQ-4: the response contradicts the catalog, so the cached documents do not count.
        await self._refetch(self._freshness.is_doubted, anew=True)
        return explain_change(result, call.tool, connection, self._freshness)

    def _make_state(self, waits: WaitLimits | None = None) -> CallState:
        """Return the state of a new call; without ``waits``, one that goes on at the server is not waited for."""
        return CallState(waits, can_ask=self._provide_input is not None)

    # Long calls

    async def _run_flow(self, flow: Flow[T], notify: NotifyT | None = None, /) -> T | Problem:
        """Return the value of ``flow``, or the Problem that this connection is closed."""
        if self.closed:
            flow.close()
            return _CLOSED
        return await self._driver.run(flow, self._transport, None, notify, self._provide_input)

    def _find_long_call(self, call_id: str, tool: str) -> LongCall:
        """Return the long call of that id; ``tool`` is the name of its tool, or ``""``."""
        found = self.find(tool) if tool else None
        can_ask = self._provide_input is not None
        return self._connection.pipeline.find_long_call(
            call_id, found if isinstance(found, Tool) else None, can_ask=can_ask
        )

    # What is offered for reading

    async def _read_resource(self, uri: str) -> Result:
        refusal = await self._ensure_fresh("")
        return await self._read(build_resource_call(uri)) if refusal is None else refusal

    async def _get_prompt(self, name: str, arguments: Mapping[str, str] | None) -> Result:
        features = await self._load_features()
        call = features if isinstance(features, Problem) else build_prompt_call(features, name, arguments)
        return call if isinstance(call, Problem) else await self._read(call)

    async def _get_skill(self, uri: str) -> SkillDefinition | Problem:
        refusal = await self._ensure_fresh("")
        if refusal is not None:
            return refusal
        return await self._driver.run(get_skill(self._connection, uri), self._transport)

    async def _read_skill(self, skill: SkillDefinition, path: str) -> Result:
        refusal = await self._ensure_fresh("")
        if refusal is not None:
            return refusal
        return await self._driver.run(read_skill(self._connection, skill, path), self._transport)

    async def _load_features(self) -> ServerFeatures | Problem:
        refusal = await self._ensure_fresh("")
        if refusal is not None:
            return refusal
        if not self._has_loaded:
            features = await self._driver.run(load_features(self._connection.peer), self._transport)
            if isinstance(features, Problem):
                return features
            self._freshness.connection = with_features(self._connection, features)
            self._has_loaded = True
        return self._connection.peer.catalog.features

    async def _read(self, call: Call) -> Result:
        return await self._driver.run(read_feature(self._connection, call), self._transport)

    # Fetching documents again

    async def _refresh(self) -> tuple[Difference, ...] | Problem:
        # OQ-4, XL-048: what changed ends its grants.
        if self.closed:
            return _CLOSED
        before = self._connection
        problem = await self._refetch(_always, anew=True)
        if self._has_loaded:
            self._has_loaded = False
            await self._load_features()
        return problem if problem is not None else find_differences(before, self._connection)

    async def _ensure_fresh(self, reference: str) -> Problem | None:
        """Fetch the documents if that is due, and return why nothing may be called, or None."""
        if self.closed:
            return _CLOSED
        if self._fetch_peer is None:
            return self._freshness.withdrawal
        due = self._freshness.find_due(reference)
        if due is not None:
            await self._refetch(due.is_due, anew=due.anew)
        return self._freshness.withdrawal

    async def _refetch(self, wanted: Callable[[], bool], *, anew: bool = False) -> Problem | None:
        """Fetch the documents if that is still needed after a concurrent fetch, and return its Problem, or None."""
        async with self._refetch_lock:
            if self._fetch_peer is None or not wanted():
                return self._freshness.withdrawal
            self._freshness.begin_fetch()
            fetched = await self._fetch_peer(self._connection, anew=anew)
            return self._freshness.replace_connection(fetched)

    # Listening for changes

    def _begin(self) -> None:
        # MC-06
        if self._listening is None and self._fetch_peer is not None:
            self._listening = self._driver.listen(self._follow_changes)

    async def _wait_until_listening(self) -> None:
        if self._listening is not None:
            await self._listening.wait_until_open(_OPEN_S)

    async def _end(self) -> None:
        listening, self._listening = self._listening, None
        if listening is not None:
            await listening.end()
        if self._server is not None:
            await self._driver.call(self._server.stop)

    async def _follow_changes(self, listening: Listening) -> None:
        is_first = True

        async def take_change(change: Progress) -> None:
            nonlocal is_first
            if change.event == LISTENING_EVENT:
                listening.open()
                if is_first:
                    is_first = False
                    await self._refresh()  # what changed since the lists were fetched, before anything was heard
            # A server that tells of changes without end is asked no more often than one whose answers are doubtful.
            elif await listening.pause(self._freshness.find_pause_s()) and self._freshness.is_doubted():
                await self._refresh()

        notify, ask, pause_s = self._driver.wrap_notify(take_change), self._provide_input, _FIRST_PAUSE_S
        while not self.closed:
            begun_s = monotonic()
            flow = admit_stream_input(listen_for_changes(self._connection.peer), self._running)
            if not await self._driver.run(flow, self._transport, None, notify, ask):
                await self._poll_documents(listening)
                return
            if monotonic() - begun_s > _MAX_PAUSE_S:
                pause_s = _FIRST_PAUSE_S
            if not await listening.pause(pause_s):
                return
            pause_s = min(2 * pause_s, _MAX_PAUSE_S)
            await self._refresh()  # what changed while nothing was heard

    async def _poll_documents(self, listening: Listening) -> None:
        """Fetch the documents again whenever they are no longer fresh: their server tells nobody of changes."""
        # OQ-4: clients that only list the tools hear of a change, and a gateway in front need not wait for a call.
        listening.open()
        while not self.closed and self._connection.snapshot.digests:
            if not await listening.pause(self._freshness.find_poll_s()):
                return
            await self._ensure_fresh("")


def _always() -> bool:
    return True


_OTHER_WORDS: Final[Mapping[str, str]] = {
    "call_tool": "write `call(name, arguments)`",
    "list_tools": "write `tools`",
    "ping": "a call says whether the server answers",
}
_FIRST_PAUSE_S = 1.0
_OPEN_S: Final = 2.0
_MAX_PAUSE_S = 60.0
_NEVER_FILES: Final = frozenset({int, float, bool, NoneType, dict})
_CLOSED = Problem(kind=Kind.UNREACHABLE, message="This connection is closed. Connect again.")
