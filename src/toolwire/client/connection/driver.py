"""The differences between asynchronous and blocking connections. Everything else is written once, as coroutines.

A coroutine over a ``BlockingDriver`` never waits, so ``complete`` runs it to its end in the calling thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, ExitStack
from threading import Event, Lock, Thread
from typing import Any, Protocol, TypeAlias, TypeVar, TypeVarTuple

import anyio
import anyio.to_thread
from anyio.from_thread import BlockingPortal

from toolwire.client.transport.drivers import (
    BRIEF_S,
    Approver,
    SyncNotify,
    SyncTransport,
    Transport,
    arun,
    run,
    send_briefly,
)
from toolwire.client.transport.in_process import AppLifespan, AppNetwork, Asgi, SyncAppNetwork, open_portal
from toolwire.client.transport.limits import DEFAULT_LIMITS
from toolwire.client.transport.message_exchange import MessageServer
from toolwire.client.transport.message_network import MessageNetwork, SyncMessageNetwork
from toolwire.client.transport.network import Network, NetworkSettings, SyncNetwork
from toolwire.core.codec import Flow
from toolwire.core.http import Request
from toolwire.core.model import Progress
from toolwire.core.toolbox import Notify, complete, ignore_progress
from toolwire.core.user_input import InputProvider

T = TypeVar("T")
TransportT = TypeVar("TransportT")
NotifyT = TypeVar("NotifyT")
Arguments = TypeVarTuple("Arguments")
_SyncNetworks: TypeAlias = SyncNetwork | SyncAppNetwork | SyncMessageNetwork


class Listening(Protocol):
    """Work that runs while a connection is used, as an event loop task or a thread."""

    async def pause(self, seconds: float) -> bool:
        """Wait, and return whether to continue the work."""
        ...

    def open(self) -> None:
        """Report that the server has opened or refused the stream."""
        ...

    async def wait_until_open(self, seconds: float) -> None:
        """Wait until ``open`` was called or the work has ended, or until the time is over."""
        ...

    async def end(self) -> None:
        """End the work; a thread ends with its stream."""
        ...


Listener: TypeAlias = Callable[[Listening], Coroutine[Any, Any, None]]


class Driver(Protocol[TransportT, NotifyT]):
    """One form of a connection: how flows are run, functions called and networks opened."""

    async def run(
        self,
        flow: Flow[T],
        transport: TransportT,
        approve: Approver | None = None,
        notify: NotifyT | None = None,
        provide_input: InputProvider | None = None,
        cancel: Callable[[Request], Request | None] | None = None,
    ) -> T:
        """Return the value of ``flow``. See ``arun``."""
        ...

    async def fetch(self, flow: Flow[T], transport: TransportT) -> T:
        """Return the value of ``flow``, which can parse large documents."""
        ...

    async def call(self, function: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
        """Return ``function(*arguments)``, which can block."""
        ...

    def wrap_notify(self, notify: Notify) -> NotifyT:
        """Return ``notify`` as a function for ``run``."""
        ...

    def create_lock(self) -> AbstractAsyncContextManager[None]:
        """Return a lock for the calls of one connection."""
        ...

    def listen(self, work: Listener) -> Listening:
        """Start ``work``, and return the handle that ends it."""
        ...

    async def open_app(self, app: Asgi) -> None:
        """Start an application in this process. Requests go to it from now on."""
        ...

    def open_network(self, server: MessageServer | None, settings: NetworkSettings) -> TransportT:
        """Return the network to ``server``, to the application that was opened, or to the internet."""
        ...

    async def close_network(self, network: TransportT) -> None:
        """Close every connection of ``network``."""
        ...

    async def send_briefly(self, network: TransportT, message: Request | None) -> None:
        """Send ``message``, if there is one, within ``BRIEF_S`` seconds."""
        ...

    async def close(self, server: MessageServer | None) -> None:
        """Stop the application and ``server``."""
        ...


class AsyncDriver:
    """The asynchronous form. Blocking work runs in a worker thread."""

    def __init__(self) -> None:
        self._app: Asgi | None = None
        self._lifespan: AppLifespan | None = None

    async def run(
        self,
        flow: Flow[T],
        transport: Transport,
        approve: Approver | None = None,
        notify: Notify | None = None,
        provide_input: InputProvider | None = None,
        cancel: Callable[[Request], Request | None] | None = None,
    ) -> T:
        """Return the value of ``flow``. See ``arun``."""
        notify = ignore_progress if notify is None else notify
        return await arun(flow, transport, approve, notify, cancel=cancel, provide_input=provide_input)

    async def fetch(self, flow: Flow[T], transport: Transport) -> T:
        """Return the value of ``flow``, whose steps run in a worker thread."""
        return await arun(flow, transport, in_thread=True)

    async def call(self, function: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
        """Return ``function(*arguments)`` from a worker thread."""
        return await anyio.to_thread.run_sync(function, *arguments)

    def wrap_notify(self, notify: Notify) -> Notify:
        """Return ``notify``."""
        return notify

    def create_lock(self) -> anyio.Lock:
        """Return a lock for tasks."""
        return anyio.Lock()

    def listen(self, work: Listener) -> Listening:
        """Start ``work`` as a task."""
        return _ListeningTask(work)

    async def open_app(self, app: Asgi) -> None:
        """Start ``app`` in this event loop."""
        self._app, self._lifespan = app, AppLifespan(app)
        await self._lifespan.start()

    def open_network(self, server: MessageServer | None, settings: NetworkSettings) -> Network | MessageNetwork:
        """Return the network to ``server``, to the application that was opened, or to the internet."""
        if server is not None:
            return MessageNetwork(server, settings.get("limits", DEFAULT_LIMITS))
        return Network(**settings) if self._app is None else AppNetwork(self._app, **settings)

    async def close_network(self, network: Transport) -> None:
        """Close every connection of ``network``."""
        await network.aclose()

    async def send_briefly(self, network: Transport, message: Request | None) -> None:
        """Send ``message``, if there is one, even if this task is cancelled."""
        await send_briefly(network, message)

    async def close(self, server: MessageServer | None) -> None:
        """Stop the application and ``server``."""
        if self._lifespan is not None:
            await self._lifespan.stop()
            self._lifespan = None
        if server is not None:
            # The shield lets a program end although the task is being cancelled.
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(server.close)


class BlockingDriver:
    """The blocking form. Its coroutines never wait. See ``complete``."""

    def __init__(self) -> None:
        self._app: Asgi | None = None
        self._portal: BlockingPortal | None = None
        self._opened = ExitStack()

    async def run(
        self,
        flow: Flow[T],
        transport: SyncTransport,
        approve: Approver | None = None,
        notify: SyncNotify | None = None,
        provide_input: InputProvider | None = None,
        cancel: Callable[[Request], Request | None] | None = None,
    ) -> T:
        """Return the value of ``flow``."""
        del cancel  # a blocking call is not cancelled
        return run(flow, transport, approve, notify, provide_input=provide_input)

    async def fetch(self, flow: Flow[T], transport: SyncTransport) -> T:
        """Return the value of ``flow``."""
        return run(flow, transport)

    async def call(self, function: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
        """Return ``function(*arguments)``."""
        return function(*arguments)

    def wrap_notify(self, notify: Notify) -> SyncNotify:
        """Return a plain function that runs ``notify``, which never waits."""

        def notify_now(progress: Progress) -> None:
            complete(notify(progress))

        return notify_now

    def create_lock(self) -> AbstractAsyncContextManager[None]:
        """Return a lock for threads."""
        return _ThreadLock()

    def listen(self, work: Listener) -> Listening:
        """Start ``work`` in a thread."""
        return _ListeningThread(work)

    async def open_app(self, app: Asgi) -> None:
        """Start ``app`` in its own event loop, in a thread."""
        self._portal = self._opened.enter_context(open_portal(app))
        self._app = app

    def open_network(self, server: MessageServer | None, settings: NetworkSettings) -> _SyncNetworks:
        """Return the network to ``server``, to the application that was opened, or to the internet."""
        if server is not None:
            return SyncMessageNetwork(server, settings.get("limits", DEFAULT_LIMITS))
        if self._app is None or self._portal is None:
            return SyncNetwork(**settings)
        return SyncAppNetwork(self._app, self._portal, **settings)

    async def close_network(self, network: SyncTransport) -> None:
        """Close every connection of ``network``."""
        network.close()

    async def send_briefly(self, network: SyncTransport, message: Request | None) -> None:
        """Send ``message``, if there is one, over a separate network, whose time can be limited."""
        if message is not None and isinstance(network, _SyncNetworks):
            network.send(message, total_s=BRIEF_S)

    async def close(self, server: MessageServer | None) -> None:
        """Stop ``server`` and the application."""
        if server is not None:
            server.close()
        self._opened.close()


class _ListeningTask:
    def __init__(self, work: Listener) -> None:
        self._opened = asyncio.Event()
        self._task = asyncio.create_task(self._run(work))

    async def _run(self, work: Listener) -> None:
        try:
            await work(self)
        finally:
            self._opened.set()

    async def pause(self, seconds: float) -> bool:
        await anyio.sleep(seconds)
        return True

    def open(self) -> None:
        self._opened.set()

    async def wait_until_open(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await self._opened.wait()

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])


class _ListeningThread:
    def __init__(self, work: Listener) -> None:
        self._opened, self._ended = Event(), Event()
        Thread(target=self._run, args=(work,), name="toolwire-listening", daemon=True).start()

    def _run(self, work: Listener) -> None:
        try:
            complete(work(self))
        finally:
            self._opened.set()

    async def pause(self, seconds: float) -> bool:
        return not self._ended.wait(seconds)

    def open(self) -> None:
        self._opened.set()

    async def wait_until_open(self, seconds: float) -> None:
        self._opened.wait(seconds)

    async def end(self) -> None:
        self._ended.set()


class _ThreadLock:
    def __init__(self) -> None:
        self._lock = Lock()

    async def __aenter__(self) -> None:
        self._lock.acquire()

    async def __aexit__(self, *exception: object) -> None:
        self._lock.release()
