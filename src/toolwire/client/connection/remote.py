"""Use a remote server as a Toolbox: list its tools, and call them with consent.

The asynchronous and the blocking form run the same flows; only the driver differs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from threading import Event, Lock, Thread
from time import monotonic
from types import NoneType
from typing import Any, Final

import anyio

from toolwire.client.calls.call_ids import new_id
from toolwire.client.calls.input_requests import CallInput, admit_stream_input
from toolwire.client.calls.long_calls import MAX_WAIT_S, find_call_id
from toolwire.client.calls.prepared_call import CallState
from toolwire.client.discovery.source import DocumentSource
from toolwire.client.transport.drivers import BRIEF_S, Approver, SyncNotify, SyncTransport, Transport, arun, run
from toolwire.consent.definition_lock import Difference
from toolwire.core.call_status import CallPage
from toolwire.core.catalog import Catalog
from toolwire.core.check import Question
from toolwire.core.codec import Flow, Peer, Probe
from toolwire.core.content import embed_resource, read_content
from toolwire.core.http import Request
from toolwire.core.model import (
    ANONYMOUS,
    COMPLETED,
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
from toolwire.core.offered import Offered, PromptDefinition, ResourceDefinition, is_reader
from toolwire.core.recipe import Recipe, RecipeStep, describe_step
from toolwire.core.resources import Resource
from toolwire.core.toolbox import Notify, ignore_progress
from toolwire.core.user_input import InputProvider

from .connection import Connection
from .freshness import (
    FetchPeer,
    Freshness,
    SyncFetchPeer,
    explain_change,
    find_differences,
    suggests_stale_catalog,
)
from .handle import Handle, SyncHandle
from .held_calls import HeldCalls, ask_caller
from .offered_reading import (
    build_prompt_call,
    build_resource_call,
    listen_for_changes,
    load_offered,
    read_offered,
    with_offered,
)


class _RemoteFacts:
    """The facts of a connection that need no network. Its asynchronous and its blocking form share them."""

    def __init__(
        self, connection: Connection, approve: Approver | None, context: Context, provide_input: InputProvider | None
    ) -> None:
        self._freshness = Freshness(connection)
        self._approve = approve
        self._context = context
        self._provide_input = provide_input
        # The calls that run for a user who can be asked.
        self._running: list[CallInput] = []
        self._has_loaded = bool(connection.peer.catalog.offered.readers)
        self.closed = False

    def close(self) -> None:
        """Refuse further calls, and leave the session."""
        if not self.closed:
            self.closed = True
            self._connection.pipeline.session.release(self._connection.pipeline.name)

    def must_listen(self) -> bool:
        """Return whether the server may ask the user outside of the streams of calls: then it must be listened to."""
        return self._provide_input is not None and self._connection.pipeline.asks_while_listening()

    def _listen(self) -> Flow[bool]:
        return admit_stream_input(listen_for_changes(self._connection.peer), self._running)

    def end_session(self) -> Request | None:
        """Return the request that ends the session at the server, or None if there is no session."""
        return self._connection.pipeline.end_session()

    @property
    def _connection(self) -> Connection:
        return self._freshness.connection

    def _get_connection(self) -> Connection:
        return self._freshness.connection

    def _find_handled(self, name: str) -> Tool | None:
        found = self.find(name) if name else None
        return found if isinstance(found, Tool) else None

    @property
    def peer(self) -> Peer:
        """The server as discovery found it: its protocol, its tools, and what its document says about signing in."""
        return self._connection.peer

    @property
    def url(self) -> str:
        """The URL where the server was found."""
        return self._connection.peer.url

    def definitions(self) -> list[dict[str, Json]]:
        """Return the definition of each tool as plain data, as ``toolwire.lock`` holds it."""
        return self._connection.pipeline.definitions()

    def tags(self) -> Mapping[str, int]:
        """Return how many tools the server offers under each tag, whatever was selected; empty without tags."""
        return self._connection.peer.tags

    @property
    def recipes(self) -> tuple[Recipe, ...]:
        """The tasks of several calls that the site describes; empty without any. They are data and run nothing."""
        # OQ-2
        return self._connection.peer.recipes

    def findings(self) -> tuple[str, ...]:
        """Return what of the server's description was left out or read differently, and why, a sentence each.

        Schemas are read when they are needed, so there can be more findings later.
        """
        # XL-088: a user can see what a document means to toolwire.
        return self._connection.findings()

    def resource(self, handle: str) -> Resource | None:
        """Return the bytes of a handle from a result or from ``keep``, or None: the oldest are dropped for new ones."""
        return self._connection.resource(handle)

    def read_content(self, value: Json) -> Any:
        """Return like ``toolwire.read_content``; a handle of this connection becomes an Image, Audio or File too."""
        # MC-07: the bytes that an API sends reach a model as a handle, and the program as what they are.
        return read_content(embed_resource(value, self.resource))

    def keep(self, data: bytes, *, media_type: str = "application/octet-stream", name: str = "") -> str:
        """Keep ``data`` and return a handle to pass to a tool that takes a file, or ``""`` if it is too large."""
        return self._connection.keep(Resource(data=data, media_type=media_type, name=name))

    @property
    def name(self) -> str:
        """The name of this connection in its session."""
        return self._connection.pipeline.name

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Every tool of the server, by toolkit and name, versions ascending."""
        return self._connection.peer.catalog.tools

    def asks_itself(self, _tool: Tool) -> bool:
        """Return True: each call passes the consent of this connection, so a server in front of it need not ask."""
        return True

    def needs_consent(self, tool: Tool) -> bool:
        """Return whether each call of ``tool`` needs an answer of the user, whatever its arguments."""
        return self._connection.pipeline.needs_consent(tool)

    def find_level(self, tool: Tool) -> Approval:
        """Return the level of consent that a call of ``tool`` needs: the strictest of site, user and client."""
        return self._connection.pipeline.find_level(tool)

    def find_question(self, name: str, arguments: Mapping[str, Json]) -> Question | None:
        """Return what the user would be asked about a call of the tool ``name`` now, or None if nothing would be.

        Nothing is asked, counted or sent. What only comes up while a call runs, such as a question of its server or
        about a redirect, is not known yet, and arguments that are files are not read.
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
        """The document of this connection, with its hash and the time when it was fetched."""
        return self._connection.source

    def _find_step_refusal(self, step: RecipeStep, tool: Tool) -> Problem | None:
        """Return why ``tool`` cannot be called as ``step``, or None.

        A question shows the step, so that of another site, or of recipes that have changed, is refused.
        """
        if not any(step == one for recipe in self.recipes for one in recipe.steps):
            text = f"There is no {describe_step(step)} on this site: look at its recipes again."
            return Problem(kind=Kind.CONFLICT, message=text, details={"reason": "unknown_step"})
        if step.tool != tool.id:
            called = step.tool or f"the recipe {step.subrecipe}"
            text = f"The {describe_step(step)} is {called}, not {tool.id}: nothing was sent."
            return Problem(kind=Kind.CONFLICT, message=text, details={"reason": "another_tool"})
        return None

    def _keep_offered(self, offered: Offered) -> None:
        self._freshness.connection = with_offered(self._connection, offered)
        self._has_loaded = True

    def catalog(self) -> Catalog:
        """Return the server's catalog; it is another object after the catalog changed."""
        return self._freshness.connection.peer.catalog  # a gateway looks at those of all its servers in each request

    def find(self, name: str) -> Tool | Problem:
        """Return the tool ``name`` (or its id), or the Problem that there is none.

        If the server does not list its tools, any name returns a tool of which nothing else is known.
        """
        return self._connection.peer.find(name)


class Remote(_RemoteFacts):
    """An asynchronous connection to a server, which is a Toolbox. ``tools`` is what the server offers."""

    def __init__(
        self,
        connection: Connection,
        transport: Transport,
        approve: Approver | None,
        context: Context = ANONYMOUS,
        *,
        fetch_peer: FetchPeer | None = None,
        provide_input: InputProvider | None = None,
    ) -> None:
        super().__init__(connection, approve, context, provide_input)
        self._fetch_peer = fetch_peer
        self._refetch_lock = anyio.Lock()
        self._transport = transport
        self._listening: asyncio.Task[None] | None = None
        self._opened = asyncio.Event()
        # MC-09: a server in front of others has callers, and no user of its own.
        self._held = HeldCalls() if provide_input is ask_caller else None

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        notify: Notify = ignore_progress,
        context: Context | None = None,
        step: RecipeStep | None = None,
    ) -> Result:
        """Call the tool ``name`` (or its id, with or without a version), and return its Value or a Problem.

        ``notify`` is a coroutine function that gets each Progress of a tool that streams, in order. ``context``
        replaces that of the connection. ``step`` is the step of a recipe that the call is made as: a question shows it.
        """
        call = await self._prepare(name, arguments, context, step)
        if isinstance(call, Problem):
            return call
        if notify is not ignore_progress and not call.context.log_level:
            call = call._replace(context=replace(call.context, log_level=DEFAULT_LOG_LEVEL))
        waits, can_ask = self._connection.pipeline.waits, self._provide_input is not None
        return await self._run(call, notify, CallState(step, waits, can_ask=can_ask))

    async def start(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        notify: Notify = ignore_progress,
        context: Context | None = None,
        step: RecipeStep | None = None,
    ) -> Handle | Result:
        """Start a call of the tool ``name``, and return its Handle as soon as the server has taken it.

        The same checks, questions and limits apply as to ``call``. The call of a tool that is not long is made as by
        ``call``, and its Value or Problem is returned; so is the Problem of a call that was not started.
        """
        # LC-05
        call = await self._prepare(name, arguments, context, step)
        if isinstance(call, Problem):
            return call
        state = CallState(step, can_ask=self._provide_input is not None)
        result = await self._run(call, notify, state)
        return result if state.long_call is None else self.handle(state.long_call.id, tool=call.tool.id)

    def handle(self, call_id: str, *, tool: str = "") -> Handle:
        """Return the Handle of a long call that was started earlier, also by another program of the same user.

        ``tool`` is the name of its tool, for servers that do not say it with the call.
        """
        can_ask, found = self._provide_input is not None, self._find_handled(tool)
        return Handle(self._get_connection, self._run_flow, call_id, found, can_ask=can_ask)

    async def list_calls(self, limit: int = 100, cursor: str = "") -> CallPage | Problem:
        """Return at most ``limit`` long calls of this caller, newest first, without results.

        ``cursor`` is that of the page before, to get the next one.
        """
        page: CallPage | Problem = await self._run_flow(self._connection.list_long_calls(limit, cursor))
        return page

    async def _run_flow(self, flow: Flow[Any], notify: Notify = ignore_progress) -> Any:
        if self.closed:
            flow.close()
            return _CLOSED
        return await arun(flow, self._transport, None, notify, provide_input=self._provide_input)

    async def _prepare(
        self, name: str, arguments: Mapping[str, Json] | None, context: Context | None, step: RecipeStep | None
    ) -> Call | Problem:
        """Return the call of the tool ``name``, or why it cannot be made."""
        refusal = await self._ensure_fresh(name)
        if refusal is not None:
            return refusal
        # Found after the refresh, which may have replaced the tool.
        tool = self.find(name)
        if isinstance(tool, Problem):
            return tool
        if step is not None and (refusal := self._find_step_refusal(step, tool)) is not None:
            return refusal
        given = self._context if context is None else context
        return make_call((tool, {} if arguments is None else arguments, new_id(), given, ""))

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        """Run ``call`` on the server; see ``Toolbox.run``.

        A call that goes on at the server is waited for like by ``call``. If ``call.context.wait_s`` is longer, as in a
        gateway that was given a long call, it is waited for so long, and cancelling it there cancels it here.
        """
        if self._held is not None and call.context.takes_input:
            return await self._held.run(call, notify, self._run_now)
        return await self._run_now(call, notify)

    async def _run_now(self, call: Call, notify: Notify) -> Result:
        refusal = await self._ensure_fresh(call.tool.id)
        if refusal is not None:
            return refusal
        if is_reader(call.tool):
            return await self._read(call)
        waits, wait_s = self._connection.pipeline.waits, call.context.wait_s
        can_ask = self._provide_input is not None
        if wait_s is None or wait_s <= waits.total_s:
            return await self._run(call, notify, CallState(waits=waits, can_ask=can_ask))
        patient = replace(waits, total_s=min(wait_s, MAX_WAIT_S), is_patient=True)
        return await self._run_long(call, notify, CallState(waits=patient, can_ask=can_ask))

    async def _run_long(self, call: Call, notify: Notify, state: CallState) -> Result:
        try:
            result = await self._run(call, notify, state)
        except anyio.get_cancelled_exc_class():
            # A server that only stops leaves the call: it asks for it again by the same id.
            if call.context.is_cancelled:
                await self._cancel_briefly(state)
            raise
        if find_call_id(result):  # the time of the call is over here, so it must not go on there
            await self._cancel_briefly(state)
        return result

    async def _cancel_briefly(self, state: CallState) -> None:
        if state.long_call is not None:
            # The shield lets the message out although the task is being cancelled.
            with anyio.move_on_after(BRIEF_S, shield=True):
                await self._run_flow(self._connection.follow(state.long_call, state.long_call.cancel()))

    async def _run(self, call: Call, notify: Notify, state: CallState) -> Result:
        # The same connection for the whole call: a concurrent refresh can replace the one of this object.
        connection = self._connection
        current = connection.find_current(call)
        if isinstance(current, Problem):
            return current
        if notify is not ignore_progress:
            # Some protocols must ask the server for progress with the request itself.
            current = current._replace(context=replace(current.context, report=notify))
        # In line, because every call passes here: numbers are no files, and anything else is looked at.
        is_plain = type(current.arguments) is dict and _NEVER_FILES.issuperset(map(type, current.arguments.values()))
        flow = connection.run(current, state, may_hold_files=not is_plain)
        if self._provide_input is not None:
            flow = connection.pipeline.admit_input(flow, current, self._running)
        result = await arun(
            flow,
            self._transport,
            self._approve,
            notify,
            cancel=connection.pipeline.cancel,
            provide_input=self._provide_input,
        )
        if self._fetch_peer is None or isinstance(result, Value):
            return result
        if not suggests_stale_catalog(result, state.status, connection.snapshot):
            return result
        # OQ-4: the response contradicts the catalog, so the cached documents do not count.
        await self._refetch(self._freshness.is_doubted, anew=True)
        return explain_change(result, current.tool, connection, self._freshness)

    async def list_resources(self) -> tuple[ResourceDefinition, ...] | Problem:
        """Return what the server offers for reading; none over protocols without resources. It is asked only once."""
        offered = await self._load_offered()
        return offered if isinstance(offered, Problem) else offered.resources

    async def list_prompts(self) -> tuple[PromptDefinition, ...] | Problem:
        """Return the prompts of the server; none over protocols without prompts. The server is asked only once."""
        offered = await self._load_offered()
        return offered if isinstance(offered, Problem) else offered.prompts

    async def read_resource(self, uri: str) -> Result:
        """Return what is at ``uri``: a text, the JSON form of content, or a list of both where it has several parts.

        ``read_content`` makes an ``Image``, ``Audio`` or ``File`` of the JSON form.
        """
        refusal = await self._ensure_fresh("")
        return await self._read(build_resource_call(uri)) if refusal is None else refusal

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> Result:
        """Return the prompt ``name`` filled in: an object with ``description`` and ``messages``.

        Each message has a ``role``, user or assistant, and ``content``, a text or the JSON form of content.
        """
        offered = await self._load_offered()
        call = offered if isinstance(offered, Problem) else build_prompt_call(offered, name, arguments)
        return call if isinstance(call, Problem) else await self._read(call)

    async def _load_offered(self) -> Offered | Problem:
        refusal = await self._ensure_fresh("")
        if refusal is not None:
            return refusal
        if not self._has_loaded:
            offered = await arun(load_offered(self._connection.peer), self._transport, None)
            if isinstance(offered, Problem):
                return offered
            self._keep_offered(offered)
        return self._connection.peer.catalog.offered

    async def _read(self, call: Call) -> Result:
        return await arun(read_offered(self._connection, call), self._transport, None)

    async def refresh(self) -> tuple[Difference, ...] | Problem:
        """Fetch the server's documents again, and return each tool that changed; later calls use the new definitions.

        Return a Problem if the server fails, or no longer offers its tools.
        """
        # OQ-4, XL-048: what changed ends its grants.
        if self.closed:
            return _CLOSED
        before = self._connection
        problem = await self._refetch(_always, anew=True)
        if self._has_loaded:
            self._has_loaded = False
            await self._load_offered()
        return problem if problem is not None else find_differences(before, self._connection)

    async def begin(self) -> None:
        """Listen to the server from now on, if it tells when its tools change, and then fetch its documents again.

        A gateway begins its upstreams itself. So does a connection to a server that may ask its user on this stream.
        After a pause of at most a minute, an ended stream is opened again.
        """
        # MC-06
        if self._listening is None and self._fetch_peer is not None:
            self._listening = asyncio.create_task(self._follow_changes())

    async def wait_until_listening(self) -> None:
        """Wait until the server has the stream on which this connection listens, or wants none; at most two seconds."""
        if self._listening is not None:
            opened = asyncio.create_task(self._opened.wait())
            await asyncio.wait([opened, self._listening], timeout=_OPEN_S, return_when=asyncio.FIRST_COMPLETED)
            opened.cancel()

    async def end(self) -> None:
        """Stop listening."""
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.cancel()
            await asyncio.wait([listening])

    async def _follow_changes(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self.closed:
            begun_s = anyio.current_time()
            flow, ask = self._listen(), self._provide_input
            if not await arun(flow, self._transport, None, self._take_change, provide_input=ask):
                return
            if anyio.current_time() - begun_s > _LONGEST_PAUSE_S:
                pause_s = _FIRST_PAUSE_S
            await anyio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            await self.refresh()  # what changed while nothing was heard

    async def _take_change(self, change: Progress) -> None:
        if change.event == LISTENING_EVENT:
            self._opened.set()
            return
        # A server that tells of changes without end is asked no more often than one whose answers are doubtful.
        await anyio.sleep(self._freshness.find_pause_s())
        if self._freshness.is_doubted():
            await self.refresh()

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
            came = await self._fetch_peer(self._connection, anew=anew)
            return self._freshness.replace_connection(came)


class SyncRemote(_RemoteFacts):
    """A blocking connection to a server. ``tools`` is what the server offers."""

    def __init__(
        self,
        connection: Connection,
        transport: SyncTransport,
        approve: Approver | None,
        context: Context = ANONYMOUS,
        *,
        fetch_peer: SyncFetchPeer | None = None,
        provide_input: InputProvider | None = None,
    ) -> None:
        super().__init__(connection, approve, context, provide_input)
        self._fetch_peer = fetch_peer
        self._refetch_lock = Lock()
        self._ended: Event | None = None
        self._opened = Event()
        self._transport = transport

    def call(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        notify: SyncNotify | None = None,
        context: Context | None = None,
        step: RecipeStep | None = None,
    ) -> Result:
        """Call the tool ``name`` (or its id, with or without a version), and return its Value or a Problem.

        ``notify`` is a function that gets each Progress of a tool that streams, in order. ``context`` replaces that of
        the connection. ``step`` is the step of a recipe that the call is made as: a question shows it.
        """
        waits, can_ask = self._freshness.connection.pipeline.waits, self._provide_input is not None
        return self._run(name, arguments, notify, context, CallState(step, waits, can_ask=can_ask))

    def start(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        notify: SyncNotify | None = None,
        context: Context | None = None,
        step: RecipeStep | None = None,
    ) -> SyncHandle | Result:
        """Start a call of the tool ``name``, and return its SyncHandle as soon as the server has taken it.

        The same checks, questions and limits apply as to ``call``. The call of a tool that is not long is made as by
        ``call``, and its Value or Problem is returned; so is the Problem of a call that was not started.
        """
        # LC-05
        state = CallState(step, can_ask=self._provide_input is not None)
        result = self._run(name, arguments, notify, context, state)
        return result if state.long_call is None else self.handle(state.long_call.id, tool=name)

    def handle(self, call_id: str, *, tool: str = "") -> SyncHandle:
        """Return the SyncHandle of a long call that was started earlier, also by another program of the same user.

        ``tool`` is the name of its tool, for servers that do not say it with the call.
        """
        can_ask, found = self._provide_input is not None, self._find_handled(tool)
        return SyncHandle(self._get_connection, self._run_flow, call_id, found, can_ask=can_ask)

    def list_calls(self, limit: int = 100, cursor: str = "") -> CallPage | Problem:
        """Return at most ``limit`` long calls of this caller, newest first, without results.

        ``cursor`` is that of the page before, to get the next one.
        """
        page: CallPage | Problem = self._run_flow(self._connection.list_long_calls(limit, cursor))
        return page

    def _run_flow(self, flow: Flow[Any], notify: SyncNotify | None = None) -> Any:
        if self.closed:
            flow.close()
            return _CLOSED
        return run(flow, self._transport, None, notify, provide_input=self._provide_input)

    def _run(
        self,
        name: str,
        arguments: Mapping[str, Json] | None,
        notify: SyncNotify | None,
        context: Context | None,
        state: CallState,
    ) -> Result:
        refusal = self._ensure_fresh(name)
        if refusal is not None:
            return refusal
        # The same connection for the whole call: a refresh in another thread can replace the one of this object.
        connection = self._freshness.connection
        tool = connection.peer.find(name)
        if isinstance(tool, Problem):
            return tool
        if state.step is not None and (refusal := self._find_step_refusal(state.step, tool)) is not None:
            return refusal
        given = self._context if context is None else context
        if notify is not None:
            given = replace(given, report=_is_heard, log_level=given.log_level or DEFAULT_LOG_LEVEL)
        call = Call(tool, {} if arguments is None else arguments, new_id(), given)
        # In line, because every call passes here: numbers are no files, and anything else is looked at.
        is_plain = type(call.arguments) is dict and _NEVER_FILES.issuperset(map(type, call.arguments.values()))
        flow = connection.run(call, state, may_hold_files=not is_plain)
        if self._provide_input is not None:
            flow = connection.pipeline.admit_input(flow, call, self._running)
        result = run(flow, self._transport, self._approve, notify, provide_input=self._provide_input)
        if self._fetch_peer is None or isinstance(result, Value):
            return result
        if not suggests_stale_catalog(result, state.status, connection.snapshot):
            return result
        # OQ-4: the response contradicts the catalog, so the cached documents do not count.
        self._refetch(self._freshness.is_doubted, anew=True)
        return explain_change(result, tool, connection, self._freshness)

    def list_resources(self) -> tuple[ResourceDefinition, ...] | Problem:
        """Return what the server offers for reading; none over protocols without resources. It is asked only once."""
        offered = self._load_offered()
        return offered if isinstance(offered, Problem) else offered.resources

    def list_prompts(self) -> tuple[PromptDefinition, ...] | Problem:
        """Return the prompts of the server; none over protocols without prompts. The server is asked only once."""
        offered = self._load_offered()
        return offered if isinstance(offered, Problem) else offered.prompts

    def read_resource(self, uri: str) -> Result:
        """Return what is at ``uri``: a text, the JSON form of content, or a list of both where it has several parts.

        ``read_content`` makes an ``Image``, ``Audio`` or ``File`` of the JSON form.
        """
        refusal = self._ensure_fresh("")
        return self._read(build_resource_call(uri)) if refusal is None else refusal

    def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> Result:
        """Return the prompt ``name`` filled in: an object with ``description`` and ``messages``.

        Each message has a ``role``, user or assistant, and ``content``, a text or the JSON form of content.
        """
        offered = self._load_offered()
        call = offered if isinstance(offered, Problem) else build_prompt_call(offered, name, arguments)
        return call if isinstance(call, Problem) else self._read(call)

    def _load_offered(self) -> Offered | Problem:
        refusal = self._ensure_fresh("")
        if refusal is not None:
            return refusal
        if not self._has_loaded:
            offered = run(load_offered(self._connection.peer), self._transport, None)
            if isinstance(offered, Problem):
                return offered
            self._keep_offered(offered)
        return self._connection.peer.catalog.offered

    def _read(self, call: Call) -> Result:
        return run(read_offered(self._connection, call), self._transport, None)

    def refresh(self) -> tuple[Difference, ...] | Problem:
        """Fetch the server's documents again, and return each tool that changed; later calls use the new definitions.

        Return a Problem if the server fails, or no longer offers its tools.
        """
        # OQ-4, XL-048: what changed ends its grants.
        if self.closed:
            return _CLOSED
        before = self._connection
        problem = self._refetch(_always, anew=True)
        if self._has_loaded:
            self._has_loaded = False
            self._load_offered()
        return problem if problem is not None else find_differences(before, self._connection)

    def begin(self) -> None:
        """Listen to the server from now on, in a thread; see ``Remote.begin``."""
        # MC-06
        if self._ended is None and self._fetch_peer is not None:
            self._ended = Event()
            Thread(target=self._follow_changes, args=(self._ended,), name="toolwire-listening", daemon=True).start()

    def wait_until_listening(self) -> None:
        """Wait until the server has the stream on which this connection listens, or wants none; at most two seconds."""
        if self._ended is not None:
            self._opened.wait(_OPEN_S)

    def end(self) -> None:
        """Stop listening. The thread ends with its stream, or when the connection is closed."""
        ended, self._ended = self._ended, None
        if ended is not None:
            ended.set()

    def _follow_changes(self, ended: Event) -> None:
        def take_change(change: Progress) -> None:
            if change.event == LISTENING_EVENT:
                self._opened.set()
                return
            # A server that tells of changes without end is asked no more often than one whose answers are doubtful.
            if not ended.wait(self._freshness.find_pause_s()) and self._freshness.is_doubted():
                self.refresh()

        pause_s = _FIRST_PAUSE_S
        while not (self.closed or ended.is_set()):
            begun_s = monotonic()
            if not run(self._listen(), self._transport, None, take_change, provide_input=self._provide_input):
                self._opened.set()
                return
            if monotonic() - begun_s > _LONGEST_PAUSE_S:
                pause_s = _FIRST_PAUSE_S
            if ended.wait(pause_s):
                return
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            self.refresh()  # what changed while nothing was heard

    def _ensure_fresh(self, reference: str) -> Problem | None:
        """Fetch the documents if that is due, and return why nothing may be called, or None."""
        if self.closed:
            return _CLOSED
        if self._fetch_peer is None:
            return self._freshness.withdrawal
        due = self._freshness.find_due(reference)
        if due is not None:
            self._refetch(due.is_due, anew=due.anew)
        return self._freshness.withdrawal

    def _refetch(self, wanted: Callable[[], bool], *, anew: bool = False) -> Problem | None:
        """Fetch the documents if that is still needed after a concurrent fetch, and return its Problem, or None."""
        with self._refetch_lock:
            if self._fetch_peer is None or not wanted():
                return self._freshness.withdrawal
            came = self._fetch_peer(self._connection, anew=anew)
            return self._freshness.replace_connection(came)


def _always() -> bool:
    return True


def _is_heard(_: Progress) -> Awaitable[None]:
    """Mark that progress is wanted; the driver itself gives it to the function of the caller."""
    return COMPLETED


_FIRST_PAUSE_S = 1.0
_OPEN_S: Final = 2.0
_LONGEST_PAUSE_S = 60.0
_NEVER_FILES: Final = frozenset({int, float, bool, NoneType, dict})
_CLOSED = Problem(kind=Kind.UNREACHABLE, message="This connection is closed: connect again.")
