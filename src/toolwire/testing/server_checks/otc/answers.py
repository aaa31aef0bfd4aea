"""The checks of how a call that runs is answered; they call the one tool that may be called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import uuid4

from toolwire.core.model import Json
from toolwire.framing.jsontext import get_object
from toolwire.testing.server_checks.check import Check, Skip
from toolwire.testing.server_checks.probe import ProbeAnswer, ServerProbe

from .send_call import NOBODY, NOT_RUN, call, tools_of


def _called(
    ask: ServerProbe, path: str = "/call", beside: Mapping[str, Json] | None = None, **members: Json
) -> ProbeAnswer:
    """Call the tool that may be called, with its good arguments unless ``members`` says otherwise."""
    tool, arguments = ask.call or (NOBODY, {})
    return call(ask, {"tool_id": tool, "input": dict(arguments), **members}, path, beside)


def _end(answer: ProbeAnswer) -> Mapping[str, Json]:
    """Return the object with ``call_id`` and ``success``, wherever a dialect has it."""
    inner = get_object(answer.members, "result")
    return inner if "success" in inner else answer.members


def _answers(ask: ServerProbe) -> str | None:
    answer = _called(ask)
    if answer.status != 200:
        return str(answer)
    return None if _end(answer).get("success") is True else f"it did not succeed: {answer}"


def _facts(ask: ServerProbe) -> str | None:
    answer = _called(ask, call_id=(id_ := str(uuid4())))
    end = _end(answer)
    if end.get("call_id") != id_:
        return f"the call_id {id_} does not come back: {answer}"
    if not isinstance(end.get("success"), bool):
        return f'"success" is not true or false: {answer}'
    duration = end.get("duration", 0)
    return None if isinstance(duration, int | float) and duration >= 0 else f'"duration" is {duration!r}'


def _answer_says_version(ask: ServerProbe) -> str | None:
    answer = _called(ask)
    return None if isinstance(answer.members.get("$schema"), str) else f"an answer: {answer}"


def _in_output(ask: ServerProbe) -> str | None:
    answer = _called(ask)
    return None if "value" in get_object(answer.members, "output") else f'there is no "output" with a "value": {answer}'


def _in_result(ask: ServerProbe) -> str | Skip | None:
    if "items" not in ask.get("/tools").members:
        return Skip('it lists no "items", as OXP does')
    answer = _called(ask, "/tools/call")
    return None if "value" in get_object(answer.members, "result") else f'there is no "result" with a "value": {answer}'


def _makes_ids(ask: ServerProbe) -> str | None:
    first, second = (_end(_called(ask)).get("call_id") for _ in range(2))
    return None if isinstance(first, str) and first and first != second else f"two calls have the ids {first}, {second}"


def _takes_inputs(ask: ServerProbe) -> str | None:
    tool, arguments = ask.call or (NOBODY, {})
    answer = call(ask, {"tool_id": tool, "inputs": dict(arguments)})
    return None if _end(answer).get("success") is True else f'"inputs" for "input": {answer}'


def _by_every_name(ask: ServerProbe) -> str | Skip | None:
    id_ = _id_of(ask)
    if id_ is None:
        return Skip("the tool is not in the list")
    full, _, version = id_.partition("@")
    names = [full, id_] + ([f"{full}@{version.split('.')[0]}"] if version.endswith(".0.0") else [])
    for name in names:
        answer = _called(ask, tool_id=name)
        if _end(answer).get("success") is not True:
            return f"{name}: {answer}"
    return None


def _id_of(ask: ServerProbe) -> str | None:
    wanted = ask.call.tool if ask.call else ""
    for tool in reversed(tools_of(ask)):
        id_ = str(tool.get("id"))
        if wanted in (id_, id_.partition("@")[0], tool.get("name"), id_.partition("@")[0].rpartition(".")[2]):
            return id_
    return None


def _unneeded_context(ask: ServerProbe) -> str | None:
    context = {"secrets": [{"id": "UNUSED", "value": "x"}], "user_info": {"name": "nobody"}}
    answer = _called(ask, context=context)
    return None if _end(answer).get("success") is True else f"with a context nobody asked for: {answer}"


def _takes_trace(ask: ServerProbe) -> str | None:
    answer = _called(ask, trace_id="4bf92f3577b34da6a3ce929d0e0e4736")
    return None if _end(answer).get("success") is True else f"with a trace_id: {answer}"


def _refuses_arguments(ask: ServerProbe) -> str | Skip | None:
    wrong = _wrong(ask)
    if wrong is None:
        return Skip("nothing in the tool's schema can be broken")
    answer = _called(ask, input=wrong)
    if answer.status != 422:
        return f"arguments that do not fit: {answer}"
    return None if isinstance(answer.members.get("message"), str) else f'there is no "message": {answer}'


def _wrong(ask: ServerProbe) -> Mapping[str, Json] | None:
    """Return arguments that do not fit the tool's schema, or None where that cannot be told."""
    arguments = dict(ask.call.arguments) if ask.call else {}
    tool = next((tool for tool in tools_of(ask) if tool.get("id") == _id_of(ask)), {})
    schema = get_object(tool, "input_schema")
    schema = get_object(schema, "parameters") if "parameters" in schema else schema
    for name, parameter in get_object(schema, "properties").items():
        kind = parameter.get("type") if isinstance(parameter, dict) else None
        if isinstance(kind, str):
            return {**arguments, name: "x" if kind != "string" else [7]}
    return None


def _replays(ask: ServerProbe) -> str | None:
    id_ = str(uuid4())
    first, second = (_end(_called(ask, call_id=id_)) for _ in range(2))
    same = (first.get("success"), first.get("value"), first.get("output")) == (
        second.get("success"),
        second.get("value"),
        second.get("output"),
    )
    return None if same else "the same call, twice under one call_id, is answered in two ways"


def _refuses_reuse(ask: ServerProbe) -> str | Skip | None:
    id_ = str(uuid4())
    first = _called(ask, call_id=id_)
    if _end(first).get("success") is not True:
        return Skip("the first call did not succeed")
    if ask.call is not None and not ask.call.arguments:
        return Skip("the tool takes no arguments")
    other = {name: _another(value) for name, value in (ask.call.arguments if ask.call else {}).items()}
    answer = _called(ask, call_id=id_, input=other)
    return None if answer.status in NOT_RUN else f"another call under the same call_id: {answer}"


def _another(value: Json) -> Json:
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


def _keeps_family(ask: ServerProbe) -> str | None:
    answer = _called(ask, "/tools/call", {"$schema": "urn:oxp:1.0"})
    said = answer.members.get("$schema")
    return None if said == "urn:oxp:1.0" else f'asked in "urn:oxp:1.0", answered in {said!r}'


ANSWERS: Final = (
    Check("OTC-036", "The call is answered 200.", _answers, needs_call=True),
    Check("OTC-026", "Its answer has the call id, success, and at most a duration.", _facts, needs_call=True),
    Check("OTC-044", "Its answer says its $schema.", _answer_says_version, needs_call=True),
    Check("OTC-038", "The RFC's answer has the value under output.", _in_output, needs_call=True),
    Check("OXP-002", "OXP's answer has the value under result.", _in_result, needs_call=True),
    Check("A-48", "An answer is of the version that was asked for.", _keeps_family, needs_call=True),
    Check("OTC-019", "A call without an id gets one that no other has.", _makes_ids, needs_call=True),
    Check("A-31", "Arguments are taken as input and as inputs.", _takes_inputs, needs_call=True),
    Check("OXP-007", "A tool is known by its id, with and without a version.", _by_every_name, needs_call=True),
    Check("OTC-023", "A context that is not needed does no harm.", _unneeded_context, needs_call=True),
    Check("OTC-020", "A trace id is taken.", _takes_trace, needs_call=True),
    Check("OXP-009", "Arguments that do not fit are answered 422.", _refuses_arguments, needs_call=True),
    Check("A-42", "The same call under the same id has the same answer.", _replays, needs_call=True),
    Check("A-42", "Another call under a used id is refused.", _refuses_reuse, needs_call=True),
)
