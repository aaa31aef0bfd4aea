"""The figures of a gateway: the rate of calls through it, its start with many upstreams, and one that hangs."""

from __future__ import annotations

import asyncio
import http.client
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from bench import wire
from bench.conversion import peak_mb
from bench.requests import CALLS, LISTS, Call

UPSTREAMS = 50
TOOLS = 200
FEW = 4
"""The connections of the load of proxies: with more, some answer later than a client waits."""
_KEY = (("authorization", "Bearer bench-key"),)
_ROUNDS = 3
_CALLS = 400
_AT_ONCE = 4
_TURNS = 2
_GROUPS = 15
_HANGING = 32
CALLERS = 200
TOOLS_EACH = 20
MAX_LIST_MS = 20.0
MAX_LISTS_MB = 250.0


class CallCosts(NamedTuple):
    """The CPU microseconds of a raw call, of one through the bare relay, and of one through a gateway.

    ``both`` is that of the gateway and its upstream together.
    """

    raw: float
    relay: float
    gateway: float
    both: float


def measure_costs(name: str, *, seconds: int = 2, connections: int = wire.CONNECTIONS) -> CallCosts:
    """Return the medians of what a call costs, measured in turns.

    Consent, ledger and audit are on. The relay passes on the same bytes by the same transport, and does nothing else.
    """
    call = CALLS[name]._replace(headers=(*CALLS[name].headers, *_KEY))
    with (
        tempfile.TemporaryDirectory() as state,
        wire.served("raw") as raw,
        wire.served("ours") as upstream,
        wire.served("relay", env={"BENCH_UPSTREAM": f"http://127.0.0.1:{upstream}"}) as relay,
        wire.served("full_gateway", env=_environment(state, upstream)) as port,
    ):
        rounds = []
        for number in range(_ROUNDS + 1):
            own, others = wire.cpu_each_us(port, call, seconds, [port, upstream], connections=connections)
            least = wire.cpu_us(raw, CALLS["opentool"], seconds, [raw], connections=connections)
            passed = wire.cpu_us(relay, CALLS[name], seconds, [relay], connections=connections)
            if number:  # in the first one, everything is loaded and connected
                rounds.append(CallCosts(least, passed, own, own + others))
    return CallCosts(*map(statistics.median, zip(*rounds, strict=True)))


def proxy_ratio(app: str, name: str = "mcp", *, python: str = sys.executable, seconds: int = 4) -> float:
    """Return the CPU time of a raw call relative to that of another maker's proxy alone for the call ``name``."""
    with (
        wire.served("raw") as raw,
        wire.served("ours") as upstream,
        wire.served(app, python=python, env={"BENCH_UPSTREAM": f"http://127.0.0.1:{upstream}"}) as port,
    ):
        call = CALLS[name]._replace(headers=(*CALLS[name].headers, *_KEY))
        wire.rate(port, call, seconds=2, connections=FEW)  # everything is loaded and connected
        ratios = []
        for _ in range(_ROUNDS):
            least = wire.cpu_us(raw, CALLS["opentool"], seconds, [raw], connections=FEW)
            ratios.append(least / wire.cpu_us(port, call, seconds, [port], connections=FEW))
    return statistics.median(ratios)


def start_s() -> float:
    """Return the seconds until a gateway with UPSTREAMS upstreams of TOOLS tools each can serve."""
    from toolwire.hosting.open_upstreams import open_toolboxes
    from toolwire.hosting.serve_app import build_app
    from toolwire.hosting.serve_settings import ServeSettings, UpstreamSettings

    with wire.served("ours", env={"BENCH_TOOLS": str(TOOLS)}) as port:
        upstreams = [
            UpstreamSettings(name=f"upstream{number}", target=f"http://127.0.0.1:{port}") for number in range(UPSTREAMS)
        ]
        settings = ServeSettings(targets=(), upstreams=upstreams)
        started = time.perf_counter()
        boxes = open_toolboxes(settings)
        app = build_app(settings, boxes)
        asyncio.run(app.begin())
        took = time.perf_counter() - started
        found = sum(len(box.catalog().tools) for box in boxes)
    if found != UPSTREAMS * TOOLS:
        raise RuntimeError(f"{found} tools were found")
    return took


class ListFigures(NamedTuple):
    """What a caller's list takes where many callers ask for theirs: the median in ms, and the gateway's peak in MB."""

    list_ms: float
    peak_mb: float


def measure_lists() -> ListFigures:
    """Return the figures of a gateway with UPSTREAMS upstreams of TOOLS_EACH tools, when each of CALLERS asks first.

    Every caller asks over MCP, OTC, OpenTool and OpenAPI; the time is that of the slowest of these.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        wire.served("ours", env={"BENCH_TOOLS": str(TOOLS_EACH)}) as upstream,
    ):
        keys = [f"key-of-caller-{number}" for number in range(CALLERS)]
        home, port = Path(folder), wire.find_port()
        (home / "keys").write_text("".join(f"{key} caller{number}\n" for number, key in enumerate(keys)))
        (home / "keys").chmod(0o600)
        upstreams = (
            f'[upstreams.u{number}]\ntarget = "http://127.0.0.1:{upstream}"\nagree = true\n'
            for number in range(UPSTREAMS)
        )
        (home / "toolwire.toml").write_text(
            f'port = {port}\napi-key-file = "keys"\nfind = "never"\n' + "".join(upstreams)
        )
        command = [sys.executable, "-m", "toolwire", "gateway", "run"]
        gateway = subprocess.Popen(command, cwd=home, env={**os.environ, "HOME": folder}, stdout=subprocess.DEVNULL)
        try:
            wire.wait(port, gateway)
            slowest = max(statistics.median(_ask_for_lists(port, keys, one)) for one in LISTS)
            return ListFigures(slowest * 1e3, peak_mb(gateway.pid))
        finally:
            gateway.terminate()
            gateway.wait(30)


def _ask_for_lists(port: int, keys: list[str], call: Call) -> list[float]:
    """Return the seconds until each caller has its list."""
    took: list[float] = []
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for key in keys:
        fields = {"content-type": "application/json", **dict(call.headers), "authorization": f"Bearer {key}"}
        started = time.perf_counter()
        connection.request(call.method, call.path, call.body or None, fields)
        response = connection.getresponse()
        body = response.read()
        took.append(time.perf_counter() - started)
        if response.status != 200 or body.count(b"add") < UPSTREAMS:
            raise RuntimeError(f"{call.path} lists no tools: {response.status}")
    connection.close()
    return took


def hung_ratio() -> float:
    """Return the p99 of calls while another upstream hangs, relative to that while it is idle."""
    with (
        tempfile.TemporaryDirectory() as state,
        wire.served("ours") as upstream,
        wire.served("hung") as hung,
        wire.served("full_gateway", env=_environment(state, upstream, hung)) as port,
    ):
        return asyncio.run(_measure_hung(port))


def _environment(state: str, upstream: int, hung: int = 0) -> dict[str, str]:
    more = {"BENCH_HUNG": f"http://127.0.0.1:{hung}"} if hung else {}
    return {"BENCH_STATE": state, "BENCH_UPSTREAM": f"http://127.0.0.1:{upstream}", **more}


async def _measure_hung(port: int) -> float:
    """Return the median of several ratios, each of many calls in short turns: what else runs slows both down alike."""
    body = CALLS["otc"].body
    await _call_often(port, body)
    ratios = []
    for _ in range(_GROUPS):
        idle, beside = list[float](), list[float]()
        for is_hanging in (False, True, True, False) * _TURNS:
            hanging = [asyncio.create_task(_hang(port)) for _ in range(_HANGING if is_hanging else 0)]
            await asyncio.sleep(0.1)  # all of them have reached the upstream
            (beside if is_hanging else idle).extend(await _call_often(port, body))
            for task in hanging:
                task.cancel()
            await asyncio.gather(*hanging, return_exceptions=True)
        ratios.append(_find_p99(beside) / _find_p99(idle))
    return statistics.median(ratios)


def _find_p99(took: list[float]) -> float:
    return sorted(took)[len(took) * 99 // 100]


async def _call_often(port: int, body: bytes) -> list[float]:
    """Return the seconds that each of _CALLS calls took, _AT_ONCE at a time."""
    took: list[float] = []

    async def call_in_turn() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(_CALLS // _AT_ONCE):
            started = time.perf_counter()
            writer.write(_write_request(port, body))
            await _read_response(reader)
            took.append(time.perf_counter() - started)
        writer.close()

    await asyncio.gather(*(call_in_turn() for _ in range(_AT_ONCE)))
    return took


async def _hang(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(_write_request(port, b'{"request":{"tool_id":"Hung.hang@1.0.0","input":{}}}'))
    with suppress(asyncio.IncompleteReadError):
        await _read_response(reader)
    writer.close()


def _write_request(port: int, body: bytes) -> bytes:
    head = f"POST /call HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer bench-key\r\n"
    return f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


async def _read_response(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
    body = await reader.readexactly(int(fields[b"content-length"]))
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(body.decode())
    return body
