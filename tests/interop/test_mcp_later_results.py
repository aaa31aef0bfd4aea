"""Clients of other makers that know no tasks read the result of a long call later, by its id."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from toolwire import Context, Toolkit, asgi
from toolwire.core.check import Answer
from toolwire.core.model import Secret
from toolwire.hosting.open_upstreams import open_toolboxes
from toolwire.hosting.serve_app import build_app
from toolwire.hosting.serve_settings import ServeSettings
from toolwire.server.access.api_keys import ApiKey
from toolwire.server.options import ServerOptions
from toolwire.stores.consent.approvals import Approvals
from toolwire.testing import background

pytestmark = pytest.mark.requirement("LC-02", "MC-12")
WAIT_S = 120
OWNERS = {"ann": "ann-key-000000000000000000000000", "bob": "bob-key-000000000000000000000000"}
KEYS = [ApiKey(key=Secret(key), name=name) for name, key in OWNERS.items()]
URL_AND_ID = re.compile(r'(\S*) To get its result, call read_result with the handle "([0-9a-f]{40})"\.')


class Press:
    """Copies pages once it has paper."""

    def __init__(self) -> None:
        self.paper = threading.Event()
        self.kit = Toolkit("Press")

        @self.kit.tool(long=True, approval="auto")
        async def copy(pages: int, context: Context) -> dict[str, list[int]]:
            """Copy pages."""
            await context.progress({"progress": 1, "total": 4, "message": "warm"})
            await asyncio.to_thread(self.paper.wait, WAIT_S)
            return {"pages": list(range(pages))}

        @self.kit.tool(long=True, approval="per-call")
        async def publish(title: str) -> str:
            """Publish."""
            return f"published {title}"


class Way(NamedTuple):
    """A way to a server: its URL, or the command that starts one."""

    url: str
    words: tuple[str, ...] = ()
    mode: str = "auto"

    async def open(self, stack: AsyncExitStack, name: str) -> Client:
        if self.words:
            transport: Any = stdio_client(StdioServerParameters(command=sys.executable, args=["-m", *self.words]))
        else:
            web = await stack.enter_async_context(httpx2.AsyncClient(headers={"x-api-key": OWNERS[name]}, timeout=60))
            transport = streamable_http_client(f"{self.url}/mcp", http_client=web)
        return await stack.enter_async_context(Client(transport, mode=self.mode))


@pytest.fixture
def press() -> Press:
    return Press()


@pytest.fixture
def ways(press: Press, tmp_path: Path) -> Iterator[dict[str, Way]]:
    with ExitStack() as stack:

        def serve(app: Any) -> str:
            return stack.enter_context(background(app))

        url = serve(asgi(press.kit, api_keys=KEYS, state=tmp_path / "state", consent="inbox"))
        owners = [f"{key} {name}" for name, key in OWNERS.items()]
        site = serve(asgi(press.kit))
        settings = ServeSettings(targets=[site], api_keys=owners, server=ServerOptions(state=str(tmp_path / "gate")))
        gateway = serve(build_app(settings, open_toolboxes(settings)))
        yield {
            "http": Way(url),
            "legacy": Way(url, mode="legacy"),
            "gateway": Way(gateway),
            "bridge": Way("", ("toolwire", "serve", site, "--stdio", "--consent", "refuse"), "legacy"),
        }


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    called = await client.call_tool(tool, arguments)
    assert not called.is_error, called.content
    return called


def test_client_without_tasks_reads_the_result_later_and_no_other_caller_does(
    ways: dict[str, Way], press: Press, tmp_path: Path
) -> None:
    async def begin(client: Client, tool: str, **arguments: Any) -> tuple[str, str]:
        called = await call(client, tool, **arguments)
        text = called.content[0].text
        found = URL_AND_ID.search(text)
        assert found, text
        return text, found[2]

    async def story() -> None:
        async with AsyncExitStack() as stack:
            ann = {name: await way.open(stack, "ann") for name, way in ways.items()}
            bob = {name: await ways[name].open(stack, "bob") for name in ("http", "legacy", "gateway")}
            for client in ann.values():
                listed = {tool.name: tool for tool in (await client.list_tools()).tools}
                assert "call's ID" in str(listed["read_result"].description)
                assert listed["copy"].output_schema is None  # an SDK discards an answer without the promised result
            begun = await asyncio.gather(
                *(begin(client, "copy", pages=3) for client in ann.values()),
                begin(ann["http"], "publish", title="news"),
            )
            for text, _ in begun[:-1]:
                assert text.startswith("copy is still running (25%: warm).")
            text, asked_id = begun[-1]
            assert text.startswith("publish waits for its user. "), text
            for name, client in bob.items():
                for _, id_ in begun:
                    refused = await client.call_tool("read_result", {"handle": id_})
                    assert refused.is_error, name
                    assert "You have no call" in refused.content[0].text
            [question] = Approvals(tmp_path / "state").list_pending()
            reading = asyncio.ensure_future(call(ann["legacy"], "read_result", handle=asked_id))
            assert Approvals(tmp_path / "state").answer(question.id, Answer(allowed=True))
            assert (await reading).content[0].text == "published news"
            readings = [
                asyncio.ensure_future(call(client, "read_result", handle=id_))
                for client, (_, id_) in zip(ann.values(), begun, strict=False)
            ]
            press.paper.set()
            for reading in readings:
                assert (await reading).structured_content == {"pages": [0, 1, 2]}
            part = await call(ann["http"], "read_result", handle=begun[0][1], path="/pages", **{"from": 1, "count": 1})
            notes = {"from": 1, "count": 1, "total": 3, "next": 2}
            assert json.loads(part.content[0].text) == {"result": [1], "notes": notes}

    asyncio.run(story())
