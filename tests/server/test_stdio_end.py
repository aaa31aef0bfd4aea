"""What a module prints when it is imported, and how a server on standard input and output ends."""

from __future__ import annotations

import asyncio
import io
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

from tests.support.skipped_time import run_skipping_time
from toolwire import Toolkit, asgi
from toolwire.server.stdio import CLEANUP_S, EXIT_S, GRACE_S, serve_stdio

pytestmark = pytest.mark.requirement("I-25")

DESK = '''
print("imported", flush=True)
import asyncio, os, sys, time
from pathlib import Path
import toolwire
os.write(1, b"raw\\n")
kit = toolwire.Toolkit("Desk")
here = Path(__file__).parent

@kit.tool(approval="auto", safe=True)
async def wait() -> str:
    """Wait."""
    (here / "started").touch()
    print("running", file=sys.stderr, flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        (here / "cleaned").touch()
    return "never"

@kit.tool(approval="auto", safe=True)
def block() -> str:
    """Block a thread."""
    print("running", file=sys.stderr, flush=True)
    time.sleep(600)
    return "never"
'''


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    (tmp_path / "desk.py").write_text(DESK)
    command = [sys.executable, "-m", "toolwire", "serve", f"{tmp_path / 'desk.py'}:kit", "--stdio"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=tmp_path) as process:
        yield process
        process.kill()


def write(stream: IO[str] | None, id_: int, method: str, params: dict[str, object]) -> None:
    assert stream is not None
    stream.write(json.dumps({"jsonrpc": "2.0", "id": id_, "method": method, "params": params}) + "\n")
    stream.flush()


def begin_call(desk: subprocess.Popen[str], tool: str) -> None:
    """Call ``tool``, and return when it runs."""
    write(desk.stdin, 1, "tools/call", {"name": tool, "arguments": {}})
    assert desk.stderr is not None
    assert any("running" in line for line in desk.stderr)


def test_a_host_with_one_socket_for_both_directions_gets_each_message_whole(tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text(
        "import toolwire\nkit = toolwire.Toolkit('Desk')\n"
        "@kit.tool(approval='auto', safe=True)\ndef fill(n: int) -> str:\n    return 'x' * n\n"
    )
    command = [sys.executable, "-m", "toolwire", "serve", f"{tmp_path / 'desk.py'}:kit", "--stdio"]
    host, given = socket.socketpair()
    with host, subprocess.Popen(command, stdin=given, stdout=given, stderr=subprocess.DEVNULL, cwd=tmp_path) as process:
        given.close()
        host.settimeout(60)
        with host.makefile("rw") as stream:
            for number in (1, 2):
                # More than any socket holds: nothing is read before the server waits with the rest.
                write(stream, number, "tools/call", {"name": "fill", "arguments": {"n": 3_000_000}})
            found = [json.loads(stream.readline()) for _ in range(2)]
        assert sorted(one["id"] for one in found) == [1, 2]
        assert {len(one["result"]["content"][0]["text"]) for one in found} == {3_000_000}
        host.shutdown(socket.SHUT_RDWR)
        assert process.wait(30) == 0


def test_only_messages_of_the_protocol_are_on_the_output(desk: subprocess.Popen[str]) -> None:
    write(desk.stdin, 1, "tools/list", {})
    assert desk.stdout is not None
    assert json.loads(desk.stdout.readline())["id"] == 1
    reply, other = desk.communicate()
    assert reply == ""
    assert "imported" in other
    assert "raw" in other


@pytest.mark.parametrize("tool", ["wait", "block"])
@pytest.mark.parametrize("how", ["eof", "sigterm", "sigint"])
def test_a_running_call_is_cancelled_and_the_process_ends(
    desk: subprocess.Popen[str], how: str, tool: str, tmp_path: Path
) -> None:
    begin_call(desk, tool)
    if how == "eof":
        assert desk.stdin is not None
        desk.stdin.close()
    else:
        desk.send_signal(signal.SIGTERM if how == "sigterm" else signal.SIGINT)
    assert desk.wait(30) == 0
    assert tool == "block" or (tmp_path / "cleaned").exists()


@pytest.mark.parametrize("is_stubborn", [False, True])
def test_calls_have_a_second_at_most_of_the_one_and_a_half_of_the_process(is_stubborn: bool) -> None:
    kit, started, output, ended = Toolkit("Desk"), asyncio.Event(), io.BytesIO(), list[float]()

    @kit.tool(approval="auto", safe=True)
    async def wait() -> str:
        """Wait, and wait again where the call is cancelled."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            if is_stubborn:
                await asyncio.Event().wait()
        return "never"

    async def serve(passed_s: Callable[[], float]) -> float:
        reader = asyncio.StreamReader()
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "wait", "arguments": {}}}
        reader.feed_data(json.dumps(call).encode() + b"\n")
        serving = asyncio.ensure_future(serve_stdio(asgi(kit), reader, output, on_end=lambda: ended.append(passed_s())))
        await started.wait()
        reader.feed_eof()
        await serving
        return passed_s() - ended[0]

    took_s = run_skipping_time(serve)
    assert GRACE_S <= took_s <= (GRACE_S + CLEANUP_S + 0.1 if is_stubborn else GRACE_S + 0.1)
    # A timer ends the process in any case, such as where a thread blocks.
    assert (GRACE_S, CLEANUP_S, EXIT_S) == (0.5, 0.5, 1.4)
