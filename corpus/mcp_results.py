"""Answers that vendors publish as examples, through our server to the official MCP clients: how many are lost.

``make mcp-results ARGS=[MOST]`` reads the examples of JSON documents that ``make corpus`` fetched, serves each
as the answer of its operation, and calls it with the Python SDK 2.x and the TypeScript SDKs 1.x and 2.x. It prints the
figures, and fails if an answer is lost.
"""
# O-21

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema_rs

from spec.runs import record_run
from tests.interop.mcp_makers import CACHE, HERE, start_node, start_python
from toolwire import asgi
from toolwire.core.catalog import Catalog
from toolwire.core.codec import Peer
from toolwire.core.http import Response
from toolwire.core.model import Call, Problem, Result, Tool
from toolwire.core.toolbox import Notify, OutputPromise, ignore_progress
from toolwire.framing import jsontext
from toolwire.protocols.openapi.client import _find_plan
from toolwire.protocols.openapi.response import results
from toolwire.testing import background

from .documents import documents
from .judge import read

CHUNK = 300
"""So many answers are served at a time."""

CLIENTS = {
    "Python SDK 2": [*start_python("call_all.py", ""), {"mode": "auto"}],
    "TypeScript SDK 1": [*start_node(HERE / "call_all.mjs"), {"packages": str(CACHE), "sdk": "sdk"}],
    "TypeScript SDK 2": [
        *start_node(HERE / "call_all.mjs"),
        {"packages": str(CACHE), "sdk": "client", "mode": "auto"},
    ],
}


class Example(NamedTuple):
    """One answer that a vendor publishes: its tool, how it is read, and the response."""

    tool: Tool
    expected: results.Expected
    response: Response


class ExampleToolbox:
    """Answers each call of a tool with its example, as the API in front of which it is served would."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self._examples = {one.tool.name: one for one in examples}
        self._catalog = Catalog(title="Examples", tools=tuple(one.tool for one in examples))
        self.ran = 0

    def catalog(self) -> Catalog:
        """Return a tool for each example."""
        return self._catalog

    def judge_output(self, _tool: Tool) -> OutputPromise:
        """Return what a connection returns."""
        return OutputPromise.FOREIGN

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        """Return the example as the value that our client reads from it."""
        one = self._examples[call.tool.name]
        self.ran += 1
        return results.read(one.response, one.expected)


def list_examples(path: Path) -> Iterator[Example]:
    """Yield what the document at ``path`` publishes as answers of status 2xx in JSON."""
    text = path.read_bytes()
    document = jsontext.read(text)
    if not isinstance(document, dict):
        return
    peer = read(path, text).peer
    for tool in () if peer is None else peer.catalog.tools:
        said = tool.hints["openapi"]
        operation = document.get("paths", {}).get(said.get("path"), {}).get(str(said.get("method")).lower())
        plan = _find_plan(peer, Call(tool, {}, "", None, "")) if isinstance(peer, Peer) else None
        if not isinstance(operation, dict) or plan is None or isinstance(plan, Problem):
            continue
        for status, value in _list_values(document, operation):
            response = Response(status, ((b"content-type", b"application/json"),), jsontext.write(value))
            plain = replace(tool, name="x", toolkit="", input_schema={"type": "object"}, safe=True, approval=None)
            yield Example(plain, results.Expected(plan.origin, plan.responses), response)


def _list_values(document: dict[str, Any], operation: dict[str, Any]) -> Iterator[tuple[int, Any]]:
    responses = _follow(document, operation.get("responses"))
    for status, node in responses.items() if isinstance(responses, dict) else ():
        answer = _follow(document, node)
        if not isinstance(answer, dict) or not str(status).startswith("2"):
            continue
        code = int(status) if str(status).isdecimal() else 200
        for kind, media in _get_items(answer.get("content")):
            if "json" in kind and isinstance(media, dict):
                if "example" in media:
                    yield code, media["example"]
                for _, one in _get_items(media.get("examples")):
                    example = _follow(document, one)
                    if isinstance(example, dict) and "value" in example:
                        yield code, example["value"]
        for kind, value in _get_items(answer.get("examples")):
            if "json" in kind:
                yield code, value


def _get_items(node: Any) -> Any:
    return node.items() if isinstance(node, dict) else ()


def _follow(document: dict[str, Any], node: Any) -> Any:
    for _ in range(5):
        if not isinstance(node, dict) or not isinstance(node.get("$ref"), str):
            return node
        found: Any = document
        for step in node["$ref"].removeprefix("#/").split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, dict) else None
        node = found
    return node


def call_all(command: list[Any], url: str) -> dict[str, Any]:
    """Return what each tool answered."""
    *words, told = command
    target = json.dumps({"url": f"{url}/mcp", **told})
    done = subprocess.run([*words, target], capture_output=True, text=True, timeout=900, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-3_000:])
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def _breaks_schema(one: Example) -> bool:
    try:
        return not jsonschema_rs.validator_for(dict(one.tool.output_schema or {})).is_valid(
            json.loads(one.response.body)
        )
    except ValueError:
        return False


def collect_examples(most: int) -> list[Example]:
    """Return the published answers of all documents, about ``most`` of them, each with a tool of its own name."""
    found: list[Example] = []
    for path in documents():
        if path.suffix == ".json" and len(found) < most:
            for one in list_examples(path):
                found.append(one._replace(tool=replace(one.tool, name=f"t{len(found)}")))
    return found


def send_examples(found: Sequence[Example]) -> tuple[Counter[str], Counter[str]]:
    """Return how many answers each client lost, and how many it got marked as an error. Each lost one is printed."""
    lost, failed = Counter(dict.fromkeys(CLIENTS, 0)), Counter[str]()
    for start in range(0, len(found), CHUNK):
        toolbox = ExampleToolbox(found[start : start + CHUNK])
        with background(asgi(toolbox)) as url:
            for maker, command in CLIENTS.items():
                said = call_all(command, url)
                failed[maker] += sum(one.get("isError") is True for one in said.values())
                for name, one in said.items():
                    if "lost" in one:
                        lost[maker] += 1
                        print(maker, name, one["lost"], flush=True)
        print(f"{min(start + CHUNK, len(found)):,} of {len(found):,}", file=sys.stderr, flush=True)
    return lost, failed


def main(most: int) -> None:
    """Print how many answers came through, and how many were lost."""
    found = collect_examples(most)
    if not found:
        raise SystemExit("mcp-results: there are no documents. `make corpus` fetches them.")
    odd = sum(_breaks_schema(one) for one in found)
    print(f"{len(found):,} published answers, {odd:,} of which break the schema of their operation", flush=True)
    lost, failed = send_examples(found)
    for maker, count in lost.items():
        print(f"{maker}: {count:,} lost, {failed[maker]:,} marked as an error")
    passed = not lost.total()
    if most == sys.maxsize:
        figures = {"published answers": len(found), "that break their schema": odd}
        figures |= {f"{maker}, lost": count for maker, count in lost.items()}
        record_run("mcp-results", "make mcp-results", figures, passed=passed)
    if not passed:
        raise SystemExit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else sys.maxsize)
