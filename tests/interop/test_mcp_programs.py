"""A server of the official SDK that is a program: our client lists and calls, gets progress, and cancels over stdio."""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path

import pytest

from toolwire import Progress, connect, connect_sync

SERVER = '''
import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server = MCPServer("Official")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def count(to: int, context: Context) -> str:
    """Count, with progress."""
    for number in range(to):
        await context.report_progress(number + 1, to)
    return "done"


@server.tool()
async def wait(file: str) -> None:
    """Wait until the call is cancelled, and say so in a file."""
    from pathlib import Path
    Path(file).write_text("waiting")
    try:
        await anyio.sleep_forever()
    finally:
        Path(file).write_text("cancelled")


server.run("stdio")
'''
WAIT_S = 30.0


@pytest.fixture
def target(tmp_path: Path) -> str:
    file = tmp_path / "official.py"
    file.write_text(SERVER)
    return f"stdio:{shlex.join([sys.executable, str(file)])}"


@pytest.mark.requirement("MC-02", "MC-05")
def test_client_lists_calls_and_reads_progress_of_an_official_sdk_program(target: str) -> None:
    received: list[Progress] = []
    with connect_sync(target, approve=lambda _: True, approve_command=lambda _: True) as remote:
        assert [tool.name for tool in remote.tools] == ["add", "count", "wait"]
        assert remote.call("add", {"a": 2, "b": 3}).unwrap() == 5
        assert remote.call("count", {"to": 3}, notify=received.append).unwrap() == "done"
    assert len(received) == 3


@pytest.mark.requirement("MC-02", "MC-06")
def test_official_sdk_program_is_notified_of_a_cancelled_call(target: str, tmp_path: Path) -> None:
    file = tmp_path / "state"

    async def story() -> None:
        async with connect(target, approve=lambda _: True, approve_command=lambda _: True) as remote:
            running = asyncio.ensure_future(remote.call("wait", {"file": str(file)}))
            async with asyncio.timeout(WAIT_S):
                while not file.exists():
                    await remote.call("add", {"a": 1, "b": 1})
                running.cancel()
                while file.read_text() != "cancelled":
                    await remote.call("add", {"a": 1, "b": 1})

    asyncio.run(story())
