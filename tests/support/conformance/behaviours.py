"""Check the behaviours that all protocols share. Each function yields one sentence for each fault."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from toolwire.core.model import Approval, Call, Json, Kind, Problem, Tool, Value
from toolwire.framing.text_cleaning import clean_data

from .kit import RETRY_AFTER_MS, SECRET, build_kit
from .session import CodecConnection

Behaviour: TypeAlias = Callable[[CodecConnection], Iterator[str]]
"""Takes a connection to the tools of ``build_kit`` and yields one sentence for each fault."""

TEXTS = ("", "é", "日本語", "😀\u200d👩", "\u2028\u2029", "\x00\x1f\x7f", '"\\/<>&', "a\r\nb\tc", "x" * 30_000)
NUMBERS = (0, -1, 2**31, 2**53 + 1, 2**63, -(2**64), 10**40, 0.1, -1.5e300)
NESTED: tuple[Json, ...] = (
    None,
    True,
    False,
    [],
    {},
    [None],
    {"result": {"error": None}, "value": [], "": ""},
    [[[[[[1, {"a": [None, {"b": "c"}]}]]]]]],
    {f"k{number}": [number] * 20 for number in range(200)},
)


def check_listing(session: CodecConnection) -> Iterator[str]:
    """Check that the client sees every tool with its description, arguments and approval."""
    ours = {tool.name: tool for tool in build_kit().catalog().tools}
    theirs = {name: tool for name, tool in session.peer.catalog.names.items()}
    if set(ours) != set(theirs):
        yield f"the tools are {sorted(theirs)}, not {sorted(ours)}"
    for name in set(ours) & set(theirs):
        our, their = ours[name], theirs[name]
        yield from _compare(f"{name}: the names of the arguments", set(their.parameters), set(our.parameters))
        yield from _compare(
            f"{name}: the required arguments", set(their.required_parameters), set(our.required_parameters)
        )
        for member in ("approval", "safe", "destructive"):
            yield from _compare(f"{name}: {member}", getattr(their, member), getattr(our, member))
        if our.description not in their.description:
            yield f"{name}: the description {our.description!r} became {their.description!r}"


def check_calls(session: CodecConnection) -> Iterator[str]:
    """Check that a call returns the tool's value, from a coroutine, a thread or a stream."""
    yield from _check_value(session, "add", {"a": 2, "b": 3}, 5)
    yield from _check_value(session, "halve", {"number": 3}, 1.5)
    yield from _check_value(session, "greet", {"name": "Ada"}, {"greeting": "Hello Ada."})
    yield from _check_value(session, "greet", {"name": "Ada", "loud": True}, {"greeting": "Hello Ada!"})
    yield from _check_value(session, "count", {"to": 3}, [1, 2, 3])


def check_streams(session: CodecConnection) -> Iterator[str]:
    """Check that progress values arrive in order, or not at all if the protocol has no progress."""
    result, received = session.listen("count", {"to": 3})
    yield from _compare("the result of a stream", result, Value([1, 2, 3]))
    if received and received != [1, 2, 3]:
        yield f"heard was {received}"


def check_none_result(session: CodecConnection) -> Iterator[str]:
    """Check that a tool without a return value returns None."""
    yield from _check_value(session, "forget", {}, None)


def check_values(session: CodecConnection) -> Iterator[str]:
    """Check that JSON data returns unchanged: strings, numbers, null, nesting.

    Only invisible characters may be removed, and then the notes of the Value must say so.
    """
    for value in (*TEXTS, *NUMBERS, *NESTED):
        yield from _check_value(session, "echo", {"value": value}, value)


def check_tool_errors(session: CodecConnection) -> Iterator[str]:
    """Check that the client gets the message of a ToolError, but not its developer message."""
    problem = session.call("refuse", {})
    if not isinstance(problem, Problem) or problem.kind is not Kind.TOOL_FAILED:
        yield f"a ToolError became {problem}"
        return
    if "The oven is cold." not in problem.message:
        yield f"the tool's sentence became {problem.message!r}"
    yield from _check_secret(session, problem)


def check_retry_hints(session: CodecConnection) -> Iterator[str]:
    """Check that the retry hints and the extra prompt arrive, if the protocol has a place for them."""
    problem = session.call("refuse", {})
    if not isinstance(problem, Problem):
        yield f"a ToolError became {problem}"
        return
    if problem.can_retry:
        yield from _compare("retry_after_ms", problem.retry_after_ms, RETRY_AFTER_MS)
    if "Heat the oven first." not in (problem.additional_prompt_content or "Heat the oven first."):
        yield f"the prompt became {problem.additional_prompt_content!r}"


def check_crashes(session: CodecConnection) -> Iterator[str]:
    """Check that an exception in a tool becomes a Problem without internal details."""
    problem = session.call("crash", {})
    if not isinstance(problem, Problem) or problem.kind not in (Kind.TOOL_FAILED, Kind.INTERNAL):
        yield f"an exception became {problem}"
        return
    yield from _check_secret(session, problem)


def check_timeouts(session: CodecConnection) -> Iterator[str]:
    """Check that a tool that exceeds its time limit is cancelled, and that the client gets a Problem."""
    problem = session.call("dawdle", {})
    if not isinstance(problem, Problem) or problem.kind not in (Kind.TIMEOUT, Kind.TOOL_FAILED):
        yield f"a timeout became {problem}"
    elif "longer than" not in problem.message:
        yield f"the message of a timeout is {problem.message!r}"
    if session.app.active_calls:
        yield "the call is still in flight"


def check_arguments(session: CodecConnection) -> Iterator[str]:
    """Check that the server also refuses invalid arguments, before the tool runs, and names them."""
    for name, wrong in (("add", {"a": 1}), ("add", {"a": "x", "b": 2}), ("greet", {"name": None})):
        problem = _send_unchecked(session, name, wrong)
        if not isinstance(problem, Problem) or problem.kind is not Kind.INVALID_ARGUMENTS:
            yield f"{name}({wrong}) became {problem}"
    extra = _send_unchecked(session, "add", {"a": 1, "b": 2, "bee": 3})
    if not isinstance(extra, Problem) or extra.kind is not Kind.INVALID_ARGUMENTS or "bee" not in extra.message:
        yield f"an undeclared argument of add became {extra}"


def check_unencodable_arguments(session: CodecConnection) -> Iterator[str]:
    """Check that the client refuses arguments that JSON cannot express, before it sends a request."""
    before = len(session.exchanges)
    for value in (math.nan, -math.inf, "\ud800", {"\udfff": 1}, {1, 2}, b"bytes", object(), [[object()]]):
        problem = session.call("echo", {"value": value})
        if not isinstance(problem, Problem) or problem.kind is not Kind.INVALID_ARGUMENTS:
            yield f"echo({value!r}) became {problem}"
    if len(session.exchanges) != before:
        yield "something was sent"


def check_unknown_tools(session: CodecConnection) -> Iterator[str]:
    """Check that an unknown tool is a Problem on both sides and that no tool runs."""
    before = len(session.exchanges)
    problem = session.call("no_such_tool", {})
    if not isinstance(problem, Problem) or problem.kind is not Kind.UNKNOWN_TOOL:
        yield f"the client returns {problem}"
    if len(session.exchanges) != before:
        yield "the client sent a call of an unknown tool"
    sent = session.send(Call(Tool(name="no_such_tool", toolkit="Bench"), {}, "c1"))
    if not isinstance(sent, Problem):
        yield f"the server returns {sent}"


def check_consent(session: CodecConnection) -> Iterator[str]:
    """Check that a call that needs approval is denied without an approver, and that no request is sent."""
    before = len(session.exchanges)
    problem = session.call("erase", {"what": "all"})
    if not isinstance(problem, Problem) or problem.kind is not Kind.DENIED or problem.details.get("denied") is not True:
        yield f"the call became {problem}"
    if len(session.exchanges) != before:
        yield "something was sent"
    tool = session.peer.catalog.names.get("erase")
    if tool is not None and tool.approval is not Approval.PER_CALL:
        yield f"the approval arrived as {tool.approval}"


def check_targets(session: CodecConnection) -> Iterator[str]:
    """Check that the method and URL that the user approves are those of the request."""
    for name, given in (("add", {"a": 1, "b": 2}), ("greet", {"name": "é/?#&"}), ("forget", {})):
        tool = session.peer.catalog.names[name]
        shown = session.codec.target(session.peer, Call(tool, given, "c1"))
        _send_unchecked(session, name, given)
        request = session.exchanges[-1].request
        if f"{request.method} {request.url}".partition("?")[0] != shown.partition("?")[0]:
            yield f"{name}: the user sees {shown}, the client sends {request.method} {request.url}"


BEHAVIOURS: Mapping[str, Behaviour] = {
    behaviour.__name__: behaviour
    for behaviour in (
        check_listing,
        check_calls,
        check_streams,
        check_none_result,
        check_values,
        check_tool_errors,
        check_retry_hints,
        check_crashes,
        check_timeouts,
        check_arguments,
        check_unencodable_arguments,
        check_unknown_tools,
        check_consent,
        check_targets,
    )
}
"""Every behaviour by its name."""


def _check_value(session: CodecConnection, name: str, given: Mapping[str, Json], expected: Json) -> Iterator[str]:
    result = session.call(name, given)
    if isinstance(result, Value) and (result.notes or {}).get("cleaned") is True:
        expected = clean_data(expected)
    if not isinstance(result, Value) or not _is_equal(result.value, expected):
        yield f"{name}({_shorten(given)}) gives {_shorten(result)}, not {_shorten(expected)}"


def _send_unchecked(session: CodecConnection, name: str, given: Mapping[str, Json]) -> Any:
    return session.send(Call(session.peer.catalog.names[name], given, "c1"))


def _check_secret(session: CodecConnection, problem: Problem) -> Iterator[str]:
    if SECRET in repr(problem):
        yield "the problem reveals internal details"
    if any(SECRET.encode() in exchange.response.body for exchange in session.exchanges):
        yield "a response reveals internal details"


def _compare(what: str, theirs: object, ours: object) -> Iterator[str]:
    if theirs != ours:
        yield f"{what}: {theirs!r} arrived for {ours!r}"


def _is_equal(one: Json, other: Json) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _shorten(data: object) -> str:
    text = repr(data)
    return text if len(text) <= 200 else f"{text[:200]}... ({len(text)} characters)"
