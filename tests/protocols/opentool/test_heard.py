"""What a client makes of a stream, however its bytes are cut."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.http import Response
from toolwire.core.model import Json, Kind, Problem, Progress, Tool, Value
from toolwire.protocols.opentool.stream_reader import StreamReader

ENDED = Response(200)


def frame(name: str, data: Json) -> bytes:
    return f"event:{name}\ndata:{json.dumps(data)}\n\n".encode()


def feed_pieces(*pieces: bytes) -> tuple[list[Progress], Value | Problem]:
    listener = StreamReader(Tool(name="each", streams=True).output_name)
    progress = [one for piece in pieces for one in listener.feed(piece)]
    return progress, listener.result(ENDED)


def data(result: Json) -> bytes:
    return frame("data", {"jsonrpc": "2.0", "result": result, "id": "c1"})


@pytest.mark.requirement("A-28", "A-11")
def test_the_stream_of_the_dart_sdk_is_progress_and_a_result() -> None:
    progress, result = feed_pieces(
        frame("start", {"start": "each"}), data({"text": "é"}), data({"text": "b"}), frame("done", {"done": "each"})
    )
    assert progress == [Progress({"text": "é"}), Progress({"text": "b"})]
    assert result == Value([{"text": "é"}, {"text": "b"}])


def test_piece_under_the_name_of_the_return_is_unwrapped() -> None:
    assert feed_pieces(data({"result": 1}), data({"result": None}), frame("done", {}))[1] == Value([1, None])


def test_event_with_another_name_is_progress_of_that_name() -> None:
    assert feed_pieces(frame("token", {"text": "a"}), frame("done", {}))[0] == [Progress({"text": "a"}, "token")]


@pytest.mark.parametrize(
    "said",
    [
        {"jsonrpc": "2.0", "result": {}, "error": {"code": 500, "message": "out of paper"}, "id": "c1"},
        {"code": 500, "message": "out of paper", "id": "c1"},
    ],
)
def test_an_error_frame_ends_the_call_in_either_form(said: Json) -> None:
    progress, result = feed_pieces(data(1), frame("error", said), data(2))
    assert [one.value for one in progress] == [1]
    assert isinstance(result, Problem)
    assert result.message == "out of paper"


def test_empty_error_frame_is_still_an_error() -> None:
    assert isinstance(feed_pieces(frame("error", 7))[1], Problem)


def test_interrupted_stream_is_a_problem_that_says_so() -> None:
    result = feed_pieces(data(1), data(2)[:-3])[1]
    assert isinstance(result, Problem)
    assert result.kind is Kind.BAD_ANSWER
    assert "after 1 events" in result.message


def test_event_that_is_not_json_raises_value_error() -> None:
    with pytest.raises(ValueError, match="not JSON"):
        feed_pieces(b"event:data\ndata:{nope\n\n")


def test_stream_with_more_than_100000_events_is_refused() -> None:
    many = data(0) * 100_001
    with pytest.raises(ValueError, match="more than 100,000"):
        feed_pieces(many)


@given(st.lists(st.integers() | st.text() | st.none(), max_size=8), st.data())
def test_chunk_boundaries_do_not_change_the_events(values: list[Json], draw: st.DataObject) -> None:
    whole = b"".join(data({"result": value}) for value in values) + frame("done", {"done": "each"})
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(whole)), max_size=10)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    progress, result = feed_pieces(*pieces)
    assert [one.value for one in progress] == values
    assert result == Value(values)


@pytest.mark.requirement("A-22", "C-3")
@pytest.mark.parametrize(
    "answer",
    [
        {"jsonrpc": "2.0", "result": {"code": 405, "message": "Function Not Supported: c"}, "id": "1"},
        {"jsonrpc": "2.0", "error": {"code": 405, "message": "Function Not Supported: c"}, "id": "1"},
    ],
)
def test_error_object_in_a_data_event_ends_the_call(answer: Json) -> None:
    problem = feed_pieces(frame("data", answer), frame("done", {}))[1]
    assert isinstance(problem, Problem)
    assert "Function Not Supported: c" in problem.message
    assert feed_pieces(data({"error": {"code": 1}}), frame("done", {}))[1] == Value([{"error": {"code": 1}}])
