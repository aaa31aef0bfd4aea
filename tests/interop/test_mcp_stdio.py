"""``toolwire serve --stdio`` speaks MCP with the official client and line by line, and nothing else on its output."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import ElicitResult

from toolwire import Toolkit, asgi
from toolwire.testing import background

TOOLS = '''
import asyncio
import subprocess
from typing import Annotated
from pydantic import Field
from toolwire import Context, Toolkit

kit = Toolkit("Desk", version="1.0.0")


@kit.tool(approval="auto")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    print("this is for people")
    subprocess.run(["echo", "so is this"])
    return a + b


@kit.tool(approval="auto")
async def count(number: int):
    """Count up."""
    for one in range(number):
        yield one


@kit.tool(approval="auto")
def deploy(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
    """Deploy something to a region."""
    return region


@kit.tool(approval="auto")
async def sleep(context: Context) -> str:
    """Sleep for ever, and say so."""
    await context.progress("sleeping")
    await asyncio.Event().wait()
'''
OPENING = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "a host", "version": "1"},
}
WAIT_S = 30.0


class Host:
    """A host of MCP that writes and reads lines."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def write(self, *messages: dict[str, Any] | bytes) -> None:
        assert self.process.stdin is not None
        for message in messages:
            text = message if isinstance(message, bytes) else json.dumps(message).encode()
            self.process.stdin.write(text + b"\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the server ended"
        message: dict[str, Any] = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return message

    def ask(self, id_: int, method: str, **params: Any) -> dict[str, Any]:
        self.write({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})
        return self.read()

    def end(self) -> tuple[bytes, bytes]:
        """Close the input, and return what else came on the output, and the errors; the server must end by itself."""
        rest, errors = self.process.communicate(timeout=WAIT_S)
        assert self.process.returncode == 0, errors
        return rest, errors


@contextmanager
def start_host(*words: str) -> Iterator[Host]:
    command = [sys.executable, "-m", "toolwire", "serve", *words, "--stdio"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        ending = threading.Timer(WAIT_S, process.kill)  # so that a message that never comes fails the test
        ending.start()
        try:
            yield Host(process)
        finally:
            ending.cancel()
            process.kill()


@pytest.fixture
def tools(tmp_path: Path) -> str:
    file = tmp_path / "desk.py"
    file.write_text(TOOLS)
    return str(file)


@pytest.fixture
def host(tools: str) -> Iterator[Host]:
    with start_host(tools) as host:
        yield host


@pytest.mark.requirement("MC-01")
def test_the_official_client_lists_and_calls(tools: str) -> None:
    async def story() -> Any:
        server = StdioServerParameters(
            command=sys.executable, args=["-m", "toolwire", "serve", tools, "--stdio"], env={"PATH": "/usr/bin:/bin"}
        )
        async with Client(stdio_client(server)) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            return names, (await client.call_tool("add", {"a": 1, "b": 2})).structured_content

    assert anyio.run(story) == (["add", "count", "deploy", "sleep"], {"result": 3})


@pytest.mark.requirement("MC-01")
def test_older_host_can_initialize_call_and_close_and_output_is_messages_only(host: Host) -> None:
    opened = host.ask(1, "initialize", **OPENING)
    assert opened["result"]["protocolVersion"] == "2025-11-25"
    host.write({"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert host.ask(2, "ping")["result"] == {}
    called = host.ask(3, "tools/call", name="add", arguments={"a": 1, "b": 2})
    assert called["result"]["structuredContent"] == {"result": 3}
    rest, errors = host.end()
    assert rest == b""
    assert b"this is for people" in errors
    assert b"so is this" in errors


@pytest.mark.requirement("MC-01", "MC-05")
def test_calls_run_concurrently_and_progress_precedes_the_answer(host: Host) -> None:
    host.ask(1, "initialize", **OPENING)
    host.write({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "sleep", "arguments": {}}})
    asked = {"name": "count", "arguments": {"number": 2}, "_meta": {"progressToken": "t"}}
    host.write({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": asked})
    methods = []
    while "id" not in (message := host.read()):
        methods.append(message["method"])
    assert methods == ["notifications/progress"] * 2
    assert message["id"] == 3
    assert message["result"]["structuredContent"] == {"result": [0, 1]}


@pytest.mark.requirement("MC-01", "MC-05")
def test_progress_reaches_the_host_while_the_call_still_runs(host: Host) -> None:
    host.ask(1, "initialize", **OPENING)
    asked = {"name": "sleep", "arguments": {}, "_meta": {"progressToken": "t"}}
    progress = host.ask(2, "tools/call", **asked)
    assert (progress["method"], progress["params"]["message"]) == ("notifications/progress", "sleeping")


@pytest.mark.requirement("MC-01", "MC-11")
@pytest.mark.parametrize("name", ["deploy", "Desk.deploy@1.0.0"])
def test_an_argument_that_goes_into_a_header_over_http_goes_into_none_here(host: Host, name: str) -> None:
    prefix = "io.modelcontextprotocol/"
    meta = {f"{prefix}protocolVersion": "2026-07-28", f"{prefix}clientCapabilities": {}}
    called = host.ask(1, "tools/call", name=name, arguments={"region": "north"}, _meta=meta)
    assert called["result"]["content"] == [{"type": "text", "text": "north"}]


@pytest.mark.requirement("MC-01", "MC-06")
def test_a_call_that_the_host_cancels_gets_no_answer(host: Host) -> None:
    host.ask(1, "initialize", **OPENING)
    host.write({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "sleep", "arguments": {}}})
    host.write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})
    assert host.ask(3, "ping")["id"] == 3
    assert host.end()[0] == b""


@pytest.mark.requirement("MC-01")
@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"this is not JSON", -32700),
        (b"\xff\xfe", -32700),
        (b"[]", -32600),
        (b'{"jsonrpc":"1.0","id":7,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":7,"method":"nonsense"}', -32601),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":5}}', -32602),
        (b'{"a":"' + b"x" * 17_000_000 + b'"}', -32600),
    ],
)
def test_a_line_that_is_no_call_gets_an_error_and_the_next_one_is_answered(host: Host, line: bytes, code: int) -> None:
    host.write(line)
    error = host.read()
    assert error["error"]["code"] == code
    assert error.get("id") in (None, 7)
    assert host.ask(8, "ping")["id"] == 8


@pytest.mark.requirement("MC-01")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server(host: Host, number: int) -> None:
    host.ask(1, "ping")
    host.process.send_signal(number)
    assert host.process.wait(WAIT_S) == 0


@pytest.fixture
def site() -> Iterator[tuple[str, list[str]]]:
    kit, deleted = Toolkit("Disk"), list[str]()

    @kit.tool(destructive=True)
    def delete(name: str) -> str:
        """Delete a file."""
        deleted.append(name)
        return f"deleted {name}"

    with background(asgi(kit)) as url:
        yield url, deleted


@pytest.mark.requirement("XL-053", "MC-03", "CC-05")
@pytest.mark.parametrize("allowed", [True, False])
def test_bridged_url_asks_through_the_official_host(site: tuple[str, list[str]], allowed: bool) -> None:
    url, deleted = site
    shown = []

    async def answer(_: Any, params: Any) -> ElicitResult:
        shown.append(params.message)
        return ElicitResult(action="accept", content={"allow": allowed})

    async def story() -> Any:
        arguments = ["-m", "toolwire", "serve", url, "--stdio"]
        server = StdioServerParameters(command=sys.executable, args=arguments, env={"PATH": "/usr/bin:/bin"})
        async with Client(stdio_client(server), elicitation_callback=answer) as client:
            return await client.call_tool("delete", {"name": "old.txt"})

    result = anyio.run(story)
    assert result.is_error is not allowed
    assert deleted == (["old.txt"] if allowed else [])
    assert '"old.txt"' in shown[0]


@pytest.mark.requirement("XL-053", "CC-05")
@pytest.mark.parametrize(
    ("answer", "runs"),
    [
        ({"result": {"action": "accept", "content": {"allow": True}}}, True),
        ({"result": {"action": "decline"}}, False),
        ({"error": {"code": -1, "message": "no"}}, False),
    ],
)
def test_older_host_is_asked_during_its_call(site: tuple[str, list[str]], answer: dict[str, Any], runs: bool) -> None:
    url, deleted = site
    with start_host(url) as host:
        host.ask(1, "initialize", **{**OPENING, "capabilities": {"elicitation": {}}})
        call = {"name": "delete", "arguments": {"name": "old.txt"}}
        question = host.ask(2, "tools/call", **call)
        assert question["method"] == "elicitation/create"
        assert '"old.txt"' in question["params"]["message"]
        assert deleted == []
        assert host.ask(3, "ping")["id"] == 3, "other requests are answered meanwhile"
        host.write({"jsonrpc": "2.0", "id": question["id"], **answer})
        result = host.read()
        assert (result["id"], result["result"].get("isError", False)) == (2, not runs)
        assert deleted == (["old.txt"] if runs else [])
        host.end()


@pytest.mark.requirement("XL-053", "CC-05")
def test_older_host_without_elicitation_runs_nothing(site: tuple[str, list[str]]) -> None:
    url, deleted = site
    with start_host(url) as host:
        host.ask(1, "initialize", **OPENING)
        assert host.ask(2, "tools/call", name="delete", arguments={"name": "old.txt"})["result"]["isError"] is True
        assert deleted == []


@pytest.mark.requirement("MC-01")
def test_messages_in_a_file_are_answered_and_its_end_ends_the_server(tools: str, tmp_path: Path) -> None:
    messages = tmp_path / "messages.jsonl"
    opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": OPENING}
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1, "b": 2}}}
    messages.write_text(f"{json.dumps(opening)}\n{json.dumps(call)}\n")
    command = [sys.executable, "-m", "toolwire", "serve", tools, "--stdio"]
    with messages.open("rb") as given:
        done = subprocess.run(command, stdin=given, capture_output=True, check=True, timeout=WAIT_S)
    answers = {one["id"]: one["result"] for one in map(json.loads, done.stdout.splitlines())}
    assert answers[2]["structuredContent"] == {"result": 3}
    assert b"Traceback" not in done.stderr


@pytest.mark.requirement("MC-01")
def test_without_any_input_the_server_ends(tools: str) -> None:
    command = [sys.executable, "-m", "toolwire", "serve", tools, "--stdio"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=WAIT_S)
    assert (done.stdout, b"Traceback" in done.stderr) == (b"", False)
