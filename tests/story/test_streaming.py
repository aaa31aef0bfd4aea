"""A generator is a tool that streams: piece by piece where the wire can, as one list everywhere."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from threading import Event
from typing import Any
from urllib.request import Request, urlopen

import anyio
import pytest
from mcp import Client

import toolwire
from toolwire import Progress, Toolkit, Value, connect, connect_sync
from toolwire.protocols import BUILTIN
from toolwire.testing.loopback import background

WAIT_S = 60


class Kitchen:
    """A toolkit whose second dish is not made before ``eaten`` is set."""

    def __init__(self) -> None:
        self.eaten = Event()
        self.closed = Event()
        self.toolkit = Toolkit("Kitchen")

        @self.toolkit.tool(approval="auto")
        def courses() -> Iterator[str]:
            """Serve dinner."""
            try:
                yield "soup"
                assert self.eaten.wait(WAIT_S)
                yield "cake"
            finally:
                self.closed.set()

        @self.toolkit.tool(approval="auto")
        async def count(to: int) -> AsyncIterator[int]:
            """Count."""
            for number in range(to):
                yield number


@pytest.mark.parametrize("protocol", [codec.name for codec in BUILTIN])
def test_stream_result_is_a_list_in_every_protocol(serve: Callable[..., str], protocol: str) -> None:
    kitchen = Kitchen()
    kitchen.eaten.set()
    with connect_sync(serve(kitchen.toolkit), protocol=protocol, agree=lambda _: True) as remote:
        assert remote.call("count", {"to": 3}) == Value([0, 1, 2])
        assert remote.call("count", {"to": 0}) == Value([])
        assert remote.call("courses") == Value(["soup", "cake"])


def test_stream_item_is_sent_as_soon_as_it_is_made(serve: Callable[..., str]) -> None:
    kitchen = Kitchen()
    body = json.dumps({"jsonrpc": "2.0", "id": "1", "method": "courses", "params": {}}).encode()
    request = Request(f"{serve(kitchen.toolkit)}/opentool/streamCall", body, {"content-type": "application/json"})
    with urlopen(request, timeout=WAIT_S) as events:
        lines = (line.decode().strip() for line in events)
        assert next(line for line in lines if "soup" in line)  # the cake waits until this was read
        kitchen.eaten.set()
        assert next(line for line in lines if "cake" in line)
        rest = list(lines)
    assert "event:done" in rest
    assert kitchen.closed.wait(WAIT_S)


def test_our_client_receives_each_item_while_the_tool_runs(serve: Callable[..., str]) -> None:
    kitchen = Kitchen()
    received: list[str] = []

    def eat(progress: Progress) -> None:
        received.append(progress.value)
        kitchen.eaten.set()  # the cake waits until the soup was heard

    with connect_sync(serve(kitchen.toolkit), protocol="opentool", agree=lambda _: True) as remote:
        assert remote.call("courses", notify=eat) == Value(["soup", "cake"])
    assert received == ["soup", "cake"]


@pytest.mark.requirement("MC-05")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_official_mcp_client_receives_each_item_while_the_tool_runs(serve: Callable[..., str], mode: Any) -> None:
    kitchen = Kitchen()
    received: list[str | None] = []

    async def eat(_: float, __: float | None, text: str | None) -> None:
        received.append(text)
        kitchen.eaten.set()

    async def dine() -> Any:
        async with Client(f"{serve(kitchen.toolkit)}/mcp", mode=mode) as client:
            return (await client.call_tool("courses", {}, progress_callback=eat)).structured_content

    assert anyio.run(dine) == {"result": ["soup", "cake"]}
    assert received == ["soup", "cake"]


@pytest.mark.requirement("MC-05")
def test_our_client_receives_each_item_over_mcp_while_the_tool_runs(serve: Callable[..., str]) -> None:
    kitchen = Kitchen()
    received: list[str] = []

    def eat(progress: Progress) -> None:
        received.append(progress.value)
        kitchen.eaten.set()

    with connect_sync(serve(kitchen.toolkit), protocol="mcp", agree=lambda _: True) as remote:
        assert remote.call("courses", notify=eat) == Value(["soup", "cake"])
    assert received == ["soup", "cake"]


def test_gateway_passes_items_on_as_they_arrive(serve: Callable[..., str]) -> None:
    kitchen = Kitchen()
    far = serve(kitchen.toolkit)
    received: list[str] = []

    async def eat(progress: Progress) -> None:
        received.append(progress.value)
        kitchen.eaten.set()

    async def use() -> None:
        async with connect(far, protocol="opentool", agree=lambda _: True) as remote:
            with background(toolwire.asgi(remote)) as gateway:
                async with connect(gateway, protocol="opentool", agree=lambda _: True) as near:
                    assert await near.call("courses", notify=eat) == Value(["soup", "cake"])

    anyio.run(use)
    assert received == ["soup", "cake"]
