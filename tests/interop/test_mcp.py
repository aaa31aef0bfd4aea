"""The official MCP SDK on loopback: its client on our server, our client on its server."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import anyio
import pytest
from mcp import Client, MCPError
from mcp.server.mcpserver import MCPServer
from pydantic import BaseModel

import toolwire
from toolwire import Context, Kind, Problem, Toolkit, Value

from .conftest import run_app


def calculator() -> Toolkit:
    toolkit = Toolkit("Calculator", description="Arithmetic.")

    @toolkit.tool(approval="auto")
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @toolkit.tool(approval="auto")
    def divide(a: float, b: float) -> dict[str, float]:
        """Divide one number by another."""
        if b == 0:
            raise toolwire.ToolError("Nothing is divided by zero.")
        return {"quotient": a / b}

    return toolkit


def weather() -> MCPServer:
    server = MCPServer("Weather", instructions="Ask for a city.")

    @server.tool()
    def forecast(city: str) -> dict[str, int]:
        """Say how warm it will be."""
        if city == "Atlantis":
            raise ValueError("There is no such city.")
        return {"celsius": 21}

    @server.tool()
    def cities() -> str:
        """Name a city."""
        return "Oslo"

    return server


@pytest.fixture(params=["stateful, events", "stateless, json"])
def sdk_server(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a server made with the official SDK, in a thread."""
    options = {} if request.param == "stateful, events" else {"stateless_http": True, "json_response": True}
    with run_app(weather().streamable_http_app(**options)) as url:
        yield url


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_lists_and_calls_our_server(serve: Callable[..., str], mode: str) -> None:
    async def talk() -> None:
        async with Client(f"{serve(calculator())}/mcp", mode=mode) as client:
            assert client.protocol_version == ("2026-07-28" if mode == "auto" else "2025-11-25")
            listed = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(listed) == {"add", "divide"}
            assert set(listed["add"].input_schema["properties"]) == {"a", "b"}
            called = await client.call_tool("add", {"a": 1, "b": 2})
            assert (called.is_error, called.structured_content) == (False, {"result": 3})
            called = await client.call_tool("divide", {"a": 1, "b": 4})
            assert called.structured_content == {"quotient": 0.25}

    anyio.run(talk)


@pytest.mark.requirement("O-21")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_official_client_that_wants_progress_receives_a_large_result(serve: Callable[..., str], mode: str) -> None:
    toolkit = Toolkit("Library")

    @toolkit.tool(approval="auto")
    async def read(context: Context) -> str:
        """Read a book, which could report progress."""
        return "x" * 2_000_000  # more than the client accepts in one event

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        """Do nothing."""

    async def talk() -> None:
        async with Client(f"{serve(toolkit)}/mcp", mode=mode) as client:
            called = await client.call_tool("read", {}, progress_callback=hear)
            assert len(called.content[0].text) == 2_000_000

    anyio.run(talk)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_official_client_receives_errors_of_our_server(serve: Callable[..., str], mode: str) -> None:
    async def talk() -> None:
        async with Client(f"{serve(calculator())}/mcp", mode=mode) as client:
            failed = await client.call_tool("divide", {"a": 1, "b": 0})
            assert (failed.is_error, failed.content[0].text) == (True, "Nothing is divided by zero.")
            refused = await client.call_tool("add", {"a": 1, "b": "two"})
            assert refused.is_error
            assert "b" in refused.content[0].text
            with pytest.raises(MCPError, match="subtract") as unknown:
                await client.call_tool("subtract", {})
            assert unknown.value.error.code == -32602

    anyio.run(talk)


def test_our_client_lists_and_calls_the_official_server(sdk_server: str) -> None:
    async def talk() -> None:
        async with toolwire.connect(sdk_server, approve=lambda question: True) as remote:
            assert remote.protocol == "mcp"
            assert [tool.name for tool in remote.tools] == ["cities", "forecast"]
            assert not any(tool.safe for tool in remote.tools)
            assert await remote.call("forecast", {"city": "Oslo"}) == Value({"celsius": 21})
            failed = await remote.call("forecast", {"city": "Atlantis"})
            assert isinstance(failed, Problem)
            assert failed.kind is Kind.TOOL_FAILED
            refused = await remote.call("forecast", {"city": 7})
            assert isinstance(refused, Problem)
            assert refused.kind is Kind.INVALID_ARGUMENTS

    anyio.run(talk)


def test_a_foreign_tool_runs_only_with_consent(sdk_server: str) -> None:
    async def talk() -> None:
        async with toolwire.connect(sdk_server) as remote:
            refused = await remote.call("cities", {})
            assert isinstance(refused, Problem)
            assert refused.kind is Kind.DENIED

    anyio.run(talk)


class SumOutput(BaseModel):
    """What a tool returns that happens to look like the SDK's wrapper."""

    result: int


@pytest.mark.requirement("I-10")
def test_result_wrapped_by_the_sdk_is_unwrapped_and_an_object_is_kept() -> None:
    server = MCPServer("Wrapping")

    @server.tool()
    def number() -> int:
        return 42

    @server.tool()
    def numbers() -> list[int]:
        return [42]

    @server.tool()
    def text() -> str:
        return '{"result": 1}'

    @server.tool()
    def summed() -> SumOutput:
        return SumOutput(result=42)

    @server.tool()
    def free() -> dict[str, int]:
        return {"result": 42}

    with run_app(server.streamable_http_app()) as url, toolwire.connect_sync(url, approve=lambda _: True) as remote:
        assert remote.catalog().names["number"].output_schema is not None
        assert remote.catalog().names["number"].output_schema["type"] == "integer"
        assert remote.call("number") == Value(42)
        assert remote.call("numbers") == Value([42])
        assert remote.call("text") == Value('{"result": 1}')
        assert remote.call("summed") == Value({"result": 42})
        assert remote.call("free") == Value({"result": 42})


@pytest.mark.requirement("I-10")
def test_fastmcp_wrap_mark_is_written_for_non_object_results(serve: Callable[..., str]) -> None:
    async def talk() -> None:
        async with Client(f"{serve(calculator())}/mcp") as client:
            listed = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
            assert listed["add"]["x-fastmcp-wrap-result"] is True
            assert "x-fastmcp-wrap-result" not in listed["divide"]

    anyio.run(talk)
