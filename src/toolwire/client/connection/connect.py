"""``connect``: from a pasted URL to a Remote, and its connections closed again."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import cleandoc, signature
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from anyio import to_thread

from toolwire.client.calls.session import Session
from toolwire.client.discovery.auth_on_challenge import AuthOnChallenge, SyncAuthOnChallenge
from toolwire.client.discovery.cache import Cache
from toolwire.client.discovery.discover import Discovery
from toolwire.client.discovery.document_snapshot import SnapshotBuilder, refetch
from toolwire.client.discovery.probe_transport import TOTAL_S, ProbeTransport, SyncProbeTransport
from toolwire.client.discovery.relocation import MAX_RELOCATIONS
from toolwire.client.transport.drivers import BRIEF_S, Approver, SyncTransport, Transport, arun, run, send_briefly
from toolwire.client.transport.limits import TransportLimits
from toolwire.client.transport.network import Network, SyncNetwork
from toolwire.consent.binding import NO_CREDENTIAL
from toolwire.core.codec import Flow
from toolwire.core.http import Request
from toolwire.core.model import Problem, Secret, Tool
from toolwire.core.selection import DEFAULT_SELECTION, Selection
from toolwire.core.url_origin import get_origin

from .connection import Connection
from .options import ConnectOptions
from .remote import Remote, SyncRemote

if TYPE_CHECKING:  # signing in is rare, and a lot of code
    from toolwire.client.login.auth_transport import CredentialAuth

T = TypeVar("T")


class PendingConnection:
    """What ``connect`` returns: enter it to discover the server and get a Remote; leaving closes the connections."""

    def __init__(self, options: ConnectOptions) -> None:
        self._options = options
        self._cache = options.cache()
        self._transport: Network | None = None
        self._behind: SyncNetwork | None = None
        self._auth: CredentialAuth | None = None
        self._remote: Remote | None = None

    async def __aenter__(self) -> Remote:
        try:
            found, transport = await self._discover()
            options = self._options
            if options.document and found.peer is not None:
                transport = self._transport = self._open_network(
                    found.peer.url
                )  # nothing was sent through the one before
            connection = options.connection(found, self._auth)
            self._remote = Remote(connection, transport, options.approve, options.context, fetch_peer=self._refetch)
        except BaseException:
            await self._close()
            raise
        return self._remote

    async def __aexit__(self, *exception: Any) -> None:
        try:
            if self._remote is not None and self._transport is not None:
                self._remote.close()
                message = _sign_now(self._remote.end_session(), self._auth)
                await send_briefly(self._transport, message)
        finally:
            await self._close()

    def open_without_user(self) -> Remote:
        """Return the Remote without entering; see the function of this name."""
        found, self._cache = SyncPendingConnection(self._options).discover_without_user()
        # The document of a file may name any server, which then is the only origin that is called.
        home = found.peer.url if self._options.document and found.peer is not None else ""
        self._transport = self._open_network(home)
        return Remote(self._options.connection(found), self._transport, self._options.approve, fetch_peer=self._refetch)

    async def _discover(self) -> tuple[Discovery, Transport]:
        """Return what the URL leads to, with the transport for its calls; nothing of one origin is kept for another."""
        left = MAX_RELOCATIONS
        while True:
            options = self._options
            self._behind = SyncNetwork(allow_private=options.allow_private)
            self._transport = self._open_network()
            self._auth = await to_thread.run_sync(options.find_auth, self._behind)
            found, readings = await self._probe(options.discovery())
            moved = options.relocate(found, readings.relocation) if left else None
            if moved is None:
                return options.add_source(found, readings, self._cache, self._auth), self._authorize()
            left -= 1
            await self._close()
            self._options = moved

    async def _refetch(self, connection: Connection, *, anew: bool) -> Connection | Problem:
        """Return ``connection`` as it is now; ``anew`` asks the server whatever was kept. [OQ-4]"""
        options = self._options
        if anew:
            connection.snapshot.expire(self._cache, options.credential(self._auth).identity)
        found, readings = await self._probe(refetch(connection.snapshot, options.rediscovery(connection)))
        if isinstance(found, Discovery):
            found = options.add_source(found, readings, self._cache, self._auth)
        return options.rebuild_connection(connection, found, readings, self._cache)

    async def _probe(self, flow: Flow[T]) -> tuple[T, SnapshotBuilder]:
        """Return what ``flow`` makes of the server, and what it read: without credentials until they are asked for."""
        options = self._options
        credential = options.credential(self._auth)
        most = options.selection.document_bytes
        limits = TransportLimits(total_s=TOTAL_S, response_bytes=most)
        unsigned = Network(limits=limits, allow_private=options.allow_private)
        known = self._auth is not None or credential is not NO_CREDENTIAL
        signed = self._open_network(response_bytes=most) if known else None
        transport = unsigned if signed is None else AuthOnChallenge(unsigned, self._authorize(signed))
        looking = ProbeTransport(
            transport, options.document, cache=self._cache, identity=credential.identity, most_bytes=most
        )
        try:
            return await arun(flow, looking, None, in_thread=True), looking.readings
        finally:
            await unsigned.aclose()
            if signed is not None:
                await signed.aclose()

    def _authorize(self, transport: Network | None = None) -> Transport:
        transport = self._transport if transport is None else transport
        assert transport is not None  # noqa: S101 - open as long as anybody looks or calls
        return transport if self._auth is None else self._auth.wrap(transport)

    def _open_network(self, home: str = "", response_bytes: int = TransportLimits().response_bytes) -> Network:
        options = self._options
        if home:
            options.origins.allow(get_origin(home))
        return Network(
            limits=TransportLimits(total_s=options.timeout_s, response_bytes=response_bytes),
            credentials=options.credentials(home),
            allow_private=options.allow_private,
            origins=options.origins,
        )

    async def _close(self) -> None:
        if self._transport is not None:
            await self._transport.aclose()
        if self._behind is not None:
            self._behind.close()


class SyncPendingConnection:
    """What ``connect_sync`` returns: enter it to discover the server and get a SyncRemote."""

    def __init__(self, options: ConnectOptions) -> None:
        self._options = options
        self._cache = options.cache()
        self._transport: SyncNetwork | None = None
        self._behind: SyncNetwork | None = None
        self._auth: CredentialAuth | None = None
        self._remote: SyncRemote | None = None

    def __enter__(self) -> SyncRemote:
        try:
            found, transport = self._discover()
            options = self._options
            if options.document and found.peer is not None:
                transport = self._transport = self._open_network(
                    found.peer.url
                )  # nothing was sent through the one before
            connection = options.connection(found, self._auth)
            self._remote = SyncRemote(connection, transport, options.approve, options.context, fetch_peer=self._refetch)
        except BaseException:
            self._close()
            raise
        return self._remote

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if self._remote is not None and self._transport is not None:
                self._remote.close()
                message = _sign_now(self._remote.end_session(), self._auth)
                if message is not None:
                    self._transport.send(message, total_s=BRIEF_S)
        finally:
            self._close()

    def discover_without_user(self) -> tuple[Discovery, Cache]:
        """Return what the URL leads to, looked at with nobody's credentials, and what is kept of that."""
        found, readings = self._probe(self._options.discovery())
        return self._options.add_source(found, readings, self._cache), self._cache

    def _discover(self) -> tuple[Discovery, SyncTransport]:
        """Return what the URL leads to, with the transport for its calls; nothing of one origin is kept for another."""
        left = MAX_RELOCATIONS
        while True:
            options = self._options
            self._behind = SyncNetwork(allow_private=options.allow_private)
            self._transport = self._open_network()
            self._auth = options.find_auth(self._behind)
            found, readings = self._probe(options.discovery())
            moved = options.relocate(found, readings.relocation) if left else None
            if moved is None:
                return options.add_source(found, readings, self._cache, self._auth), self._authorize()
            left -= 1
            self._close()
            self._options = moved

    def _refetch(self, connection: Connection, *, anew: bool) -> Connection | Problem:
        """Return ``connection`` as it is now; ``anew`` asks the server whatever was kept. [OQ-4]"""
        options = self._options
        if anew:
            connection.snapshot.expire(self._cache, options.credential(self._auth).identity)
        found, readings = self._probe(refetch(connection.snapshot, options.rediscovery(connection)))
        if isinstance(found, Discovery):
            found = options.add_source(found, readings, self._cache, self._auth)
        return options.rebuild_connection(connection, found, readings, self._cache)

    def _probe(self, flow: Flow[T]) -> tuple[T, SnapshotBuilder]:
        """Return what ``flow`` makes of the server, and what it read: without credentials until they are asked for."""
        options = self._options
        credential = options.credential(self._auth)
        most = options.selection.document_bytes
        limits = TransportLimits(total_s=TOTAL_S, response_bytes=most)
        unsigned = SyncNetwork(limits=limits, allow_private=options.allow_private)
        known = self._auth is not None or credential is not NO_CREDENTIAL
        signed = self._open_network(response_bytes=most) if known else None
        transport = unsigned if signed is None else SyncAuthOnChallenge(unsigned, self._authorize(signed))
        looking = SyncProbeTransport(
            transport, options.document, cache=self._cache, identity=credential.identity, most_bytes=most
        )
        try:
            return run(flow, looking, None), looking.readings
        finally:
            unsigned.close()
            if signed is not None:
                signed.close()

    def _authorize(self, transport: SyncNetwork | None = None) -> SyncTransport:
        transport = self._transport if transport is None else transport
        assert transport is not None  # noqa: S101 - open as long as anybody looks or calls
        return transport if self._auth is None else self._auth.wrap_sync(transport)

    def _open_network(self, home: str = "", response_bytes: int = TransportLimits().response_bytes) -> SyncNetwork:
        options = self._options
        if home:
            options.origins.allow(get_origin(home))
        return SyncNetwork(
            limits=TransportLimits(total_s=options.timeout_s, response_bytes=response_bytes),
            credentials=options.credentials(home),
            allow_private=options.allow_private,
            origins=options.origins,
        )

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()
        if self._behind is not None:
            self._behind.close()


def _sign_now(message: Request | None, auth: CredentialAuth | None) -> Request | None:
    """Return ``message`` as it can be sent at once; None where that takes a token which is not at hand."""
    return message if message is None or auth is None else auth.sign_now(message)


P = ParamSpec("P")
C = TypeVar("C")


def accept_options(options: Callable[P, ConnectOptions]) -> Callable[[Callable[[ConnectOptions], C]], Callable[P, C]]:
    """Make a function of Options one that takes what Options takes, for readers, editors and type checkers alike."""

    def decorate(open_: Callable[[ConnectOptions], C]) -> Callable[P, C]:
        @wraps(open_)
        def open_with_options(*args: P.args, **kwargs: P.kwargs) -> C:
            return open_(options(*args, **kwargs))

        returned = signature(open_).return_annotation
        open_with_options.__signature__ = signature(options).replace(return_annotation=returned)  # type: ignore[attr-defined]  # help() and editors read it
        open_with_options.__doc__ = "\n\n".join(cleandoc(one.__doc__ or "") for one in (open_, options))
        return open_with_options

    return decorate


@accept_options(ConnectOptions)
def connect(options: ConnectOptions) -> PendingConnection:
    """Return an asynchronous context manager that finds out what ``url`` speaks and gives its tools.

    Entering it raises ConnectError when the server cannot be reached or speaks no protocol of ours.
    """
    return PendingConnection(options)


@accept_options(ConnectOptions)
def connect_sync(options: ConnectOptions) -> SyncPendingConnection:
    """Return a context manager like ``connect``, blocking; ``approve`` must then be a plain function."""
    return SyncPendingConnection(options)


def connect_without_user(
    url: str,
    session: Session,
    *,
    approve: Approver | None = None,
    agree: Callable[[tuple[Tool, ...]], bool] | None = None,
    api_key: str | Secret | None = None,
    protocol: str | None = None,
    selection: Selection = DEFAULT_SELECTION,
) -> Remote:
    """Return a Remote with nobody's stored credentials, found out blocking: for a server in front of others.

    ``approve`` and ``agree`` are those of ``connect``: who answers for a call that needs consent, and whether tools run
    that the site would run unasked by its word alone.

    It can be made inside a running event loop, looks at its server again like any other, and is left open.

    Raises:
        ConnectError: nothing was found.
    """
    return PendingConnection(
        ConnectOptions(
            url,
            session=session,
            approve=approve,
            agree=agree,
            api_key=api_key,
            protocol=protocol,
            selection=selection,
            timeout_s=TransportLimits().total_s,
        )
    ).open_without_user()
