"""The open-tool client and the LangChain tools of both older clients on our server: under a prefix and at the root."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import anyio
import httpx
import open_tool_client
import pytest
import universal_tool_client

from toolwire import ToolError, Toolkit, asgi
from toolwire.testing.loopback import background


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
            raise ToolError("Nothing is divided by zero.", developer_message="for us")
        return a / b

    @toolkit.tool
    def clear() -> None:
        """Forget everything."""

    return toolkit


@pytest.fixture
def url(serve: Callable[..., str]) -> str:
    return serve(calculator())


@pytest.fixture(params=["", "/ots"], ids=["root", "prefix"])
def base(url: str, request: pytest.FixtureRequest) -> str:
    return url + request.param


@pytest.fixture
def client(base: str) -> Iterator[open_tool_client.SyncClient]:
    client = open_tool_client.get_sync_client(url=base)
    with closing(client.http.client):
        yield client


@pytest.mark.requirement("S-13", "A-34")
def test_the_client_lists_our_tools(client: open_tool_client.SyncClient) -> None:
    tools = {tool["name"]: tool for tool in client.tools.list()}
    assert set(tools) == {"add", "divide", "clear"}
    assert tools["add"]["inputSchema"]["required"] == ["a", "b"]
    assert set(tools["add"]) == {"name", "description", "inputSchema"}


@pytest.mark.requirement("S-13")
def test_the_client_calls_our_tools_and_gets_bare_values(client: open_tool_client.SyncClient) -> None:
    assert client.tools.call("add", {"a": 1, "b": 2}) == 3
    assert client.tools.call("divide", {"a": 1, "b": 4}) == 0.25
    assert client.tools.call("clear", {}) is None


@pytest.mark.requirement("S-8")
def test_the_client_reads_info_and_ok(client: open_tool_client.SyncClient) -> None:
    assert client.info() == {"version": "1.2.0"}
    assert client.ok() == "OK"


@pytest.mark.parametrize(
    ("name", "arguments", "status", "detail"),
    [
        ("subtract", {}, 404, "Unknown tool 'subtract'. Available tools: add"),
        ("add", {"a": "one", "b": 2}, 400, "a"),
        ("divide", {"a": 1, "b": 0}, 500, "Nothing is divided by zero."),
        ("add", [1], 422, '"args" must be an object, not an array'),
        (7, {}, 422, '"name" must be a string, not a number'),
    ],
)
@pytest.mark.requirement("S-13", "OTC-029")
def test_client_receives_errors(
    client: open_tool_client.SyncClient, name: Any, arguments: Any, status: int, detail: str
) -> None:
    with pytest.raises(httpx.HTTPStatusError) as refused:
        client.tools.call(name, arguments)
    assert refused.value.response.status_code == status
    data = refused.value.response.json()
    assert set(data) == {"detail"}
    assert detail in data["detail"]
    assert "for us" not in data["detail"]


@pytest.mark.requirement("S-13")
def test_the_asynchronous_client_has_the_same_methods(base: str) -> None:
    async def talk() -> list[Any]:
        client = open_tool_client.get_async_client(url=base)
        async with client.http.client:
            tools = await client.tools.as_langchain_tools(select=["add"])
            reply = await tools[0].ainvoke({"a": 1, "b": 2})
            listed = await client.tools.list()
            return [len(listed), await client.tools.call("add", {"a": 1, "b": 2}), await client.ok(), reply]

    assert anyio.run(talk) == [3, 3, "OK", 3]


@pytest.mark.parametrize("module", [open_tool_client, universal_tool_client], ids=["open-tool", "universal-tool"])
@pytest.mark.parametrize("where", ["", "prefix"])
@pytest.mark.requirement("S-13")
def test_tools_work_as_langchain_tools(url: str, module: Any, where: str) -> None:
    prefix = ("/ots" if module is open_tool_client else "/uts") if where else ""
    client = module.get_sync_client(url=url + prefix)
    with closing(client.http.client):
        tools = {tool.name: tool for tool in client.tools.as_langchain_tools()}
        assert set(tools) == {"add", "divide", "clear"}
        assert tools["add"].invoke({"a": 1, "b": 2}) == 3
        assert tools["add"].description == "Add two numbers."
        with pytest.raises((httpx.HTTPStatusError, NotImplementedError)):
            tools["divide"].invoke({"a": 1, "b": 0})
        with pytest.raises(ValueError, match="Unknown tool names"):
            client.tools.as_langchain_tools(**{("select" if module is open_tool_client else "tool_ids"): ["subtract"]})


@pytest.mark.requirement("S-13")
def test_root_list_varies_by_user_agent(url: str) -> None:
    agents = {"open-tool-sdk-py/0.0.1": list, "universal-tool-sdk-py/0.0.2": list, "curl/8": dict, "": dict}
    for agent, kind in agents.items():
        answer = httpx.get(f"{url}/tools", headers={"user-agent": agent})
        assert isinstance(answer.json(), kind)
        assert answer.headers["vary"] == "user-agent"
        again = httpx.get(f"{url}/tools", headers={"user-agent": agent, "if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.headers["vary"]) == (304, "user-agent")


@pytest.mark.requirement("S-13")
def test_recognition_of_older_clients_can_be_switched_off() -> None:
    app = asgi(calculator())
    app.older_clients = False
    with background(app) as url:
        answer = httpx.get(f"{url}/tools", headers={"user-agent": "open-tool-sdk-py/0.0.1"})
        assert isinstance(answer.json(), dict)
        assert "vary" not in answer.headers
        assert isinstance(httpx.get(f"{url}/ots/tools").json(), list)
