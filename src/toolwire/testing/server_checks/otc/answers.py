"""The checks of the answers to calls. They call the tool that the caller named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import uuid4

from toolwire.core.model import Json
from toolwire.framing.jsontext import get_object
from toolwire.testing.server_checks.check import Check, Skip
from toolwire.testing.server_checks.probe import ProbeAnswer, ServerProbe

from .send_call import NOT_RUN, UNKNOWN_TOOL, list_tools, send_call


def _call_tool(
    probe: ServerProbe, path: str = "/call", beside: Mapping[str, Json] | None = None, **members: Json
) -> ProbeAnswer:
    """Call the named tool with its valid arguments. ``members`` replaces members of the request."""
    tool, arguments = probe.call or (UNKNOWN_TOOL, {})
    return send_call(probe, {"tool_id": tool, "input": dict(arguments), **members}, path, beside)


def _get_outcome(answer: ProbeAnswer) -> Mapping[str, Json]:
    """Return the object that has ``call_id`` and ``success``. The RFC and OXP have it in different places."""
    inner = get_object(answer.members, "result")
    return inner if "success" in inner else answer.members


def _check_call(probe: ServerProbe) -> str | None:
    answer = _call_tool(probe)
    if answer.status != 200:
        return str(answer)
    return None if _get_outcome(answer).get("success") is True else f"the call failed: {answer}"


def _check_call_facts(probe: ServerProbe) -> str | None:
    answer = _call_tool(probe, call_id=(id_ := str(uuid4())))
    end = _get_outcome(answer)
    if end.get("call_id") != id_:
        return f"the call_id {id_} is not returned: {answer}"
    if not isinstance(end.get("success"), bool):
        return f'"success" is not true or false: {answer}'
    duration = end.get("duration", 0)
    return None if isinstance(duration, int | float) and duration >= 0 else f'"duration" is {duration!r}'


def _check_answer_schema(probe: ServerProbe) -> str | None:
    answer = _call_tool(probe)
    return None if isinstance(answer.members.get("$schema"), str) else f"an answer: {answer}"


def _check_output(probe: ServerProbe) -> str | None:
    answer = _call_tool(probe)
    return None if "value" in get_object(answer.members, "output") else f'there is no "output" with a "value": {answer}'


def _check_result(probe: ServerProbe) -> str | Skip | None:
    if "items" not in probe.get("/tools").members:
        return Skip('it lists no "items", as OXP does')
    answer = _call_tool(probe, "/tools/call")
    return None if "value" in get_object(answer.members, "result") else f'there is no "result" with a "value": {answer}'


def _check_generated_ids(probe: ServerProbe) -> str | None:
    first, second = (_get_outcome(_call_tool(probe)).get("call_id") for _ in range(2))
    return None if isinstance(first, str) and first and first != second else f"two calls got the ids {first}, {second}"


def _check_inputs(probe: ServerProbe) -> str | None:
    tool, arguments = probe.call or (UNKNOWN_TOOL, {})
    answer = send_call(probe, {"tool_id": tool, "inputs": dict(arguments)})
    return None if _get_outcome(answer).get("success") is True else f'"inputs" for "input": {answer}'


def _check_tool_names(probe: ServerProbe) -> str | Skip | None:
    id_ = _find_tool_id(probe)
    if id_ is None:
        return Skip("the tool is not in the list")
    full, _, version = id_.partition("@")
    names = [full, id_] + ([f"{full}@{version.split('.')[0]}"] if version.endswith(".0.0") else [])
    for name in names:
        answer = _call_tool(probe, tool_id=name)
        if _get_outcome(answer).get("success") is not True:
            return f"{name}: {answer}"
    return None


def _find_tool_id(probe: ServerProbe) -> str | None:
    wanted = probe.call.tool if probe.call else ""
    for tool in reversed(list_tools(probe)):
        id_ = str(tool.get("id"))
        if wanted in (id_, id_.partition("@")[0], tool.get("name"), id_.partition("@")[0].rpartition(".")[2]):
            return id_
    return None


def _check_unneeded_context(probe: ServerProbe) -> str | None:
    context = {"secrets": [{"id": "UNUSED", "value": "x"}], "user_info": {"name": "nobody"}}
    answer = _call_tool(probe, context=context)
    return None if _get_outcome(answer).get("success") is True else f"with an unneeded context: {answer}"


def _check_trace_id(probe: ServerProbe) -> str | None:
    answer = _call_tool(probe, trace_id="4bf92f3577b34da6a3ce929d0e0e4736")
    return None if _get_outcome(answer).get("success") is True else f"with a trace_id: {answer}"


def _check_invalid_arguments(probe: ServerProbe) -> str | Skip | None:
    wrong = _build_invalid_arguments(probe)
    if wrong is None:
        return Skip("the input schema of the tool allows any arguments")
    answer = _call_tool(probe, input=wrong)
    if answer.status != 422:
        return f"invalid arguments: {answer}"
    return None if isinstance(answer.members.get("message"), str) else f'there is no "message": {answer}'


def _build_invalid_arguments(probe: ServerProbe) -> Mapping[str, Json] | None:
    """Return arguments that do not match the tool's schema, or None if no parameter has a single type."""
    arguments = dict(probe.call.arguments) if probe.call else {}
    tool = next((tool for tool in list_tools(probe) if tool.get("id") == _find_tool_id(probe)), {})
    schema = get_object(tool, "input_schema")
    schema = get_object(schema, "parameters") if "parameters" in schema else schema
    for name, parameter in get_object(schema, "properties").items():
        kind = parameter.get("type") if isinstance(parameter, dict) else None
        if isinstance(kind, str):
            return {**arguments, name: "x" if kind != "string" else [7]}
    return None


def _check_replay(probe: ServerProbe) -> str | None:
    id_ = str(uuid4())
    first, second = (_get_outcome(_call_tool(probe, call_id=id_)) for _ in range(2))
    same = (first.get("success"), first.get("value"), first.get("output")) == (
        second.get("success"),
        second.get("value"),
        second.get("output"),
    )
    return None if same else "the same call, twice under one call_id, has two different answers"


def _check_reused_id(probe: ServerProbe) -> str | Skip | None:
    id_ = str(uuid4())
    first = _call_tool(probe, call_id=id_)
    if _get_outcome(first).get("success") is not True:
        return Skip("the first call did not succeed")
    if probe.call is not None and not probe.call.arguments:
        return Skip("the tool takes no arguments")
    other = {name: _change_value(value) for name, value in (probe.call.arguments if probe.call else {}).items()}
    answer = _call_tool(probe, call_id=id_, input=other)
    return None if answer.status in NOT_RUN else f"another call under the same call_id: {answer}"


def _change_value(value: Json) -> Json:
    """Return another value of the same type."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return value + "x"
        case _:
            return value


def _check_answer_family(probe: ServerProbe) -> str | None:
    answer = _call_tool(probe, "/tools/call", {"$schema": "urn:oxp:1.0"})
    schema = answer.members.get("$schema")
    return None if schema == "urn:oxp:1.0" else f'the request has the $schema "urn:oxp:1.0", the answer {schema!r}'


ANSWERS: Final = (
    Check("OTC-036", "The call gets 200.", _check_call, needs_call=True),
    Check(
        "OTC-026",
        "The answer contains the call id, success, and no invalid duration.",
        _check_call_facts,
        needs_call=True,
    ),
    Check("OTC-044", "The answer contains its $schema.", _check_answer_schema, needs_call=True),
    Check("OTC-038", "The RFC's answer contains the value in output.", _check_output, needs_call=True),
    Check("OXP-002", "OXP's answer contains the value in result.", _check_result, needs_call=True),
    Check("A-48", "The answer has the same version as the request.", _check_answer_family, needs_call=True),
    Check("OTC-019", "A call without an id gets a unique id.", _check_generated_ids, needs_call=True),
    Check("A-31", "Arguments are accepted in input and in inputs.", _check_inputs, needs_call=True),
    Check("OXP-007", "A tool can be called by its id, with and without a version.", _check_tool_names, needs_call=True),
    Check("OTC-023", "A context that the tool does not need is ignored.", _check_unneeded_context, needs_call=True),
    Check("OTC-020", "A trace id is accepted.", _check_trace_id, needs_call=True),
    Check("OXP-009", "Invalid arguments get 422.", _check_invalid_arguments, needs_call=True),
    Check("A-42", "The same call with the same id gets the same answer.", _check_replay, needs_call=True),
    Check("A-42", "Another call under a used id is refused.", _check_reused_id, needs_call=True),
)
