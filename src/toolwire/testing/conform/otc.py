"""The checks of Open Tool Calling: the RFC, and OXP where a server lists ``items``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import uuid4

from toolwire.core.catalog import version_key
from toolwire.core.model import Json
from toolwire.framing.jsontext import kind_of, member
from toolwire.framing.report import Found, steps
from toolwire.protocols.otc.rules import examine

from .asking import Answer, Asking
from .check import Check, Look, Skip

NOBODY: Final = "Toolwire.no_such_tool@1.0.0"
_NOT_RUN: Final = (400, 422)
_ODD: Final = (
    ("no JSON", b"{not json"),
    ("NaN", b'{"request": {"tool_id": "x", "input": {"a": NaN}}}'),
    ("bytes that are not UTF-8", b'{"request": {"tool_id": "\xff"}}'),
    ("a list", b"[]"),
    ("nothing", b""),
    ("200,000 brackets", b"[" * 200_000),
    ("a tool_id that is a number", b'{"request": {"tool_id": 7}}'),
    ("an input that is a list", b'{"request": {"tool_id": "x", "input": []}}'),
)


def _healthy(ask: Asking) -> str | None:
    answer = ask.get("/health")
    return None if answer.status == 200 else f"GET /health: {answer}"


def _health_is_open(ask: Asking) -> str | None:
    answer = ask.get("/health", keyed=False)
    return None if answer.status == 200 else f"without a key: {answer}"


def _health_is_json(ask: Asking) -> str | None:
    answer = ask.get("/health")
    return None if answer.members else f"the body is {answer.text!r}"


def _listed(ask: Asking) -> str | None:
    answer = ask.get("/tools")
    if answer.status != 200:
        return f"GET /tools: {answer}"
    if not isinstance(answer.data, dict):
        return f"the body is {kind_of(answer.data)}, not an object"
    return None if isinstance(answer.members.get("tools"), list) else 'there is no "tools"'


def _list_says_version(ask: Asking) -> str | None:
    return None if isinstance(ask.get("/tools").members.get("$schema"), str) else 'the list has no "$schema"'


def _items(ask: Asking) -> str | Skip | None:
    items = ask.get("/tools").members.get("items")
    if items is None:
        return Skip('it lists no "items", as OXP does')
    return None if isinstance(items, list) else f'"items" is {kind_of(items)}'


def _tools(ask: Asking) -> Sequence[Mapping[str, Json]]:
    data = ask.get("/tools").data
    listed = data if isinstance(data, list) else (data or {}).get("tools") or (data or {}).get("items") or []
    return [tool for tool in listed if isinstance(tool, dict)]


def _faults(ask: Asking) -> list[Found]:
    found: list[Found] = ask.once("faults", lambda: examine(ask.get("/tools").data))
    return found


def _defined(*rules: str) -> Look:
    """Look for errors of some rules in the list of tools."""

    def look(ask: Asking) -> str | Skip | None:
        if not _tools(ask):
            return Skip("it lists no tools")
        faults = [fault for fault in _faults(ask) if fault.severity == "error" and fault.rule in rules]
        if not faults:
            return None
        first = faults[0]
        where = "/" + "/".join(str(step) for step in steps(first.path))
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        return f"{where}: {first.message}{more}"

    return look


def _ascending(ask: Asking) -> str | Skip | None:
    last: dict[str, str] = {}
    for tool in _tools(ask):
        name, version = str(tool.get("id", "")).partition("@")[0], str(tool.get("version", "0"))
        if version_key(version) < version_key(last.get(name, "0")):
            return f"{name}@{version} stands after {name}@{last[name]}"
        last[name] = version
    return None


def _call(
    ask: Asking, request: Mapping[str, Json], path: str = "/call", beside: Mapping[str, Json] | None = None
) -> Answer:
    """Send ``request``, with the members ``beside`` it."""
    return ask.post(_served(ask, path), {"request": dict(request), **(beside or {})})


def _served(ask: Asking, path: str) -> str:
    """Return ``path``, or the other one for a server that serves only that."""
    other = "/tools/call" if path == "/call" else "/call"

    def find() -> str:
        is_missing = ask.post(path, {"request": {"tool_id": NOBODY}}).data in (None, {"detail": "Not Found"})
        return other if is_missing else path

    found: str = ask.once(f"path {path}", find)
    return found


def _path(path: str) -> Look:
    def look(ask: Asking) -> str | Skip | None:
        if path == "/tools/call" and "items" not in ask.get("/tools").members:
            return Skip('it lists no "items", as OXP does')
        return None if _served(ask, path) == path else f"POST {path}: {ask.post(path, {})}"

    return look


def _unknown_tool(ask: Asking) -> str | None:
    answer = _call(ask, {"tool_id": NOBODY, "input": {}})
    return None if answer.status in _NOT_RUN else f"a tool that is not there: {answer}"


def _unknown_is_400(ask: Asking) -> str | None:
    answer = _call(ask, {"tool_id": NOBODY, "input": {}})
    text = answer.members.get("message")
    if answer.status != 400:
        return f"a tool that is not there: {answer}"
    return None if isinstance(text, str) and text else f'there is no "message": {answer}'


def _refusal_says_version(ask: Asking) -> str | None:
    answer = _call(ask, {"tool_id": NOBODY})
    return None if isinstance(answer.members.get("$schema"), str) else f"a refusal: {answer}"


def _other_major(ask: Asking) -> str | None:
    answer = _call(ask, {"tool_id": NOBODY}, beside={"$schema": "urn:oxp:99.0"})
    return None if answer.status == 400 else f'"$schema": "urn:oxp:99.0": {answer}'


def _malformed_versions(ask: Asking) -> str | Skip | None:
    tools = _tools(ask)
    if not tools:
        return Skip("it lists no tools")
    name = str(tools[0].get("id") or tools[0].get("name")).partition("@")[0]
    for version in ("x", "-1", "1.0", "v1"):
        answer = _call(ask, {"tool_id": f"{name}@{version}", "input": {"": ""}})
        if answer.status != 400:
            return f"{name}@{version}: {answer}"
    return None


def _unknown_members(ask: Asking) -> str | None:
    plain = _call(ask, {"tool_id": NOBODY})
    more = _call(ask, {"tool_id": NOBODY, "x-more": 1}, beside={"x-more": {}})
    return None if plain.status == more.status else f"with members nobody knows: {more}; without: {plain}"


def _odd_bodies(ask: Asking) -> str | None:
    for what, body in _ODD:
        answer = ask.post(_served(ask, "/call"), body)
        if not 400 <= answer.status < 500:
            return f"{what}: {answer}"
    return None


def _odd_before_start(ask: Asking) -> str | None:
    for what, body in (_ODD[0], *_ODD[3:5]):
        answer = ask.post(_served(ask, "/call"), body)
        if answer.status not in _NOT_RUN:
            return f"{what}: {answer}"
    return None


def _wants_json(ask: Asking) -> str | None:
    body = b'{"request": {"tool_id": "' + NOBODY.encode() + b'"}}'
    answer = ask.post(_served(ask, "/call"), body, headers={"content-type": "text/plain"})
    return None if answer.status in (400, 415, 422) else f"text/plain: {answer}"


def _keyed(look: Look) -> Look:
    return lambda ask: look(ask) if ask.has_key else Skip("it is asked without a key")


def _list_needs_key(ask: Asking) -> str | None:
    answer = ask.get("/tools", keyed=False)
    return None if answer.status == 401 else f"GET /tools without a key: {answer}"


def _call_needs_key(ask: Asking) -> str | None:
    answer = ask.post(_served(ask, "/call"), {"request": {"tool_id": NOBODY}}, keyed=False)
    return None if answer.status == 401 else f"a call without a key: {answer}"


def _wrong_key(ask: Asking) -> str | None:
    answer = ask.get("/tools", keyed=False, headers={"x-api-key": f"wrong-{uuid4()}"})
    return None if answer.status == 401 else f"a wrong key: {answer}"


def _challenged(ask: Asking) -> str | None:
    answer = ask.get("/tools", keyed=False)
    return None if answer.header("www-authenticate") else "a 401 has no WWW-Authenticate"


def _ignores_keys(ask: Asking) -> str | Skip | None:
    if ask.has_key:
        return Skip("it is asked with a key")
    answer = ask.get("/tools", headers={"x-api-key": "nobody-asked"})
    return None if answer.status == 200 else f"with a key that nobody asked for: {answer}"


def _called(ask: Asking, path: str = "/call", beside: Mapping[str, Json] | None = None, **members: Json) -> Answer:
    """Call the tool that may be called, with its good arguments unless ``members`` says otherwise."""
    tool, arguments = ask.call or (NOBODY, {})
    return _call(ask, {"tool_id": tool, "input": dict(arguments), **members}, path, beside)


def _end(answer: Answer) -> Mapping[str, Json]:
    """Return the object with ``call_id`` and ``success``, wherever a dialect has it."""
    inner = member(answer.members, "result")
    return inner if "success" in inner else answer.members


def _answers(ask: Asking) -> str | None:
    answer = _called(ask)
    if answer.status != 200:
        return str(answer)
    return None if _end(answer).get("success") is True else f"it did not succeed: {answer}"


def _facts(ask: Asking) -> str | None:
    answer = _called(ask, call_id=(id_ := str(uuid4())))
    end = _end(answer)
    if end.get("call_id") != id_:
        return f"the call_id {id_} does not come back: {answer}"
    if not isinstance(end.get("success"), bool):
        return f'"success" is not true or false: {answer}'
    duration = end.get("duration", 0)
    return None if isinstance(duration, int | float) and duration >= 0 else f'"duration" is {duration!r}'


def _answer_says_version(ask: Asking) -> str | None:
    answer = _called(ask)
    return None if isinstance(answer.members.get("$schema"), str) else f"an answer: {answer}"


def _in_output(ask: Asking) -> str | None:
    answer = _called(ask)
    return None if "value" in member(answer.members, "output") else f'there is no "output" with a "value": {answer}'


def _in_result(ask: Asking) -> str | Skip | None:
    if "items" not in ask.get("/tools").members:
        return Skip('it lists no "items", as OXP does')
    answer = _called(ask, "/tools/call")
    return None if "value" in member(answer.members, "result") else f'there is no "result" with a "value": {answer}'


def _makes_ids(ask: Asking) -> str | None:
    first, second = (_end(_called(ask)).get("call_id") for _ in range(2))
    return None if isinstance(first, str) and first and first != second else f"two calls have the ids {first}, {second}"


def _takes_inputs(ask: Asking) -> str | None:
    tool, arguments = ask.call or (NOBODY, {})
    answer = _call(ask, {"tool_id": tool, "inputs": dict(arguments)})
    return None if _end(answer).get("success") is True else f'"inputs" for "input": {answer}'


def _by_every_name(ask: Asking) -> str | Skip | None:
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


def _id_of(ask: Asking) -> str | None:
    wanted = ask.call.tool if ask.call else ""
    for tool in reversed(_tools(ask)):
        id_ = str(tool.get("id"))
        if wanted in (id_, id_.partition("@")[0], tool.get("name"), id_.partition("@")[0].rpartition(".")[2]):
            return id_
    return None


def _unneeded_context(ask: Asking) -> str | None:
    context = {"secrets": [{"id": "UNUSED", "value": "x"}], "user_info": {"name": "nobody"}}
    answer = _called(ask, context=context)
    return None if _end(answer).get("success") is True else f"with a context nobody asked for: {answer}"


def _takes_trace(ask: Asking) -> str | None:
    answer = _called(ask, trace_id="4bf92f3577b34da6a3ce929d0e0e4736")
    return None if _end(answer).get("success") is True else f"with a trace_id: {answer}"


def _refuses_arguments(ask: Asking) -> str | Skip | None:
    wrong = _wrong(ask)
    if wrong is None:
        return Skip("nothing in the tool's schema can be broken")
    answer = _called(ask, input=wrong)
    if answer.status != 422:
        return f"arguments that do not fit: {answer}"
    return None if isinstance(answer.members.get("message"), str) else f'there is no "message": {answer}'


def _wrong(ask: Asking) -> Mapping[str, Json] | None:
    """Return arguments that do not fit the tool's schema, or None where that cannot be told."""
    arguments = dict(ask.call.arguments) if ask.call else {}
    tool = next((tool for tool in _tools(ask) if tool.get("id") == _id_of(ask)), {})
    schema = member(tool, "input_schema")
    schema = member(schema, "parameters") if "parameters" in schema else schema
    for name, parameter in member(schema, "properties").items():
        kind = parameter.get("type") if isinstance(parameter, dict) else None
        if isinstance(kind, str):
            return {**arguments, name: "x" if kind != "string" else [7]}
    return None


def _replays(ask: Asking) -> str | None:
    id_ = str(uuid4())
    first, second = (_end(_called(ask, call_id=id_)) for _ in range(2))
    same = (first.get("success"), first.get("value"), first.get("output")) == (
        second.get("success"),
        second.get("value"),
        second.get("output"),
    )
    return None if same else "the same call, twice under one call_id, is answered in two ways"


def _refuses_reuse(ask: Asking) -> str | Skip | None:
    id_ = str(uuid4())
    first = _called(ask, call_id=id_)
    if _end(first).get("success") is not True:
        return Skip("the first call did not succeed")
    if ask.call is not None and not ask.call.arguments:
        return Skip("the tool takes no arguments")
    other = {name: _another(value) for name, value in (ask.call.arguments if ask.call else {}).items()}
    answer = _called(ask, call_id=id_, input=other)
    return None if answer.status in _NOT_RUN else f"another call under the same call_id: {answer}"


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


def _keeps_family(ask: Asking) -> str | None:
    answer = _called(ask, "/tools/call", {"$schema": "urn:oxp:1.0"})
    said = answer.members.get("$schema")
    return None if said == "urn:oxp:1.0" else f'asked in "urn:oxp:1.0", answered in {said!r}'


CHECKS: Final = (
    Check("OTC-033", "GET /health answers 200.", _healthy),
    Check("OXP-010", "GET /health needs no credentials.", _health_is_open),
    Check("A-50", "GET /health answers a JSON object.", _health_is_json),
    Check("OTC-034", "GET /tools answers 200 with an object that lists the tools.", _listed),
    Check("OTC-044", "The list of tools says its $schema.", _list_says_version),
    Check("OXP-003", "The list has the tools as OXP's items, too.", _items),
    Check("OTC-001", "Each id is Toolkit.Tool@1.0.0, of letters, digits and underscores.", _defined("OTC-001")),
    Check("OTC-002", "No two tools have one id.", _defined("OTC-002")),
    Check("OTC-003", "Each name is 1 to 64 letters, digits, underscores and dashes.", _defined("OTC-003")),
    Check("OTC-004", "Each tool has a description.", _defined("OTC-004")),
    Check("OTC-005", "Each tool has a version of three numbers.", _defined("OTC-005")),
    Check("OTC-007", "Each tool has an input schema.", _defined("OTC-007")),
    Check("OTC-008", "The RFC's input schema has parameters.", _defined("OTC-008")),
    Check("OTC-009", "No schema refers to another or defines one.", _defined("OTC-009")),
    Check("OTC-010", "Each parameter is a JSON Schema.", _defined("OTC-010")),
    Check("OTC-011", "Each parameter has a description.", _defined("OTC-011")),
    Check("OTC-012", "Each tool has an output schema, or null.", _defined("OTC-012")),
    Check("OTC-016", "Requirements name providers and secrets by id.", _defined("OTC-013", "OTC-016", "OTC-017")),
    Check("OXP-005", "OXP's items have no members beyond those it names.", _defined("OXP-005")),
    Check("A-51", "The versions of one tool stand in ascending order.", _ascending),
    Check("OTC-036", "POST /call is served.", _path("/call")),
    Check("OXP-001", "POST /tools/call is served.", _path("/tools/call")),
    Check("OTC-040", "A call of an unknown tool is answered 400 or 422.", _unknown_tool),
    Check("OXP-008", "A call of an unknown tool is answered 400 with a message.", _unknown_is_400),
    Check("OTC-044", "A refusal says its $schema.", _refusal_says_version),
    Check("OXP-013", "Another major version of the standard is answered 400.", _other_major),
    Check("OTC-025", "A malformed version in an id is answered 400.", _malformed_versions),
    Check("OTC-043", "Members nobody knows change nothing.", _unknown_members),
    Check("OTC-040", "A body that is no call is answered 400 or 422.", _odd_before_start),
    Check("S-16", "No body, however odd, makes it fail.", _odd_bodies),
    Check("A-29", "A body that is not sent as JSON is refused.", _wants_json),
    Check("OXP-010", "The list needs the key.", _keyed(_list_needs_key)),
    Check("OTC-042", "A call needs the key.", _keyed(_call_needs_key)),
    Check("OXP-010", "A wrong key is answered 401.", _keyed(_wrong_key)),
    Check("S-7", "A 401 says how to say who you are.", _keyed(_challenged)),
    Check("OXP-012", "Without auth, credentials are not looked at.", _ignores_keys),
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
