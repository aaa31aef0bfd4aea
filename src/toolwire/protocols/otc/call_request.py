"""Read and write the body of a call: ``{"request": {"tool_id", "call_id", "input", "context"}}``.

Rules:
- A member that is null counts as missing; unknown members are ignored.
- A caller sends these members and no others.
"""
# OTC-043, C-9, OXP-017

from __future__ import annotations

from collections.abc import Mapping

from toolwire.core.call_by_name import CALL, NamedCall, read_named_call
from toolwire.core.catalog import Catalog
from toolwire.core.model import ANONYMOUS, Call, Json, Kind, Problem, make_call
from toolwire.framing import call_context
from toolwire.framing.jsontext import describe_type, write_canonical

from .standard import UNIVERSAL

MAX_ID = 255


def read(data: Mapping[str, Json], catalog: Catalog, request_id: str) -> Call | Problem:
    """Return the call that the body ``data`` asks for, under its id as its key.

    Without an id of the caller, ``request_id`` names the call. That is no idempotency key: the caller does not know it,
    so it cannot send it again.
    """
    # OTC-019
    request = data.get("request")
    if not isinstance(request, dict):
        return _build_malformed('the body needs a "request" object')
    meant = _read_named_call(request, catalog)
    if isinstance(meant, Problem):
        return meant
    tool, arguments = meant
    key, trace_id = request.get("call_id"), request.get("trace_id")
    if (key is not None and not _is_id(key)) or (trace_id is not None and not _is_id(trace_id)):
        name = "trace_id" if key is None or _is_id(key) else "call_id"
        return _build_malformed(f'"request.{name}" must be a string of at most {MAX_ID} characters')
    key = key or ""
    if trace_id is None and "context" not in request:
        return make_call((tool, arguments, key or request_id, ANONYMOUS, key))
    brought = call_context.read(request.get("context"), key or request_id, trace_id or "")
    return brought if isinstance(brought, Problem) else make_call((tool, arguments, key or request_id, brought, key))


def write(call: Call, tool_id: str) -> dict[str, Json]:
    """Return the body that asks for ``call`` of the tool the server knows as ``tool_id``."""
    # OTC-037
    request: dict[str, Json] = {"tool_id": tool_id, "input": dict(call.arguments)}
    if call.call_id:
        request["call_id"] = call.call_id
    if call.context.trace_id:
        request["trace_id"] = call.context.trace_id
    if call.context is not ANONYMOUS and (brought := call_context.write(call)):
        request["context"] = brought
    return {"request": request}


def write_universal(call: Call, tool_id: str) -> dict[str, Json]:
    """Return the body a universal-tool server takes: it wants its own ``$schema``."""
    #
    return {"$schema": UNIVERSAL, **write(call, tool_id)}


def write_legacy(call: Call, tool_id: str) -> dict[str, Json]:
    """Return the body an open-tool server takes: a name and its arguments."""
    # S-13
    return {"name": tool_id, "args": dict(call.arguments)}


def _read_named_call(request: Mapping[str, Json], catalog: Catalog) -> NamedCall | Problem:
    """Return the tool that ``request`` names, and its arguments."""
    reference = request.get("tool_id")
    if not isinstance(reference, str):
        return _build_malformed('"request.tool_id" must name a tool, as a string')
    tool = catalog.find(reference)
    if isinstance(tool, Problem):
        return tool
    arguments = request.get("input") if "inputs" not in request else _read_input(request)
    if arguments is None:
        arguments = {}
    elif not isinstance(arguments, dict):
        sentence = f'"request.input" must be an object, not {describe_type(arguments)}'
        return arguments if isinstance(arguments, Problem) else _build_malformed(sentence)
    # FI-07: a call by name is from here on the call of the tool that is meant.
    return read_named_call(catalog, arguments) if tool is CALL else NamedCall(tool, arguments)


def _read_input(request: Mapping[str, Json]) -> Json | Problem:
    """Return the arguments, which the RFC calls ``inputs`` in one place and ``input`` in all others."""
    #
    arguments, older = request.get("input"), request.get("inputs")
    if arguments is None:
        return older
    if older is not None and write_canonical(older) != write_canonical(arguments):
        return _build_malformed('"request.input" and "request.inputs" say different things: send "input" alone')
    return arguments


def _is_id(data: Json) -> bool:
    return isinstance(data, str) and len(data) <= MAX_ID


def _build_malformed(what: str) -> Problem:
    return Problem(kind=Kind.MALFORMED, message=f"Invalid tool call: {what}.")
