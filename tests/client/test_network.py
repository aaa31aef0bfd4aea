"""What goes out of the transport and what comes back: requests as they are, connections kept, loops and cancelling."""

from __future__ import annotations

import asyncio
import gzip
import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import uvloop

from tests.interleaving import interrupt_each_await
from toolwire import __version__
from toolwire.client.transport.limits import TransportLimits
from toolwire.client.transport.network import Network, SyncNetwork
from toolwire.client.transport.request_rules import RequestRules
from toolwire.core.http import Request, Response
from toolwire.core.model import Kind, Problem, Secret

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


def test_request_arrives_as_it_was_built(listen: Any, open_network: Any, encode_response: Any) -> None:
    listener = listen(
        encode_response(
            b'{"result":3}', "content-type: application/json", "X-Trace: 1", "x-trace: 2", status="201 Made"
        )
    )
    request = Request(
        "POST", f"{listener.origin}/tools/call?a=%20b#top", ((b"x-call", b"7"), (b"x-call", b"8")), b'{"a":1}'
    )
    answer = open_network().send(request)
    [seen] = listener.requests
    assert seen.line == "POST /tools/call?a=%20b HTTP/1.1"
    assert seen.body == b'{"a":1}'
    assert [value for name, value in seen.fields if name == "x-call"] == ["7", "8"]
    assert seen.headers["user-agent"] == f"toolwire/{__version__}"
    assert (answer.status, answer.body) == (201, b'{"result":3}')
    assert [value for name, value in answer.headers if name == b"x-trace"] == [b"1", b"2"]


@pytest.mark.requirement("D-14")
def test_client_accepts_only_gzip_encoding(listen: Any, open_network: Any) -> None:
    listener = listen()
    open_network().send(Request("GET", listener.origin))
    assert listener.requests[0].headers["accept-encoding"] == "gzip"


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_every_http_method_is_sent(listen: Any, open_network: Any, encode_response: Any, method: str) -> None:
    listener = listen(lambda seen: [encode_response(b"" if method == "HEAD" else b"{}")])
    assert open_network().send(Request(method, listener.origin)).status == 200
    assert listener.requests[0].line == f"{method} / HTTP/1.1"


def test_connections_are_reused_until_closing_and_reopened_after_it(listen: Any) -> None:
    listener = listen()
    transport = SyncNetwork()
    for connections in (1, 2):
        for _ in range(3):
            transport.send(Request("GET", listener.origin))
        assert listener.connections == connections
        transport.close()


def test_consecutive_calls_share_a_connection(listen: Any, open_network: Any) -> None:
    listener = listen()
    transport = open_network()
    assert {transport.send(Request(method, listener.origin)).status for method in ("GET", "POST", "PUT", "GET")} == {
        200
    }
    assert listener.connections == 1


def test_number_of_idle_connections_is_bounded(listen: Any, open_network: Any) -> None:
    listener = listen()
    addresses = iter(f"127.0.0.{number}" for number in range(2, 255))
    transport = open_network(resolve=lambda host, port: [next(addresses), "127.0.0.1"], limits=TransportLimits(pin_s=0))
    assert {transport.send(Request("GET", f"http://localhost:{listener.port}/")).status for _ in range(70)} == {200}
    pools = (
        [transport.network._pool] if isinstance(transport.network, SyncNetwork) else transport.network._pools.values()
    )
    assert all(1 <= len(pool) <= 64 for pool in pools)


def test_client_stores_no_cookies(listen: Any, open_network: Any, encode_response: Any) -> None:
    listener = listen(encode_response(b"{}", "set-cookie: session=1; path=/"))
    transport = open_network()
    for _ in range(2):
        transport.send(Request("GET", listener.origin))
    assert all("cookie" not in seen.headers for seen in listener.requests)


def test_this_machine_is_reached_without_the_proxy_of_the_environment(
    listen: Any, open_network: Any, encode_response: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, listener = listen(), listen(encode_response(b"direct"))
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, proxy.origin)
        monkeypatch.setenv(name.upper(), proxy.origin)
    assert open_network().send(Request("GET", listener.origin)).body == b"direct"
    assert proxy.connections == 0


def test_response_header_that_is_not_text_is_dropped_alone(listen: Any, open_network: Any) -> None:
    listener = listen(b"HTTP/1.1 200 OK\r\nx-name: caf\xe9\r\nx-other: fine\r\ncontent-length: 2\r\n\r\nhi")
    answer = open_network().send(Request("GET", listener.origin))
    assert answer.body == b"hi"
    assert (b"x-other", b"fine") in answer.headers
    assert all(name != b"x-name" for name, _ in answer.headers)


@pytest.mark.requirement("D-11")
@pytest.mark.parametrize(
    "header",
    [
        (b"x-a", b"b\r\nx-evil: 1"),
        (b"x-a", b"b\nx-evil: 1"),
        (b"x-a", b"b\rx-evil: 1"),
        (b"x-a", b"b\x00"),
        (b"x-a", b"\x7f"),
        (b"x-a", b"\x1b[31m"),
        (b"x-a", b"\x85"),
        (b"x-a", "\u560a".encode()),
        (b"x-a", b"caf\xe9"),
        (b"x-a\r\nx-evil", b"1"),
        (b"x-a\n", b"1"),
        (b"x-a:", b"1"),
        (b"x a", b"1"),
        (b" x-a", b"1"),
        (b"", b"1"),
        (b"x\x00", b"1"),
        (b"x-\xe9", b"1"),
        (b"(x)", b"1"),
        (b"Host", b"evil.example"),
        (b"content-length", b"5"),
        (b"Transfer-Encoding", b"chunked"),
        (b"connection", b"x-api-key"),
        (b"Accept-Encoding", b"br"),
        (b"upgrade", b"h2c"),
        (b"te", b"trailers"),
        (b"expect", b"100-continue"),
        (b"Proxy-Authorization", b"Basic x"),
    ],
)
def test_request_header_with_a_line_break_is_not_sent(
    listen: Any, open_network: Any, header: tuple[bytes, bytes]
) -> None:
    listener = listen()
    answer = open_network().send(Request("GET", listener.origin, (header,)))
    assert answer.kind is Kind.MALFORMED
    assert answer.details["sent"] is False
    assert "evil" not in repr(answer)
    assert listener.connections == 0


@pytest.mark.requirement("D-11")
@pytest.mark.parametrize(
    "method", ["", "get", "GE T", "GET\r\nx: y", "GET /evil HTTP/1.1\r\n", "G\x00", "É", "CONNECT", "TRACE"]
)
def test_method_that_is_no_token_is_not_sent(listen: Any, open_network: Any, method: str) -> None:
    listener = listen()
    assert open_network().send(Request(method, listener.origin)).kind is Kind.MALFORMED
    assert listener.connections == 0


@pytest.mark.requirement("D-11")
@pytest.mark.parametrize(
    "tail",
    [
        "/a b",
        "/a\r\nx: y",
        "/a\nb",
        "/\x00",
        "/\t",
        "/\x7f",
        "\\evil.example/",
        "/é",
        "/\u202e",
        "/?q=\u2028",
        "/" + "a" * 40_000,
    ],
)
def test_url_with_illegal_characters_is_not_sent(listen: Any, open_network: Any, tail: str) -> None:
    listener = listen()
    answer = open_network().send(Request("GET", listener.origin + tail))
    assert answer.kind is Kind.MALFORMED
    assert listener.connections == 0


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/tools",
        "127.0.0.1",
        "//127.0.0.1/",
        "http:127.0.0.1",
        "http:/127.0.0.1",
        "http://",
        "http:///x",
        "https://a:99999/",
        "https://a:b/",
        "https://a:/",
        "http://127.0.0.1:0/",
        "https://[",
    ],
)
def test_incomplete_url_is_refused_in_one_sentence(open_network: Any, url: str) -> None:
    answer = open_network(resolve=lambda host, port: ["127.0.0.1"]).send(Request("GET", url))
    assert answer.kind is Kind.MALFORMED
    assert answer.details == {"reason": "url", "sent": False}
    assert answer.message.endswith(".")


def credentials(origin: str, name: str = "authorization") -> dict[str, tuple[tuple[str, Secret], ...]]:
    return {origin: ((name, Secret("Bearer tops3cret")),)}


@pytest.mark.requirement("D-08", "AC-11")
def test_credentials_are_sent_only_to_their_own_origin(listen: Any, open_network: Any) -> None:
    mine, other = listen(), listen()
    transport = open_network(credentials=credentials(mine.origin), resolve=lambda host, port: ["127.0.0.1"])
    transport.send(Request("GET", f"{mine.origin}/tools"))
    transport.send(Request("GET", f"{other.origin}/tools"))
    transport.send(Request("GET", f"http://localhost:{mine.port}/tools"))
    assert [seen.headers.get("authorization") for seen in mine.requests] == ["Bearer tops3cret", None]
    assert [seen.headers.get("authorization") for seen in other.requests] == [None]


@pytest.mark.requirement("D-08")
def test_credential_replaces_the_same_header_of_the_request(listen: Any, open_network: Any) -> None:
    listener = listen()
    transport = open_network(credentials=credentials(listener.origin, "X-Api-Key"))
    transport.send(Request("GET", listener.origin, ((b"x-api-key", b"from the model"), (b"x-other", b"1"))))
    [seen] = listener.requests
    assert [value for name, value in seen.fields if name == "x-api-key"] == ["Bearer tops3cret"]
    assert seen.headers["x-other"] == "1"


@pytest.mark.requirement("D-08")
def test_a_credential_is_in_no_text_and_no_log(
    listen: Any, open_network: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    listener = listen()
    transport = open_network(credentials=credentials(listener.origin))
    transport.send(Request("GET", listener.origin))
    listener.close()
    answer = transport.send(Request("GET", f"{listener.origin}/?key=hidden"))
    for text in (repr(answer), repr(transport.network), repr(vars(transport.network)), caplog.text):
        assert "tops3cret" not in text
        assert "hidden" not in text


@pytest.mark.parametrize(
    "origin", ["example.com", "https://example.com/path", "https://user@example.com", "https://example.com?x"]
)
def test_credentials_for_an_invalid_origin_are_refused_at_once(origin: str) -> None:
    with pytest.raises(ValueError, match="origin") as error:
        RequestRules(limits=TransportLimits(), credentials=credentials(origin))
    assert "tops3cret" not in str(error.value)


@pytest.mark.requirement("D-11")
@pytest.mark.parametrize(
    ("name", "value"), [("x-key", "tops3cret\r\nx: y"), ("x key", "tops3cret"), ("x-key", "tops3cret\x00")]
)
def test_invalid_credential_header_is_refused_without_showing_it(name: str, value: str) -> None:
    with pytest.raises(ValueError, match="a credential for") as error:
        RequestRules(limits=TransportLimits(), credentials={"https://example.com": ((name, Secret(value)),)})
    assert "tops3cret" not in str(error.value)


def build_held_answer(
    release: threading.Event, started: threading.Event, whole: bytes
) -> Callable[[object], Iterable[bytes]]:
    def answer(_: object) -> Iterable[bytes]:
        started.set()
        release.wait(10)
        yield whole

    return answer


@pytest.mark.parametrize("new_loop", LOOPS)
def test_cancelled_request_closes_its_connection(
    listen: Any, encode_response: Any, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    started, release = threading.Event(), threading.Event()
    listener = listen(build_held_answer(release, started, encode_response() * 100_000))

    async def cancel() -> bool:
        task = asyncio.create_task(network.send(Request("GET", listener.origin)))
        await asyncio.to_thread(started.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        release.set()
        return await asyncio.to_thread(listener.hung_up.wait, 10)

    network = Network()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(cancel())
        runner.run(network.aclose())


def test_network_can_be_used_by_successive_event_loops(listen: Any, encode_response: Any) -> None:
    started, release = threading.Event(), threading.Event()
    slow, listener = listen(build_held_answer(release, started, encode_response())), listen()
    network = Network()

    async def leave() -> None:
        asyncio.get_running_loop().create_task(network.send(Request("GET", slow.origin)))
        await asyncio.to_thread(started.wait, 10)

    for new_loop in (*LOOPS, *LOOPS):
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(leave())
            assert runner.run(network.send(Request("GET", listener.origin))) == Response(
                200, ((b"content-length", b"2"),), b"{}"
            )
    release.set()
    asyncio.run(network.aclose())
    assert listener.connections == 4  # one for each loop
    assert listener.hung_up.wait(10)


def test_concurrent_calls_each_get_their_own_response(listen: Any, encode_response: Any) -> None:
    listener = listen(lambda seen: [encode_response(seen.body)])
    network = Network()

    async def all_at_once() -> list[Response | Problem]:
        requests = (Request("POST", listener.origin, (), str(number).encode()) for number in range(64))
        answers = await asyncio.gather(*(network.send(request) for request in requests))
        await network.aclose()
        return answers

    assert [answer.body for answer in asyncio.run(all_at_once()) if isinstance(answer, Response)] == [
        str(number).encode() for number in range(64)
    ]


def test_threads_can_share_a_sync_network(listen: Any, encode_response: Any) -> None:
    listener = listen(lambda seen: [encode_response(seen.body)])
    transport = SyncNetwork()
    with ThreadPoolExecutor(8) as pool:
        bodies = pool.map(
            lambda number: transport.send(Request("POST", listener.origin, (), b"%d" % number)).body, range(64)
        )
        assert list(bodies) == [b"%d" % number for number in range(64)]
    transport.close()


def test_gzip_response_is_decompressed(listen: Any, open_network: Any, encode_response: Any) -> None:
    body = b'{"tools": []}' * 500
    for coding in ("gzip", "GZIP", "x-gzip", "identity, gzip"):
        listener = listen(encode_response(gzip.compress(body), f"content-encoding: {coding}"))
        answer = open_network().send(Request("GET", listener.origin))
        assert answer.body == body
        assert answer.headers == ()


def encode_path(encode_response: Any) -> Callable[[Any], Iterable[bytes]]:
    """Answer with the path that was asked for; ``/fail`` with status 503."""

    def answer(seen: Any) -> Iterable[bytes]:
        path = seen.line.split()[1]
        return [encode_response(path.encode(), status="503 Failed" if path == "/fail" else "200 OK")]

    return answer


@pytest.mark.requirement("TE-02")
@pytest.mark.parametrize("rival", ["/second", "/fail"])
def test_request_that_comes_at_any_await_of_another_gets_its_own_response(
    listen: Any, encode_response: Any, rival: str
) -> None:
    listener = listen(encode_path(encode_response))

    async def story() -> None:
        network = Network(allow_http=[listener.origin])

        async def send_other() -> None:
            answer = await network.send(Request("GET", f"{listener.origin}{rival}"))
            assert isinstance(answer, Response)
            assert answer.body == rival.encode()

        def make() -> Any:
            return network.send(Request("GET", f"{listener.origin}/first")), send_other

        def check(answer: Response | Problem) -> None:
            assert isinstance(answer, Response)
            assert (answer.status, answer.body) == (200, b"/first")
            [pool] = network._pools.values()
            assert not pool._busy
            assert all(not connection.is_lost for connection in pool._idle)
            # Each run begins without connections, so that it waits for one.
            pool.drop(next(iter(pool._idle)).key)

        assert await interrupt_each_await(make, check) >= 2
        await network.aclose()

    asyncio.run(story())


@pytest.mark.requirement("TE-02")
def test_network_that_is_closed_at_any_await_of_a_request_leaves_no_connection(
    listen: Any, encode_response: Any
) -> None:
    listener = listen(encode_path(encode_response))
    failed = 0

    async def story() -> None:
        pools: list[Any] = []
        network = Network(allow_http=[listener.origin])

        async def close() -> None:
            pools.extend(network._pools.values())
            await network.aclose()

        def make() -> Any:
            return network.send(Request("GET", f"{listener.origin}/first")), close

        def check(answer: Response | Problem) -> None:
            nonlocal failed
            failed += isinstance(answer, Problem)
            assert isinstance(answer, Problem) or answer.body == b"/first"
            assert not any(pool._busy or pool._idle for pool in pools)

        assert await interrupt_each_await(make, check) >= 2
        answer = await network.send(Request("GET", f"{listener.origin}/again"))
        assert isinstance(answer, Response)
        await network.aclose()

    asyncio.run(story())
    assert failed >= 1, "a request was on its way when the network closed"
