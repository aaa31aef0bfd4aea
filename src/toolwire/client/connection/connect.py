"""Connect to a URL: discover its server, open a Remote, and close its connections."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import fields, replace
from functools import wraps
from inspect import cleandoc, signature
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar

from toolwire.client.calls.session import Session
from toolwire.client.discovery.discover import Discovery
from toolwire.client.discovery.document_snapshot import SnapshotBuilder
from toolwire.client.discovery.relocation import MAX_RELOCATIONS
from toolwire.client.transport.drivers import SyncNotify, SyncTransport, Transport
from toolwire.client.transport.message_exchange import MessageServer
from toolwire.client.transport.network import SyncNetwork
from toolwire.client.transport.server_program import ServerProgram
from toolwire.core.codec import ConnectError, Flow
from toolwire.core.model import ANONYMOUS, Context, Kind, Problem, Secret
from toolwire.core.selection import Selection
from toolwire.core.suggestion import find_nearest
from toolwire.core.toolbox import Notify, complete
from toolwire.core.url_origin import get_origin

from .connection import Connection
from .connection_factory import ConnectionFactory
from .driver import AsyncDriver, BlockingDriver, Driver, NotifyT, TransportT
from .feature_reading import load_features
from .options import ConnectOptions
from .remote import Remote, SyncRemote
from .remote_core import RemoteCore

if TYPE_CHECKING:  # signing in is rare
    from toolwire.stores.credentials.files import CredentialStore

T = TypeVar("T")
RemoteT = TypeVar("RemoteT", bound=RemoteCore[Any, Any])
_log = logging.getLogger("toolwire")


class _Opening(ABC, Generic[TransportT, NotifyT, RemoteT]):
    """A connection that is not open yet. ``driver`` makes it asynchronous or blocking."""

    _opened_by: str

    def __init__(
        self, options: ConnectOptions, driver: Driver[TransportT, NotifyT], remote_class: type[RemoteT]
    ) -> None:
        self._factory = ConnectionFactory(options)
        self._driver = driver
        self._remote_class = remote_class
        self._network: TransportT | None = None
        self._server: MessageServer | None = None
        self._auth_network: SyncNetwork | None = None
        self._remote: RemoteT | None = None

    def __getattr__(self, name: str) -> Any:
        # A newcomer calls ``connect(url).call(...)``.
        text = f"{type(self).__name__!r} object has no attribute {name!r}"
        known = name in dir(Remote)
        raise AttributeError(f"{text}: open the connection first, with `{self._opened_by}`" if known else text)

    async def _open(self) -> RemoteT:
        try:
            if self._factory.options.app is not None:
                await self._driver.open_app(self._factory.options.app)
            self._server = await self._driver.call(self._factory.open_program)
            found = await self._discover()
            if self._auth_network is not None:
                await self._driver.call(self._factory.prepare_auth, found, self._auth_network)
            connection = await self._connect(found)
            remote = self._remote = self._build_remote(found, connection, self._factory.options.context)
            if remote.must_listen():
                await self._begin_listening(remote)
        # If opening fails or is cancelled, the code that closes a connection does not run, so everything is closed
        # here.
        except BaseException:
            await self._close()
            raise
        return remote

    async def _end(self) -> None:
        try:
            if self._remote is not None and self._network is not None:
                await self._end_listening(self._remote)
                self._remote.close()
                message = self._factory.sign_now(self._remote.end_session())
                await self._driver.send_briefly(self._network, message)
        finally:
            await self._close()

    @abstractmethod
    async def _begin_listening(self, remote: RemoteT) -> None:
        """Start to listen to the server."""

    @abstractmethod
    async def _end_listening(self, remote: RemoteT) -> None:
        """Stop listening."""

    def _take_over(self, other: _Opening[Any, Any, Any]) -> None:
        """Take over what ``other`` has found and opened. The caller closes it if that fails."""
        self._factory, self._auth_network, self._server = other._factory, other._auth_network, other._server

    async def _connect(self, found: Discovery) -> Connection:
        """Return the connection to what was found. This asks the user, and runs slow work in a thread."""
        # GR-04: computing and storing many tools' definitions must not block an event loop.
        opened = await self._driver.call(self._factory.open, found)
        try:
            if trusted := self._factory.ask_for_trust(opened):
                return await self._driver.call(opened.trust, trusted)
        except BaseException:
            opened.connection.pipeline.session.release(opened.connection.pipeline.name)
            raise
        return opened.connection

    def _build_remote(
        self, found: Discovery, connection: Connection, context: Context, server: MessageServer | None = None
    ) -> RemoteT:
        factory, options = self._factory, self._factory.options
        self._network = self._driver.open_network(self._server, factory.call_network(found))
        return self._remote_class(
            connection,
            self._network,
            options.approve,
            context,
            fetch_peer=self._refetch,
            provide_input=options.provide_input,
            server=server,
        )

    async def _discover(self) -> Discovery:
        """Return what the URL offers, even after the site relocates. Nothing from one origin is reused for another."""
        remaining = MAX_RELOCATIONS
        while True:
            factory = self._factory
            # Token refreshes use a separate network, because the site's key must not be sent to the sign-in server.
            self._auth_network = SyncNetwork(**factory.access())
            # Stored credentials are in files and can need a refresh over the network. Both block.
            await self._driver.call(factory.load_auth, self._auth_network)
            found, builder = await self._discover_server(factory)
            relocated = factory.relocate(found, builder.relocation) if remaining else None
            if relocated is None:
                return factory.add_source(found, builder)
            remaining -= 1
            self._auth_network.close()
            self._factory = relocated

    async def _discover_server(self, factory: ConnectionFactory) -> tuple[Discovery, SnapshotBuilder]:
        """Return what is at the factory's URL. A server with the HTTP+SSE transport stays open for the calls."""
        if factory.has_stream_url:
            await self._driver.call(self._open_event_stream, factory)
        flow, builder = factory.discover(is_mcp=self._server is not None)
        found = await self._fetch(flow)
        if found.peer is None and self._server is None and factory.is_declared_mcp:
            await self._driver.call(self._open_event_stream, factory)
            flow, builder = factory.discover(is_mcp=True)
            found = await self._fetch(flow)
        return found, builder

    def _open_event_stream(self, factory: ConnectionFactory) -> None:
        # Stored at once, because a task that is cancelled meanwhile does not get a thread's return value.
        self._server = factory.open_event_stream()

    async def _refetch(self, connection: Connection, *, anew: bool) -> Connection | Problem:
        """Return the current ``connection``. With ``anew``, fetch its documents even if they are fresh."""
        flow, builder = self._factory.rediscover(connection, anew=anew)
        return self._factory.rebuild(connection, await self._fetch(flow), builder)

    async def _fetch(self, flow: Flow[T]) -> T:
        network = self._driver.open_network(self._server, self._factory.discovery_network())
        try:
            # A document can have megabytes. Parsing it in the event loop would stall every other task.
            return await self._driver.fetch(flow, network)
        finally:
            await self._driver.close_network(network)

    async def _close(self) -> None:
        if self._network is not None:
            await self._driver.close_network(self._network)
        if self._auth_network is not None:
            self._auth_network.close()
        await self._driver.close(self._server)


class Opening:
    """A connection attempt in one thread that another thread can abandon."""

    def __init__(self) -> None:
        self.is_abandoned: bool = False
        self._program: ServerProgram | None = None

    def hold(self, program: ServerProgram | None) -> ServerProgram | None:
        """Return ``program``. From now on, ``abandon`` ends it."""
        self._program = program
        if self.is_abandoned and program is not None:
            program.close()
        return program

    def abandon(self) -> None:
        """End the program that is being opened, which can take seconds. Waiting code gets a ConnectError."""
        self.is_abandoned = True
        if self._program is not None:
            self._program.close()


class PendingConnection(_Opening[Transport, Notify, Remote]):
    """The return value of ``connect``. Entering it yields a Remote. Leaving it closes the connections."""

    _opened_by = "async with connect(...) as remote:"

    def __init__(self, options: ConnectOptions) -> None:
        super().__init__(options, AsyncDriver(), Remote)

    async def __aenter__(self) -> Remote:
        return await self._open()

    async def __aexit__(self, *exception: object) -> None:
        await self._end()

    if not TYPE_CHECKING:  # a type checker reports the mistake by itself

        def __await__(self) -> None:
            raise TypeError(
                f"connect opens a connection with `{self._opened_by}`. To keep it open over several cells of a "
                "notebook, use `stack = AsyncExitStack()`, and `await stack.enter_async_context(connect(...))`."
            )

        def __enter__(self) -> None:
            raise TypeError(f"connect opens a connection with `{self._opened_by}`; connect_sync is the blocking form.")

        def __exit__(self, *exception: object) -> None:
            """Do nothing: it is never entered."""

    async def _begin_listening(self, remote: Remote) -> None:
        await remote.begin()
        await remote.wait_until_listening()

    async def _end_listening(self, remote: Remote) -> None:
        await remote.end()

    def open_without_user(self, opening: Opening) -> Remote:
        """Return the Remote without entering. See ``connect_upstream``."""
        # Blocking, because this runs outside of an event loop, or inside one that it cannot wait for.
        blocking = SyncPendingConnection(self._factory.options)
        try:
            found = complete(blocking.discover_without_user(self._factory, opening))
            self._take_over(blocking)
            connection = self._factory.build(found)
            if opening.is_abandoned:
                raise ConnectError("The gateway has stopped.", kind=Kind.CANCELLED)
        except BaseException:
            complete(blocking._close())
            raise
        return self._build_remote(found, connection, ANONYMOUS, self._server)


class SyncPendingConnection(_Opening[SyncTransport, SyncNotify, SyncRemote]):
    """The return value of ``connect_sync``. Entering it yields a SyncRemote."""

    _opened_by = "with connect_sync(...) as remote:"

    def __init__(self, options: ConnectOptions) -> None:
        super().__init__(options, BlockingDriver(), SyncRemote)

    def __enter__(self) -> SyncRemote:
        return complete(self._open())

    def __exit__(self, *exception: object) -> None:
        complete(self._end())

    if not TYPE_CHECKING:  # a type checker reports the mistake by itself

        async def __aenter__(self) -> None:
            raise TypeError(f"connect_sync opens a connection with `{self._opened_by}`; connect is for coroutines.")

        async def __aexit__(self, *exception: object) -> None:
            """Do nothing: it is never entered."""

    async def discover_without_user(self, factory: ConnectionFactory, opening: Opening) -> Discovery:
        """Return what the factory's URL offers. Of the stored credentials, use only the ones that its options name."""
        self._factory, self._server = factory, opening.hold(factory.open_program())
        if factory.options.credential_store is not None:
            self._auth_network = SyncNetwork(**factory.access())
            factory.load_auth(self._auth_network)
        found, builder = await self._discover_server(factory)
        if found.peer is not None and (adopted := factory.relocate(found, None)) is not None:
            self._factory = factory = adopted
            found, builder = await self._discover_server(factory)
        found = factory.add_source(found, builder)
        if self._auth_network is not None:
            factory.prepare_auth(found, self._auth_network)
        if found.peer is None:
            return found
        features = await self._fetch(load_features(found.peer))
        if isinstance(features, Problem):
            _log.warning("%s lists no resources and prompts: %s", get_origin(found.peer.url), features.message)
            return found
        return replace(found, peer=replace(found.peer, catalog=found.peer.catalog.with_features(features)))

    async def _begin_listening(self, remote: SyncRemote) -> None:
        remote.begin()
        remote.wait_until_listening()

    async def _end_listening(self, remote: SyncRemote) -> None:
        remote.end()


_OTHER_WORDS: Final = {
    **{field.name: f"selection=Selection({field.name}=...)" for field in fields(Selection)},
    "auth": "token=..., api_key=... or headers=...",
}
"""Suggestions for options that ``connect`` lacks, such as those of the command line and other clients."""

P = ParamSpec("P")
C = TypeVar("C")


def accept_options(options: Callable[P, ConnectOptions]) -> Callable[[Callable[[ConnectOptions], C]], Callable[P, C]]:
    """Return a decorator that lets a function of ``ConnectOptions`` accept their fields as typed keywords."""

    def decorate(open_: Callable[[ConnectOptions], C]) -> Callable[P, C]:
        known = signature(options).parameters

        @wraps(open_)
        def open_with_options(*args: P.args, **kwargs: P.kwargs) -> C:
            if unknown := next((name for name in kwargs if name not in known), ""):
                near = find_nearest(unknown, known)
                hint = f": did you mean {near!r}?" if near else "."
                if meant := _OTHER_WORDS.get(unknown):
                    hint = f": write {meant}."
                raise TypeError(f"{open_.__name__} has no option {unknown!r}{hint}")
            return open_(options(*args, **kwargs))

        returned = signature(open_).return_annotation
        open_with_options.__signature__ = signature(options).replace(return_annotation=returned)  # type: ignore[attr-defined]  # help() and editors read it
        open_with_options.__doc__ = "\n\n".join(cleandoc(one.__doc__ or "") for one in (open_, options))
        return open_with_options

    return decorate


@accept_options(ConnectOptions)
def connect(options: ConnectOptions) -> PendingConnection:
    """Return an asynchronous context manager that connects to ``url`` and yields a Remote with the server's tools.

    Entering it raises ConnectError if the server cannot be reached or uses no supported protocol.
    """
    return PendingConnection(options)


@accept_options(ConnectOptions)
def connect_sync(options: ConnectOptions) -> SyncPendingConnection:
    """Return a blocking context manager that connects to ``url`` and yields a SyncRemote. See ``connect``.

    ``approve`` and the other functions that you pass must be plain functions.
    """
    return SyncPendingConnection(options)


def connect_upstream(options: ConnectOptions, opening: Opening | None = None) -> Remote:
    """Return a Remote for a gateway. Of the stored credentials, it uses only the ones in its options.

    This blocks until the server is discovered, and works inside a running event loop. The Remote fetches its documents
    again like any other, and its connections stay open. Another thread can abandon ``opening`` meanwhile.

    Raises:
        ConnectError: nothing was found.
    """
    return PendingConnection(options).open_without_user(Opening() if opening is None else opening)


def connect_for_caller(
    options: ConnectOptions, session: Session, access: CredentialStore | Secret
) -> PendingConnection:
    """Return the connection of one of a gateway's callers, with the caller's session and credentials or token."""
    if isinstance(access, Secret):
        return PendingConnection(replace(options, session=session, api_key=access))
    return PendingConnection(replace(options, session=session, api_key=None, credential_store=access))
