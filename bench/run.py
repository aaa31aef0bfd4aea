"""``make bench``: every figure of docs/benchmarks.md, ours, the limit and the peers in one run.

Rates are ratios to a raw ASGI application measured just before and after, because machines differ and drift.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench import apps, checks, client, console, conversion, gateways, growth, inprocess, process, tokens, wire  # noqa: E402 - the path first
from bench import instructions as counted  # noqa: E402 - the path first
from bench.requests import CALLS, Call  # noqa: E402 - the path first
from corpus.documents import documents  # noqa: E402 - the path first

PEERS = {
    "starlette": ("starlette", "opentool"),
    "fastapi": ("fastapi", "opentool"),
    "mcp_sdk": ("mcp", "mcp"),
    "universal": ("universal_tool_server", "universal"),
    "fastmcp": ("fastmcp", "mcp"),
}
"""Each peer's factory in bench.apps, with the package it needs and the call it is given."""

_SECONDS = 1
_TIMES = 7
PROXIES = {
    "mcp-proxy": ("mcp_proxy", "mcp-proxy", "mcp"),
    "mcpo": ("mcpo", "mcpo", "mcpo"),
    "LiteLLM's gateway": ("litellm", "litellm", "mcp"),
}
"""Each proxy's factory in bench.apps, its package and the call it is given. mcpo takes a call over OpenAPI only.

Each has an environment of its own: mcp-proxy and mcpo need the MCP SDK before 2.0, and FastMCP the one after it.
"""
SECRET = "a secret of the benchmark, long enough"


def token() -> str:
    """Return a token that the server takes for an hour."""
    from joserfc import jwt
    from joserfc.jwk import OctKey

    claims = {"sub": "bench", "exp": int(time.time()) + 3_600}
    return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(SECRET))


class Row(NamedTuple):
    """One figure: what, how much, and the target with the direction in which it counts."""

    what: str
    figure: float | None
    unit: str
    target: float | None = None
    least: bool = True
    said: str = "not run"

    def met(self) -> str:
        """Return yes, no or nothing where there is no target."""
        if self.target is None or self.figure is None:
            return ""
        return "yes" if (self.figure >= self.target) is self.least or self.figure == self.target else "NO"


def rates() -> Iterator[Row]:
    """Yield each rate as a ratio to the raw limit."""
    with wire.served("raw") as limit:

        def ratio(port: int, call: Call, limit: int = limit) -> float:
            figures = []
            before = wire.rate(limit, call, seconds=_SECONDS)
            for _ in range(_TIMES):
                figure = wire.rate(port, call, seconds=_SECONDS)
                after = wire.rate(limit, call, seconds=_SECONDS)
                figures.append(2 * figure / (before + after))
                before = after
            return statistics.median(figures)

        targets = {"opentool": 0.60, "otc": 0.60, "oxp": 0.60, "mcp": 0.75, "mcp stateless": 0.75}
        with wire.served("ours") as port:
            for name, target in targets.items():
                yield Row(f"rate, {name}, async add", ratio(port, CALLS[name]), "of raw", target)
            yield Row("rate, otc, recorded in memory", ratio(port, CALLS["otc recorded"]), "of raw", 0.60)
        with (
            tempfile.TemporaryDirectory() as folder,
            wire.served("ours", env={"BENCH_LEDGER": f"{folder}/calls.sqlite"}) as port,
        ):
            yield Row("rate, otc, recorded in SQLite", ratio(port, CALLS["otc recorded"]), "of raw", 0.40)
        yield Row(
            "rate, recorded in SQLite, two workers relative to one, an empty tool",
            wire.workers_ratio(CALLS["otc recorded"]),
            "times",
        )
        yield Row(
            "rate, recorded in SQLite, two workers relative to one, a tool of 0.25 ms",
            wire.workers_ratio(CALLS["otc recorded"], busy_s=0.000_25),
            "times",
            1.5,
        )
        with wire.served("ours", plain=True) as port:
            yield Row("rate, opentool, on plain uvicorn", ratio(port, CALLS["opentool"]), "of raw")
        with wire.served("ours", env={"BENCH_KEY": "bench-key"}) as port:
            keyed = CALLS["opentool"]._replace(headers=(("authorization", "Bearer bench-key"),))
            yield Row("rate, opentool, with an API key", ratio(port, keyed), "of raw", 0.60)
        with wire.served("ours", env={"BENCH_JWT": SECRET}) as port:
            signed = CALLS["otc"]._replace(headers=(("authorization", f"Bearer {token()}"),))
            yield Row("rate, otc, with a signed token", ratio(port, signed), "of raw", 0.60)
        for style in ("sync", "inline"):
            with wire.served("ours", env={"BENCH_STYLE": style}) as port:
                yield Row(f"rate, opentool, {style} add", ratio(port, CALLS["opentool"]), "of raw")
        with wire.served("ours", env={"BENCH_STYLE": "sync"}) as port, wire.served("starlette_sync") as peer:
            threads = ratio(port, CALLS["opentool"], peer)
            yield Row("rate, opentool, sync add", threads, "of a Starlette sync route", 1.3)
        with wire.served("ours", env={"BENCH_TOOLS": "100"}) as port:
            yield Row("rate, GET /tools, 100 tools", ratio(port, CALLS["list"]), "of raw", 0.85)
        for app, (package, call) in PEERS.items():
            if importlib.util.find_spec(package):
                yield attempt(
                    f"other library, {app}", "of raw", lambda app=app, call=call: _peer(app, CALLS[call], ratio)
                )


def _peer(app: str, call: Call, ratio: Callable[[int, Call], float]) -> float:
    with wire.served(app) as port:
        return ratio(port, call)


def costs() -> Iterator[Row]:
    """Yield the CPU time of one request in process."""
    yield Row("in process, raw", inprocess.cost_us(apps.raw, CALLS["opentool"]), "us")
    app = apps.ours()
    for name, target in {
        "opentool": 20.0,
        "otc": 20.0,
        "otc recorded": None,
        "oxp": 20.0,
        "openapi": None,
        "mcp": 30.0,
        "mcp stateless": 30.0,
        "list": None,
    }.items():
        yield Row(f"in process, {name}", inprocess.cost_us(app, CALLS[name]), "us", target, least=False)
    few, many = ours_with(10), ours_with(1_000)
    small, large = (inprocess.cost_us(each, CALLS["opentool"]) for each in (few, many))
    yield Row("a call among 1,000 tools, relative to 10 tools", large / small, "times", 1.2, least=False)
    yield Row("a server-sent event", event_us(), "us", 10.0, least=False)
    yield Row("in process, Starlette route", inprocess.cost_us(apps.starlette(), CALLS["opentool"]), "us")
    if importlib.util.find_spec("fastapi"):
        yield Row("in process, FastAPI", inprocess.cost_us(apps.fastapi(), CALLS["opentool"]), "us")


def each_check() -> Iterator[Row]:
    """Yield the CPU time of each check of a server by itself, and of all that a client does around a call."""
    for name, work in checks.server(token(), SECRET).items():
        yield Row(f"check, {name}", checks.cost_us(work), "us")
    app = apps.ours()
    recorded, usual = (inprocess.cost_us(app, CALLS[name]) for name in ("otc recorded", "otc"))
    yield Row("check, idempotency (ledger in memory)", recorded - usual, "us")
    for rows, what in ((0, "an empty"), (150_000, "a full")):
        yield Row(f"check, idempotency in {what} ledger in memory, alone", checks.once_us(rows), "us")
    whole, codec = map(checks.cost_us, checks.client())
    what = "client, checks of a call without a question: arguments, consent, limits, log"
    yield Row(what, whole - codec, "us", 40.0, least=False)


def ours_with(tools: int) -> object:
    """Return our application with that many tools."""
    import toolwire

    return toolwire.asgi(apps.calculator(tools))


def event_us() -> float:
    """Return the microseconds of one streamed event: a call of 1,000 events less one of none, by the number."""
    import toolwire

    kit = toolwire.Toolkit("Stream")

    @kit.tool
    async def count(n: int) -> AsyncIterator[int]:
        """Count."""
        for number in range(n):
            yield number

    app = toolwire.asgi(kit)
    body = b'{"jsonrpc":"2.0","method":"count","params":{"n":%d},"id":"c1"}'
    many, none = (
        inprocess.cost_us(app, Call("POST", "/opentool/streamCall", body % n), rounds=3, each=20) for n in (1_000, 0)
    )
    return (many - none) / 1_000


def instructions() -> Iterator[Row]:
    """Yield the thousands of instructions of one request in process, which do not move with the machine's load."""
    for name in ("raw", "starlette", "opentool", "otc", "oxp", "mcp", "mcp stateless", "list"):
        yield Row(f"instructions, {name}", counted.per_call(name) / 1_000, "thousand")


def clients() -> Iterator[Row]:
    """Yield the CPU time of one call on the client's side, 32 in flight."""
    with wire.served("ours") as port:
        url = f"http://127.0.0.1:{port}"
        yield Row("client, a call, 32 in flight", client.toolwire_us(url), "us", 300.0, least=False)
        yield Row("client, the network transport alone, 32 in flight", client.door_us(url), "us")
        if importlib.util.find_spec("aiohttp"):
            what = "client, a call relative to a plain aiohttp POST, 32 in flight"
            yield Row(what, client.times_of_aiohttp(url), "times", 1.35, least=False)
        entered, called = client.connect_ms(url)
        yield Row("client, connect", entered, "ms", 3.0, least=False)
        yield Row("client, the first call after connecting", called, "ms", 1.0, least=False)
        yield Row("client, naming connection 1,000 to one host", client.admit_ms(1_000), "ms", 0.1, least=False)
        own = client.own_us()
        yield Row("client, a call with a transport that responds at once", own, "us", 60.0, least=False)
        if importlib.util.find_spec("httpx2"):
            yield Row("client, other library: a plain httpx2 POST", client.httpx_us(url), "us")
    yield Row("gateway, additional time of a call", wire.hop_us(CALLS["opentool"]), "us", 250.0, least=False)


def of_gateways() -> Iterator[Row]:
    """Yield what a gateway costs, how fast it starts, and what an upstream that hangs costs the others."""
    full = "with a key, limits, consent, ledger and audit, by its CPU time"
    for name in ("otc", "otc recorded"):
        costs = gateways.measure_costs(name)
        if name == "otc":
            what = "gateway, a bare relay by our network transport alone, by its CPU time"
            yield Row(what, costs.raw / costs.relay, "of raw")
        yield Row(f"gateway, {name}, {full}", costs.raw / costs.gateway, "of raw", 0.30)
        yield Row(f"gateway, {name}, {full}", costs.relay / costs.gateway, "of the bare relay")
        yield Row(f"gateway, {name}, {full} and that of the upstream", costs.raw / costs.both, "of raw")
    few = f"with {gateways.FEW} connections"
    costs = gateways.measure_costs("mcp", connections=gateways.FEW)
    yield Row(f"gateway, mcp, {few}, {full}", costs.raw / costs.gateway, "of raw")
    if importlib.util.find_spec("fastmcp"):
        what = f"other library, FastMCP's proxy, mcp, {few}, by its CPU time"
        yield attempt(what, "of raw", lambda: gateways.proxy_ratio("fastmcp_proxy"))
    for name, (app, package, call) in PROXIES.items():
        python = ROOT / f".cache/bench-{package}/bin/python"
        if python.exists():
            what = f"other library, {name}, {'openapi to mcp' if call == 'mcpo' else call}, {few}, by its CPU time"
            yield attempt(what, "of raw", functools.partial(gateways.proxy_ratio, app, call, python=str(python)))
    what = f"gateway, start with {gateways.UPSTREAMS} upstreams of {gateways.TOOLS} tools"
    yield Row(what, gateways.start_s(), "s", 1.5, least=False)
    lists = gateways.measure_lists()
    tools = gateways.UPSTREAMS * gateways.TOOLS_EACH
    many = f"{gateways.UPSTREAMS} upstreams, {gateways.CALLERS} callers, {tools:,} tools"
    what = f"gateway, a caller's first list with {many}"
    yield Row(what, lists.list_ms, "ms", gateways.MAX_LIST_MS, least=False)
    yield Row(f"gateway, memory with {many}", lists.peak_mb, "MB", gateways.MAX_LISTS_MB, least=False)
    yield Row("gateway, p99 of the others while an upstream hangs", gateways.hung_ratio(), "times", 1.1, least=False)
    figures = console.measure()
    yield Row("console, first page with 10,000 decisions", figures.page_ms, "ms", console.MAX_MS, least=False)
    yield Row("console, size of that page", figures.page_kb, "kB", console.MAX_KB, least=False)
    yield Row("console, an open event stream of 500", figures.stream_kb, "kB", console.MAX_STREAM_KB, least=False)


def growths() -> Iterator[Row]:
    """Yield what must not grow with the number of tools, sets of scopes or keys."""
    lists = growth.Lists()
    few, many = lists.list_ms(10), lists.list_ms(1_000)
    yield Row("list of 1,000 tools, with 1,000 sets of scopes in turn", many, "ms", 5.0, least=False)
    yield Row("list of 1,000 tools, 1,000 sets of scopes relative to 10", many / few, "times", 1.2, least=False)
    yield Row("list after adding one tool to 1,000", growth.one_more_tool_ms(), "ms", 20, least=False)
    yield Row("check, API key among 10,000", growth.key_us(10_000), "us", 3.0, least=False)
    yield Row("define 10,000 tools and build their lists", growth.define_s(10_000), "s", 4.0, least=False)
    what = "slowest recorded call in SQLite after the limit changes from 100,000 rows to 100"
    yield Row(what, growth.lowered_limit_ms(), "ms", 50, least=False)
    what = "slowest recorded call in memory when 100,000 rows expire at once"
    yield Row(what, growth.expiry_ms(), "ms", 1.0, least=False)
    taken, given = growth.rows_ms()
    yield Row("a call with 1 MB of rows as arguments", taken, "ms", 25, least=False)
    yield Row("a call with 1 MB of rows as its result", given, "ms", 25, least=False)
    what = "a small call during calls with results of 10 MB, 99th percentile"
    yield Row(what, growth.beside_large_results_ms(), "ms", 30, least=False)
    for name in ("GitHub", "Microsoft Graph"):
        document = conversion.path(name)
        if document is not None:
            what = f"longest stall of the event loop while connecting to the document of {name}"
            yield Row(what, growth.connect_stall_ms(document), "ms", 50, least=False)


def processes() -> Iterator[Row]:
    """Yield what whole processes cost."""
    yield Row("import toolwire", process.import_s(), "s", 0.10, least=False)
    yield Row("toolwire --help", process.help_s(), "s", 0.30, least=False)
    with wire.served("ours") as port:
        yield Row("toolwire tools URL", process.tools_s(f"http://127.0.0.1:{port}"), "s", 0.60, least=False)
    yield Row("idle server with 100 tools", process.idle_mb("ours", {"BENCH_TOOLS": "100"}), "MB", 45.0, least=False)
    first = process.first_call_s("ours", CALLS["opentool"]) / process.first_call_s("raw", CALLS["opentool"])
    yield Row("start to first successful call, relative to raw", first, "times", 1.5, least=False)
    yield Row("packages, core install", process.packages(""), "", 15, least=False)
    yield Row("packages, with server and command line", process.packages("server,cli"), "", 25, least=False)


def conversions() -> Iterator[Row]:
    """Yield what it takes to turn real documents into tools, for us and for the peers that are installed."""
    if any(conversion.path(name) is None for name in conversion.DOCUMENTS):
        print("bench: the real documents are not there, so no conversion (make corpus).", file=sys.stderr)
        return
    for document, (seconds, megabytes, median) in conversion.TARGETS.items():
        came = conversion.measured("toolwire", document, times=3)
        if isinstance(came, str):
            yield Row(f"convert, {document}, toolwire", None, "", said=came)
            continue
        yield Row(f"convert, {document}, {came.tools:,} tools", came.seconds, "s", seconds, least=False)
        yield Row(f"convert, {document}, peak memory", came.megabytes, "MB", megabytes, least=False)
        yield Row(f"convert, {document}, median tool", statistics.median(came.sizes) / 1_000, "KB", median, least=False)
        yield Row(f"convert, {document}, largest tool", max(came.sizes) / 1_000, "KB", 32, least=False)
        for library, module in conversion.MODULES.items():
            if importlib.util.find_spec(module.partition(".")[0]):
                yield from _peers_conversion(library, document)
    yield Row("search by words among 5,000 tools", conversion.search_ms(), "ms", 5.0, least=False)


def _peers_conversion(library: str, document: str) -> Iterator[Row]:
    came = conversion.measured(library, document)
    what = f"convert, {document}, other library: {library}"
    if isinstance(came, str):
        yield Row(what, None, "", said=came)
        return
    yield Row(f"{what}, {came.tools:,} tools", came.seconds, "s")
    yield Row(f"{what}, peak memory", came.megabytes, "MB")
    if came.sizes:
        yield Row(f"{what}, largest tool", max(came.sizes) / 1_000, "KB")


def token_counts() -> Iterator[Row]:
    """Yield what random tools of real documents cost a model to read, to FastMCP's of the same operations."""
    if not documents():
        print("bench: the real documents are not there, so no tokens (make corpus).", file=sys.stderr)
        return
    figures = tokens.measured(tokens.SEED)
    what = f"tokens, mean of {tokens.TOOLS} random tools"
    if isinstance(figures, str):
        yield Row(what, None, "", said=figures)
        return
    yield Row(what, figures.ours, "tokens")
    yield Row(f"{what}, relative to FastMCP's list", figures.ours / figures.listed, "times", 0.5, least=False)
    without = "relative to FastMCP's list without output schemas"
    yield Row(f"{what}, {without}", figures.ours / figures.without_output, "times")
    others = [one for seed in tokens.OTHER_SEEDS if not isinstance(one := tokens.measured(seed), str)]
    most = f"tokens, the highest of {len(others)} other draws"
    if others:
        listed = max(one.ours / one.listed for one in others)
        yield Row(f"{most}, relative to FastMCP's list", listed, "times", 0.5, least=False)
        yield Row(f"{most}, {without}", max(one.ours / one.without_output for one in others), "times")


PARTS = {
    "costs": costs,
    "checks": each_check,
    "clients": clients,
    "gateways": of_gateways,
    "growth": growths,
    "processes": processes,
    "conversions": conversions,
    "tokens": token_counts,
    "instructions": instructions,
    "rates": rates,
}


def attempt(what: str, unit: str, measure: Callable[[], float]) -> Row:
    """Return the row of a peer, or one without a figure where the peer does not start."""
    try:
        return Row(what, measure(), unit)
    except (RuntimeError, OSError) as error:
        print(f"{what}: {error}", file=sys.stderr)
        return Row(what, None, unit)


def show(row: Row) -> str:
    """Return ``row`` as a line of the table."""
    figure = row.said if row.figure is None else f"{row.figure:,.3f}" if row.figure < 10 else f"{row.figure:,.1f}"
    target = "" if row.target is None else f"{'at least' if row.least else 'at most'} {row.target:g}"
    return f"| {row.what} | {figure} {row.unit} | {target} | {row.met()} |"


def main() -> int:
    """Print the table; with --write, put it into docs/benchmarks.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=list(PARTS), action="append")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    options = parser.parse_args()
    missing = [tool for tool in ("wrk", "taskset") if shutil.which(tool) is None]
    if missing or (os.cpu_count() or 1) < 2:
        print(
            f"bench: needs two cores and {', '.join(missing) or 'nothing more'} (apt-get install wrk).", file=sys.stderr
        )
        return 2
    lines = ["| what | figure | target | met |", "|---|---|---|---|"]
    print("\n".join(lines))
    for name, part in PARTS.items():
        if options.only and name not in options.only:
            continue
        if name == "instructions" and shutil.which("valgrind") is None:
            print("bench: no valgrind here, so no instruction counts (apt-get install valgrind).", file=sys.stderr)
            continue
        for row in part():
            lines.append(show(row))
            print(lines[-1], flush=True)
    if options.write:
        (ROOT / "docs/benchmarks.md").write_text(page(lines))
    return 0


def _installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _list_proxies() -> str:
    """Return the names of the proxies with the versions that their environments get."""
    pins = [(ROOT / f"bench/requirements-{package}.txt").read_text() for _, package, _ in PROXIES.values()]
    *first, last = [
        f"{name} {version}" for text in pins for name, version in re.findall(r"^(\S+?)(?:\[.*\])?==(.+)$", text, re.M)
    ]
    return f"{', '.join(first)} and {last}"


def page(lines: list[str]) -> str:
    """Return docs/benchmarks.md."""
    names = (
        "toolwire",
        "uvicorn",
        "uvloop",
        "httptools",
        "pydantic",
        "orjson",
        "starlette",
        "fastapi",
        "mcp",
        "fastmcp",
        "google-adk",
        "utcp-http",
        "openapi-llm",
    )
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names if _installed(name))
    return (
        "# Benchmarks\n\n"
        "`make bench` writes this page, on two cores: the server on one, wrk with 32 connections on the other.\n\n"
        "- Rate: calls per second, relative to a raw ASGI application on the same uvicorn that gets the same requests\n"
        "  in turn. All checks are on. MCP is called by revision 2025-06-18, and stateless by 2026-07-28.\n"
        "- In process: CPU time without a socket. These figures depend on the machine; ratios depend on it less.\n"
        "- Gateway: CPU time of its process for a call, in turns with that of a raw application. The bare relay\n"
        "  passes on the same bytes by the same network transport and checks nothing: no gateway in front of another\n"
        "  server can do more than it here. Other libraries' proxies get the same load as the row of MCP.\n"
        "  mcpo takes calls over OpenAPI only, so it gets the same call as a POST. LiteLLM's gateway runs with a key\n"
        "  and without a database.\n"
        "- Conversion: CPU time and peak memory from the bytes of a document to tools that can be listed and\n"
        "  searched. Each one runs in its own process, for at most 60 seconds. Schemas that are built later are not\n"
        "  included.\n"
        "- Tokens: tokens of o200k_base in the JSON of a tool. For toolwire, the tool as the API of a model gets it,\n"
        "  without output schema. For FastMCP, its tools/list, with and without output schemas. Each tool is of\n"
        "  another document of the corpus, chosen with a fixed seed.\n\n"
        "How often `find` finds the right tool, and how fast, is on [a page of its own](finding.md).\n\n"
        f"CPython {platform.python_version()} on {platform.machine()}, {datetime.date.today().isoformat()}:\n"
        f"{versions}.\n{_list_proxies()} have environments of their own.\n\n" + "\n".join(lines) + "\n"
    )


if __name__ == "__main__":
    raise SystemExit(main())
