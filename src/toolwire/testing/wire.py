"""A wire with no network: requests go straight to an ASGI application of this process.

**Rules**
- What the application raises is raised to the caller: a test sees it.
- An exchange is kept once its answer is whole, in order, as both sides saw it.
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
"""Where an application on this wire seems to be."""

App: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]


class RecordedExchange(NamedTuple):
    """One request and what came back for it."""

    request: Request
    response: Response


class AppTransport:
    """A FakeTransport into an ASGI application; ``exchanges`` is everything that went through it."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.exchanges: list[RecordedExchange] = []

    async def send(self, request: Request) -> Response:
        """Return the application's answer to ``request``, whole."""
        async with run_app(self._app, request) as answer:
            response = await answer.read_all()
        self.exchanges.append(RecordedExchange(request, response))
        return response

    async def listen(self, request: Request, hear: PieceHandler, *, brief: bool = False) -> Response | Problem:  # noqa: ARG002  # no clock here
        """Return what ``send`` would, but give a stream of events to ``hear`` as it comes, and keep nothing of it."""
        async with run_app(self._app, request) as answer:
            start = await answer.read_start()
            if not is_stream(start):
                response = start._replace(body=await answer.read_rest())
                self.exchanges.append(RecordedExchange(request, response))
                return response
            heard: list[bytes] = []
            while (piece := await answer.read_chunk()) is not None:
                heard.append(piece)
                problem = await hear(piece)
                if problem is not None:
                    answer.disconnect()
                    return problem
        self.exchanges.append(RecordedExchange(request, start._replace(body=b"".join(heard))))
        return start

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""


class SyncAppTransport:
    """A SyncDoor into an ASGI application, which runs on an event loop of its own until ``close``."""

    def __init__(self, app: App) -> None:
        self._transport = AppTransport(app)
        self._runner = asyncio.Runner()

    @property
    def exchanges(self) -> list[RecordedExchange]:
        """Everything that went through this transport."""
        return self._transport.exchanges

    def send(self, request: Request) -> Response:
        """Return the application's answer to ``request``, whole."""
        return self._runner.run(self._transport.send(request))

    def listen(self, request: Request, hear: SyncPieceHandler, *, brief: bool = False) -> Response | Problem:
        """Return what ``send`` would, but give a stream of events to ``hear`` as it comes, and keep nothing of it."""

        async def hear_async(piece: bytes) -> Problem | None:
            return hear(piece)

        return self._runner.run(self._transport.listen(request, hear_async, brief=brief))

    def close(self) -> None:
        """End the event loop."""
        self._runner.close()


class CannedTransport:
    """A SyncDoor with no server: ``answers`` says what comes back for each request, at most ``most`` times."""

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

    def listen(self, request: Request, hear: SyncPieceHandler, *, brief: bool = False) -> Response | Problem:  # noqa: ARG002  # no clock here
        """Return the answer to ``request``; a stream of events is given to ``hear`` in two pieces."""
        answer = self.send(request)
        if isinstance(answer, Problem) or not is_stream(answer):
            return answer
        half = len(answer.body) // 2
        return hear(answer.body[:half]) or hear(answer.body[half:]) or answer._replace(body=b"")

    def close(self) -> None:
        """Do nothing: there is no connection."""


def is_stream(response: Response) -> bool:
    """Return whether ``response`` is a stream of events."""
    return response.status == 200 and get_header(response.headers, b"content-type").startswith("text/event-stream")


class AppResponse:
    """An answer that is being given: ``chunks`` as they come, ``whole`` at the end, ``leave`` as a client that goes."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._is_body_sent = False
        self._disconnected = asyncio.Event()
        self._messages: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

    async def receive(self) -> dict[str, Any]:
        """Give the application the request's body, and later that the client is gone."""
        if not self._is_body_sent:
            self._is_body_sent = True
            return {"type": "http.request", "body": self._request.body, "more_body": False}
        await self._disconnected.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        """Take what the application sends."""
        await self._messages.put(message)

    def end(self) -> None:
        """Note that the application has returned."""
        self._messages.put_nowait(None)

    def disconnect(self) -> None:
        """Go away, as a client does that loses patience."""
        self._disconnected.set()

    async def read_chunk(self) -> bytes | None:
        """Return the next piece of the body, or None after the last."""
        message = await self._messages.get()
        return None if message is None else message.get("body", b"")

    async def read_start(self) -> Response:
        """Return the response as it begins, without its body.

        Raises:
            RuntimeError: the application gave none.
        """
        start = await self._messages.get()
        if start is None:
            raise RuntimeError("the application did not answer")
        return Response(start["status"], tuple((bytes(key), bytes(value)) for key, value in start["headers"]))

    async def read_rest(self) -> bytes:
        """Return what is left of the body."""
        body = b""
        while (piece := await self.read_chunk()) is not None:
            body += piece
        return body

    async def read_all(self) -> Response:
        """Return the whole response."""
        start = await self.read_start()
        return start._replace(body=await self.read_rest())


@asynccontextmanager
async def run_app(app: App, request: Request) -> AsyncGenerator[AppResponse, None]:
    """Give the answer of ``app`` to ``request`` while the application runs; wait for its end at the end.

    Raises:
        Exception: whatever the application raised.
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
    """Return the ASGI scope of ``request``, as a server on loopback would make it."""
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
