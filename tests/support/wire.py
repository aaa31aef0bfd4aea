"""Send requests directly to an ASGI application of this process, without a network.

**Rules**
- Exceptions of the application reach the caller, so that a test sees them.
- A request and its response are recorded, in order, when the response is complete.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote, urlsplit

from toolwire.client.transport.drivers import PieceHandler, SyncPieceHandler
from toolwire.core.http import Request, Response, get_header
from toolwire.core.model import Problem

HERE = "http://127.0.0.1:9627"
"""The base URL that an application on this wire has."""

App: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]


class RecordedExchange(NamedTuple):
    """A request and its response."""

    request: Request
    response: Response


class AppTransport:
    """A transport to an ASGI application. ``exchanges`` records all requests and responses."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.exchanges: list[RecordedExchange] = []

    async def send(self, request: Request) -> Response:
        """Return the application's complete response to ``request``."""
        async with run_app(self._app, request) as answer:
            response = await answer.read_all()
        self.exchanges.append(RecordedExchange(request, response))
        return response

    async def listen(self, request: Request, on_piece: PieceHandler, *, brief: bool = False) -> Response | Problem:
        """Return the response as ``send`` does, but pass an event stream to ``on_piece`` piece by piece."""
        async with run_app(self._app, request) as answer:
            start = await answer.read_start()
            if not is_stream(start):
                response = start._replace(body=await answer.read_rest())
                self.exchanges.append(RecordedExchange(request, response))
                return response
            pieces: list[bytes] = []
            while (piece := await answer.read_chunk()) is not None:
                pieces.append(piece)
                problem = await on_piece(piece)
                if problem is not None:
                    answer.disconnect()
                    return problem
        self.exchanges.append(RecordedExchange(request, start._replace(body=b"".join(pieces))))
        return start

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""


class SyncAppTransport:
    """A blocking transport to an ASGI application, which runs on its own event loop until ``close``."""

    def __init__(self, app: App) -> None:
        self._transport = AppTransport(app)
        self._runner = asyncio.Runner()

    @property
    def exchanges(self) -> list[RecordedExchange]:
        """All requests and responses of this transport."""
        return self._transport.exchanges

    def send(self, request: Request) -> Response:
        """Return the application's complete response to ``request``."""
        return self._runner.run(self._transport.send(request))

    def listen(self, request: Request, on_piece: SyncPieceHandler, *, brief: bool = False) -> Response | Problem:
        """Return the response as ``send`` does, but pass an event stream to ``on_piece`` piece by piece."""

        async def handle_async(piece: bytes) -> Problem | None:
            return on_piece(piece)

        return self._runner.run(self._transport.listen(request, handle_async, brief=brief))

    def close(self) -> None:
        """End the event loop."""
        self._runner.close()


class CannedTransport:
    """A blocking transport without a server. ``answers`` builds the response to each of at most ``most`` requests."""

    def __init__(self, answers: Callable[[Request], Response | Problem], *, most: int = 100) -> None:
        self._answers = answers
        self._most = most
        self.sent: list[Request] = []

    def send(self, request: Request) -> Response | Problem:
        """Return the answer to ``request``.

        Raises:
            RuntimeError: there were too many requests.
        """
        self.sent.append(request)
        if len(self.sent) > self._most:
            raise RuntimeError(f"more than {self._most} requests")
        return self._answers(request)

    def listen(self, request: Request, on_piece: SyncPieceHandler, *, brief: bool = False) -> Response | Problem:
        """Return the response to ``request``. An event stream is passed to ``on_piece`` in two pieces."""
        answer = self.send(request)
        if isinstance(answer, Problem) or not is_stream(answer):
            return answer
        half = len(answer.body) // 2
        return on_piece(answer.body[:half]) or on_piece(answer.body[half:]) or answer._replace(body=b"")

    def close(self) -> None:
        """Do nothing: there is no connection."""


def is_stream(response: Response) -> bool:
    """Return whether ``response`` is an event stream."""
    return response.status == 200 and get_header(response.headers, b"content-type").startswith("text/event-stream")


class AppResponse:
    """The response of a running application: read it in chunks or whole, or disconnect as a client would."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._is_body_sent = False
        self._disconnected = asyncio.Event()
        self._messages: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

    async def receive(self) -> dict[str, Any]:
        """Return the request's body to the application, and later the message that the client disconnected."""
        if not self._is_body_sent:
            self._is_body_sent = True
            return {"type": "http.request", "body": self._request.body, "more_body": False}
        await self._disconnected.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        """Store a message that the application sends."""
        await self._messages.put(message)

    def end(self) -> None:
        """Note that the application has returned."""
        self._messages.put_nowait(None)

    def disconnect(self) -> None:
        """Disconnect, as a client does that stops waiting."""
        self._disconnected.set()

    async def read_chunk(self) -> bytes | None:
        """Return the next piece of the body, or None after the last."""
        message = await self._messages.get()
        return None if message is None else message.get("body", b"")

    async def read_start(self) -> Response:
        """Return the status and headers of the response, without its body.

        Raises:
            RuntimeError: the application returned without a response.
        """
        start = await self._messages.get()
        if start is None:
            raise RuntimeError("the application did not answer")
        return Response(start["status"], tuple((bytes(key), bytes(value)) for key, value in start["headers"]))

    async def read_rest(self) -> bytes:
        """Return the rest of the body."""
        body = b""
        while (piece := await self.read_chunk()) is not None:
            body += piece
        return body

    async def read_all(self) -> Response:
        """Return the complete response."""
        start = await self.read_start()
        return start._replace(body=await self.read_rest())


@asynccontextmanager
async def run_app(app: App, request: Request) -> AsyncGenerator[AppResponse, None]:
    """Run ``app`` on ``request`` and yield its response. The block ends when the application returns.

    Raises:
        ExceptionGroup: the application raised an exception.
    """
    answer = AppResponse(request)

    async def serve() -> None:
        try:
            await app(build_scope(request), answer.receive, answer.send)
        finally:
            answer.end()

    async with asyncio.TaskGroup() as group:
        group.create_task(serve())
        yield answer


def build_scope(request: Request) -> dict[str, Any]:
    """Return the ASGI scope of ``request``, as a server on loopback builds it."""
    url = urlsplit(request.url)
    names = {name for name, _ in request.headers}
    host = () if b"host" in names else ((b"host", url.netloc.encode() or b"127.0.0.1:9627"),)
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": url.scheme or "http",
        "path": unquote(url.path or "/"),
        "raw_path": (url.path or "/").encode(),
        "query_string": url.query.encode(),
        "root_path": "",
        "headers": [*host, *request.headers],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 9627),
    }
