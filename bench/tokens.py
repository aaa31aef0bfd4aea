"""How many tokens random tools of real documents take: ours and FastMCP's, of the same operations.

Run as a program it measures the tools that one seed draws and prints the figures as JSON.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import statistics
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TOOLS = 30
SEED = 7
OTHER_SEEDS = (1, 2, 3, 4, 5)
MAX_BYTES = 2_000_000
"""Documents of more bytes are not drawn: FastMCP takes up to minutes for each of them."""

Key = tuple[str, str]
"""The method and the path of an operation."""


class Figures(NamedTuple):
    """The mean tokens of a tool: ours, FastMCP's as it lists it, and FastMCP's without the schema of its output."""

    ours: float
    listed: float
    without_output: float


def measured(seed: int) -> Figures | str:
    """Return the figures of the tools that ``seed`` draws, or why there are none."""
    command = [sys.executable, "-W", "ignore", "-m", "bench.tokens", str(seed)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["it fails"])[-1][:100]
    return Figures(**json.loads(done.stdout.splitlines()[-1]))


def describe_ours(text: bytes) -> dict[Key, dict[str, Any]]:
    """Return each tool of a document as the API of a model is told of it, by its operation."""
    from toolwire.adapters.dialects import Provider
    from toolwire.adapters.tool_declarations import declare_tools
    from toolwire.core.http import Response
    from toolwire.core.selection import Selection
    from toolwire.protocols.openapi import CODEC

    flow = CODEC.find("https://example.com/document.json", Selection(include="all"))
    flow.send(None)
    try:
        flow.send(Response(200, (), text))
    except StopIteration as stop:
        peer = stop.value.peer
    plans = peer.memo.plans
    return {
        (plans[one.tool.id].method, plans[one.tool.id].path): {
            "name": one.name,
            "description": one.description,
            "parameters": dict(one.input_schema.schema),
        }
        for one in declare_tools(peer.catalog, Provider.OPENAI)
    }


def describe_fastmcp(text: bytes) -> dict[Key, dict[str, Any]]:
    """Return each tool that FastMCP makes of a document as its ``tools/list`` says it, by its operation."""
    import httpx2
    from fastmcp import FastMCP

    client = httpx2.AsyncClient(base_url="https://example.com")
    server = FastMCP.from_openapi(openapi_spec=json.loads(text), client=client)
    tools: list[Any] = list(asyncio.run(server.list_tools()))
    return {
        (one._route.method, one._route.path): {
            "name": one.name,
            "description": one.description or "",
            "inputSchema": one.parameters,
            "outputSchema": one.output_schema,
        }
        for one in tools
    }


def draw(seed: int, count: int) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield ``count`` tools, ours and FastMCP's of one operation each, every one of another document."""
    from corpus.documents import documents

    chance = random.Random(seed)
    every = [path for path in documents() if path.suffix == ".json" and path.stat().st_size <= MAX_BYTES]
    chance.shuffle(every)
    for path in every:
        text = path.read_bytes()
        try:
            ours, theirs = describe_ours(text), describe_fastmcp(text)
        except Exception:  # noqa: BLE001 - a document that either refuses is not drawn
            continue
        both = sorted(ours.keys() & theirs.keys())
        if both:
            key = chance.choice(both)
            yield ours[key], theirs[key]
            count -= 1
        if not count:
            return


def count_with_o200k() -> Callable[[Any], int]:
    """Return what counts the tokens of data as compact JSON. Its ranks come with the package: nothing is fetched."""
    import bpe_openai

    encoding = bpe_openai.get_encoding("o200k_base")
    return lambda data: len(encoding.encode(json.dumps(data, separators=(",", ":"), ensure_ascii=False)))


def main() -> None:
    """Measure the tools that the seed on the command line draws."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    tokens = count_with_o200k()
    pairs = list(draw(int(sys.argv[1]), TOOLS))
    figures = Figures(
        ours=statistics.mean(tokens(own) for own, _ in pairs),
        listed=statistics.mean(tokens(other) for _, other in pairs),
        without_output=statistics.mean(
            tokens({name: one for name, one in other.items() if name != "outputSchema"}) for _, other in pairs
        ),
    )
    print(json.dumps(figures._asdict()))


if __name__ == "__main__":
    main()
