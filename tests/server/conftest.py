"""The kit that is served, a call of it in the words of every protocol, and an ASGI driver that can be slow."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from tests.support.conformance import build_kit, open_session
from tests.support.wire import HERE, AppTransport, build_scope
from toolwire import ServerLimits, Toolkit, asgi
from toolwire.core.codec import Codec, Site
from toolwire.core.http import Request, Response
from toolwire.core.model import Call
from toolwire.protocols import BUILTIN
from toolwire.server import App

PATIENCE_S = 10.0
ROUTES = tuple(
    dict.fromkeys([("GET", "/"), *(route for each in BUILTIN for route in each.routes(build_kit().catalog(), Site()))])
)


@pytest.fixture(params=BUILTIN, ids=lambda codec: codec.name)
def codec(request: pytest.FixtureRequest) -> Codec:
    found: Codec = request.param
    return found


@pytest.fixture(params=ROUTES, ids=" ".join)
def route(request: pytest.FixtureRequest) -> tuple[str, str]:
    found: tuple[str, str] = request.param
    return found


@pytest.fixture
def erase_request(codec: Codec) -> Request:
    """A call of ``erase`` as the protocol's own client sends it."""
    with open_session(codec) as joined:
        joined.send(Call(joined.peer.catalog.names["erase"], {"what": "all"}, "c1"))
        return joined.exchanges[-1].request


@pytest.fixture
def build_served_app() -> Callable[..., App]:
    def serve(target: Any = None, **options: Any) -> App:
        return asgi(build_kit() if target is None else target, **options)

    return serve


@pytest.fixture
def ask() -> Callable[..., Response]:
    """Send one request to an application and return its answer."""

    def asking(
        app: App,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> Response:
        fields = tuple((name.encode(), value.encode("latin-1")) for name, value in (headers or {}).items())

        async def within() -> Response:
            async with asyncio.timeout(PATIENCE_S):
                return await AppTransport(app).send(Request(method, f"{HERE}{path}", fields, body))

        return asyncio.run(within())

    return asking


@pytest.fixture
def send() -> Callable[[App, Request], Response]:
    """Send a request as it is."""

    def sending(app: App, request: Request) -> Response:
        async def within() -> Response:
            async with asyncio.timeout(PATIENCE_S):
                return await AppTransport(app).send(request)

        return asyncio.run(within())

    return sending


@pytest.fixture
def drip() -> Callable[..., Response]:
    """Send a request whose body comes in the given messages, and after the last of them nothing more."""

    def dripping(app: App, request: Request, messages: Sequence[Mapping[str, Any]]) -> Response:
        waiting = [dict(message) for message in messages]
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            if not waiting:
                await asyncio.Event().wait()
            return waiting.pop(0)

        async def take(message: Any) -> None:
            sent.append(message)

        async def within() -> None:
            async with asyncio.timeout(PATIENCE_S):
                await app(build_scope(request), receive, take)

        asyncio.run(within())
        return Response(sent[0]["status"], tuple(sent[0]["headers"]), b"".join(each["body"] for each in sent[1:]))

    return dripping


@pytest.fixture
def waiting_kit() -> tuple[Toolkit, list[str]]:
    """A tool that waits for ever, and a record of what became of it."""
    record: list[str] = []
    tools = Toolkit("Slow")

    @tools.tool(approval="auto")
    async def wait() -> str:
        record.append("started")
        try:
            await asyncio.Event().wait()
        finally:
            record.append("ended")
        return "never"

    return tools, record


@pytest.fixture
def short() -> ServerLimits:
    return ServerLimits(body_bytes=2_000, body_s=0.05, tool_s=0.05)
