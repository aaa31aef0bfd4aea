"""The events that keep an open page fresh."""

from __future__ import annotations

import http.client
import socket
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from tests.console.conftest import Browser, Started, build_question
from tests.support.decisions import build_decision
from toolwire.console.app import build_operator_tables
from toolwire.console.caller_pages import build_caller_tables, name_topic
from toolwire.console.events import MAX_STREAMS
from toolwire.core.check import Answer


def open_stream(browser: Browser) -> socket.socket:
    """Open an event stream, and return its socket behind the head of the response."""
    parts = urlsplit(browser.url)
    stream = socket.create_connection((parts.hostname, parts.port), timeout=20)
    stream.sendall(f"GET /events HTTP/1.1\r\nHost: {parts.netloc}\r\nCookie: {browser.cookie}\r\n\r\n".encode())
    read_until(stream, b"retry: 2000\n\n")
    return stream


def read_until(stream: socket.socket, mark: bytes) -> bytes:
    data = b""
    while mark not in data:
        piece = stream.recv(65_536)
        assert piece, f"the stream ended after {data!r}"
        data += piece
    return data


@pytest.mark.requirement("CO-02")
def test_open_page_hears_of_a_new_question_and_of_a_decision(start: Callable[..., Started]) -> None:
    console = start()
    with open_stream(console.browser()) as stream:
        console.source.approvals.ask(build_question())
        assert b"event: change\ndata: inbox\n\n" in read_until(stream, b"inbox\n\n")
        console.source.audit.append(build_decision())
        assert b"Shop" not in read_until(stream, b"data: log\n\n"), "an event holds no data"


@pytest.mark.requirement("CO-02", "GW-04")
def test_question_that_is_asked_and_answered_between_two_looks_is_news(start: Callable[..., Started]) -> None:
    source = start().source
    operators, callers = build_operator_tables(source, ()).read_topics, build_caller_tables(source).read_topics
    source.approvals.ask(replace(build_question(), principal="key:ann", binding="first"))
    before = operators()["inbox"], callers()
    id_ = source.approvals.ask(replace(build_question(), principal="key:ann", binding="second"))
    assert source.approvals.answer(id_, Answer(allowed=False))
    after = operators()["inbox"], callers()
    assert before[0] != after[0]
    assert before[1][name_topic("key:ann")] != after[1][name_topic("key:ann")]


@pytest.mark.requirement("CO-02")
def test_stream_ends_with_its_session_and_no_stranger_opens_one(start: Callable[..., Started]) -> None:
    console = start()
    browser = console.browser()
    with open_stream(browser) as stream:
        browser.submit("/sign-out")
        console.source.approvals.ask(build_question())
        data = b""
        while piece := stream.recv(65_536):
            data += piece
            if data.endswith(b"0\r\n\r\n"):
                break
    assert b"inbox" not in data
    connection = http.client.HTTPConnection(urlsplit(console.url).netloc)
    connection.request("GET", "/events")
    assert connection.getresponse().status == 401
    connection.close()


@pytest.mark.requirement("CO-02")
def test_five_hundred_streams_take_at_most_20_kb_each_and_too_many_are_refused(start: Callable[..., Started]) -> None:
    console = start()
    browser = console.browser()
    streams = [open_stream(browser) for _ in range(10)]
    try:
        tracemalloc.start()  # it makes all else several times as slow
        try:
            before = tracemalloc.get_traced_memory()[0]
            streams += [open_stream(browser) for _ in range(500)]
            taken = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        console.source.approvals.ask(build_question())
        for stream in streams:
            read_until(stream, b"inbox\n\n")
        streams += [open_stream(browser) for _ in range(MAX_STREAMS - len(streams))]
        assert browser.send("GET", "/events").status == 503
    finally:
        for stream in streams:
            stream.close()
    print(f"{taken / 500:.0f} bytes a stream")
    assert taken / 500 <= 20_000
    assert browser.get("/").status == 200
