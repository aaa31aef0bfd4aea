"""How much a server can make the client take, and how long it can make it wait."""

from __future__ import annotations

import gzip
import threading
import tracemalloc
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.client.transport.limits import MIB, TransportLimits
from toolwire.client.transport.network import SyncNetwork
from toolwire.client.transport.request_rules import RequestRules
from toolwire.client.transport.response_reader import ResponseCollector
from toolwire.core.http import Request, Response
from toolwire.core.model import Kind, Problem

SMALL = TransportLimits(response_bytes=64 * 1024)
QUICK = TransportLimits(total_s=0.2)


def bomb(size: int, piece: bytes = bytes(MIB)) -> bytes:
    """Return ``size`` zeros as gzip."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join([*(packer.compress(piece) for _ in range(size // len(piece))), packer.flush()])


@pytest.fixture(scope="module")
def large_bomb() -> bytes:
    return bomb(300 * MIB)


@pytest.mark.requirement("D-13", "XL-012")
@pytest.mark.parametrize(("size", "taken"), [(64 * 1024, True), (64 * 1024 + 1, False)])
@pytest.mark.parametrize("framing", ["declared", "chunked", "until the end"])
def test_body_may_reach_the_size_limit_but_not_exceed_it(
    listen: Any, open_network: Any, framing: str, size: int, taken: bool
) -> None:
    fields = {
        "declared": b"content-length: %d" % size,
        "chunked": b"transfer-encoding: chunked",
        "until the end": b"connection: close",
    }
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (size, b"a" * size) if framing == "chunked" else b"a" * size

    def answer(_: object) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n" + fields[framing] + b"\r\n\r\n" + body
        if framing == "until the end":
            raise ConnectionAbortedError

    listener = listen(answer)
    got = open_network(limits=SMALL).send(Request("GET", listener.origin))
    if taken:
        assert len(got.body) == size
    else:
        assert (got.kind, got.details["reason"]) == (Kind.BAD_ANSWER, "too_large")


@pytest.mark.requirement("D-13")
@pytest.mark.parametrize(
    "head",
    [
        b"transfer-encoding: chunked",
        b"content-length: 1000000000000",
        b"connection: close",
        b"content-type: text/event-stream",
    ],
)
def test_endless_body_is_abandoned_at_the_limit(listen: Any, open_network: Any, head: bytes) -> None:
    piece = b"a" * 8192
    chunk = b"2000\r\n" + piece + b"\r\n" if b"chunked" in head else piece

    def endless(_: object) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n"
        for _ in range(100_000):
            yield chunk

    listener = listen(endless)
    answer = open_network(limits=SMALL).send(Request("GET", listener.origin))
    assert answer.details["reason"] == "too_large"
    assert listener.hung_up.wait(10)
    assert listener.sent_bytes < 64 * MIB  # what was under way in the system's own buffers


@pytest.mark.requirement("D-14")
def test_a_gzip_bomb_is_refused(listen: Any, open_network: Any, encode_response: Any, large_bomb: bytes) -> None:
    listener = listen(encode_response(large_bomb, "content-encoding: gzip"))
    answer = open_network().send(Request("GET", listener.origin))
    assert answer.kind is Kind.BAD_ANSWER
    assert answer.details["reason"] == "too_large"
    assert "decompressed" in answer.message


@pytest.mark.requirement("D-14")
def test_gzip_bomb_uses_little_memory_even_with_a_large_limit(large_bomb: bytes) -> None:
    for limits, bound in ((TransportLimits(), 4 * MIB), (TransportLimits(ratio=10_000), 20 * MIB)):
        incoming = ResponseCollector("https://a.example", limits)
        incoming.begin(200, [(b"content-encoding", b"gzip")])
        tracemalloc.start()
        problem = incoming.add_piece(large_bomb)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert problem is not None
        assert peak < bound


@pytest.mark.requirement("D-14")
def test_compression_ratio_is_limited_only_above_one_mebibyte(
    listen: Any, open_network: Any, encode_response: Any
) -> None:
    body = bytes(MIB)
    listener = listen(encode_response(gzip.compress(body), "content-encoding: gzip"))
    assert open_network().send(Request("GET", listener.origin)).body == body
    listener = listen(encode_response(gzip.compress(body + b"a"), "content-encoding: gzip"))
    assert open_network().send(Request("GET", listener.origin)).details["reason"] == "too_large"


@pytest.mark.requirement("D-13", "D-14", "XL-012")
def test_the_limit_counts_decompressed_bytes(listen: Any, open_network: Any, encode_response: Any) -> None:
    for size, taken in ((64 * 1024, True), (64 * 1024 + 1, False)):
        listener = listen(encode_response(gzip.compress(bytes(size)), "content-encoding: gzip"))
        answer = open_network(limits=SMALL).send(Request("GET", listener.origin))
        assert isinstance(answer, Response) is taken


@pytest.mark.requirement("D-14")
@pytest.mark.parametrize(
    "fields",
    [
        ["content-encoding: gzip, gzip"],
        ["content-encoding: gzip", "content-encoding: gzip"],
        ["content-encoding: br"],
        ["content-encoding: deflate"],
        ["content-encoding: zstd"],
        ["content-encoding: compress, gzip"],
        ["content-encoding: gzip;q=1"],
        ["content-encoding: \x09gzip , br"],
    ],
)
def test_only_one_layer_of_gzip_encoding_is_accepted(
    listen: Any, open_network: Any, encode_response: Any, fields: list[str]
) -> None:
    listener = listen(encode_response(gzip.compress(gzip.compress(b"{}", mtime=0)), *fields))
    answer = open_network().send(Request("GET", listener.origin))
    assert answer.kind is Kind.BAD_ANSWER
    assert answer.details["reason"] == "encoding"


@pytest.mark.requirement("D-14")
@pytest.mark.parametrize(
    "body",
    [
        b"not gzip",
        gzip.compress(b"{}", mtime=0)[:-1],
        gzip.compress(b"{}", mtime=0)[:5],
        gzip.compress(b"{}", mtime=0)[:-8] + bytes(8),
        gzip.compress(b"{}", mtime=0) + b"x",
        gzip.compress(b"{}", mtime=0) * 2,
        zlib.compress(b"{}"),
    ],
)
def test_incomplete_or_repeated_gzip_stream_is_refused(
    listen: Any, open_network: Any, encode_response: Any, body: bytes
) -> None:
    answer = open_network().send(Request("GET", listen(encode_response(body, "content-encoding: gzip")).origin))
    assert answer.kind is Kind.BAD_ANSWER
    assert answer.details["reason"] == "encoding"


def collect_response(
    limits: TransportLimits, pieces: Sequence[bytes], *fields: tuple[bytes, bytes]
) -> Response | Problem:
    incoming = ResponseCollector("https://a.example", limits)
    problem = incoming.begin(200, fields)
    for piece in pieces:
        problem = problem or incoming.add_piece(piece)
    return problem or incoming.build_response()


@given(st.binary(max_size=300), st.lists(st.integers(1, 40), min_size=1), st.booleans())
def test_body_does_not_depend_on_chunk_boundaries(body: bytes, sizes: list[int], packed: bool) -> None:
    wire = gzip.compress(body, mtime=0) if packed else body
    pieces: list[bytes] = []
    rest = wire
    while rest:
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(rest[:size])
        rest = rest[size:]
    fields = [(b"content-encoding", b"gzip")] if packed else []
    assert collect_response(TransportLimits(), pieces, *fields) == Response(200, (), body)


@given(st.lists(st.binary(max_size=50), max_size=6), st.binary(max_size=12).filter(bytes.isascii))
def test_any_bytes_under_any_encoding_are_taken_or_refused_within_the_limit(pieces: list[bytes], coding: bytes) -> None:
    answer = collect_response(TransportLimits(response_bytes=64), pieces, (b"content-encoding", coding))
    assert answer.kind is Kind.BAD_ANSWER if isinstance(answer, Problem) else len(answer.body) <= 64


@pytest.mark.requirement("D-13")
@pytest.mark.parametrize("field", ["x: " + "a" * 70_000, "x: " + "a" * 900_000])
def test_response_headers_are_limited_in_size(listen: Any, open_network: Any, encode_response: Any, field: str) -> None:
    answer = open_network().send(Request("GET", listen(encode_response(b"{}", field)).origin))
    assert answer.kind is Kind.BAD_ANSWER
    assert answer.details["reason"] == "too_large"
    assert len(answer.message) < 200


@pytest.mark.requirement("D-13")
def test_response_headers_are_limited_in_number(listen: Any, open_network: Any, encode_response: Any) -> None:
    fields = [f"x-{number}: 1" for number in range(5_000)]
    assert (
        open_network().send(Request("GET", listen(encode_response(b"{}", *fields)).origin)).details["reason"]
        == "too_large"
    )


def drip(start: bytes, drop: bytes) -> Any:
    """Answer with ``start`` at once and then with a ``drop`` now and again, for as long as anyone listens."""
    pause = threading.Event()

    def answer(_: object) -> Iterable[bytes]:
        yield start
        for _ in range(500):
            pause.wait(0.02)
            yield drop

    return answer


@pytest.mark.requirement("D-13", "XL-012")
@pytest.mark.parametrize(
    ("start", "drop"),
    [
        (b"", b""),
        (b"H", b""),
        (b"HTTP/1.1 200 OK\r\n", b"x: y\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n", b"a"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n", b": still here\n\n"),
    ],
)
def test_slow_server_is_abandoned_at_the_deadline(listen: Any, open_network: Any, start: bytes, drop: bytes) -> None:
    listener = listen(drip(start, drop))
    answer = open_network(limits=QUICK).send(Request("POST", f"{listener.origin}/?key=hidden", (), b"{}"))
    assert answer.kind is Kind.UNREACHABLE
    assert answer.details == {"reason": "timeout", "sent": True}
    assert listener.origin in answer.message
    assert "hidden" not in repr(answer)


def test_deadline_can_be_set_for_each_call() -> None:
    exchange = RequestRules(limits=TransportLimits(total_s=30), clock=lambda: 5.0)
    request = Request("GET", "https://8.8.8.8/")
    assert [next(exchange.steps(request, total_s)).within_s for total_s in (None, 0.5, 600)] == [30, 0.5, 600]


@pytest.mark.requirement("XL-012")
def test_dns_lookup_counts_towards_the_deadline(open_network: Any) -> None:
    answered = threading.Event()

    def never(host: str, port: int) -> Sequence[str]:
        answered.wait(5)
        return ["8.8.8.8"]

    answer = open_network(limits=QUICK, resolve=never).send(Request("GET", "https://slow.example/"))
    answered.set()
    assert answer.details == {"reason": "timeout", "sent": False}


@pytest.mark.requirement("XL-012")
def test_lookup_addresses_and_redirects_share_one_deadline() -> None:
    now = 0.0
    exchange = RequestRules(limits=TransportLimits(total_s=30), clock=lambda: now)
    steps = exchange.steps(Request("GET", "https://slow.example/"), None)
    onwards = Response(307, ((b"location", b"/again"),))
    refused = Problem(kind=Kind.UNREACHABLE, message="refused", details={"reason": "refused", "sent": False})
    left = [next(steps).within_s]
    for now, received in ((8.0, ["8.8.8.8", "1.1.1.1"]), (15.0, refused), (29.0, onwards)):  # noqa: B007 - the clock reads it
        left.append(steps.send(received).within_s)
    assert left == [30, 22, 15, 1]
    now = 30.0
    with pytest.raises(StopIteration) as end:
        steps.send(onwards)
    assert end.value.value.details == {"reason": "timeout", "sent": False}


@pytest.mark.requirement("D-13", "XL-106")
@pytest.mark.parametrize(
    "media_type", ["text/event-stream", "application/jsonl", "application/x-ndjson", "Application/JSON-Seq; a=b"]
)
def test_stream_items_are_passed_on_live_and_stopped_at_the_limit(listen: Any, media_type: str) -> None:
    def endless(_: object) -> Iterator[bytes]:
        yield f"HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\n\r\n".encode()
        while True:
            yield b"data: 1\n\n" * 1_000

    listener, received = listen(endless), bytearray()

    def hear(piece: bytes) -> None:
        received.extend(piece)

    network = SyncNetwork(limits=TransportLimits(stream_bytes=200_000))
    answer = network.listen(Request("GET", listener.origin), hear)
    network.close()
    assert isinstance(answer, Problem)
    assert answer.details["reason"] == "too_large"
    assert 0 < len(received) <= 200_000
