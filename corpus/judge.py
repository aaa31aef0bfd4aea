"""What is true of every document: nothing of it is lost, and whatever comes of it is legal, valid and reversible."""

from __future__ import annotations

import hashlib
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs

from tests.adapters.provider_rules import faults
from toolwire.adapters.schema import Provider, build_tool_schema
from toolwire.core.codec import Finding
from toolwire.core.http import Request, Response
from toolwire.core.model import Tool
from toolwire.core.selection import Selection
from toolwire.framing import jsontext
from toolwire.protocols.openapi import CODEC
from toolwire.protocols.openapi.request import build_request
from toolwire.protocols.openapi.tools import operations
from toolwire.validation import compile_schema

from . import bodies, values
from .documents import name

SHAPED = 4
"""At most so many tools of a document are said in every provider's words, chosen evenly."""

MADE_UP = 20
"""For at most so many tools of a document arguments are made, chosen evenly."""

READING = 10.0
"""Seconds of the processor that reading a document may take."""

SERVER = "https://corpus.test"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_METHODS = {"get", "put", "post", "delete", "options", "head", "patch", "trace", "query"}
_MAX_FAULTS = 20
_META = jsonschema_rs.validator_for({"$ref": "https://json-schema.org/draft/2020-12/schema"})


def find(path: Path, text: bytes, *, server: str = "") -> Finding:
    """Return what is found where ``text`` is the file at ``path``: every operation."""
    flow = CODEC.find(path.as_uri(), Selection(include="all", server=server))
    try:
        flow.send(None)
        for _ in range(100):
            flow.send(Response(200, (), text))  # type: ignore[arg-type]  # a document asks for nothing but responses
    except StopIteration as stop:
        finding: Finding = stop.value
        return finding
    raise AssertionError("it asks without end")


def read(path: Path, text: bytes) -> Finding:
    """Return what is found; a document that does not say where it is called is called at a server of ours."""
    finding = find(path, text)
    if finding.peer is None and "say which one to call" in finding.probes[-1].meaning:
        return find(path, text, server=SERVER)
    return finding


def judge(path: Path, started: float | None = None) -> Iterator[dict[str, Any]]:
    """Yield what is known after reading, and then after looking at everything: counts, seconds and faults."""
    text = path.read_bytes()
    begun = time.process_time()
    finding = read(path, text)
    said: dict[str, Any] = {"document": name(path), "bytes": len(text), "seconds": time.process_time() - begun}
    if finding.peer is None:
        yield {**said, "refused": finding.probes[-1].meaning, "faults": []}
        return
    yield said
    found: list[str] = []
    if said["seconds"] > READING:
        found.append(f"reading it takes {said['seconds']:.0f} s")
    peer = finding.peer
    tools, memo = peer.catalog.tools, peer.memo
    assert isinstance(memo, operations.OperationState)
    declared, skips = _declared(text), sum(note.operations for note in memo.notes)
    said |= {"operations": declared, "tools": len(tools), "skipped": skips}
    if not declared == len(tools) + skips == memo.operations:
        found.append(f"{declared} operations are {len(tools)} tools and {skips} skips of {memo.operations}")
    found.extend(f"the name {one.name!r}" for one in tools if not _NAME.fullmatch(one.name))
    found.extend(f"the name {key!r} of {one.name!r}" for key, one in peer.catalog.names.items() if key != one.name)
    begun = time.process_time()
    sizes: list[int] = []
    slowest = 0.0
    for tool in tools:
        since = time.process_time()
        sizes.append(len(jsontext.write(dict(tool.input_schema))))
        found.extend(_invalid(tool))
        memo.plans[tool.id]
        slowest = max(slowest, time.process_time() - since)
    said |= {"schemas": time.process_time() - begun, "slowest": slowest, "sizes": sizes}
    said |= {"notes": len(memo.notes), "digest": digest(finding)}
    counts: Counter[str] = Counter()
    for tool in _evenly(tools, MADE_UP):
        found.extend(_called(tool, memo, counts))
    for tool in _evenly(tools, SHAPED):
        found.extend(_shaped(tool, counts))
    document = operations_data(text)
    begun = time.process_time()
    found.extend(bodies.judge_bodies(document, tools, memo.plans, name(path), counts))
    found.extend(bodies.judge_reach(document, tools, memo, name(path), counts))
    said["bodies"] = time.process_time() - begun
    yield {**said, "counts": dict(counts), "faults": found[:_MAX_FAULTS]}


def read_again(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the digest of what a document becomes, and nothing else: in another process, to be compared."""
    yield {"document": name(path)}
    yield {"digest": digest(read(path, path.read_bytes())), "faults": []}


def digest(finding: Finding) -> str:
    """Return a digest of everything that a document became: the same of the same document, on every run."""
    peer = finding.peer
    if peer is None:
        return finding.probes[-1].meaning
    told = hashlib.sha256()
    for tool in peer.catalog.tools:
        told.update(jsontext.write([tool.name, tool.description, dict(tool.input_schema)]))
        told.update(
            jsontext.write([dict(tool.output_schema or {}), {key: dict(one) for key, one in tool.hints.items()}])
        )
        told.update(repr(peer.memo.plans[tool.id]).encode("utf-8", "replace"))
    told.update(repr(peer.memo.findings).encode("utf-8", "replace"))
    return told.hexdigest()


def _declared(text: bytes) -> int:
    """Return how many operations a document declares, counted apart from how they are read."""
    data = operations_data(text)
    count = 0
    for path, item in data.get("paths", {}).items() if isinstance(data.get("paths"), dict) else ():
        if path.startswith("x-"):
            continue
        node = _led(data, item)
        if node is None:
            count += 1
        else:
            extra = node.get("additionalOperations")
            count += len(_METHODS & node.keys()) + (len(extra) if isinstance(extra, dict) else 0)
    return count


def operations_data(text: bytes) -> dict[str, Any]:
    """Return the data of a document."""
    from toolwire.protocols.openapi.document.loading import Loaded, load_document

    loaded = load_document(text)
    assert isinstance(loaded, Loaded)
    return loaded.data if isinstance(loaded.data, dict) else {}


def _led(data: dict[str, Any], node: Any) -> dict[str, Any] | None:
    for _ in range(32):
        if not isinstance(node, dict):
            return None
        reference = node.get("$ref")
        if not isinstance(reference, str):
            return node
        node = data
        for step in reference.removeprefix("#/").split("/"):
            node = node.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    return None


def _evenly(tools: tuple[Tool, ...], most: int) -> tuple[Tool, ...]:
    return tools if len(tools) <= most else tuple(tools[len(tools) * number // most] for number in range(most))


def _invalid(tool: Tool) -> Iterator[str]:
    for which, schema in (("input", tool.input_schema), ("output", tool.output_schema or {})):
        plain = dict(schema)
        if not _META.is_valid(plain):
            error = next(_META.iter_errors(plain))
            yield f"{tool.name}: its {which} schema is invalid at {error.instance_path}: {error.message[:200]}"
        try:
            compile_schema(plain)
        except Exception as error:  # noqa: BLE001 - any at all is a fault
            yield f"{tool.name}: its {which} schema does not compile: {error!r}"[:300]


def _called(tool: Tool, memo: operations.OperationState, counts: Counter[str]) -> Iterator[str]:
    plan = memo.plans[tool.id]
    arguments = [one for one, _ in plan.parameters] + [one for one, _ in plan.properties]
    if len(set(arguments)) != len(arguments):
        yield f"{tool.name}: two arguments have one name"
    if len(set(plan.parameters)) != len(plan.parameters) or len({one for _, one in plan.properties}) != len(
        plan.properties
    ):
        yield f"{tool.name}: two arguments stand for one"
    for full in (False, True):
        made = values.arguments(dict(tool.input_schema), full=full)
        if made is None:
            counts["unmade"] += 1
            continue
        counts["made"] += 1
        request = build_request.build_request(plan, made)
        if isinstance(request, Request):
            counts["written"] += 1
        else:
            counts["refused"] += 1


def _shaped(tool: Tool, counts: Counter[str]) -> Iterator[str]:
    schema = dict(tool.input_schema)
    made = [one for full in (False, True) if (one := values.arguments(schema, full=full)) is not None]
    for provider in Provider:
        shaped = build_tool_schema(schema, provider)
        counts["shapes"] += 1
        for fault in faults(shaped.schema, provider):
            yield f"{tool.name} for {provider}: {fault}"
        for arguments in made:
            counts["reversed"] += 1
            back = shaped.read_arguments(shaped.write_arguments(arguments))
            if back != arguments:
                counts["astray"] += 1
                said, heard = jsontext.write(arguments), jsontext.write(back)
                yield f"{tool.name} for {provider}: {said[:150]!r} comes back as {heard[:150]!r}"
