"""A server somebody else runs, as a Toolbox: connect, look at its tools, call them with consent.

Both kinds of connection, asynchronous and blocking, drive the same conversations; only the driver differs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from threading import Lock

import anyio

from toolwire.client.calls.call_ids import new_id
from toolwire.client.discovery.source import DocumentSource
from toolwire.client.transport.drivers import Approver, SyncNotify, SyncTransport, Transport, arun, run
from toolwire.consent.definition_lock import Difference
from toolwire.core.catalog import Catalog
from toolwire.core.codec import Probe, intercept
from toolwire.core.http import Request
from toolwire.core.model import (
    ANONYMOUS,
    COMPLETED,
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
from toolwire.core.resources import Resource
from toolwire.core.toolbox import Notify, ignore_progress

from .connection import Connection
from .freshness import (
    CallOutcome,
    FetchPeer,
    Freshness,
    StatusRecorder,
    SyncFetchPeer,
    explain_change,
    find_differences,
)


class Remote:
    """A connection to a server, asynchronous; a Toolbox like any other. ``tools`` is what it offers."""

    def __init__(
        self,
        connection: Connection,
        transport: Transport,
        approve: Approver | None,
        context: Context = ANONYMOUS,
        *,
        fetch_peer: FetchPeer | None = None,
    ) -> None:
        self._freshness = Freshness(connection)
        self._fetch_peer = fetch_peer
        self._refetch_lock = anyio.Lock()
        self._transport = transport
        self._approve = approve
        self._context = context
        self.closed = False

    def close(self) -> None:
        """Make no more calls, and leave the session."""
        if not self.closed:
            self.closed = True
            self._connection.pipeline.session.release(self._connection.pipeline.name)

    def end_session(self) -> Request | None:
        """Return the request that ends the server's memory of this connection, or None where it has none."""
        return self._connection.pipeline.end_session()

    @property
    def _connection(self) -> Connection:
        return self._freshness.connection

    @property
    def url(self) -> str:
        """Where the server was found."""
        return self._connection.peer.url

    def definitions(self) -> list[dict[str, Json]]:
        """Return the definition of each tool as plain data, as a lock pins it."""
        return self._connection.pipeline.definitions()

    def tags(self) -> Mapping[str, int]:
        """Return how many tools the server offers under each tag, whatever was selected; none where it has no tags."""
        return self._connection.peer.tags

    def findings(self) -> tuple[str, ...]:
        """Return what of the server's description was left out or taken otherwise, and why, a sentence each. [XL-088]

        There may be more of them once the schemas of tools have been looked at: they are made when they are wanted.
        """
        return self._connection.findings()

    def resource(self, handle: str) -> Resource | None:
        """Return the bytes under a handle that a result or ``keep`` gave, or None: the oldest make room for others."""
        return self._connection.resource(handle)

    def keep(self, data: bytes, *, media_type: str = "application/octet-stream", name: str = "") -> str:
        """Return a handle of ``data``, to pass as an argument where a tool takes a file; ``""`` if it is too large."""
        return self._connection.keep(Resource(data=data, media_type=media_type, name=name))

    @property
    def name(self) -> str:
        """What this connection is called in its session."""
        return self._connection.pipeline.name

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Every tool of the server, by toolkit and name, versions ascending."""
        return self._connection.peer.catalog.tools

    def needs_consent(self, tool: Tool) -> bool:
        """Return whether a call of ``tool`` is asked about, whatever its arguments."""
        return self._connection.pipeline.needs_consent(tool)

    @property
    def protocol(self) -> str:
        """The name of the protocol that was chosen."""
        return self._connection.peer.protocol

    @property
    def probes(self) -> tuple[Probe, ...]:
        """Every look that was taken to find the protocol, in order."""
        return self._connection.probes

    @property
    def source(self) -> DocumentSource | None:
        """The document the connection was made from, with its hash, and when it was fetched. [XL-017]"""
        return self._connection.source

    def catalog(self) -> Catalog:
        """Return the server's catalog as it was last seen: another object where that is not what it was."""
        return self._connection.peer.catalog

    def find(self, name: str) -> Tool | Problem:
        """Return the tool ``name`` (or its id), or the Problem that there is none.

        A server that does not say what it offers takes any name: nothing else is known of such a tool.
        """
        return self._connection.peer.find(name)

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        notify: Notify = ignore_progress,
        context: Context | None = None,
    ) -> Result:
        """Call the tool ``name`` (or its id, with or without a version); return its Value or a Problem.

        ``notify`` is a coroutine function that is given each Progress of a tool that streams, in order. ``context``
        takes the place of the connection's.
        """
        refusal = await self._ensure_fresh()
        if refusal is not None:
            return refusal
        tool = self.find(name)
        if isinstance(tool, Problem):
            return tool
        given = self._context if context is None else context
        return await self._run(make_call((tool, {} if arguments is None else arguments, new_id(), given, "")), notify)

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        """Run ``call`` on the server; see ``Toolbox.run``."""
        refusal = await self._ensure_fresh()
        return await self._run(call, notify) if refusal is None else refusal

    async def _run(self, call: Call, notify: Notify) -> Result:
        connection = self._connection
        current = connection.find_current(call)
        if isinstance(current, Problem):
            return current
        if notify is not ignore_progress:
            current = current._replace(context=replace(current.context, report=notify))
        recorder = StatusRecorder()
        flow = intercept(connection.run(current), on_response=recorder.record)
        result = await arun(flow, self._transport, self._approve, notify, cancel=connection.pipeline.cancel)
        if self._fetch_peer is None or isinstance(result, Value):
            return result
        if not CallOutcome(result, recorder.status).suggests_stale_catalog(connection.snapshot):
            return result
        await self._refetch(self._freshness.is_doubted, anew=True)
        return explain_change(result, current.tool, connection, self._freshness)

    async def refresh(self) -> tuple[Difference, ...] | Problem:
        """Look at the server again, and return every tool that is not as it was; calls go to what is there from now on.

        A Problem where the server cannot be looked at, or no longer says what may be called. [OQ-4, XL-048]
        """
        if self.closed:
            return _CLOSED
        before = self._connection
        problem = await self._refetch(_always, anew=True)
        return problem if problem is not None else find_differences(before, self._connection)

    async def _ensure_fresh(self) -> Problem | None:
        """Look again where that is due; return why nothing may be called, if so."""
        if self.closed:
            return _CLOSED
        if self._fetch_peer is not None and self._freshness.is_due():
            await self._refetch(self._freshness.is_due)
        return self._freshness.withdrawal

    async def _refetch(self, wanted: Callable[[], bool], *, anew: bool = False) -> Problem | None:
        """Look again if it is still wanted once nobody else looks, and return what went wrong."""
        async with self._refetch_lock:
            if self._fetch_peer is None or not wanted():
                return self._freshness.withdrawal
            came = await self._fetch_peer(self._connection, anew=anew)
            return self._freshness.replace_connection(came)


class SyncRemote:
    """A connection to a server, blocking. ``tools`` is what it offers."""

    def __init__(
        self,
        connection: Connection,
        transport: SyncTransport,
        approve: Approver | None,
        context: Context = ANONYMOUS,
        *,
        fetch_peer: SyncFetchPeer | None = None,
    ) -> None:
        self._freshness = Freshness(connection)
        self._fetch_peer = fetch_peer
        self._refetch_lock = Lock()
        self._transport = transport
        self._approve = approve
        self._context = context
        self.closed = False

    def close(self) -> None:
        """Make no more calls, and leave the session."""
        if not self.closed:
            self.closed = True
            self._connection.pipeline.session.release(self._connection.pipeline.name)

    def end_session(self) -> Request | None:
        """Return the request that ends the server's memory of this connection, or None where it has none."""
        return self._connection.pipeline.end_session()

    @property
    def _connection(self) -> Connection:
        return self._freshness.connection

    @property
    def url(self) -> str:
        """Where the server was found."""
        return self._connection.peer.url

    def definitions(self) -> list[dict[str, Json]]:
        """Return the definition of each tool as plain data, as a lock pins it."""
        return self._connection.pipeline.definitions()

    def tags(self) -> Mapping[str, int]:
        """Return how many tools the server offers under each tag, whatever was selected; none where it has no tags."""
        return self._connection.peer.tags

    def findings(self) -> tuple[str, ...]:
        """Return what of the server's description was left out or taken otherwise, and why, a sentence each. [XL-088]

        There may be more of them once the schemas of tools have been looked at: they are made when they are wanted.
        """
        return self._connection.findings()

    def resource(self, handle: str) -> Resource | None:
        """Return the bytes under a handle that a result or ``keep`` gave, or None: the oldest make room for others."""
        return self._connection.resource(handle)

    def keep(self, data: bytes, *, media_type: str = "application/octet-stream", name: str = "") -> str:
        """Return a handle of ``data``, to pass as an argument where a tool takes a file; ``""`` if it is too large."""
        return self._connection.keep(Resource(data=data, media_type=media_type, name=name))

    @property
    def name(self) -> str:
        """What this connection is called in its session."""
        return self._connection.pipeline.name

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Every tool of the server, by toolkit and name, versions ascending."""
        return self._connection.peer.catalog.tools

    def needs_consent(self, tool: Tool) -> bool:
        """Return whether a call of ``tool`` is asked about, whatever its arguments."""
        return self._connection.pipeline.needs_consent(tool)

    @property
    def protocol(self) -> str:
        """The name of the protocol that was chosen."""
        return self._connection.peer.protocol

    @property
    def probes(self) -> tuple[Probe, ...]:
        """Every look that was taken to find the protocol, in order."""
        return self._connection.probes

    @property
    def source(self) -> DocumentSource | None:
        """The document the connection was made from, with its hash, and when it was fetched. [XL-017]"""
        return self._connection.source

    def catalog(self) -> Catalog:
        """Return the server's catalog as it was last seen: another object where that is not what it was."""
        return self._connection.peer.catalog

    def find(self, name: str) -> Tool | Problem:
        """Return the tool ``name`` (or its id), or the Problem that there is none.

        A server that does not say what it offers takes any name: nothing else is known of such a tool.
        """
        return self._connection.peer.find(name)

    def call(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        notify: SyncNotify | None = None,
        context: Context | None = None,
    ) -> Result:
        """Call the tool ``name`` (or its id, with or without a version); return its Value or a Problem.

        ``notify`` is a function that is given each Progress of a tool that streams, in order. ``context`` takes the
        place of the connection's.
        """
        refusal = self._ensure_fresh()
        if refusal is not None:
            return refusal
        connection = self._connection
        tool = connection.peer.find(name)
        if isinstance(tool, Problem):
            return tool
        given = self._context if context is None else context
        if notify is not None:
            given = replace(given, report=_is_heard)
        call = Call(tool, {} if arguments is None else arguments, new_id(), given)
        recorder = StatusRecorder()
        flow = intercept(connection.run(call), on_response=recorder.record)
        result = run(flow, self._transport, self._approve, notify)
        if self._fetch_peer is None or isinstance(result, Value):
            return result
        if not CallOutcome(result, recorder.status).suggests_stale_catalog(connection.snapshot):
            return result
        self._refetch(self._freshness.is_doubted, anew=True)
        return explain_change(result, tool, connection, self._freshness)

    def refresh(self) -> tuple[Difference, ...] | Problem:
        """Look at the server again, and return every tool that is not as it was; calls go to what is there from now on.

        A Problem where the server cannot be looked at, or no longer says what may be called. [OQ-4, XL-048]
        """
        if self.closed:
            return _CLOSED
        before = self._connection
        problem = self._refetch(_always, anew=True)
        return problem if problem is not None else find_differences(before, self._connection)

    def _ensure_fresh(self) -> Problem | None:
        """Look again where that is due; return why nothing may be called, if so."""
        if self.closed:
            return _CLOSED
        if self._fetch_peer is not None and self._freshness.is_due():
            self._refetch(self._freshness.is_due)
        return self._freshness.withdrawal

    def _refetch(self, wanted: Callable[[], bool], *, anew: bool = False) -> Problem | None:
        """Look again if it is still wanted once nobody else looks, and return what went wrong."""
        with self._refetch_lock:
            if self._fetch_peer is None or not wanted():
                return self._freshness.withdrawal
            came = self._fetch_peer(self._connection, anew=anew)
            return self._freshness.replace_connection(came)


def _always() -> bool:
    return True


def _is_heard(_: Progress) -> Awaitable[None]:
    """Stand for the function that takes progress: the driver gives it to that one itself."""
    return COMPLETED


_CLOSED = Problem(kind=Kind.UNREACHABLE, message="This connection is closed: connect again.")
