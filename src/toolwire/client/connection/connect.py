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
from toolwire.client.discovery.discover import Discovery, origin
from toolwire.client.discovery.document_snapshot import SnapshotBuilder, again
from toolwire.client.discovery.probe_transport import TOTAL_S, ProbeTransport, SyncProbeTransport
from toolwire.client.discovery.relocation import MOST
from toolwire.client.transport.drivers import BRIEF_S, Approver, SyncTransport, Transport, arun, run, send_briefly
from toolwire.client.transport.limits import TransportLimits
from toolwire.client.transport.network import Network, SyncNetwork
from toolwire.consent.binding import NO_CREDENTIAL
from toolwire.core.codec import Flow
from toolwire.core.http import Request
from toolwire.core.model import Problem, Tool

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
        self._door: Network | None = None
        self._behind: SyncNetwork | None = None
        self._hand: CredentialAuth | None = None
        self._remote: Remote | None = None

    async def __aenter__(self) -> Remote:
        try:
            found, door = await self._found()
            options = self._options
            if options.document and found.peer is not None:
                door = self._door = self._signed(found.peer.url)  # nothing was sent through the one before
            connection = options.connection(found, self._hand)
            self._remote = Remote(connection, door, options.approve, options.context, look=self._again)
        except BaseException:
            await self._close()
            raise
        return self._remote

    async def __aexit__(self, *exception: Any) -> None:
        try:
            if self._remote is not None and self._door is not None:
                self._remote.close()
                message = _signed_now(self._remote.end_session(), self._hand)
                await send_briefly(self._door, message)
        finally:
            await self._close()

    def unattended(self) -> Remote:
        """Return the Remote without entering; see the function of this name."""
        found, self._cache = SyncPendingConnection(self._options).discovered()
        self._door = self._signed()
        return Remote(self._options.connection(found), self._door, self._options.approve, look=self._again)

    async def _found(self) -> tuple[Discovery, Transport]:
        """Return what the URL leads to, with the door for its calls; nothing of one origin is kept for another."""
        left = MOST
        while True:
            options = self._options
            self._behind = SyncNetwork(allow_private=options.allow_private)
            self._door = self._signed()
            self._hand = await to_thread.run_sync(options.hand, self._behind)
            found, readings = await self._seen(options.discovery())
            moved = options.moved_to(found, readings.move) if left else None
            if moved is None:
                return options.sourced(found, readings, self._cache, self._hand), self._signing()
            left -= 1
            await self._close()
            self._options = moved

    async def _again(self, connection: Connection, *, anew: bool) -> Connection | Problem:
        """Return ``connection`` as it is now; ``anew`` asks the server whatever was kept. [OQ-4]"""
        options = self._options
        if anew:
            connection.basis.forget(self._cache, options.credential(self._hand).identity)
        found, readings = await self._seen(again(connection.basis, options.rediscovery(connection)))
        if isinstance(found, Discovery):
            found = options.sourced(found, readings, self._cache, self._hand)
        return options.renewed(connection, found, readings, self._cache)

    async def _seen(self, flow: Flow[T]) -> tuple[T, SnapshotBuilder]:
        """Return what ``flow`` makes of the server, and what it read: without credentials until they are asked for."""
        options = self._options
        credential = options.credential(self._hand)
        most = options.selection.document_bytes
        limits = TransportLimits(total_s=TOTAL_S, response_bytes=most)
        unsigned = Network(limits=limits, allow_private=options.allow_private)
        known = self._hand is not None or credential is not NO_CREDENTIAL
        signed = self._signed(response_bytes=most) if known else None
        door = unsigned if signed is None else AuthOnChallenge(unsigned, self._signing(signed))
        looking = ProbeTransport(
            door, options.document, cache=self._cache, identity=credential.identity, most_bytes=most
        )
        try:
            return await arun(flow, looking, None, in_thread=True), looking.readings
        finally:
            await unsigned.aclose()
            if signed is not None:
                await signed.aclose()

    def _signing(self, door: Network | None = None) -> Transport:
        door = self._door if door is None else door
        assert door is not None  # noqa: S101 - open as long as anybody looks or calls
        return door if self._hand is None else self._hand.signing(door)

    def _signed(self, home: str = "", response_bytes: int = TransportLimits().response_bytes) -> Network:
        options = self._options
        if home:
            options.origins.settle(origin(home))
        return Network(
            limits=TransportLimits(total_s=options.timeout_s, response_bytes=response_bytes),
            credentials=options.credentials(home),
            allow_private=options.allow_private,
            origins=options.origins,
        )

    async def _close(self) -> None:
        if self._door is not None:
            await self._door.aclose()
        if self._behind is not None:
            self._behind.close()


class SyncPendingConnection:
    """What ``connect_sync`` returns: enter it to discover the server and get a SyncRemote."""

    def __init__(self, options: ConnectOptions) -> None:
        self._options = options
        self._cache = options.cache()
        self._door: SyncNetwork | None = None
        self._behind: SyncNetwork | None = None
        self._hand: CredentialAuth | None = None
        self._remote: SyncRemote | None = None

    def __enter__(self) -> SyncRemote:
        try:
            found, door = self._found()
            options = self._options
            if options.document and found.peer is not None:
                door = self._door = self._signed(found.peer.url)  # nothing was sent through the one before
            connection = options.connection(found, self._hand)
            self._remote = SyncRemote(connection, door, options.approve, options.context, look=self._again)
        except BaseException:
            self._close()
            raise
        return self._remote

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if self._remote is not None and self._door is not None:
                self._remote.close()
                message = _signed_now(self._remote.end_session(), self._hand)
                if message is not None:
                    self._door.send(message, total_s=BRIEF_S)
        finally:
            self._close()

    def discovered(self) -> tuple[Discovery, Cache]:
        """Return what the URL leads to, looked at with nobody's credentials, and what is kept of that."""
        found, readings = self._seen(self._options.discovery())
        return self._options.sourced(found, readings, self._cache), self._cache

    def _found(self) -> tuple[Discovery, SyncTransport]:
        """Return what the URL leads to, with the door for its calls; nothing of one origin is kept for another."""
        left = MOST
        while True:
            options = self._options
            self._behind = SyncNetwork(allow_private=options.allow_private)
            self._door = self._signed()
            self._hand = options.hand(self._behind)
            found, readings = self._seen(options.discovery())
            moved = options.moved_to(found, readings.move) if left else None
            if moved is None:
                return options.sourced(found, readings, self._cache, self._hand), self._signing()
            left -= 1
            self._close()
            self._options = moved

    def _again(self, connection: Connection, *, anew: bool) -> Connection | Problem:
        """Return ``connection`` as it is now; ``anew`` asks the server whatever was kept. [OQ-4]"""
        options = self._options
        if anew:
            connection.basis.forget(self._cache, options.credential(self._hand).identity)
        found, readings = self._seen(again(connection.basis, options.rediscovery(connection)))
        if isinstance(found, Discovery):
            found = options.sourced(found, readings, self._cache, self._hand)
        return options.renewed(connection, found, readings, self._cache)

    def _seen(self, flow: Flow[T]) -> tuple[T, SnapshotBuilder]:
        """Return what ``flow`` makes of the server, and what it read: without credentials until they are asked for."""
        options = self._options
        credential = options.credential(self._hand)
        most = options.selection.document_bytes
        limits = TransportLimits(total_s=TOTAL_S, response_bytes=most)
        unsigned = SyncNetwork(limits=limits, allow_private=options.allow_private)
        known = self._hand is not None or credential is not NO_CREDENTIAL
        signed = self._signed(response_bytes=most) if known else None
        door = unsigned if signed is None else SyncAuthOnChallenge(unsigned, self._signing(signed))
        looking = SyncProbeTransport(
            door, options.document, cache=self._cache, identity=credential.identity, most_bytes=most
        )
        try:
            return run(flow, looking, None), looking.readings
        finally:
            unsigned.close()
            if signed is not None:
                signed.close()

    def _signing(self, door: SyncNetwork | None = None) -> SyncTransport:
        door = self._door if door is None else door
        assert door is not None  # noqa: S101 - open as long as anybody looks or calls
        return door if self._hand is None else self._hand.signing_sync(door)

    def _signed(self, home: str = "", response_bytes: int = TransportLimits().response_bytes) -> SyncNetwork:
        options = self._options
        if home:
            options.origins.settle(origin(home))
        return SyncNetwork(
            limits=TransportLimits(total_s=options.timeout_s, response_bytes=response_bytes),
            credentials=options.credentials(home),
            allow_private=options.allow_private,
            origins=options.origins,
        )

    def _close(self) -> None:
        if self._door is not None:
            self._door.close()
        if self._behind is not None:
            self._behind.close()


def _signed_now(message: Request | None, hand: CredentialAuth | None) -> Request | None:
    """Return ``message`` as it can be sent at once; None where that takes a token which is not at hand."""
    return message if message is None or hand is None else hand.ready(message)


P = ParamSpec("P")
C = TypeVar("C")


def taking(options: Callable[P, ConnectOptions]) -> Callable[[Callable[[ConnectOptions], C]], Callable[P, C]]:
    """Make a function of Options one that takes what Options takes, for readers, editors and type checkers alike."""

    def taken(open_: Callable[[ConnectOptions], C]) -> Callable[P, C]:
        @wraps(open_)
        def opened(*args: P.args, **kwargs: P.kwargs) -> C:
            return open_(options(*args, **kwargs))

        returned = signature(open_).return_annotation
        opened.__signature__ = signature(options).replace(return_annotation=returned)  # type: ignore[attr-defined]  # help() and editors read it
        opened.__doc__ = "\n\n".join(cleandoc(one.__doc__ or "") for one in (open_, options))
        return opened

    return taken


@taking(ConnectOptions)
def connect(options: ConnectOptions) -> PendingConnection:
    """Return an asynchronous context manager that finds out what ``url`` speaks and gives its tools.

    Entering it raises ConnectError when the server cannot be reached or speaks no protocol of ours.
    """
    return PendingConnection(options)


@taking(ConnectOptions)
def connect_sync(options: ConnectOptions) -> SyncPendingConnection:
    """Return a context manager like ``connect``, blocking; ``approve`` must then be a plain function."""
    return SyncPendingConnection(options)


def unattended(
    url: str,
    session: Session,
    *,
    approve: Approver | None = None,
    agree: Callable[[tuple[Tool, ...]], bool] | None = None,
) -> Remote:
    """Return a Remote with nobody's credentials, found out blocking: for a server in front of others.

    ``approve`` and ``agree`` are those of ``connect``: who answers for a call that needs consent, and whether tools run
    that the site would run unasked by its word alone.

    It can be made inside a running event loop, looks at its server again like any other, and is left open.

    Raises:
        ConnectError: nothing was found.
    """
    return PendingConnection(
        ConnectOptions(url, session=session, approve=approve, agree=agree, timeout_s=TransportLimits().total_s)
    ).unattended()
