"""Our client on servers of FastMCP and the Python SDK 1.x, over streamable HTTP and as programs."""

from __future__ import annotations

import asyncio
import shlex
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest
from mcp import Client

from tests.interop.clients.served_kit import PNG
from tests.interop.mcp_makers import INSTALLED, MISSING, start_python
from tests.support.upstreams import connect_without_user
from toolwire import (
    Image,
    Kind,
    Progress,
    Session,
    Value,
    asgi,
    connect,
    connect_sync,
    merge_toolboxes,
    read_content,
)
from toolwire.testing import background

PACKAGES = {"fastmcp": "fastmcp", "sdk-1": "python_sdk_1"}
REVISIONS = {"fastmcp": "2026-07-28", "sdk-1": "2025-11-25"}
WAIT_S = 60

pytestmark = [pytest.mark.requirement("MC-12"), pytest.mark.skipif(not INSTALLED, reason=MISSING)]


@pytest.fixture(params=list(PACKAGES))
def maker(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["http", "stdio"])
def target(request: pytest.FixtureRequest, maker: str) -> Iterator[str]:
    """What ``connect`` is given for a server of ``maker``."""
    png = b64encode(PNG).decode()
    command = [*start_python("foreign_server.py", PACKAGES[maker]), maker, request.param, png]
    if request.param == "stdio":
        yield f"stdio:{shlex.join(command)}"
        return
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert url, f"the server of {maker} does not start"
            yield url
        finally:
            process.kill()


class User:
    """Approves every call, and answers a question of the server with ``sure``."""

    def __init__(self, *, sure: bool) -> None:
        self.sure = sure
        self.asked: list[str] = []

    def provide(self, request: Any) -> dict[str, bool]:
        self.asked.append(request.message)
        return {field.name: self.sure for field in request.fields}

    def connect(self, target: str) -> Any:
        options: dict[str, Any] = {"approve_command": lambda _: True} if target.startswith("stdio:") else {}
        return connect(target, approve=lambda _: True, provide_input=self.provide, timeout_s=WAIT_S, **options)


@pytest.mark.requirement("MC-02", "MC-05", "MC-06", "MC-07", "MC-09")
def test_our_client_does_everything_on_a_server_of_another_maker(target: str, maker: str) -> None:
    progress: list[Any] = []
    user = User(sure=True)

    async def talk() -> None:
        steps: list[asyncio.Future[Any]] = []

        async with user.connect(target) as remote:

            async def take_number(one: Progress) -> None:
                progress.append(one.value)
                steps.append(asyncio.ensure_future(remote.call("step")))

            assert f"MCP {REVISIONS[maker]}" in remote.probes[-1].meaning
            assert [tool.name for tool in remote.tools] == ["add", "chart", "count", "delete", "hear", "step", "wait"]
            assert await remote.call("add", {"a": 1, "b": 2}) == Value(3)
            assert await remote.call("count", {"to": 3}, notify=take_number) == Value("done")
            await asyncio.gather(*steps)
            assert await remote.call("delete") == Value("deleted")
            assert read_content((await remote.call("chart")).unwrap()) == Image(PNG, "image/png")
            assert await cancel_running(remote)
            assert await remote.call("hear") == Value("cancelled")

    asyncio.run(talk())
    assert progress == [{"progress": one, "total": 3, "message": f"{one} of 3"} for one in (1, 2, 3)]
    assert user.asked == ["Delete old.txt?"]


@pytest.mark.requirement("I-32")
@pytest.mark.parametrize(("target", "maker"), [("stateless", "sdk-1")], indirect=True)
def test_server_without_sessions_that_asks_is_left_at_once(target: str) -> None:
    user = User(sure=True)

    async def talk() -> None:
        async with user.connect(target) as remote:
            assert await remote.call("add", {"a": 1, "b": 2}) == Value(3)
            problem = await remote.call("delete")
            assert problem.kind == Kind.BAD_ANSWER
            assert problem.message == (
                "The server asks for input during the call, but has no session in which an answer could reach it. "
                "Run the server with sessions: in the Python SDK, without stateless_http."
            )

    asyncio.run(talk())
    assert user.asked == [], "the user is not asked for an answer that nobody gets"


async def cancel_running(remote: Any) -> bool:
    """Cancel a call once it runs, and return whether it was."""
    running = asyncio.Event()

    async def take_start(_: Progress) -> None:
        running.set()

    call = asyncio.ensure_future(remote.call("wait", notify=take_start))
    await running.wait()
    call.cancel()
    await asyncio.wait([call])
    return call.cancelled()


@pytest.mark.requirement("MC-07")
@pytest.mark.parametrize("target", ["http"], indirect=True)
def test_image_of_a_server_that_declares_no_result_goes_once_through_a_gateway(target: str) -> None:
    async def use(url: str) -> None:
        async with Client(f"{url}/mcp") as client:
            listed = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert listed["chart"].output_schema is None
            assert listed["add"].output_schema is not None
            drawn, added = await client.call_tool("chart", {}), await client.call_tool("add", {"a": 1, "b": 2})
        assert [block.type for block in drawn.content] == ["image"]
        assert drawn.structured_content is None
        assert added.structured_content == {"result": 3}

    upstream = connect_without_user(target, Session(), protocol="mcp", approve=lambda _: True)
    with background(asgi(merge_toolboxes([upstream]), consent="hints")) as url:
        asyncio.run(use(url))
        # Another gateway behind it still gets the image, and no text of it.
        with connect_sync(url, protocol="mcp", approve=lambda _: True) as remote:
            assert read_content(remote.call("chart").unwrap()) == Image(PNG, "image/png")
