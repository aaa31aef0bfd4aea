"""What the reader of responses takes from a connection, what it refuses, and when the connection may be used again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.client.transport.http1 import ResponseReader
from toolwire.client.transport.limits import TransportLimits
from toolwire.client.transport.network import SyncNetwork
from toolwire.client.transport.response_reader import ResponseCollector
from toolwire.client.transport.tls import _make_context, find_tls_context
from toolwire.client.transport.urls import parse_url, resolve_location
from toolwire.core.http import Request, Response
from toolwire.core.model import Problem

ORIGIN = "https://a.example"
FINE = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"


LIMITS = TransportLimits()


def read(*pieces: bytes, method: str = "GET", ends: bool = False, limits: TransportLimits = LIMITS) -> ResponseReader:
    reader = ResponseReader(ORIGIN, method, ResponseCollector(ORIGIN, limits), limits)
    for piece in pieces:
        reader.feed(piece)
    if ends:
        reader.end()
    return reader


def outcome(reader: ResponseReader) -> Response | str:
    assert reader.is_done
    answer = reader.outcome()
    return answer if isinstance(answer, Response) else str(answer.details["reason"])


@given(st.lists(st.integers(1, 20), min_size=1))
def test_response_does_not_depend_on_chunk_boundaries(sizes: list[int]) -> None:
    whole = (
        b"HTTP/1.1 200 OK\r\nX-A: 1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nt: u\r\n\r\n"
    )
    pieces, rest = [], whole
    while rest:
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(rest[:size])
        rest = rest[size:]
    reader = read(*pieces)
    assert outcome(reader) == Response(200, ((b"x-a", b"1"), (b"transfer-encoding", b"chunked")), b"abcde")
    assert reader.is_reusable


@pytest.mark.parametrize(
    ("wire", "method"),
    [
        (FINE + b"HTTP/1.1 200 OK\r\n", "GET"),  # a second answer, or the start of one
        (FINE + b"\x00", "GET"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi", "GET"),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nhi", "GET"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n", "HEAD"),
    ],
)
def test_connection_with_extra_or_missing_bytes_is_not_reused(wire: bytes, method: str) -> None:
    reader = read(wire, method=method)
    answer = outcome(reader)
    assert isinstance(answer, Response)
    assert answer.body == (b"" if method == "HEAD" else b"hi")
    assert not reader.is_reusable


def test_interim_responses_are_skipped() -> None:
    reader = read(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nlink: x\r\n\r\n" + FINE)
    assert outcome(reader) == Response(200, ((b"content-length", b"2"),), b"hi")
    assert reader.is_reusable


def test_lines_may_end_with_a_line_feed_alone() -> None:
    assert outcome(read(b"HTTP/1.1 200 OK\nx-a: 1\ncontent-length: 2\n\nhi")) == Response(
        200, ((b"x-a", b"1"), (b"content-length", b"2")), b"hi"
    )


@pytest.mark.parametrize(
    "wire",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, identity\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: +2\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nx: a\r\n b\r\nx y: 1\r\n\r\n",
        b"HTTP/2.0 200 OK\r\n\r\n",
    ],
)
def test_ambiguous_response_framing_is_refused(wire: bytes) -> None:
    reader = read(wire, ends=True)
    assert outcome(reader) == "not_http"
    assert not reader.is_reusable


@pytest.mark.requirement("D-13")
@pytest.mark.parametrize(
    ("start", "more"),
    [
        (b"HTTP/1.1 200 OK\r\nx: ", b"a" * 1_000),
        (b"HTTP/1.1 200 OK\r\n", b"".join(b"x-%d: 1\r\n" % number for number in range(300))),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 40),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;", b"a" * 1_000),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n", b"x: " + b"a" * 1_000 + b"\r\n"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"1;" + b"a" * 1_000 + b"\r\nb\r\n"),
    ],
)
def test_headers_and_chunk_metadata_are_limited(start: bytes, more: bytes) -> None:
    reader, sent = read(start), 0
    while not reader.is_done and sent < 200_000:
        reader.feed(more)
        sent += len(more)
    assert outcome(reader) == "too_large"
    assert sent <= 70_000


@given(st.binary(max_size=400), st.integers(1, 50))
def test_any_bytes_end_in_a_response_or_a_problem(wire: bytes, size: int) -> None:
    reader = read(*(wire[start : start + size] for start in range(0, len(wire), size)), ends=True)
    assert reader.is_done
    assert isinstance(reader.outcome(), Response | Problem)


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_a_call_opens_a_new_connection_where_the_server_has_left_the_old_one(
    listen: Any, open_network: Any, method: str
) -> None:
    def once(_: object) -> Iterator[bytes]:
        yield FINE
        raise ConnectionAbortedError

    listener, transport = listen(once), open_network()
    for number in range(1, 4):
        assert transport.send(Request(method, listener.origin, (), b"")).status == 200
        assert listener.hung_up.wait(10)
        listener.hung_up.clear()
        assert len(listener.requests) == listener.connections == number


@pytest.mark.requirement("P-04")
def test_tls_roots_are_read_once_and_never_for_http(listen: Any, open_network: Any) -> None:
    _make_context.cache_clear()
    transport = open_network(resolve=lambda host, port: ["127.0.0.1"])
    listener = listen()
    transport.send(Request("GET", listener.origin))
    assert _make_context.cache_info().misses == 0
    for network in (transport, SyncNetwork(resolve=lambda host, port: ["127.0.0.1"])):
        network.send(Request("GET", f"https://localhost:{listener.port}/"))
    assert _make_context.cache_info().misses == 1
    assert find_tls_context() is find_tls_context()


@pytest.mark.parametrize(
    ("location", "there"),
    [
        ("/a/./b/%2e%2E/c", "https://a.example/a/c"),
        ("..", "https://a.example/"),
        ('x?q="1"#top', "https://a.example/d/x?q=%221%22"),
        ("x?q='1'", "https://a.example/d/x?q='1'"),  # OpenAPI's allowReserved sends it so, and RFC 3986 allows it
        ("?", "https://a.example/d/e?"),
        ("", "https://a.example/d/e?k"),
        ("//B.example:443/<x>", "https://b.example/%3Cx%3E"),
        ("/\\b.example", "https://b.example/"),
        ("https:x", "https://a.example/d/x"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("https://[2001:DB8:0::1]", "https://[2001:db8::1]/"),
        (" \thttps://b.example:8443\n", "https://b.example:8443/"),
    ],
)
def test_location_is_resolved_like_in_browsers(location: str, there: str) -> None:
    url = resolve_location(parse_url("https://a.example/d/e?k"), location)
    assert url.origin + url.request_target == there


@pytest.mark.parametrize(
    "text",
    [
        "ftp://a",
        "https://",
        "https://a b/",
        "https://a:65536/",
        "https://1.2.3.4.5/",
        "https://[1::2::3]/",
        "https://xn--/",
        "https://a..b/",
        "https://%61/",
        "//a.example",
        "https://a.256/",
    ],
)
def test_invalid_http_url_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says, the caller says it in other words
        parse_url(text)
