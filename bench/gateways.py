"""The figures of a gateway: the rate of calls through it, its start with many upstreams, and one that hangs."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from contextlib import suppress

from bench import wire
from bench.requests import CALLS, Call

UPSTREAMS = 50
TOOLS = 200
_KEY = (("authorization", "Bearer bench-key"),)
_CALLS = 1_500
_AT_ONCE = 4
_HANGING = 32


def rate_ratio(name: str, *, seconds: int = 3) -> tuple[float, float]:
    """Return the CPU time of a raw call relative to one through a gateway: its own alone, and with its upstream's.

    Consent, ledger and audit are on. CPU time does not depend on what else the machine does.
    """
    call = CALLS[name]._replace(headers=(*CALLS[name].headers, *_KEY))
    with (
        tempfile.TemporaryDirectory() as state,
        wire.served("raw") as raw,
        wire.served("ours") as upstream,
        wire.served("full_gateway", env=_environment(state, upstream)) as port,
    ):
        return _compare(port, call, raw, upstream, seconds)


def proxy_ratio(app: str, *, seconds: int = 3) -> float:
    """Return the CPU time of a raw call relative to that of another maker's proxy alone for an MCP call."""
    with (
        wire.served("raw") as raw,
        wire.served("ours") as upstream,
        wire.served(app, env={"BENCH_UPSTREAM": f"http://127.0.0.1:{upstream}"}) as port,
    ):
        return _compare(port, CALLS["mcp"], raw, upstream, seconds)[0]


def start_s() -> float:
    """Return the seconds until a gateway with UPSTREAMS upstreams of TOOLS tools each can serve."""
    from toolwire.cli.parser import list_commands
    from toolwire.cli.serve_app import REMOTE_OPTIONS, ServeSettings, UpstreamSettings, build_app, open_toolboxes

    defaults = vars(list_commands("bench")["serve"].parse_args([]))
    remote = {name: defaults[name] for name in REMOTE_OPTIONS}
    with wire.served("ours", env={"BENCH_TOOLS": str(TOOLS)}) as port:
        upstreams = [
            UpstreamSettings(name=f"upstream{number}", target=f"http://127.0.0.1:{port}", remote=remote)
            for number in range(UPSTREAMS)
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


def _compare(port: int, call: Call, raw: int, upstream: int, seconds: int) -> tuple[float, float]:
    wire.rate(port, call, seconds=1)  # everything is loaded and connected
    least = wire.cpu_us(raw, CALLS["opentool"], seconds, [raw])
    alone = wire.cpu_us(port, call, seconds, [port])
    return least / alone, least / wire.cpu_us(port, call, seconds, [port, upstream])


async def _measure_hung(port: int) -> float:
    body = CALLS["otc"].body
    await _measure_p99(port, body)
    ratios = []
    for _ in range(3):
        idle = await _measure_p99(port, body)
        hanging = [asyncio.create_task(_hang(port)) for _ in range(_HANGING)]
        await asyncio.sleep(0.5)
        ratios.append(await _measure_p99(port, body) / idle)
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
    return statistics.median(ratios)


async def _measure_p99(port: int, body: bytes) -> float:
    took: list[float] = []

    async def call_often() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(_CALLS // _AT_ONCE):
            started = time.perf_counter()
            writer.write(_write_request(port, body))
            await _read_response(reader)
            took.append(time.perf_counter() - started)
        writer.close()

    await asyncio.gather(*(call_often() for _ in range(_AT_ONCE)))
    return sorted(took)[len(took) * 99 // 100]


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
