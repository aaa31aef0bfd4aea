"""Streams: events, lines and sequences, item by item, however they are cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Listen, Peer
from toolwire.core.http import Response
from toolwire.core.model import Call, Kind, Problem, Progress, Result, Tool, Value
from toolwire.core.resources import DEFAULT_RESULT_LIMITS, Resources, ResultLimits
from toolwire.protocols.openapi import CODEC
from toolwire.protocols.openapi.request.plan import Plan
from toolwire.protocols.openapi.response import results
from toolwire.protocols.openapi.response.results import Expected
from toolwire.protocols.openapi.tools.operations import OperationState

ORIGIN = "https://a.test"
ITEMS = [{"n": 1}, "two", [3], None, True, -4.5]
EVENTS = (
    b': hello\ndata: {"n": 1}\n\nevent: word\ndata: "two"\n\n'
    b"id: 1\ndata: [3]\n\ndata: null\n\ndata: true\n\ndata: -4.5\n\n"
)
LINES = b'{"n": 1}\n"two"\r\n[3]\n\nnull\ntrue\n-4.5'
SEQUENCE = b'\x1e{"n":\n1}\n\x1e"two"\n\x1e[3]\n\x1enull\n\x1etrue\n\x1e-4.5\n'
STREAMS = [
    (EVENTS, b"text/event-stream"),
    (LINES, b"application/jsonl"),
    (LINES, b"application/x-ndjson; charset=utf-8"),
    (SEQUENCE, b"application/json-seq"),
    (SEQUENCE, b"application/geo+json-seq"),
]

TOOL = Tool(name="watch")
PLAN = Plan(method="GET", base=ORIGIN, path="/watch", streams=True)


def peer(caps: ResultLimits = DEFAULT_RESULT_LIMITS) -> Peer:
    return Peer(
        protocol="openapi",
        url=ORIGIN,
        catalog=Catalog(tools=(TOOL,)),
        memo=OperationState(plans={TOOL.id: PLAN}),
        result_limits=caps,
    )


def hear(
    pieces: list[bytes], media_type: bytes, status: int = 200, caps: ResultLimits = DEFAULT_RESULT_LIMITS
) -> tuple[Result, list[Progress]]:
    """Return how a call ends whose answer comes in ``pieces``, and what was heard of it."""
    flow = CODEC.send(peer(caps), Call(TOOL, {}))
    asked = next(flow)
    assert isinstance(asked, Listen)
    received: list[Progress] = []
    try:
        answer: Response | Problem = Response(status, ((b"content-type", media_type),))
        for piece in pieces:
            try:
                received.extend(asked.read_chunk(piece))
            except ValueError as error:
                answer = Problem(kind=Kind.BAD_ANSWER, message=str(error))
                break
        flow.send(answer)
    except StopIteration as stop:
        return stop.value, received
    raise AssertionError("the flow asks for more")


@pytest.mark.requirement("XL-106")
@pytest.mark.parametrize(("body", "media_type"), STREAMS)
def test_each_item_is_reported_on_arrival_and_all_form_the_result(body: bytes, media_type: bytes) -> None:
    result, received = hear([body[at : at + 1] for at in range(len(body))], media_type)
    assert result == Value(ITEMS)
    assert [progress.value for progress in received] == ITEMS[: len(received)]
    assert len(received) >= len(ITEMS) - 1, "only what has no end yet waits for the end of the stream"
    assert [progress.event for progress in received[:2]] == ["data", "word" if body is EVENTS else "data"]


@pytest.mark.requirement("XL-106")
@pytest.mark.parametrize(("body", "media_type"), STREAMS)
def test_undeclared_stream_is_read_whole(body: bytes, media_type: bytes) -> None:
    assert results.read(Response(200, ((b"content-type", media_type),), body)) == Value(ITEMS)


@pytest.mark.requirement("XL-106")
@given(st.sampled_from(STREAMS), st.lists(st.integers(1, 40), max_size=30))
def test_chunk_boundaries_do_not_change_the_stream_items(stream: tuple[bytes, bytes], sizes: list[int]) -> None:
    body, pieces = stream[0], []
    for size in sizes:
        pieces.append(body[:size])
        body = body[size:]
    result, _ = hear([*pieces, body], stream[1])
    assert result == Value(ITEMS)


@pytest.mark.requirement("XL-103", "XL-106", "OQ-6")
def test_result_items_are_limited_but_progress_reports_every_item() -> None:
    lines = [b'"%s"\n' % (b"x" * 98) for _ in range(100)]
    result, received = hear(lines, b"application/jsonl", caps=ResultLimits(bytes=1_012))
    assert isinstance(result, Value)
    assert (len(result.value), len(received)) == (10, 100)
    assert (result.notes or {})["truncated"] is True


@pytest.mark.requirement("XL-106", "D-13")
def test_stream_is_closed_after_the_item_limit() -> None:
    result, received = hear([b"1\n"] * 50, b"application/jsonl", caps=ResultLimits(items=20))
    assert isinstance(result, Value)
    assert (result.value, len(received), (result.notes or {})["truncated"]) == ([1] * 20, 20, True)


@pytest.mark.requirement("D-13")
@pytest.mark.parametrize("start", [b"data: ", b'"', b"\x1e"])
def test_unfinished_item_above_one_mebibyte_is_a_bad_answer(start: bytes) -> None:
    result, _ = hear([start, *[b"x" * 65_536] * 40], b"text/event-stream")
    assert isinstance(result, Problem)
    assert result.kind is Kind.BAD_ANSWER


@pytest.mark.requirement("XL-106")
@pytest.mark.parametrize("reason", ["timeout", "too_large"])
def test_stream_that_hit_a_limit_returns_its_items_as_truncated(reason: str) -> None:
    received = results.build_stream_reader(Expected(ORIGIN))
    assert [progress.value for progress in received.feed(b"data: 1\n\ndata: 2\n\nda")] == [1, 2]
    problem = Problem(kind=Kind.UNREACHABLE, message="It took too long.", details={"reason": reason, "sent": True})
    result = results.read_stream_end(received, problem, Expected(ORIGIN))
    assert isinstance(result, Value)
    assert (result.value, result.notes) == ([1, 2], {"origin": ORIGIN, "untrusted": True, "truncated": True})
    assert results.read_stream_end(results.build_stream_reader(Expected()), problem, Expected()) == problem


@pytest.mark.requirement("XL-104", "XL-106")
def test_items_are_cleaned_and_marked() -> None:
    result, received = hear([b'data: {"a": "b\xe2\x80\x8bc"}\n\n'], b"text/event-stream")
    assert isinstance(result, Value)
    assert (result.value, [progress.value for progress in received]) == ([{"a": "bc"}], [{"a": "bc"}])
    assert result.notes == {"origin": ORIGIN, "untrusted": True}


def test_non_json_items_are_text_and_an_unfinished_event_is_dropped() -> None:
    assert hear([b"data: [DONE]\n\ndata: half"], b"text/event-stream")[0] == Value(["[DONE]"])
    assert hear([b'{"a": 1}\n{"b":'], b"application/jsonl")[0] == Value([{"a": 1}, '{"b":'])


def test_response_without_the_declared_stream_is_read_as_a_response(drive: Any) -> None:
    json = Response(200, ((b"content-type", b"application/json"),), b'{"a": 1}')
    assert drive(CODEC.send(peer(), Call(TOOL, {})), lambda _: json) == Value({"a": 1})
    problem = drive(CODEC.send(peer(), Call(TOOL, {})), lambda _: Response(404))
    assert isinstance(problem, Problem)
    assert problem.kind is Kind.NOT_FOUND


@given(st.lists(st.binary(max_size=30), max_size=6), st.sampled_from([kind for _, kind in STREAMS]))
def test_any_stream_bytes_give_a_value_or_a_problem(pieces: list[bytes], media_type: bytes) -> None:
    assert isinstance(hear(pieces, media_type)[0], Value | Problem)


@pytest.mark.requirement("XL-106")
def test_item_above_the_limit_at_the_end_marks_the_result_truncated() -> None:
    for pieces in ([b"1\n2\n3"], [b"1\n", b"2\n", b"3"]):
        result, received = hear(pieces, b"application/jsonl", caps=ResultLimits(items=2))
        assert isinstance(result, Value)
        assert (result.value, len(received)) == ([1, 2], 2)
        assert (result.notes or {})["truncated"] is True


@pytest.mark.requirement("XL-103", "XL-106")
def test_complete_stream_response_has_the_same_limits() -> None:
    def read(body: bytes, caps: ResultLimits = DEFAULT_RESULT_LIMITS) -> Result:
        stored = Expected(ORIGIN, None, Resources(b"salt"), caps)
        return results.read(Response(200, ((b"content-type", b"application/jsonl"),), body), stored)

    for body in (b"1\n2\n3\n4", b"1\n2\n3"):
        result = read(body, ResultLimits(items=2))
        assert isinstance(result, Value)
        notes = result.notes or {}
        assert (result.value, notes["truncated"], notes["total_bytes"]) == ([1, 2], True, len(body))
        assert str(notes["resource"]).startswith("resource:")
    too_large = read(b'"' + b"x" * 1_100_000 + b'"\n1\n')
    assert isinstance(too_large, Problem)
    assert too_large.kind is Kind.BAD_ANSWER
    assert "the server's stream: an item is larger than" in too_large.message
