"""A server somebody else runs, as a Toolbox: connect, look at its tools, call them with consent.

Both kinds of connection, asynchronous and blocking, drive the same conversations; only the driver differs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypedDict, Unpack
from urllib.parse import urlsplit
from uuid import uuid4

from toolwire.consent import NO_PREFERENCES, Lock, Preferences
from toolwire.consent.binding import NO_CREDENTIAL, Credential
from toolwire.consent.policy import joined, refuse_lowering
from toolwire.core.catalog import Catalog
from toolwire.core.codec import Codec, Flow, Peer, Probe
from toolwire.core.errors import ConnectError
from toolwire.core.model import ANONYMOUS, Call, Context, Json, Kind, Problem, Result, Tool
from toolwire.core.resources import Resource
from toolwire.core.toolbox import Notify, unheard
from toolwire.telemetry.outbound import traced

from .attaching import Keys, attached
from .discover import Discovery, candidates, shown
from .drive import Approver, Door, SyncDoor, SyncNotify, arun, run
from .gate import Gate
from .retry import DEFAULT_RETRIES, Retries
from .session import Session
from .source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A peer with the gate that every call to it passes. Nothing here opens a socket."""

    peer: Peer
    gate: Gate
    probes: tuple[Probe, ...]
    source: Source | None = None
    keys: Keys = field(default_factory=dict, repr=False)

    def calling(self, call: Call) -> Flow[Result]:
        """Return the result of ``call``: checks first, then the person if they must be asked, then the server."""
        flow = self.gate.calling(traced(call))
        return attached(flow, call.tool, self.keys, self.gate.site) if self.keys else flow

    def resource(self, handle: str) -> Resource | None:
        """Return what is kept under ``handle``, or None."""
        return self.peer.resources.find(handle) if self.peer.resources is not None else None

    def keep(self, resource: Resource) -> str:
        """Return the handle of ``resource``, or ``""`` where it is not kept."""
        return self.peer.resources.keep(resource) if self.peer.resources is not None else ""


def open_connection(
    found: Discovery, preferences: Preferences = NO_PREFERENCES, *, keyed: bool = False, **terms: Unpack[Terms]
) -> Connection:
    """Return the connection to what was found; see ``connection_to``.

    Raises:
        ConnectError: nothing was found; the text says what was tried.
        DefinitionError: ``preferences`` ask for less than the site, or the name is not to be had.
    """
    peer = found.peer
    if peer is None:
        raise ConnectError(nothing_found(found, keyed=keyed), found.probes)
    (codec,) = candidates(peer.protocol)
    return replace(connection_to(peer, codec, preferences, probes=found.probes, **terms), source=found.source)


class Terms(TypedDict, total=False):
    """On what terms a connection is made.

    ``session`` is what it shares with others; ``name`` what it is called there. ``locked`` refuses tools that are not
    as pinned. ``credential`` says how its requests are signed at the moment.
    """

    session: Session
    name: str
    locked: Lock | None
    credential: Callable[[], Credential]
    retries: Retries


def connection_to(
    peer: Peer,
    codec: Codec,
    preferences: Preferences = NO_PREFERENCES,
    *,
    probes: tuple[Probe, ...] = (),
    **terms: Unpack[Terms],
) -> Connection:
    """Return a connection to ``peer`` as ``codec`` speaks to it.

    Raises:
        DefinitionError: ``preferences`` ask for less than the site, or the name is not to be had.
    """
    session = terms.get("session") or Session(traced=False)
    refuse_lowering(peer.catalog.tools, joined(session.preferences, preferences))
    gate = Gate(
        session=session,
        peer=peer,
        codec=codec,
        name=session.admit(terms.get("name", ""), urlsplit(peer.url).hostname or "", peer.catalog),
        preferences=preferences,
        credential=terms.get("credential", _unsigned),
        retries=terms.get("retries", DEFAULT_RETRIES),
        locked=terms.get("locked"),
    )
    return Connection(peer=peer, gate=gate, probes=probes)


def _unsigned() -> Credential:
    return NO_CREDENTIAL


def nothing_found(found: Discovery, *, keyed: bool = False) -> str:
    """Return one sentence that says why nothing was found; ``keyed`` says whether a key was given."""
    url = shown(found.url)
    if url.startswith("file:") and found.probes:
        return f"{url.rpartition('/')[2]} cannot be used: it {found.probes[0].meaning}."
    reached = [probe for probe in found.probes if probe.status is not None]
    if not reached and found.probes:
        probe = found.probes[0]
        site = "/".join(shown(probe.url).split("/")[:3])
        return f"{url} could not be reached: it {probe.meaning.removeprefix(site).strip()}"
    if any(probe.status in (401, 403) for probe in reached):
        if keyed:
            return f"{url} does not accept this key."
        how = "give one with api_key=... or --key, or sign in with toolwire login"
        return f"{url} wants a key before it shows its tools: {how}."
    return f"{url} speaks none of our protocols; `toolwire explain {url}` shows every look that was taken."


class Remote:
    """A connection to a server, asynchronous; a Toolbox like any other. ``tools`` is what it offers."""

    def __init__(
        self, connection: Connection, door: Door, approve: Approver | None, context: Context = ANONYMOUS
    ) -> None:
        self._connection = connection
        self._door = door
        self._approve = approve
        self._context = context
        self.closed = False

    def close(self) -> None:
        """Make no more calls, and leave the session."""
        if not self.closed:
            self.closed = True
            self._connection.gate.session.release(self._connection.gate.name)

    @property
    def url(self) -> str:
        """Where the server was found."""
        return self._connection.peer.url

    def definitions(self) -> list[dict[str, Json]]:
        """Return the definition of each tool as plain data, as a lock pins it."""
        return self._connection.gate.definitions()

    def resource(self, handle: str) -> Resource | None:
        """Return the bytes under a handle that a result or ``keep`` gave, or None: the oldest make room for others."""
        return self._connection.resource(handle)

    def keep(self, data: bytes, *, media_type: str = "application/octet-stream", name: str = "") -> str:
        """Return a handle of ``data``, to pass as an argument where a tool takes a file; ``""`` if it is too large."""
        return self._connection.keep(Resource(data=data, media_type=media_type, name=name))

    @property
    def name(self) -> str:
        """What this connection is called in its session."""
        return self._connection.gate.name

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Every tool of the server, by toolkit and name, versions ascending."""
        return self._connection.peer.catalog.tools

    @property
    def protocol(self) -> str:
        """The name of the protocol that was chosen."""
        return self._connection.peer.protocol

    @property
    def probes(self) -> tuple[Probe, ...]:
        """Every look that was taken to find the protocol, in order."""
        return self._connection.probes

    @property
    def source(self) -> Source | None:
        """The document the connection was made from, with its hash, and when it was fetched. [XL-017]"""
        return self._connection.source

    def catalog(self) -> Catalog:
        """Return the server's catalog as it was when the connection was made."""
        return self._connection.peer.catalog

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        notify: Notify = unheard,
        context: Context | None = None,
    ) -> Result:
        """Call the tool ``name`` (or its id, with or without a version); return its Value or a Problem.

        ``notify`` is a coroutine function that is given each Progress of a tool that streams, in order. ``context``
        takes the place of the connection's.
        """
        tool = self.catalog().find(name)
        if isinstance(tool, Problem):
            return tool
        given = self._context if context is None else context
        return await self.run(Call(tool, {} if arguments is None else arguments, str(uuid4()), given), notify)

    async def run(self, call: Call, notify: Notify = unheard) -> Result:
        """Run ``call`` on the server; see ``Toolbox.run``."""
        if self.closed:
            return _CLOSED
        return await arun(self._connection.calling(call), self._door, self._approve, notify)


class SyncRemote:
    """A connection to a server, blocking. ``tools`` is what it offers."""

    def __init__(
        self, connection: Connection, door: SyncDoor, approve: Approver | None, context: Context = ANONYMOUS
    ) -> None:
        self._connection = connection
        self._door = door
        self._approve = approve
        self._context = context
        self.closed = False

    def close(self) -> None:
        """Make no more calls, and leave the session."""
        if not self.closed:
            self.closed = True
            self._connection.gate.session.release(self._connection.gate.name)

    @property
    def url(self) -> str:
        """Where the server was found."""
        return self._connection.peer.url

    def definitions(self) -> list[dict[str, Json]]:
        """Return the definition of each tool as plain data, as a lock pins it."""
        return self._connection.gate.definitions()

    def resource(self, handle: str) -> Resource | None:
        """Return the bytes under a handle that a result or ``keep`` gave, or None: the oldest make room for others."""
        return self._connection.resource(handle)

    def keep(self, data: bytes, *, media_type: str = "application/octet-stream", name: str = "") -> str:
        """Return a handle of ``data``, to pass as an argument where a tool takes a file; ``""`` if it is too large."""
        return self._connection.keep(Resource(data=data, media_type=media_type, name=name))

    @property
    def name(self) -> str:
        """What this connection is called in its session."""
        return self._connection.gate.name

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Every tool of the server, by toolkit and name, versions ascending."""
        return self._connection.peer.catalog.tools

    @property
    def protocol(self) -> str:
        """The name of the protocol that was chosen."""
        return self._connection.peer.protocol

    @property
    def probes(self) -> tuple[Probe, ...]:
        """Every look that was taken to find the protocol, in order."""
        return self._connection.probes

    @property
    def source(self) -> Source | None:
        """The document the connection was made from, with its hash, and when it was fetched. [XL-017]"""
        return self._connection.source

    def catalog(self) -> Catalog:
        """Return the server's catalog as it was when the connection was made."""
        return self._connection.peer.catalog

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
        tool = self.catalog().find(name)
        if isinstance(tool, Problem):
            return tool
        given = self._context if context is None else context
        call = Call(tool, {} if arguments is None else arguments, str(uuid4()), given)
        if self.closed:
            return _CLOSED
        return run(self._connection.calling(call), self._door, self._approve, notify)


_CLOSED = Problem(kind=Kind.UNREACHABLE, message="This connection is closed: connect again.")
