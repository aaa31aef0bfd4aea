"""What was fetched to find tools is kept as HTTP lets it, asked for again, and marked where that fails."""

import asyncio
import dataclasses
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.interleaving import interrupt_each_await
from toolwire.client.discovery.cache import DAY_S, Cache
from toolwire.client.discovery.document_snapshot import SnapshotBuilder
from toolwire.client.discovery.fetch_documents import fetch_documents
from toolwire.client.discovery.local_files import file_url, find_folder, read_file
from toolwire.client.discovery.source import build_source
from toolwire.client.transport.drivers import arun, run
from toolwire.core.codec import fetch
from toolwire.core.http import Request, Response
from toolwire.core.model import Kind, Problem

URL = "https://site.test/openapi.json"
DOWN = Problem(kind=Kind.UNREACHABLE, message="Nobody answers.")


class Server:
    """A site whose next answers are given, and that remembers what it was asked."""

    def __init__(self, *answers: Response | Problem) -> None:
        self.answers = list(answers)
        self.asked: list[dict[bytes, bytes]] = []
        self.now = 1_000_000.0
        self.cache = Cache(clock=lambda: self.now)

    def get(self, identity: str = "", url: str = URL) -> Response | Problem:
        return self.start(identity, url)()

    def start(self, identity: str = "", url: str = URL) -> Callable[[], Response | Problem]:
        """Begin to look, and return what sends the request."""
        builder = SnapshotBuilder(self.cache, identity)
        flow = fetch_documents(fetch(Request("GET", url)), url, builder, clock=lambda: self.now)
        return lambda: run(flow, self)

    def send(self, request: Request) -> Response | Problem:
        self.asked.append(dict(request.headers))
        return self.answers.pop(0)

    def listen(self, request: Request, hear: Any, *, brief: bool = False) -> Response | Problem:
        raise AssertionError("looking never listens")

    def close(self) -> None: ...


def build_response(body: bytes, **fields: str) -> Response:
    return Response(
        200, tuple((name.replace("_", "-").encode(), value.encode()) for name, value in fields.items()), body
    )


@pytest.mark.requirement("XL-016", "OQ-4")
@pytest.mark.parametrize(
    ("fields", "fresh_s"),
    [
        ({}, 300),
        ({"cache_control": "max-age=10"}, 10),
        ({"cache_control": "max-age=10", "age": "4"}, 6),
        ({"cache_control": "public, max-age=9999999"}, DAY_S),
        ({"expires": "Thu, 01 Jan 1970 00:01:40 GMT", "date": "Thu, 01 Jan 1970 00:01:00 GMT"}, 40),
    ],
)
def test_response_is_fresh_as_long_as_the_server_states(fields: dict[str, str], fresh_s: float) -> None:
    server = Server(build_response(b"1", **fields), build_response(b"2", **fields))
    server.get()
    server.now += fresh_s - 1
    assert server.get() == build_response(b"1", **fields)
    server.now += 1
    assert server.get() == build_response(b"2", **fields)


@pytest.mark.requirement("XL-016")
@pytest.mark.parametrize("fields", [{"cache_control": "no-store"}, {"vary": "*"}, {"cache_control": "no-cache"}])
def test_uncacheable_response_is_fetched_each_time(fields: dict[str, str]) -> None:
    server = Server(build_response(b"1", **fields), build_response(b"2", **fields))
    assert [server.get(), server.get()] == [build_response(b"1", **fields), build_response(b"2", **fields)]


@pytest.mark.requirement("XL-016")
def test_stale_response_is_revalidated_by_etag_and_date() -> None:
    first = build_response(b"1", etag='"a"', last_modified="Thu, 01 Jan 1970 00:00:00 GMT")
    server = Server(first, Response(304, ((b"cache-control", b"max-age=50"),)))
    server.get()
    server.now += 301
    answer = server.get()
    assert isinstance(answer, Response)
    assert (answer.status, answer.body) == (200, b"1")
    assert server.asked[1] == {b"if-none-match": b'"a"', b"if-modified-since": b"Thu, 01 Jan 1970 00:00:00 GMT"}
    server.now += 49
    assert server.get() == answer


@pytest.mark.requirement("XL-016")
@pytest.mark.parametrize("failure", [DOWN, Response(503)])
def test_stale_response_is_used_for_a_day_if_the_server_fails(failure: Any) -> None:
    server = Server(build_response(b"1"), failure, failure)
    server.get()
    server.now += 300 + DAY_S - 1
    assert server.get() == build_response(b"1")
    stored = server.cache.find(URL)
    assert stored is not None
    assert stored.stale
    server.now += 2
    assert server.get() == failure


@pytest.mark.requirement("XL-016", "D-30")
def test_response_for_one_key_is_not_given_to_another() -> None:
    server = Server(build_response(b"mine"), build_response(b"yours"), build_response(b"nobody's"))
    assert [server.get("me"), server.get("you"), server.get()] == [
        build_response(b"mine"),
        build_response(b"yours"),
        build_response(b"nobody's"),
    ]
    assert server.get("me") == build_response(b"mine")


@pytest.mark.requirement("OQ-4")
def test_a_refresh_can_be_forced() -> None:
    server = Server(build_response(b"1", etag="x"), Response(304))
    server.get()
    server.cache.expire(URL)
    assert server.get() == build_response(b"1", etag="x")
    assert len(server.asked) == 2


@pytest.mark.requirement("XL-012")
def test_fetch_does_not_start_after_its_deadline() -> None:
    server = Server(build_response(b"1"))
    send = server.start()
    server.now += 15
    answer = send()
    assert isinstance(answer, Problem)
    assert server.asked == []


@pytest.mark.requirement("XL-017")
def test_document_source_is_complete_and_immutable() -> None:
    server = Server(build_response(b'{ "b": 1,\n "a": [2] }', etag='"e"'))
    server.get()
    source = build_source("https://site.test", URL, server.cache.find(URL))
    assert source is not None
    assert (source.origin, source.url, source.fetched_at, source.etag, source.stale) == (
        "https://site.test", URL, server.now, '"e"', False,
    )  # fmt: skip
    assert source.sha256 == hashlib.sha256(b'{"a":[2],"b":1}').hexdigest()
    with pytest.raises(dataclasses.FrozenInstanceError):
        source.etag = ""  # type: ignore[misc]  # that is the point


@pytest.mark.requirement("XL-006", "CV-17")
def test_file_cache_reads_only_the_folder_of_the_document(tmp_path: Path) -> None:
    inside = tmp_path / "api"
    inside.mkdir()
    (inside / "a.json").write_text(json.dumps({"a": 1}))
    (tmp_path / "secret.json").write_text("{}")
    (inside / "link.json").symlink_to(tmp_path / "secret.json")
    url = file_url(str(inside / "a.json"))
    folder = find_folder(url)
    assert read_file(url, folder) == Response(200, (), b'{"a": 1}')
    for other in ("link.json", "../secret.json", "none.json"):
        assert isinstance(read_file((inside / other).as_uri().replace("%2E", "."), folder), Problem)
    assert file_url(str(inside / "none.json")) == ""
    assert file_url("https://site.test/a.json") == ""
    assert find_folder("https://site.test/a.json") is None


class SlowServer(Server):
    """The same site, asked over a transport that lets another request come between a question and its answer."""

    def begin(self, *answers: Response | Problem) -> None:
        """Have ``OLD`` in the cache, no longer fresh, and give these answers next."""
        self.now += DAY_S * 3
        self.asked = []
        asked = Request("GET", URL)
        self.cache.receive(asked, None, OLD)
        self.now += 301
        self.answers = list(answers)

    async def fetch(self) -> Response | Problem:
        flow = fetch_documents(fetch(Request("GET", URL)), URL, SnapshotBuilder(self.cache), clock=lambda: self.now)
        return await arun(flow, self)  # type: ignore[arg-type]  # it sends, and nothing listens

    async def send(self, request: Request) -> Response | Problem:  # type: ignore[override]  # the asynchronous form
        answer = Server.send(self, request)
        await asyncio.sleep(0)
        return answer


OLD, NEW = build_response(b"old", etag='"1"'), build_response(b"new", etag='"2"')


@pytest.mark.requirement("TE-02", "XL-016")
@pytest.mark.parametrize("late", [Response(304), DOWN, Response(503)], ids=["confirmed", "unreachable", "failed"])
@pytest.mark.parametrize("first", [NEW, Response(404), build_response(b"secret", cache_control="no-store")])
def test_answer_that_comes_late_changes_nothing_that_another_request_has_changed(first: Any, late: Any) -> None:
    server = SlowServer()

    def make() -> Any:
        server.begin(late, first)  # the second is asked for, and comes, while the first is awaited
        return server.fetch(), server.fetch

    def check(found: Response | Problem) -> None:
        if len(server.asked) < 2:
            return  # nobody came between
        stored = server.cache.find(URL)
        assert (None if stored is None else (stored.response, stored.stale)) == ((NEW, False) if first is NEW else None)
        assert found == (OLD if late == Response(304) else NEW if first is NEW else late)

    assert asyncio.run(interrupt_each_await(make, check)) >= 1
