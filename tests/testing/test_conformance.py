"""The suite finds faults where there are some."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.support.conformance import (
    BEHAVIOURS,
    CodecConnection,
    build_kit,
    find_reading_faults,
    find_replying_faults,
    open_session,
)
from tests.support.conformance.kit import SECRET
from tests.support.wire import HERE
from toolwire import Toolkit
from toolwire.core.codec import Codec, Finding, Pending, Route, Streaming
from toolwire.core.http import Request, Response
from toolwire.core.model import Call, Kind, Problem, Result, Tool, Value
from toolwire.protocols import BUILTIN

GOOD = BUILTIN[1]
LEAK = Problem(kind=Kind.TOOL_FAILED, message=f"The oven is cold. {SECRET}", can_retry=True, retry_after_ms=1)
ODD = Problem(kind=Kind.BAD_ANSWER, message="No.", additional_prompt_content="Nothing.")


def always(result: Result) -> Codec:
    def send(peer: Any, call: Call) -> Any:
        return result
        yield

    return replace(GOOD, send=send)


def faults(codec: Codec, name: str) -> list[str]:
    with open_session(codec) as joined:
        return list(BEHAVIOURS[name](joined))


@pytest.mark.parametrize(
    "name",
    sorted(
        BEHAVIOURS.keys()
        - {"check_listing", "check_consent", "check_none_result", "check_retry_hints", "check_unencodable_arguments"}
    ),
)
@pytest.mark.parametrize("result", [Value("wrong"), ODD])
def test_a_codec_that_gives_the_wrong_result_does_not_conform(name: str, result: Result) -> None:
    if (name, result) != ("check_unknown_tools", ODD):
        assert faults(always(result), name)


@pytest.mark.parametrize("name", ["check_tool_errors", "check_crashes"])
def test_a_codec_that_tells_secrets_does_not_conform(name: str) -> None:
    assert "the problem reveals internal details" in faults(always(LEAK), name)


def test_codec_that_changes_retry_hints_does_not_conform() -> None:
    assert faults(always(LEAK), "check_retry_hints") == ["retry_after_ms: 1 arrived for 1500"]
    assert faults(always(ODD), "check_retry_hints") == ["the prompt became 'Nothing.'"]
    assert faults(always(Value(1)), "check_retry_hints")


def test_codec_that_changes_a_none_result_does_not_conform() -> None:
    assert faults(always(Value({})), "check_none_result") == ["forget({}) gives Value(value={}), not None"]


def alter_tools(change: Callable[[Tool], Tool | None]) -> Callable[[CodecConnection], CodecConnection]:
    def alter(joined: CodecConnection) -> CodecConnection:
        tools = tuple(tool for each in joined.peer.catalog.tools if (tool := change(each)) is not None)
        return replace(joined, peer=replace(joined.peer, catalog=replace(joined.peer.catalog, tools=tools)))

    return alter


@pytest.mark.parametrize(
    "change",
    [
        lambda tool: None if tool.name == "add" else tool,
        lambda tool: replace(tool, approval=None),
        lambda tool: replace(tool, description="Other."),
        lambda tool: replace(tool, input_schema={}),
        lambda tool: replace(tool, destructive=not tool.destructive),
    ],
)
def test_codec_that_changes_the_tool_list_does_not_conform(change: Callable[[Tool], Tool | None]) -> None:
    with open_session(GOOD) as joined:
        assert list(BEHAVIOURS["check_listing"](alter_tools(change)(joined)))


def test_client_that_sends_before_asking_does_not_conform() -> None:
    with open_session(GOOD) as joined:

        def hasty(name: str, arguments: Any) -> Result:
            return joined.send(Call(joined.peer.catalog.names[name], arguments))

        found = list(BEHAVIOURS["check_consent"](replace(joined, call=hasty)))
    assert found[1:] == ["something was sent"]
    with open_session(GOOD) as joined:
        eager = alter_tools(lambda tool: replace(tool, approval=None))(joined)
        assert list(BEHAVIOURS["check_consent"](eager)) == ["the approval arrived as None"]


def test_client_that_sends_unencodable_arguments_does_not_conform() -> None:
    with open_session(GOOD) as joined:

        def hasty(name: str, arguments: Any) -> Result:
            return joined.send(Call(joined.peer.catalog.names["forget"], {}))

        assert "something was sent" in list(BEHAVIOURS["check_unencodable_arguments"](replace(joined, call=hasty)))


def test_client_that_sends_unknown_tools_does_not_conform() -> None:
    with open_session(GOOD) as joined:

        def asking(name: str, arguments: Any) -> Result:
            return joined.send(Call(Tool(name=name, toolkit="Bench"), arguments))

        assert len(list(BEHAVIOURS["check_unknown_tools"](replace(joined, call=asking)))) >= 1


def test_client_and_server_half_that_do_not_match_cannot_be_joined() -> None:
    with (
        pytest.raises(LookupError, match="does not find its server half"),
        open_session(replace(GOOD, find=BUILTIN[2].find)),
    ):
        pass


# One message


def route(read: Callable[[Request], Any]) -> Any:
    return {("POST", "/x"): Route(read)}


def raise_lookup_error(*_: Any) -> Any:
    raise LookupError("inside")


CALL = Call(Tool(name="x"), {})
POST = Request("POST", "/x?y")


@pytest.mark.parametrize(
    "read",
    [
        raise_lookup_error,
        lambda _: None,
        lambda _: Response(0),
        lambda _: Response(200, (), b"Traceback (most recent call last)"),
        lambda _: Pending(CALL, raise_lookup_error),
        lambda _: Pending(CALL, lambda *_: "no response"),  # type: ignore[arg-type, return-value]  # that is the fault
        lambda _: Streaming(CALL, (), b"", lambda _: "", lambda *_: b"", lambda _: Response(503)),  # type: ignore[arg-type, return-value]  # likewise
    ],
)
def test_reader_without_a_valid_answer_is_a_fault(read: Callable[[Request], Any]) -> None:
    assert list(find_reading_faults(route(read), POST))


def test_reader_with_a_valid_answer_has_no_fault() -> None:
    stream = Streaming(CALL, (), b"", lambda _: b"", lambda *_: b"", lambda _: Response(503))
    assert list(find_reading_faults(route(lambda _: stream), POST)) == []
    assert list(find_reading_faults({}, POST)) == []


def flow(value: Any) -> Callable[..., Any]:
    def finding(*_: Any) -> Any:
        return value
        yield

    return finding


def endless(*_: Any) -> Any:
    while True:
        yield Request("GET", HERE)


def find_server(codec: Codec) -> Finding:
    with open_session(codec, build_kit()) as joined:
        return joined.finding


def test_client_half_without_a_valid_answer_is_a_fault() -> None:
    known = find_server(GOOD)
    assert known.peer is not None
    nothing = lambda _: Response(404)  # noqa: E731 - as short as what it does
    whole = replace(GOOD, find=flow(known), send=flow(Value(1)))
    assert list(find_replying_faults(whole, HERE, nothing)) == []
    wrong = [
        replace(whole, find=raise_lookup_error),
        replace(whole, find=flow(None)),
        replace(whole, find=endless),
        replace(whole, target=lambda *_: 7),  # type: ignore[arg-type, return-value]  # that is the fault
        replace(whole, send=flow(None)),
        replace(whole, send=flow(Problem(kind=Kind.INTERNAL, message=7))),  # type: ignore[arg-type]  # likewise
    ]
    for codec in wrong:
        assert list(find_replying_faults(codec, HERE, nothing))
    assert list(find_replying_faults(replace(whole, send=raise_lookup_error), HERE, nothing, (known.peer, CALL)))


def test_custom_toolkit_can_be_tested() -> None:
    tools = Toolkit("Own")

    @tools.tool(approval="auto")
    def one() -> int:
        """Return one."""
        return 1

    with open_session(GOOD, tools) as joined:
        assert joined.call("one", {}) == Value(1)
        assert list(BEHAVIOURS["check_listing"](joined))
