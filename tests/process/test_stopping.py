"""The server as a process: it says where it listens, and it ends gracefully, whatever asks it to."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.programs import require_loopback
from tests.support.waiting import wait_until_async
from toolwire.core.errors import DefinitionError
from toolwire.server.http.process import build_url, open_listener

from .calls import oxp
from .peer import HANG, Gone, Peer, Running, dial, get, message

Start = Callable[..., Running]


class Slow:
    """Calls that the server has begun to answer, each on a connection of its own."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._peers: list[tuple[Peer, dict[str, str]]] = []

    async def begin(self, server: Running, count: int, *, seconds: float) -> None:
        for _ in range(count):
            peer = await self._stack.enter_async_context(dial(server))
            peer.writer.write(message("GET", f"/sleep/{seconds}"))
            self._peers.append((peer, (await peer.head())[1]))

    async def bodies(self) -> list[bytes]:
        return await asyncio.gather(*(peer.body(headers) for peer, headers in self._peers))

    async def __aenter__(self) -> Slow:
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self._stack.aclose()


async def health_flips(running: Running) -> int:
    """Return the status of the first health answer that is not 200."""

    async def find_status() -> int:
        status = (await get(running, "/health")).status
        return 0 if status == 200 else status

    return await wait_until_async(find_status, within=5)


@pytest.mark.requirement("R15")
def test_health_is_503_while_calls_finish_and_the_process_ends_with_0(start: Start) -> None:
    async def story() -> None:
        server = start(app="echo")
        async with Slow() as slow:
            await slow.begin(server, 20, seconds=1.0)
            server.signal()
            assert await health_flips(server) == 503
            assert await slow.bodies() == [b'"slept"'] * 20
        assert await server.ended() == 0
        assert server.errors == ""

    asyncio.run(story())


@pytest.mark.requirement("R15")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_idle_server_reports_503_before_it_stops(start: Start, number: int) -> None:
    async def story() -> None:
        server = start(app="echo", deadlines={"drain_s": 1.5})
        assert (await get(server, "/health")).status == 200
        server.signal(number)
        assert await health_flips(server) == 503
        assert await server.ended() == 0

    asyncio.run(story())


@pytest.mark.requirement("R15")
@pytest.mark.parametrize("way", ["one process", "workers", "reloading"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_server_that_is_stopped_as_soon_as_it_is_announced_ends_with_0(
    start: Start, tmp_path: Path, number: int, way: str
) -> None:
    async def story() -> None:
        more: dict[str, Any] = {"workers": {"workers": 2}, "reloading": {"directory": str(tmp_path)}}.get(way, {})
        server = start(app="echo", signal_first=number, **more)
        assert await server.ended() == 0
        assert server.errors == ""

    asyncio.run(story())


@pytest.mark.requirement("R15")
def test_responses_close_their_connections_while_the_server_stops(start: Start) -> None:
    async def story() -> None:
        server = start(app="echo", deadlines={"drain_s": 3.0})
        async with dial(server) as peer:
            assert "connection" not in (await peer.get("/a")).headers
            server.signal()
            assert await health_flips(server) == 503
            assert (await peer.get("/a")).headers["connection"] == "close"
            assert await peer.closed()

    asyncio.run(story())


def test_a_second_signal_ends_the_process_at_once(start: Start) -> None:
    async def story() -> None:
        server = start(app="echo")
        async with Slow() as slow:
            await slow.begin(server, 1, seconds=60.0)
            server.signal()
            assert await health_flips(server) == 503
            server.signal()
            assert await server.ended() == -signal.SIGTERM

    asyncio.run(story())


@pytest.mark.requirement("R15")
def test_a_call_longer_than_the_grace_does_not_keep_the_process(start: Start) -> None:
    async def story() -> None:
        server = start(app="echo", deadlines={"grace_s": 1.2, "drain_s": 0.1})
        async with Slow() as slow:
            await slow.begin(server, 1, seconds=60.0)
            server.signal()
            assert await server.ended() == 0

    asyncio.run(story())


@pytest.mark.requirement("R15")
@pytest.mark.parametrize(("tool", "code"), [("block", 0), ("seize", 1)])
def test_one_signal_ends_a_server_with_a_blocked_tool(start: Start, tool: str, code: int) -> None:
    async def story() -> None:
        server = start(deadlines={"grace_s": 1.2, "drain_s": 0.1})
        async with dial(server) as peer, dial(server) as other:
            peer.writer.write(oxp(tool, {"seconds": 60.0}))
            if tool == "block":
                while (await other.ask(oxp("count", {}))).json["result"]["value"] == 0:
                    pass
            else:
                assert server.process.stdout is not None
                assert await asyncio.to_thread(server.process.stdout.readline) == b"seized\n"
            server.signal(signal.SIGINT)
            assert await server.ended() == code
        assert ("A tool did not stop within the grace" in server.errors) is bool(code)

    asyncio.run(story())


@pytest.mark.requirement("R15")
@pytest.mark.parametrize(("to_all", "number"), [(False, signal.SIGTERM), (True, signal.SIGTERM), (True, signal.SIGINT)])
def test_workers_finish_their_calls_after_each_signal(start: Start, to_all: bool, number: int) -> None:
    async def story() -> None:
        server = start(app="echo", workers=2)
        pids: set[bytes] = set()

        async def find_both() -> bool:
            pids.add((await get(server, "/pid")).body)
            return len(pids) == 2

        await wait_until_async(find_both, within=HANG)
        async with Slow() as slow:
            await slow.begin(server, 8, seconds=1.5)
            if to_all:
                server.signal_group(number)
            else:
                server.signal(number)
            assert await slow.bodies() == [b'"slept"'] * 8
        assert await server.ended() == 0
        assert server.errors == ""

    asyncio.run(story())


def test_workers_with_a_failing_app_end_with_one_line(start: Start) -> None:
    async def story() -> None:
        server = start(app="broken", workers=2)
        assert server.url
        assert await server.ended() == 1
        assert "The file tools.py has no toolkit." in server.errors
        assert "Traceback" not in server.errors

    asyncio.run(story())


def test_changed_file_is_reloaded(start: Start, tmp_path: Path) -> None:
    async def story() -> None:
        source = tmp_path / "answer.py"
        source.write_text("old")
        server = start(app="file", directory=str(tmp_path))
        assert (await get(server, "/")).body == b"old"
        source.write_text("new")
        os.utime(source, (2e9, 2e9))

        async def is_new() -> bool:
            return await text(server) == b"new"

        await wait_until_async(is_new, within=HANG)
        server.signal()
        assert await server.ended() == 0

    asyncio.run(story())


async def text(server: Running) -> bytes:
    try:
        return (await get(server, "/")).body
    except (Gone, ConnectionError):
        return b""


@pytest.mark.requirement("OB-6")
def test_access_log_is_optional_and_omits_queries(start: Start) -> None:
    async def story() -> None:
        server = start(app="echo", access_log=True)
        await get(server, "/tools?key=secret")
        server.signal()
        assert await server.ended() == 0
        assert server.process.stdout is not None
        log = server.process.stdout.read().decode()
        assert '"GET /tools HTTP/1.1" 200' in log
        assert "secret" not in log

    asyncio.run(story())


def test_used_address_is_reported_in_one_sentence() -> None:
    with open_listener("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(DefinitionError, match=f"^Cannot listen on 127.0.0.1:{port}: another program listens there"):
            open_listener("127.0.0.1", port)


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("no-such-host.invalid", "there is no such address"),
        ("192.0.2.1", "this machine does not have that address"),
        ("a b", "there is no such address"),
    ],
)
def test_foreign_address_is_reported_in_one_sentence(host: str, reason: str) -> None:
    with pytest.raises(DefinitionError, match=f"^Cannot listen on {host}:0: {reason}"):
        open_listener(host, 0)


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("0.0.0.0", "127.0.0.1"),
        ("localhost", "localhost"),
        ("::1", "[::1]"),
        ("::", "[::1]"),
    ],
)
def test_the_url_can_be_opened_on_this_machine(host: str, shown: str) -> None:
    if ":" in host:
        require_loopback(host)
    with open_listener(host, 0) as listener:
        assert build_url(host, listener) == f"http://{shown}:{listener.getsockname()[1]}"


@pytest.mark.requirement("AT-37")
@pytest.mark.parametrize("host", ["::", "[::]"])
def test_all_addresses_include_those_of_ipv4_and_each_client_keeps_its_own(host: str, tmp_path: Path) -> None:
    require_loopback("::1")
    (tmp_path / "kit.py").write_text("from toolwire import Toolkit\nkit = Toolkit('Kit')\n")
    argv = [sys.executable, "-m", "toolwire", "serve", "kit.py", "--host", host, "--port", "0", "--access-log"]
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        assert server.stdout is not None
        url = next(line.split()[1] for line in server.stdout if line.startswith("URL"))
        assert url.startswith("http://[::1]:")
        for place in (url, url.replace("[::1]", "127.0.0.1")):
            assert httpx2.get(f"{place}/health", timeout=60).status_code == 200
        server.send_signal(signal.SIGTERM)
        printed = server.stdout.read()
    assert [f"{address}:" in printed for address in (" ::1", " 127.0.0.1", "::ffff")] == [True, True, False], printed
