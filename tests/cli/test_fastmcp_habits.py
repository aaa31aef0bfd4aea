"""What users of FastMCP and the MCP SDK write first: it works, or the error says what to write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from tests.interop.mcp_makers import CACHE, INSTALLED, MISSING
from toolwire import Context, DefinitionError, Progress, Toolkit, connect_sync
from toolwire.client.connection.remote import Remote
from toolwire.hosting.open_upstreams import open_toolbox
from toolwire.hosting.targets.target import read_target

KIT = """
    from toolwire import Toolkit
    kit = Toolkit("Desk", instructions="Use it with care.")

    @kit.tool(approval="auto", safe=True)
    def add(a: int, b: int) -> int:
        return a + b

    if __name__ == "__main__":
        kit.run({how})
"""
OWN_SERVER = """
    import os
    from mcp.server.mcpserver import MCPServer
    mcp = MCPServer("Own")

    @mcp.tool(annotations={"readOnlyHint": True})
    def look(text: str) -> str:
        return text + os.environ.get("OF_THE_USER", "")

    @mcp.tool()
    def write(text: str) -> str:
        return text
"""
pytestmark = pytest.mark.requirement("FU-56", "FD-04")
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}}


def test_a_file_that_runs_its_toolkit_serves_an_mcp_host(write: Callable[..., Path]) -> None:
    file = write("server.py", KIT.format(how=""))
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
    ended = subprocess.run(
        [sys.executable, file], input=json.dumps(message) + "\n", capture_output=True, text=True, timeout=60, check=True
    )
    result = json.loads(ended.stdout.splitlines()[0])["result"]
    assert (result["serverInfo"]["name"], result["instructions"]) == ("Desk", "Use it with care.")


def test_a_file_that_runs_its_toolkit_over_http_serves_every_protocol(write: Callable[..., Path]) -> None:
    file = write("server.py", KIT.format(how='"http", port=0'))
    with subprocess.Popen([sys.executable, "-u", file], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            with connect_sync(process.stdout.readline().strip(), protocol="openapi") as remote:
                assert remote.call("add", {"a": 2, "b": 3}).value == 5
        finally:
            process.terminate()


def test_wrong_transports_and_options_are_refused_with_a_sentence() -> None:
    with pytest.raises(DefinitionError, match='"stdio" or "http"'):
        Toolkit("Desk").run("sse")
    with pytest.raises(DefinitionError, match="description and instructions"):
        Toolkit("Desk", description="a", instructions="b")


def test_report_progress_and_the_levels_of_a_log_reach_the_caller() -> None:
    kit, received = Toolkit("Desk"), list[Progress]()

    @kit.tool(approval="auto", safe=True)
    async def work(context: Context) -> str:
        await context.report_progress(1, 2, "half")
        await context.info("begun")
        await context.warning("slow", logger="desk")
        await context.error("failed")
        await context.debug("never wanted")
        return "done"

    with connect_sync(kit, protocol="mcp", agree=lambda _: True) as remote:
        assert remote.call("work", notify=received.append).value == "done"
    assert received[0].value["progress"] == 1
    assert (received[0].value["total"], received[0].value["message"]) == (2, "half")
    assert [(one.value["level"], one.value["data"]) for one in received[1:]] == [
        ("info", "begun"),
        ("warning", "slow"),
        ("error", "failed"),
    ]


@pytest.mark.parametrize(
    ("name", "says"),
    [("call_tool", "connect(kit)"), ("mount", "toolwire serve"), ("add_tool", "kit.add"), ("http_app", "asgi(kit)")],
)
def test_a_toolkit_says_what_to_write_for_the_word_of_another_framework(name: str, says: str) -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(Toolkit("Desk"), name)
    assert says in str(raised.value)
    with pytest.raises(AttributeError, match=r"has no attribute 'nothing'$"):
        _ = Toolkit("Desk").nothing  # type: ignore[attr-defined]


def test_a_connection_and_a_context_say_what_to_write_for_the_word_of_another_framework() -> None:
    with connect_sync(Toolkit("Desk")) as remote, pytest.raises(AttributeError, match=r"write `call\(name"):
        _ = remote.call_tool  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"context\.ask"):
        _ = Context().elicit  # type: ignore[attr-defined]
    assert not hasattr(Context(), "__fspath__")


def test_a_server_object_of_another_framework_is_served(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("mcp.server.mcpserver")
    monkeypatch.setenv("OF_THE_USER", "!")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = write("own.py", OWN_SERVER)
    # A part of the server has a name of its own in the file, and the whole has the usual one.
    file.write_text(f"{file.read_text()}\npart = MCPServer('Part')\nalias = mcp\n")
    for name in (":mcp", ""):
        box = open_toolbox(read_target(f"{file}{name}"))
        assert isinstance(box, Remote)
        assert [(tool.name, box.needs_consent(tool)) for tool in box.tools] == [("look", False), ("write", True)]


def test_other_commands_say_how_to_serve_such_an_object(
    write: Callable[..., Path], toolwire: Callable[..., Any]
) -> None:
    pytest.importorskip("mcp.server.mcpserver")
    file = write("own.py", OWN_SERVER)
    ended = toolwire("tools", f"{file}:mcp")
    assert (ended.code, f"`toolwire serve {file}:mcp`" in ended.err) == (2, True)


OBJECTS = {
    "FastMCP 4": (
        "fastmcp",
        """
        from fastmcp import FastMCP
        mcp = FastMCP("Own")

        @mcp.tool
        def look(text: str) -> str:
            return text
        """,
    ),
    "FastMCP of SDK 1": (
        "python_sdk_1",
        """
        from mcp.server.fastmcp import FastMCP
        mcp = FastMCP("Own")

        @mcp.tool()
        def look(text: str) -> str:
            return text
        """,
    ),
    "low level of SDK 1": (
        "python_sdk_1",
        """
        import mcp.types as types
        from mcp.server.lowlevel import Server
        mcp = Server("Own")

        @mcp.list_tools()
        async def list_tools() -> list[types.Tool]:
            return [types.Tool(name="look", inputSchema={"type": "object"})]
        """,
    ),
    "low level of SDK 2": (
        "",
        """
        from mcp import types
        from mcp.server.lowlevel import Server

        async def list_tools(context, params) -> types.ListToolsResult:
            return types.ListToolsResult(tools=[types.Tool(name="look", input_schema={"type": "object"})])

        mcp = Server("Own", on_list_tools=list_tools)
        """,
    ),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_the_server_object_of_each_framework_is_served(name: str, write: Callable[..., Path], tmp_path: Path) -> None:
    packages, code = OBJECTS[name]
    if packages and not INSTALLED:
        pytest.skip(MISSING)
    file = write("own.py", code)
    here = {"PYTHONPATH": str(CACHE / packages)} if packages else {}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "toolwire", "serve", f"{file}:mcp", "--stdio"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **here, "XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path)},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for one in messages:
            process.stdin.write(json.dumps(one) + "\n")
        process.stdin.flush()
        answers: dict[int, Any] = {}
        while 2 not in answers and (line := process.stdout.readline()):
            answers[json.loads(line).get("id")] = json.loads(line)
        process.stdin.close()
    assert [one["name"] for one in answers[2]["result"]["tools"]] == ["look"]


def test_field_as_the_default_of_a_parameter_gives_its_default_and_its_description() -> None:
    kit = Toolkit("Search")

    @kit.tool(approval="auto", safe=True)
    def search(
        query: str = Field(description="What to find."),
        limit: int = Field(10, ge=1, le=50),
        tags: list[str] = Field(default_factory=list),  # noqa: B008 - what this is about
    ) -> list[Any]:
        tags.append("own")
        return [query, limit, tags]

    with connect_sync(kit) as remote:
        schema = remote.tools[0].input_schema
        assert schema["required"] == ["query"]
        assert schema["properties"]["query"]["description"] == "What to find."
        assert schema["properties"]["limit"] == {"type": "integer", "minimum": 1, "maximum": 50, "default": 10}
        assert remote.call("search", {"query": "tea"}).unwrap() == ["tea", 10, ["own"]]
        assert remote.call("search", {"query": "tea"}).unwrap() == ["tea", 10, ["own"]], "no list is shared"
        assert remote.call("search", {"query": "tea", "limit": 2, "tags": ["a"]}).unwrap() == ["tea", 2, ["a", "own"]]
        assert "51 is greater than the maximum of 50" in str(remote.call("search", {"query": "tea", "limit": 51}))
