"""Call an ASGI application of this process as if it were a server, asynchronously and blocking, without a network.

Rules:
- All rules of ``request_rules`` hold: credentials, header fields, redirects, sizes and time limits.
- The asynchronous application runs in the event loop of the caller, so that it can share what belongs to that loop.
- Leaving a call cancels the application's task, as a server does when its client disconnects.
- A response is returned once it is complete. What the application does afterwards, such as a background task,
  continues. Closing the transport waits ``GRACE_S`` for it, then cancels it.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Generator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias, Unpack, cast
from urllib.parse import unquote

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from toolwire.core.codec import ConnectError
from toolwire.core.http import Headers, Request, Response
from toolwire.core.model import Problem

from .drivers import PieceHandler, SyncPieceHandler
from .failures import early_close, timeout
from .http1 import write_request
from .network import Network, NetworkSettings
from .request_rules import SendRequest
from .response_reader import ResponseCollector
from .server_program import GRACE_S

Message: TypeAlias = MutableMapping[str, Any]
Asgi: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]
"""An ASGI application of any framework."""

UNFINISHED: ContextVar[set[asyncio.Task[None]]] = ContextVar("toolwire_unfinished")
"""Collects the tasks of an application that still run after its response, if a caller waits for them."""
_log = logging.getLogger("toolwire")
APP_ORIGIN = "http://127.0.0.1"
"""The address of an application of this process: a server believes it without a setting for its host name."""


def takes_arguments(app: object, count: int) -> bool:
    """Return whether ``app`` can be called with ``count`` arguments: 3 for ASGI, 2 for WSGI. If unknown, True."""
    if not callable(app) or isinstance(app, type):
        return False
    try:
        signature = inspect.signature(app)
    except (TypeError, ValueError):  # of C, or with a signature that cannot be read
        return True
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


class AppNetwork(Network):
    """The asynchronous transport to one ASGI application. Every address leads to that application."""

    def __init__(self, app: Asgi, **settings: Unpack[NetworkSettings]) -> None:
        super().__init__(**settings)
        self._app = app
        self._unfinished: set[asyncio.Task[None]] = set()

    async def _send_to_address(self, hop: SendRequest, on_piece: PieceHandler | None) -> Response | Problem:
        limits, origin = self._exchange.limits, hop.target.origin
        incoming = ResponseCollector(origin, limits, streaming=on_piece is not None, echoes=hop.echoes)
        exchange = _AppExchange(hop, incoming, on_piece)
        # A task of its own, so that what the application sets in its context does not reach the caller.
        running = asyncio.create_task(exchange.run(self._app))
        try:
            await asyncio.wait_for(exchange.ended.wait(), hop.within_s)
        except TimeoutError:
            return timeout(origin, sent=True)
        finally:
            if exchange.complete and not running.done():
                for tasks in (self._unfinished, UNFINISHED.get(self._unfinished)):
                    tasks.add(running)
                    running.add_done_callback(tasks.discard)
            elif running.cancel():
                await asyncio.wait((running,))
        if exchange.problem is not None:
            return exchange.problem
        return incoming.build_response() if exchange.complete else early_close(origin, answered=exchange.started)

    async def aclose(self) -> None:
        """Wait for what the application still does after its responses; cancel what takes longer than ``GRACE_S``."""
        try:
            if self._unfinished:
                await asyncio.wait(self._unfinished, timeout=GRACE_S)
        finally:
            for task in (late := tuple(self._unfinished)):
                _log.warning("A background task of the application did not end in %g s and was cancelled.", GRACE_S)
                task.cancel()
        if late:
            await asyncio.wait(late, timeout=GRACE_S)  # a task can ignore that it is cancelled


class _ResponseEnded(Exception):
    """The reader of a stream wants no more of it."""


class _AppExchange:
    """One request to an application, and what it has sent of its response."""

    def __init__(self, hop: SendRequest, incoming: ResponseCollector, on_piece: PieceHandler | None) -> None:
        head, _, self._body = write_request(hop).partition(b"\r\n\r\n")
        line, *fields = head.split(b"\r\n")
        target = line.split(b" ")[1]
        path, _, query = target.partition(b"?")
        self.scope: Message = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": hop.method,
            "scheme": hop.target.url.scheme,
            # ASGI has the decoded path here and the path as it was sent in raw_path.
            "path": unquote(path.decode("ascii")),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": [_split_field(field) for field in fields],
            "client": ("127.0.0.1", 0),
            "server": (hop.target.host, hop.target.port),
        }
        self.started = self.complete = False
        self.problem: Problem | None = None
        self._incoming, self._pass_piece = incoming, on_piece
        self._requested = False
        self.ended = asyncio.Event()

    async def run(self, app: Asgi) -> None:
        """Let ``app`` answer; an exception is logged, as by a server."""
        try:
            await app(self.scope, self.receive, self.send)
        except _ResponseEnded:
            pass
        except Exception:  # noqa: BLE001 - a server answers 500 or hangs up where its application raises
            _log.exception("%s %s failed", self.scope["method"], self.scope["path"])
        finally:
            self.ended.set()

    async def receive(self) -> Message:
        """Return the request body, and after the response the disconnection of the client."""
        if not self._requested:
            self._requested = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self.ended.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Take one message of the application; a reader that is slow holds the application back."""
        if message["type"] == "http.response.start":
            self.started = True
            fields: Headers = [(bytes(name).lower(), bytes(value)) for name, value in message.get("headers", ())]
            self._refuse(self._incoming.begin(message["status"], fields))
        elif message["type"] == "http.response.body":
            if piece := message.get("body", b""):
                self._refuse(self._incoming.add_piece(bytes(piece)))
            if self._pass_piece is not None and self._incoming.is_streaming:
                self._refuse(await self._pass_piece(self._incoming.drain()))
            if not message.get("more_body", False):
                self.complete = True
                self.ended.set()

    def _refuse(self, problem: Problem | None) -> None:
        if problem is not None:
            self.problem = problem
            self.ended.set()
            raise _ResponseEnded


def _split_field(line: bytes) -> tuple[bytes, bytes]:
    name, _, value = line.partition(b": ")
    return name.lower(), value


class SyncAppNetwork:
    """The blocking transport to one ASGI application, which runs in the event loop of ``portal``."""

    def __init__(self, app: Asgi, portal: BlockingPortal, **settings: Unpack[NetworkSettings]) -> None:
        self._network = AppNetwork(app, **settings)
        self._portal = portal

    def send(self, request: Request, *, total_s: float | None = None) -> Response | Problem:
        """Return the response to ``request``; see ``SyncNetwork.send``."""

        async def send() -> Response | Problem:
            return await self._network.send(request, total_s=total_s)

        return self._portal.call(send)

    def listen(self, request: Request, on_piece: SyncPieceHandler, *, brief: bool = False) -> Response | Problem:
        """Return what ``send`` would, and give a stream of events to ``on_piece``, which runs in another thread."""

        async def handle_in_thread(piece: bytes) -> Problem | None:
            return await anyio.to_thread.run_sync(on_piece, piece)

        async def listen() -> Response | Problem:
            return await self._network.listen(request, handle_in_thread, brief=brief)

        return self._portal.call(listen)

    def close(self) -> None:
        """See ``AppNetwork.aclose``."""
        self._portal.call(self._network.aclose)


class AppLifespan:
    """Runs the lifespan of an application: ``start`` before the first request, ``stop`` after the last."""

    def __init__(self, app: Asgi) -> None:
        self._app = app
        self._to_app: asyncio.Queue[Message] = asyncio.Queue()
        self._from_app: asyncio.Queue[Message] = asyncio.Queue()
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the application; one that knows no lifespan is used without it.

        Raises:
            ConnectError: the application says that it cannot start.
        """
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": {}}
        run = cast("Callable[..., Any]", self._app)
        self._running = asyncio.ensure_future(run(scope, self._to_app.get, self._from_app.put))
        message = await self._ask("lifespan.startup")
        if message is not None and message["type"] == "lifespan.startup.failed":
            await self.stop()
            # Some frameworks send a whole traceback: its last line says what is wrong.
            lines = str(message.get("message", "")).strip().splitlines() or ["it did not say why"]
            raise ConnectError(f"The application did not start: {lines[-1]}", ())

    async def stop(self) -> None:
        """Stop the application."""
        if self._running is not None and not self._running.done():
            await self._ask("lifespan.shutdown")
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def _ask(self, event: str) -> Message | None:
        """Send an event and return the answer, or None where the application has ended instead of answering."""
        await self._to_app.put({"type": event})
        answer = asyncio.ensure_future(self._from_app.get())
        running = cast("asyncio.Task[None]", self._running)
        # For both: an application that does not know lifespan events ends instead of answering.
        await asyncio.wait((answer, running), return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        answer.cancel()
        return None


@contextmanager
def open_portal(app: Asgi) -> Generator[BlockingPortal, None, None]:
    """Run an event loop in a thread, and in it the lifespan of ``app``; for ``SyncAppNetwork``."""
    with start_blocking_portal() as portal:
        lifespan = portal.call(AppLifespan, app)
        portal.call(lifespan.start)
        try:
            yield portal
        finally:
            portal.call(lifespan.stop)
