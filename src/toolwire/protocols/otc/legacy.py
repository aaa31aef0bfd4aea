"""Speak the dialect of open-tool: an array of names, a call of a name with ``args``, and a bare value.

Rules:
- It has no versions: a name means the newest one.
- A bare value leaves no room for an error, so what went wrong is a status and ``detail``, as its clients read it.
- No answer is worth sending the same call again: every error says so.
"""
# S-13

from __future__ import annotations

from collections.abc import Mapping

from toolwire.core.call_by_name import CALL, read_named_call
from toolwire.core.catalog import Catalog
from toolwire.core.codec import Describe, Pending, Reader, Reading
from toolwire.core.http import JSON_HEADERS, STATUS_BY_KIND, Request, Response
from toolwire.core.model import Call, Json, Kind, Problem, Result, Tool
from toolwire.framing.jsontext import describe_type, read_object
from toolwire.framing.jsontext import write as write_json

from .call_response import FINAL

_STATUS: Mapping[Kind, int] = {
    Kind.MALFORMED: 422,
    Kind.UNKNOWN_TOOL: 404,
    Kind.INVALID_ARGUMENTS: 400,
}


def write_tool(tool: Tool, name: str, input_schema: Json) -> dict[str, Json]:
    """Return ``tool`` as an open-tool client reads it."""
    return {"name": name, "description": tool.description or f"The tool {name}.", "inputSchema": input_schema}


def write_list(catalog: Catalog, describe: Describe) -> list[Json]:
    """Return the list as an open-tool client reads it: the newest version of each tool by name."""
    return [describe(tool, name) for name, tool in catalog.names.items()]


def is_call(data: Mapping[str, Json]) -> bool:
    """Whether the body of a call is of this dialect: a ``name`` and ``args``, and no ``request``."""
    return "name" in data and "args" in data and "request" not in data


def build_reader(catalog: Catalog) -> Reader:
    """Return who reads a call of this dialect and no other."""

    def read(http: Request) -> Reading:
        data = read_object(http)
        return refuse(data) if isinstance(data, Problem) else read_call(data, catalog, http.id)

    return read


def read_call(data: Mapping[str, Json], catalog: Catalog, request_id: str) -> Reading:
    """Return the call that the body ``data`` asks for, or the answer that says why it is none."""
    name, arguments = data.get("name"), data.get("args")
    if not isinstance(name, str):
        return refuse(_build_malformed(f'"name" must be a string, not {describe_type(name)}'))
    if not isinstance(arguments, dict):
        return refuse(_build_malformed(f'"args" must be an object, not {describe_type(arguments)}'))
    tool = catalog.find(name)
    if isinstance(tool, Problem):
        return refuse(tool)
    if tool is CALL:  # FI-07: from here on it is the call of the tool that is meant
        meant = read_named_call(catalog, arguments)
        if isinstance(meant, Problem):
            return refuse(meant)
        tool, arguments = meant.tool, dict(meant.arguments)
    return Pending(Call(tool, arguments, request_id), _write_reply)


def refuse(problem: Problem) -> Response:
    """Return what went wrong as a status and one sentence."""
    status = _STATUS.get(problem.kind, STATUS_BY_KIND[problem.kind])
    body = write_json({"detail": problem.message or "The tool failed."})
    return Response(500 if status == 200 else status, FINAL, body)


def _write_reply(result: Result, _duration_ms: float) -> Response:
    return refuse(result) if isinstance(result, Problem) else Response(200, JSON_HEADERS, write_json(result.value))


def _build_malformed(what: str) -> Problem:
    return Problem(kind=Kind.MALFORMED, message=f"Invalid tool call: {what}.")
