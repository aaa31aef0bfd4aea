"""Connect to a URL: discover its server, open a Remote, and close its connections."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import wraps
from inspect import cleandoc, signature
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, ParamSpec, TypeVar

from anyio import CancelScope, to_thread
from anyio.from_thread import BlockingPortal

from toolwire.client.calls.retry import DEFAULT_RETRIES
from toolwire.client.calls.session import Session
from toolwire.client.discovery.discover import Discovery
from toolwire.client.discovery.relocation import MAX_RELOCATIONS
from toolwire.client.transport.drivers import BRIEF_S, Approver, SyncTransport, arun, run, send_briefly
from toolwire.client.transport.in_process import AppLifespan, AppNetwork, SyncAppNetwork, open_portal
from toolwire.client.transport.limits import DEFAULT_LIMITS
from toolwire.client.transport.network import Network, NetworkAccess, SyncNetwork
from toolwire.client.transport.program_network import ProgramNetwork, SyncProgramNetwork
from toolwire.client.transport.server_program import ServerProgram
from toolwire.core.codec import Flow, Peer
from toolwire.core.model import Json, Problem, Secret, Tool
from toolwire.core.resources import COMPLETE_RESULTS
from toolwire.core.selection import DEFAULT_SELECTION, Selection
from toolwire.core.url_display import show_url

from .connection import Connection
from .connection_factory import ConnectionFactory, NetworkSettings
from .held_calls import ask_caller
from .offered_reading import load_offered
from .options import ApproveCommand, ConnectOptions
from .remote import Remote, SyncRemote

if TYPE_CHECKING:  # signing in is rare
    from toolwire.stores.credentials.files import CredentialStore

T = TypeVar("T")
_log = logging.getLogger("toolwire")
_NO_ACCESS: Final = NetworkAccess()
_NO_HEADERS: Final[Mapping[str, str | Secret]] = {}


class PendingConnection:
    """What ``connect`` returns: enter it to discover the server and get a Remote; leaving it closes the connections."""

    def __init__(self, options: ConnectOptions) -> None:
        self._factory = ConnectionFactory(options)
        self._network: Network | ProgramNetwork | None = None
        self._program: ServerProgram | None = None
        self._auth_network: SyncNetwork | None = None
        self._remote: Remote | None = None
        self._lifespan: AppLifespan | None = None

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(_describe_unopened(self, name, "async with", "connect"))

    async def __aenter__(self) -> Remote:
        try:
            if self._factory.options.app is not None:
                self._lifespan = AppLifespan(self._factory.options.app)
                await self._lifespan.start()
            self._program = await to_thread.run_sync(self._factory.open_program)
            found = await self._discover()
            factory, options = self._factory, self._factory.options
            self._network = self._open_network(factory.call_network(found))
            if self._auth_network is not None:
                await to_thread.run_sync(factory.prepare_auth, found, self._auth_network)
            self._remote = Remote(
                factory.build(found),
                factory.authorize(self._network),
                options.approve,
                options.context,
                fetch_peer=self._refetch,
                provide_input=options.provide_input,
            )
            if self._remote.must_listen():
                await self._remote.begin()
                await self._remote.wait_until_listening()
        # __aexit__ does not run if __aenter__ fails or is cancelled, so everything is closed here.
        except BaseException:
            await self._close()
            raise
        return self._remote

    async def __aexit__(self, *exception: Any) -> None:
        try:
            if self._remote is not None and self._network is not None:
                await self._remote.end()
                self._remote.close()
                await send_briefly(self._network, self._factory.sign_now(self._remote.end_session()))
        finally:
            await self._close()

    def open_without_user(self) -> Remote:
        """Return the Remote without entering; see ``connect_without_user``."""
        factory, options = self._factory, self._factory.options
        self._program = factory.open_program()
        try:
            found = self._discover_once()
        except BaseException:
            self._end_program()
            raise
        self._network = self._open_network(factory.call_network(found))
        return Remote(
            factory.build(found),
            self._network,
            options.approve,
            fetch_peer=self._refetch,
            provide_input=options.provide_input,
        )

    async def _discover(self) -> Discovery:
        """Return what the URL offers, also after the site relocates; nothing of one origin is kept for another."""
        remaining = MAX_RELOCATIONS
        while True:
            factory = self._factory
            # Refreshes of tokens have a network of their own: the key of the site must not go to the sign-in server.
            self._auth_network = SyncNetwork(**factory.access())
            # Stored credentials are in files and may need a refresh over the network, both of which block.
            await to_thread.run_sync(factory.load_auth, self._auth_network)
            flow, builder = factory.discover()
            found = await self._fetch(flow)
            relocated = factory.relocate(found, builder.relocation) if remaining else None
            if relocated is None:
                return factory.add_source(found, builder)
            remaining -= 1
            self._auth_network.close()
            self._factory = relocated

    async def _refetch(self, connection: Connection, *, anew: bool) -> Connection | Problem:
        """Return the present ``connection``; with ``anew`` its documents are fetched, however fresh they are."""
        flow, builder = self._factory.rediscover(connection, anew=anew)
        return self._factory.rebuild(connection, await self._fetch(flow), builder)

    async def _fetch(self, flow: Flow[T]) -> T:
        network = self._open_network(self._factory.discovery_network())
        try:
            # A document may have megabytes: parsing it in the event loop would stall every other task.
            return await arun(flow, self._factory.authorize(network), None, in_thread=True)
        finally:
            await network.aclose()

    def _discover_once(self) -> Discovery:
        """Return what the URL offers, fetched blocking and without a stored credential of a user."""
        factory = self._factory
        flow, builder = factory.discover()
        settings = factory.discovery_network()
        # Blocking, because this runs outside of an event loop, or inside one that it cannot wait for.
        network: SyncNetwork | SyncProgramNetwork
        if self._program is None:
            network = SyncNetwork(**settings)
        else:
            network = SyncProgramNetwork(self._program, settings.get("limits", DEFAULT_LIMITS))
        with closing(network):
            transport = factory.authorize_sync(network)
            found = factory.add_source(run(flow, transport, None), builder)
            return found if found.peer is None else replace(found, peer=_load_offered(found.peer, transport))

    def _open_network(self, settings: NetworkSettings) -> Network | ProgramNetwork:
        if self._program is not None:
            return ProgramNetwork(self._program, settings.get("limits", DEFAULT_LIMITS))
        app = self._factory.options.app
        return Network(**settings) if app is None else AppNetwork(app, **settings)

    async def _close(self) -> None:
        if self._network is not None:
            await self._network.aclose()
        if self._auth_network is not None:
            self._auth_network.close()
        if self._lifespan is not None:
            await self._lifespan.stop()
            self._lifespan = None
        if self._program is not None:
            # The shield lets the program end although the task is being cancelled.
            with CancelScope(shield=True):
                await to_thread.run_sync(self._end_program)

    def _end_program(self) -> None:
        if self._program is not None:
            self._program.close()


class SyncPendingConnection:
    """What ``connect_sync`` returns: enter it to discover the server and get a SyncRemote."""

    def __init__(self, options: ConnectOptions) -> None:
        self._factory = ConnectionFactory(options)
        self._network: SyncNetwork | SyncAppNetwork | SyncProgramNetwork | None = None
        self._program: ServerProgram | None = None
        self._auth_network: SyncNetwork | None = None
        self._remote: SyncRemote | None = None
        self._opened = ExitStack()
        self._portal: BlockingPortal | None = None

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(_describe_unopened(self, name, "with", "connect_sync"))

    def __enter__(self) -> SyncRemote:
        try:
            if self._factory.options.app is not None:
                self._portal = self._opened.enter_context(open_portal(self._factory.options.app))
            self._program = self._factory.open_program()
            found = self._discover()
            factory, options = self._factory, self._factory.options
            self._network = self._open_network(factory.call_network(found))
            if self._auth_network is not None:
                factory.prepare_auth(found, self._auth_network)
            self._remote = SyncRemote(
                factory.build(found),
                factory.authorize_sync(self._network),
                options.approve,
                options.context,
                fetch_peer=self._refetch,
                provide_input=options.provide_input,
            )
            if self._remote.must_listen():
                self._remote.begin()
                self._remote.wait_until_listening()
        # __exit__ does not run if __enter__ fails, so everything is closed here.
        except BaseException:
            self._close()
            raise
        return self._remote

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if self._remote is not None and self._network is not None:
                self._remote.end()
                self._remote.close()
                message = self._factory.sign_now(self._remote.end_session())
                if message is not None:
                    self._network.send(message, total_s=BRIEF_S)
        finally:
            self._close()

    def _discover(self) -> Discovery:
        """Return what the URL offers, also after the site relocates; nothing of one origin is kept for another."""
        remaining = MAX_RELOCATIONS
        while True:
            factory = self._factory
            self._auth_network = SyncNetwork(**factory.access())
            factory.load_auth(self._auth_network)
            flow, builder = factory.discover()
            found = self._fetch(flow)
            relocated = factory.relocate(found, builder.relocation) if remaining else None
            if relocated is None:
                return factory.add_source(found, builder)
            remaining -= 1
            self._auth_network.close()
            self._factory = relocated

    def _refetch(self, connection: Connection, *, anew: bool) -> Connection | Problem:
        """Return the present ``connection``; with ``anew`` its documents are fetched, however fresh they are."""
        flow, builder = self._factory.rediscover(connection, anew=anew)
        return self._factory.rebuild(connection, self._fetch(flow), builder)

    def _fetch(self, flow: Flow[T]) -> T:
        with closing(self._open_network(self._factory.discovery_network())) as network:
            return run(flow, self._factory.authorize_sync(network), None)

    def _open_network(self, settings: NetworkSettings) -> SyncNetwork | SyncAppNetwork | SyncProgramNetwork:
        if self._program is not None:
            return SyncProgramNetwork(self._program, settings.get("limits", DEFAULT_LIMITS))
        app, portal = self._factory.options.app, self._portal
        return SyncNetwork(**settings) if app is None or portal is None else SyncAppNetwork(app, portal, **settings)

    def _close(self) -> None:
        if self._network is not None:
            self._network.close()
        if self._auth_network is not None:
            self._auth_network.close()
        if self._program is not None:
            self._program.close()
        self._opened.close()


def _load_offered(peer: Peer, transport: SyncTransport) -> Peer:
    """Return ``peer`` with its resources and prompts in the catalog; without them where the server fails to list."""
    offered = run(load_offered(peer), transport, None)
    if isinstance(offered, Problem):
        _log.warning("%s lists no resources and prompts: %s", show_url(peer.url), offered.message)
        return peer
    return replace(peer, catalog=peer.catalog.with_offered(offered))


def _describe_unopened(pending: object, name: str, opening: str, function: str) -> str:
    """Return why a connection that is not open has no attribute ``name``."""
    # A newcomer calls ``connect(url).call(...)``.
    text = f"{type(pending).__name__!r} object has no attribute {name!r}"
    return f"{text}: open the connection first, `{opening} {function}(...) as remote:`" if name in dir(Remote) else text


P = ParamSpec("P")
C = TypeVar("C")


def accept_options(options: Callable[P, ConnectOptions]) -> Callable[[Callable[[ConnectOptions], C]], Callable[P, C]]:
    """Return a decorator: a function of ``ConnectOptions`` then takes their fields, also for type checkers."""

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
    """Return an asynchronous context manager that connects to ``url`` and gives a Remote with its tools.

    Entering it raises ConnectError if the server cannot be reached or uses no supported protocol.
    """
    return PendingConnection(options)


@accept_options(ConnectOptions)
def connect_sync(options: ConnectOptions) -> SyncPendingConnection:
    """Return a context manager like ``connect``, blocking; ``approve`` must then be a plain function."""
    return SyncPendingConnection(options)


def build_upstream_options(
    url: str,
    session: Session,
    *,
    approve: Approver | None = None,
    agree: Callable[[tuple[Tool, ...]], bool] | None = None,
    api_key: str | Secret | None = None,
    protocol: str | None = None,
    selection: Selection = DEFAULT_SELECTION,
    access: NetworkAccess = _NO_ACCESS,
    headers: Mapping[str, str | Secret] = _NO_HEADERS,
    include_site_description: bool = False,
    approve_command: ApproveCommand | None = None,
    timeout_s: float = DEFAULT_LIMITS.total_s,
    retries: int = DEFAULT_RETRIES.retries,
    holds_calls: bool = True,
) -> ConnectOptions:
    """Return the options of a connection of a server in front of other servers; they are those of ``connect``.

    With ``holds_calls``, what a server asks in the middle of a call is passed on to its caller, whose answer must come
    to the same process.

    Raises:
        ValueError: an option is wrong; see ``ConnectOptions``.
    """
    return ConnectOptions(
        url,
        session=session,
        approve=approve,
        agree=agree,
        api_key=api_key,
        protocol=protocol,
        selection=selection,
        headers=headers,
        include_site_description=include_site_description,
        timeout_s=timeout_s,
        retries=retries,
        approve_command=approve_command,
        **access,
        provide_input=ask_caller if holds_calls else None,
        caps=COMPLETE_RESULTS,  # a client of the server in front cuts what its own model cannot take
    )


def connect_upstream(options: ConnectOptions) -> Remote:
    """Return a Remote without stored credentials of a user: for a server in front of other servers.

    The call blocks until the server is discovered; it can be made inside a running event loop. The Remote fetches its
    documents again like any other, and its connections stay open.

    Raises:
        ConnectError: nothing was found.
    """
    return PendingConnection(options).open_without_user()


@accept_options(build_upstream_options)
def connect_without_user(options: ConnectOptions) -> Remote:
    """Return a Remote without stored credentials of a user; see ``connect_upstream``."""
    return connect_upstream(options)


def connect_for_caller(
    options: ConnectOptions, session: Session, access: CredentialStore | Secret
) -> PendingConnection:
    """Return the connection of one caller of a server in front, with the caller's session and credentials or token."""
    if isinstance(access, Secret):
        return PendingConnection(replace(options, session=session, api_key=access))
    return PendingConnection(replace(options, session=session, api_key=None, credential_store=access))


class FetchedDefinitions(NamedTuple):
    """The URL of a connection, and the definition of each of its tools."""

    url: str
    definitions: list[dict[str, Json]]


def list_definitions(
    url: str,
    *,
    api_key: Secret | None,
    protocol: str | None,
    session: Session,
    selection: Selection = DEFAULT_SELECTION,
    access: NetworkAccess = _NO_ACCESS,
    headers: Mapping[str, str | Secret] = _NO_HEADERS,
    approve_command: ApproveCommand | None = None,
) -> FetchedDefinitions:
    """Connect to ``url`` and return the definitions of the selected tools, for a lock. No tool is called.

    Raises:
        ConnectError: nothing was found.
        ValueError: ``protocol`` is unknown.
    """
    with connect_sync(
        url,
        api_key=api_key,
        protocol=protocol,
        session=session,
        selection=selection,
        headers=headers,
        approve_command=approve_command,
        **access,
    ) as remote:
        return FetchedDefinitions(remote.url, remote.definitions())
