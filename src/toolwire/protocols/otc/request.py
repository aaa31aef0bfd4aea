"""A call on the wire: ``{"request": {"tool_id", "call_id", "input", "context"}}``.

Rules:
- A member that is null counts as missing; members nobody knows are passed over. [OTC-043]
- A caller sends these members and no others. [C-9, OXP-017]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from toolwire.core.model import Call, Json, Kind, Problem, Tool, call_of
from toolwire.framing.jsontext import kind_of

from . import context
from .standard import UNIVERSAL

MAX_ID = 255

Find: TypeAlias = Callable[[str], Tool | Problem]


def read(data: Mapping[str, Json], find: Find, request_id: str) -> Call | Problem:
    """Return the call that the body ``data`` asks for; ``request_id`` names it where the caller did not. [OTC-019]"""
    request = data.get("request")
    if not isinstance(request, dict):
        return _malformed('the body needs a "request" object')
    tool = _tool(request, find)
    if isinstance(tool, Problem):
        return tool
    arguments = _arguments(request)
    if isinstance(arguments, Problem):
        return arguments
    ids = _ids(request, request_id)
    if isinstance(ids, Problem):
        return ids
    call_id, trace_id = ids
    brought = context.read(request.get("context"), call_id, trace_id)
    if isinstance(brought, Problem):
        return brought
    return call_of((tool, arguments, call_id, brought, ""))


def write(call: Call, tool_id: str) -> dict[str, Json]:
    """Return the body that asks for ``call`` of the tool the server knows as ``tool_id``. [OTC-037]"""
    request: dict[str, Json] = {"tool_id": tool_id, "input": dict(call.arguments)}
    if call.call_id:
        request["call_id"] = call.call_id
    if call.context.trace_id:
        request["trace_id"] = call.context.trace_id
    brought = context.write(call)
    if brought:
        request["context"] = brought
    return {"request": request}


def write_universal(call: Call, tool_id: str) -> dict[str, Json]:
    """Return the body a universal-tool server takes: it wants its own ``$schema``. [A-48]"""
    return {"$schema": UNIVERSAL, **write(call, tool_id)}


def write_legacy(call: Call, tool_id: str) -> dict[str, Json]:
    """Return the body an open-tool server takes: a name and its arguments. [S-13]"""
    return {"name": tool_id, "args": dict(call.arguments)}


def _tool(request: Mapping[str, Json], find: Find) -> Tool | Problem:
    reference = request.get("tool_id")
    if not isinstance(reference, str):
        return _malformed('"request.tool_id" must name a tool, as a string')
    return find(reference)


def _arguments(request: Mapping[str, Json]) -> dict[str, Json] | Problem:
    """Return the arguments, which the RFC calls ``inputs`` in one place and ``input`` in all others. [A-31]"""
    arguments, older = request.get("input"), request.get("inputs")
    if arguments is None:
        arguments = {} if older is None else older
    elif older is not None and older != arguments:
        return _malformed('"request.input" and "request.inputs" say different things: send "input" alone')
    if not isinstance(arguments, dict):
        return _malformed(f'"request.input" must be an object, not {kind_of(arguments)}')
    return arguments


def _ids(request: Mapping[str, Json], request_id: str) -> tuple[str, str] | Problem:
    call_id, trace_id = request.get("call_id"), request.get("trace_id")
    for name, given in (("call_id", call_id), ("trace_id", trace_id)):
        if given is not None and (not isinstance(given, str) or len(given) > MAX_ID):
            return _malformed(f'"request.{name}" must be a string of at most {MAX_ID} characters')
    return call_id or request_id, trace_id or ""


def _malformed(what: str) -> Problem:
    return Problem(kind=Kind.MALFORMED, message=f"This is not a tool call: {what}.")
