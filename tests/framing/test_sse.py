"""Server-sent events: the same events whatever way the bytes were cut."""

import itertools
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolwire.framing import sse
from toolwire.framing.sse import MAX_EVENT, Decoder, Event

PIECES = st.sampled_from(
    [b"event", b":", b" ", b"data", b"\n", b"\r", b"\r\n", b"\n\n", b"x", b"\xc3\xa9", b"\xff", b"id:7\n"]
)


def decode_chunks(chunks: Iterable[bytes]) -> list[Event]:
    decoder = Decoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)]


@given(st.lists(PIECES, max_size=40).map(b"".join), st.lists(st.integers(0, 60), max_size=10))
@example(b"event:a\r\ndata:x\r\n\r\n", [8, 8, 9])
def test_sse_events_do_not_depend_on_chunk_boundaries(stream: bytes, cuts: Sequence[int]) -> None:
    edges = [0, *sorted(cuts), len(stream)]
    chunks = [stream[start:end] for start, end in itertools.pairwise(edges)]
    assert decode_chunks(chunks) == decode_chunks([stream])


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_as_sse_events(stream: bytes) -> None:
    assert all(isinstance(event, Event) for event in decode_chunks([stream, b"\n\n"]))


@pytest.mark.requirement("A-28")
def test_written_sse_frame_has_exact_field_order_and_newlines() -> None:
    assert sse.write("done", b'{"a":1}') == b'event:done\ndata:{"a":1}\n\n'


@given(st.lists(st.tuples(st.sampled_from(["data", "done"]), st.text("abc:é ", min_size=1))))
def test_written_sse_events_are_decoded_back(events: list[tuple[str, str]]) -> None:
    stream = b"".join(sse.write(name, text.encode()) for name, text in events)
    assert decode_chunks([stream]) == [(name, text.removeprefix(" ")) for name, text in events]


def test_lines_of_data_are_joined_and_other_fields_ignored() -> None:
    stream = b": hello\nid: 7\nretry: 5\ndata: one\ndata:two\ndata\n\nevent:lost\n\ndata:last\n\ndata:unfinished\n"
    assert decode_chunks([stream]) == [("message", "one\ntwo\n"), ("message", "last")]


@pytest.mark.requirement("R10")
@pytest.mark.parametrize(
    "stream", [b"data:" + b"x" * MAX_EVENT, b"data:y\n" * (MAX_EVENT // 4), b":x" * MAX_EVENT + b"\n"]
)
@pytest.mark.parametrize("size", [65_536, 1 << 24])
def test_an_event_over_a_mebibyte_is_refused(stream: bytes, size: int) -> None:
    with pytest.raises(ValueError, match="larger than"):
        decode_chunks([stream[start : start + size] for start in range(0, len(stream), size)])


def test_sse_size_count_restarts_after_each_event() -> None:
    large = b"data:" + b"x" * (MAX_EVENT - 10)
    assert len(decode_chunks([large + b"\n", b"\ndata:" + b"y" * 100, b"\n\n"])) == 2
