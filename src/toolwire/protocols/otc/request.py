"""A call on the wire: ``{"request": {"tool_id", "call_id", "input", "context"}}``.

Rules:
- What the caller must bring for a tool is looked for here, before anything runs. [OXP-011]
- A caller sends to a tool what that tool's requirements name, and nothing else. [A-45, C-10]
- A member that is null counts as missing; members nobody knows are passed over. [OTC-043]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from toolwire.core.model import ANONYMOUS, Call, Context, Json, Kind, Problem, Secret, Tool
from toolwire.framing.jsontext import kind_of, member

from .standard import UNIVERSAL

MAX_ID = 255

Find: TypeAlias = Callable[[str], Tool | Problem]


def read(data: Mapping[str, Json], find: Find, request_id: str) -> Call | Problem:
    """Return the call that the body ``data`` asks for; ``request_id`` names it where the caller did not. [OTC-019]"""
    request = data.get("request")
    if not isinstance(request, dict):
        return _malformed('the body needs a "request" object')
    reference = request.get("tool_id")
    if not isinstance(reference, str):
        return _malformed('"request.tool_id" must name a tool, as a string')
    tool = find(reference)
    if isinstance(tool, Problem):
        return tool
    arguments = _arguments(request)
    if isinstance(arguments, Problem):
        return arguments
    call_id = request.get("call_id") or request_id
    if not isinstance(call_id, str) or len(call_id) > MAX_ID:
        return _malformed(f'"request.call_id" must be a string of at most {MAX_ID} characters')
    context = _context(request, call_id)
    if isinstance(context, Problem):
        return context
    return (tool.requirements and _missing(tool, context)) or Call(tool, arguments, call_id, context)


def write(call: Call, tool_id: str) -> dict[str, Json]:
    """Return the body that asks for ``call`` of the tool the server knows as ``tool_id``. [C-9, OXP-017]"""
    request: dict[str, Json] = {"tool_id": tool_id, "input": dict(call.arguments)}
    if call.call_id:
        request["call_id"] = call.call_id
    if call.context.trace_id:
        request["trace_id"] = call.context.trace_id
    context = _brought(call)
    if context:
        request["context"] = context
    return {"request": request}


def write_universal(call: Call, tool_id: str) -> dict[str, Json]:
    """Return the body a universal-tool server takes: it wants its own ``$schema``. [A-48]"""
    return {"$schema": UNIVERSAL, **write(call, tool_id)}


def write_legacy(call: Call, tool_id: str) -> dict[str, Json]:
    """Return the body an open-tool server takes: a name and its arguments."""
    return {"name": tool_id, "args": dict(call.arguments)}


def _arguments(request: Mapping[str, Json]) -> dict[str, Json] | Problem:
    arguments, older = request.get("input"), request.get("inputs")
    if arguments is None:
        arguments = older
    elif older is not None and older != arguments:
        return _malformed('"request.input" and "request.inputs" say different things: send "input" alone')
    if arguments is None:
        return {}
    if not isinstance(arguments, dict):
        return _malformed(f'"request.input" must be an object, not {kind_of(arguments)}')
    return arguments


def _context(request: Mapping[str, Json], call_id: str) -> Context | Problem:
    trace_id, data = request.get("trace_id"), request.get("context")
    if trace_id is None and data is None:
        return ANONYMOUS
    trace_id, data = trace_id or "", {} if data is None else data
    if not isinstance(trace_id, str) or len(trace_id) > MAX_ID:
        return _malformed(f'"request.trace_id" must be a string of at most {MAX_ID} characters')
    if not isinstance(data, dict):
        return _malformed(f'"request.context" must be an object, not {kind_of(data)}')
    tokens = _secrets(data, "authorization", "token")
    secrets = _secrets(data, "secrets", "value")
    if isinstance(tokens, Problem) or isinstance(secrets, Problem):
        return tokens if isinstance(tokens, Problem) else secrets  # type: ignore[return-value]  # one of them is a Problem
    user_id, user_info = data.get("user_id"), data.get("user_info")
    if not isinstance(user_id, str | None):
        return _malformed(f'"request.context.user_id" must be a string, not {kind_of(user_id)}')
    if not isinstance(user_info, dict | None):
        return _malformed(f'"request.context.user_info" must be an object, not {kind_of(user_info)}')
    return Context(
        call_id=call_id,
        trace_id=trace_id,
        tokens=tokens,
        secrets=secrets,
        user_id=user_id or None,
        user_info=user_info or {},
    )


def _secrets(context: Mapping[str, Json], name: str, holder: str) -> dict[str, Secret] | Problem:
    """Return the secrets under ``name``: a list of ``{"id", holder}``, or a map of id to text. [A-44, OXP-014]"""
    found: dict[str, Secret] = {}
    given = context.get(name)
    match given:
        case None:
            return found
        case dict():
            entries = list(given.items())
        case list():
            entries = [(entry.get("id"), entry.get(holder)) if isinstance(entry, dict) else (None, None) for entry in given]
        case _:
            entries = [(None, None)]
    for id_, text in entries:
        if not isinstance(id_, str) or not isinstance(text, str):
            return _malformed(f'"request.context.{name}" must be a list of {{"id": "...", "{holder}": "..."}}')
        if text:
            found[id_] = Secret(text)
    return found


def _missing(tool: Tool, context: Context) -> Problem | None:
    needs = tool.requirements
    tokens = [needed.id for needed in needs.authorization if needed.id not in context.tokens]
    secrets = [id_ for id_ in needs.secrets if id_ not in context.secrets]
    missing: dict[str, Json] = {}
    if tokens:
        missing["authorization"] = [_challenge(tool, id_) for id_ in tokens]
    if secrets:
        missing["secrets"] = [{"id": id_} for id_ in secrets]
    if needs.user_id and context.user_id is None:
        missing["user_id"] = True
    if not missing:
        return None
    wants = [f"a token for {id_}" for id_ in tokens] + [f"the secret {id_}" for id_ in secrets]
    wants += ["a user_id"] if "user_id" in missing else []
    return Problem(
        kind=Kind.MISSING_REQUIREMENTS,
        message=f'{tool.name} needs {", ".join(wants)}: send what is missing in "request.context".',
        details={"missing_requirements": missing},
    )


def _challenge(tool: Tool, id_: str) -> dict[str, Json]:
    """Where a person gets the token: what the author wrote in ``hints["otc"]["authorization"][id]``, else no page."""
    hint = member(member(member(tool.hints, "otc"), "authorization"), id_)
    known = {key: url for key in ("url", "check_url") if isinstance(url := hint.get(key), str)}
    return {"id": id_, "url": "", **known}


def _brought(call: Call) -> dict[str, Json]:
    needs, has = call.tool.requirements, call.context
    context: dict[str, Json] = {}
    tokens = [needed.id for needed in needs.authorization if needed.id in has.tokens]
    secrets = [id_ for id_ in needs.secrets if id_ in has.secrets]
    if tokens:
        context["authorization"] = [{"id": id_, "token": has.tokens[id_].reveal()} for id_ in tokens]
    if secrets:
        context["secrets"] = [{"id": id_, "value": has.secrets[id_].reveal()} for id_ in secrets]
    if needs.user_id and has.user_id is not None:
        context["user_id"] = has.user_id
    return context


def _malformed(what: str) -> Problem:
    return Problem(kind=Kind.MALFORMED, message=f"This is not a tool call: {what}.")
