"""The universal-tool client on loopback, on our server: under ``/uts`` all of it, at the root all but the list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import anyio
import httpx
import pytest
from universal_tool_client import SyncClient, get_async_client, get_sync_client

from toolwire import ToolError, Toolkit


def calculator() -> Toolkit:
    toolkit = Toolkit("Calculator", version="1.2.0", description="Arithmetic.")

    @toolkit.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @toolkit.tool
    def divide(a: float, b: float) -> float:
        """Divide one number by another."""
        if b == 0:
            raise ToolError("Nothing is divided by zero.")
        return a / b

    @toolkit.tool
    def clear() -> None:
        """Forget everything."""

    return toolkit


@pytest.fixture
def url(serve: Callable[..., str]) -> str:
    return serve(calculator())


@pytest.fixture(params=["", "/uts"])
def client(url: str, request: pytest.FixtureRequest) -> Iterator[SyncClient]:
    """The client at the root and under the prefix."""
    client = get_sync_client(url=url + request.param)
    with closing(client.http.client):
        yield client


@pytest.mark.parametrize("client", ["/uts"], indirect=True)
@pytest.mark.requirement("S-13", "A-34")
def test_the_client_lists_our_tools(client: SyncClient) -> None:
    tools = {tool["name"]: tool for tool in client.tools.list()}
    assert set(tools) == {"add", "divide", "clear"}
    assert tools["add"]["id"] == "Calculator.add@1.2.0"
    assert tools["add"]["input_schema"]["required"] == ["a", "b"]
    assert all(tool["description"] for tool in tools.values())


@pytest.mark.requirement("S-10", "S-13", "S-14", "A-43", "A-48")
def test_the_client_calls_our_tools(client: SyncClient) -> None:
    for tool_id in ("add", "add@1.2.0", "Calculator.add", "Calculator.add@1.2.0"):
        answer = client.tools.call(tool_id, {"a": 1, "b": 2}, call_id="c1")
        assert (answer["call_id"], answer["success"], answer["value"]) == ("c1", True, 3)
    assert client.tools.call("clear")["value"] is None


@pytest.mark.requirement("S-8", "A-50")
def test_the_client_reads_health_and_info(client: SyncClient) -> None:
    assert client.health()["status"] == "OK"
    assert client.info() == {"version": "1.2.0"}


@pytest.mark.requirement("OTC-041", "S-12")
def test_client_receives_errors(client: SyncClient) -> None:
    failed = client.tools.call("divide", {"a": 1, "b": 0})
    assert (failed["success"], failed["error"]["message"]) == (False, "Nothing is divided by zero.")
    for tool_id, arguments, status in (("subtract", {}, 400), ("add", {"a": 1, "b": "two"}, 422)):
        with pytest.raises(httpx.HTTPStatusError) as refused:
            client.tools.call(tool_id, arguments)
        assert refused.value.response.status_code == status
        assert refused.value.response.json()["$schema"] == "otc://1.0"


@pytest.mark.requirement("S-13")
def test_the_asynchronous_client_lists_and_calls(url: str) -> None:
    async def talk() -> list[Any]:
        client = get_async_client(url=f"{url}/uts")
        async with client.http.client:
            return [len(await client.tools.list()), await client.tools.call("add", {"a": 1, "b": 2})]

    count, answer = anyio.run(talk)
    assert (count, answer["value"]) == (3, 3)
