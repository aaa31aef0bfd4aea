"""The tools of a catalog as any provider is told of them, and what a model said as a call: the part all SDKs share.

Rules:
- A name that some provider refuses is renamed, and restored when it is called. [XL-090]
- The model is told what a call costs, and after a success what may follow it, as data. [XL-072, XL-075]
- No text that a model is given hides anything: what a tool returned is cleaned too, whatever the protocol. [D-01]
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal, Protocol
from uuid import uuid4

from toolwire.core.catalog import Catalog
from toolwire.core.model import Call, Json, Kind, Problem, Result, Tool
from toolwire.core.toolbox import Toolbox
from toolwire.framing import jsontext
from toolwire.framing.next_steps import Step, following
from toolwire.framing.text_cleaning import cleaned
from toolwire.framing.tool_description import told

from .dialects import NAME, Provider
from .schema import ToolSchema, shape

_CHANGED: Final = re.compile(r"_.*_[0-9a-f]{12}")
"""What a changed name looks like: no tool is offered by such a name of its own."""

_STRICT_TOOLS: Final = 20
_STRICT_OPTIONAL: Final = 24
_STRICT_UNIONS: Final = 16


class NamedCaller(Protocol):
    """A connection that calls by name and waits, such as ``SyncRemote``."""

    def catalog(self) -> Catalog:
        """Return what can be called."""
        ...

    def call(self, name: str, arguments: Mapping[str, Json], /) -> Result:
        """Return how the call of ``name`` ended."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDeclaration:
    """One tool as a model is told of it."""

    name: str
    description: str
    shape: ToolSchema
    tool: Tool


def offered(catalog: Catalog, provider: Provider) -> tuple[ToolDeclaration, ...]:
    """Return the newest version of each tool of ``catalog`` for ``provider``, in its order."""
    room = _StrictBudget()
    found: list[ToolDeclaration] = []
    for name, (_, tool) in named(catalog).items():
        shaped = shape(tool.input_schema, provider)
        if provider is Provider.ANTHROPIC_STRICT and shaped.strict and not room.takes(shaped):
            shaped = shape(tool.input_schema, Provider.ANTHROPIC)
        found.append(ToolDeclaration(name=name, description=told(tool), shape=shaped, tool=tool))
    return tuple(found)


def named(catalog: Catalog) -> dict[str, tuple[str, Tool]]:
    """Return each tool of ``catalog`` by a name that every provider takes, with its own unique name.

    A name that is changed ends in its digest: whatever other tools come and go, it stands for the same tool.
    """
    return {_wire_name(name): (name, tool) for name, tool in catalog.names.items()}


def _wire_name(name: str) -> str:
    if NAME.fullmatch(name) and not _CHANGED.fullmatch(name):
        return name
    digest = sha256(name.encode("utf-8", "replace")).hexdigest()[:12]
    return f"_{re.sub(r'[^A-Za-z0-9_-]', '_', name)}"[:51] + f"_{digest}"


async def ran(box: Toolbox, provider: Provider, name: str, said: Json) -> str:
    """Return the text that tells the model how its call ended. ``said`` is JSON text or data."""
    call = read(box.catalog(), provider, name, said)
    result = call if isinstance(call, Problem) else await box.run(call)
    return content(box.catalog(), call, result, provider)


def ran_sync(remote: NamedCaller, provider: Provider, name: str, said: Json) -> str:
    """Return like ``ran``, blocking."""
    catalog = remote.catalog()
    call = read(catalog, provider, name, said)
    if isinstance(call, Problem):
        return content(catalog, call, call)
    return content(catalog, call, remote.call(call.tool.id, dict(call.arguments)), provider)


def read(catalog: Catalog, provider: Provider, name: str, said: Json) -> Call | Problem:
    """Return the call that a model means by ``name`` and the arguments it ``said``, or why it means none."""
    found = named(catalog).get(name)
    if found is None:
        known = catalog.find(name)
        if isinstance(known, Problem):
            return known
        found = name, known
    if isinstance(said, str | bytes):
        text = said.encode("utf-8", "replace") if isinstance(said, str) else said
        said = jsontext.read(text) if text.strip() else {}
        if isinstance(said, Problem):
            return Problem(kind=Kind.INVALID_ARGUMENTS, message=f"The arguments are not JSON: {said.message}")
    if not isinstance(said, Mapping):
        return Problem(kind=Kind.INVALID_ARGUMENTS, message="The arguments must be an object.")
    return Call(found[1], shape(found[1].input_schema, provider).read(said), str(uuid4()))


def content(catalog: Catalog, call: Call | Problem, result: Result, provider: Provider = Provider.OPENAI) -> str:
    """Return ``result`` as JSON text for a model; what may follow stands beside a value. [XL-052, XL-075, XL-101]"""
    if isinstance(result, Problem):
        return _text(_problem(result))
    steps: list[Json] = []
    if isinstance(call, Call):
        wire = _followable(catalog, call.tool)
        steps = [
            {"tool": wire[step.operation][0], "when": step.when, "arguments": _as_said(step, wire, provider)}
            for step in following(call.tool, call.arguments, result.value, list(wire))
        ]
    return _text({"result": result.value, "next": steps} if steps else result.value)


def _followable(catalog: Catalog, after: Tool) -> dict[str, tuple[str, Tool]]:
    """Return what a site may name as the next tool: its own by their short names, and others by their unique ones."""
    every = named(catalog)
    found = {name: (written, tool) for written, (name, tool) in every.items()}
    return found | {tool.name: (written, tool) for written, (_, tool) in every.items() if tool.toolkit == after.toolkit}


def _as_said(step: Step, wire: Mapping[str, tuple[str, Tool]], provider: Provider) -> dict[str, Json]:
    """Return the arguments of ``step`` by the names that the model knows them by."""
    theirs = {ours: name for name, ours in shape(wire[step.operation][1].input_schema, provider).names.items()}
    return {theirs.get(name, name): value for name, value in step.arguments.items()}


def failed(text: str) -> bool:
    """Return whether ``text``, made by ``content``, tells of a failure."""
    return text.startswith(('{"error":', '{"denied":'))


def _problem(problem: Problem) -> Json:
    if problem.kind is Kind.DENIED and problem.details.get("denied") is True:
        return dict(problem.details)
    if problem.kind is Kind.RATE_LIMITED and "rate_limited" in problem.details:
        return dict(problem.details)
    error: dict[str, Json] = {"kind": problem.kind, "message": problem.message, "retryable": problem.can_retry}
    if problem.retry_after_ms is not None:
        error["retry_after_ms"] = problem.retry_after_ms
    if problem.parameter_errors:
        error["arguments"] = dict(problem.parameter_errors)
    if problem.additional_prompt_content:
        error["advice"] = problem.additional_prompt_content
    return {"error": error}


def _text(data: Json) -> str:
    return json.dumps(cleaned(data), ensure_ascii=False, separators=(",", ":"), default=str)


class _StrictBudget:
    """What is left of what one request may declare strict."""

    def __init__(self) -> None:
        self._left: dict[Literal["tools", "optional", "unions"], int] = {
            "tools": _STRICT_TOOLS,
            "optional": _STRICT_OPTIONAL,
            "unions": _STRICT_UNIONS,
        }

    def takes(self, shaped: ToolSchema) -> bool:
        """Return whether one more tool fits, and take its room if so."""
        nodes = list(_objects(shaped.schema))
        unions = sum(isinstance(node.get("anyOf"), list) for node in nodes)
        choices = [one for node in nodes if isinstance(found := node.get("anyOf"), list) for one in found]
        optional = sum(isinstance(one, Mapping) and one.get("type") == "null" for one in choices)
        wanted: dict[Literal["tools", "optional", "unions"], int] = {"tools": 1, "optional": optional, "unions": unions}
        if any(self._left[key] < count for key, count in wanted.items()):
            return False
        for key, count in wanted.items():
            self._left[key] -= count
        return True


def _objects(data: Json) -> Iterator[Mapping[str, Json]]:
    if isinstance(data, Mapping):
        yield data
        for one in data.values():
            yield from _objects(one)
    elif isinstance(data, list):
        for one in data:
            yield from _objects(one)
