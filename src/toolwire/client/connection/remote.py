"""Use a remote server as a Toolbox: list its tools, and call them with consent.

The asynchronous and the blocking form run the same flows; only the driver differs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from threading import Lock

import anyio

from toolwire.client.calls.call_ids import new_id
from toolwire.client.calls.prepared_call import CallState
from toolwire.client.discovery.source import DocumentSource
from toolwire.client.transport.drivers import Approver, SyncNotify, SyncTransport, Transport, arun, run
from toolwire.consent.definition_lock import Difference
from toolwire.core.catalog import Catalog
from toolwire.core.codec import Probe
from toolwire.core.http import Request
from toolwire.core.model import (
    ANONYMOUS,
    COMPLETED,
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


class _RemoteFacts:
    """What a connection knows of its server without a network: the same for its asynchronous and its blocking form."""

    _freshness: Freshness
    closed: bool

    def close(self) -> None:
        """Refuse further calls, and leave the session."""
        if not self.closed:
            self.closed = True
            self._connection.pipeline.session.release(self._connection.pipeline.name)

    def end_session(self) -> Request | None:
        """Return the request that ends the session at the server, or None if there is no session."""
        return self._connection.pipeline.end_session()

    @property
    def _connection(self) -> Connection:
        return self._freshness.connection

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

    def catalog(self) -> Catalog:
        """Return the server's catalog; it is another object after the catalog changed."""
        return self._connection.peer.catalog

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
        self._freshness = Freshness(connection)
        self._fetch_peer = fetch_peer
        self._refetch_lock = anyio.Lock()
        self._transport = transport
        self._approve = approve
        self._provide_input = provide_input
        self._context = context
        self.closed = False

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
        refusal = await self._ensure_fresh(name)
        if refusal is not None:
            return refusal
        tool = self.find(name)
        if isinstance(tool, Problem):
            return tool
        if step is not None and (refusal := self._find_step_refusal(step, tool)) is not None:
            return refusal
        given = self._context if context is None else context
        call = make_call((tool, {} if arguments is None else arguments, new_id(), given, ""))
        return await self._run(call, notify, step)

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        """Run ``call`` on the server; see ``Toolbox.run``."""
        refusal = await self._ensure_fresh(call.tool.id)
        return await self._run(call, notify) if refusal is None else refusal

    async def _run(self, call: Call, notify: Notify, step: RecipeStep | None = None) -> Result:
        connection = self._connection
        current = connection.find_current(call)
        if isinstance(current, Problem):
            return current
        if notify is not ignore_progress:
            # Some protocols must ask the server for progress with the request itself.
            current = current._replace(context=replace(current.context, report=notify))
        state = CallState(step)
        flow = connection.run(current, state)
        if self._provide_input is not None:
            flow = connection.pipeline.admit_input(flow, current)
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
        await self._refetch(self._freshness.is_doubted, anew=True)
        return explain_change(result, current.tool, connection, self._freshness)

    async def refresh(self) -> tuple[Difference, ...] | Problem:
        """Fetch the server's documents again, and return each tool that changed; later calls use the new definitions.

        Return a Problem if the server fails, or no longer offers its tools.
        """
        # OQ-4, XL-048: what changed ends its grants.
        if self.closed:
            return _CLOSED
        before = self._connection
        problem = await self._refetch(_always, anew=True)
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
        self._freshness = Freshness(connection)
        self._fetch_peer = fetch_peer
        self._refetch_lock = Lock()
        self._transport = transport
        self._approve = approve
        self._provide_input = provide_input
        self._context = context
        self.closed = False

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
        refusal = self._ensure_fresh(name)
        if refusal is not None:
            return refusal
        connection = self._freshness.connection
        tool = connection.peer.find(name)
        if isinstance(tool, Problem):
            return tool
        if step is not None and (refusal := self._find_step_refusal(step, tool)) is not None:
            return refusal
        given = self._context if context is None else context
        if notify is not None:
            given = replace(given, report=_is_heard)
        call = Call(tool, {} if arguments is None else arguments, new_id(), given)
        state = CallState(step)
        flow = connection.run(call, state)
        if self._provide_input is not None:
            flow = connection.pipeline.admit_input(flow, call)
        result = run(flow, self._transport, self._approve, notify, provide_input=self._provide_input)
        if self._fetch_peer is None or isinstance(result, Value):
            return result
        if not suggests_stale_catalog(result, state.status, connection.snapshot):
            return result
        self._refetch(self._freshness.is_doubted, anew=True)
        return explain_change(result, tool, connection, self._freshness)

    def refresh(self) -> tuple[Difference, ...] | Problem:
        """Fetch the server's documents again, and return each tool that changed; later calls use the new definitions.

        Return a Problem if the server fails, or no longer offers its tools.
        """
        # OQ-4, XL-048: what changed ends its grants.
        if self.closed:
            return _CLOSED
        before = self._connection
        problem = self._refetch(_always, anew=True)
        return problem if problem is not None else find_differences(before, self._connection)

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


_CLOSED = Problem(kind=Kind.UNREACHABLE, message="This connection is closed: connect again.")
