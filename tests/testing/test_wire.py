"""The wire with no network."""

import asyncio
from typing import Any

import pytest

from tests.support.conformance import build_kit
from tests.support.wire import HERE, AppTransport, CannedTransport, SyncAppTransport, build_scope
from toolwire import asgi
from toolwire.core.http import Request, Response
from toolwire.core.model import Kind, Problem

STREAM = Request(
    "POST",
    f"{HERE}/opentool/streamCall",
    ((b"content-type", b"application/json"),),
    b'{"jsonrpc":"2.0","method":"count","params":{"to":3},"id":1}',
)
STOP = Problem(kind=Kind.BAD_ANSWER, message="Enough.")


def test_both_app_transports_return_and_record_the_response() -> None:
    request = Request("GET", f"{HERE}/health")
    transport, sync_door = AppTransport(asgi(build_kit())), SyncAppTransport(asgi(build_kit()))
    response = asyncio.run(transport.send(request))
    assert response.status == 200
    assert sync_door.send(request) == response
    sync_door.close()
    assert transport.exchanges == sync_door.exchanges == [(request, response)]
    asyncio.run(transport.aclose())


def test_stream_is_received_live_and_its_body_not_repeated() -> None:
    transport = SyncAppTransport(asgi(build_kit()))
    pieces: list[bytes] = []
    response = transport.listen(STREAM, pieces.append)
    assert isinstance(response, Response)
    assert (response.status, response.body) == (200, b"")
    assert len(pieces) > 3
    assert transport.exchanges[0].response.body == b"".join(pieces)
    assert transport.listen(STREAM, lambda _: STOP) is STOP
    transport.close()


def test_response_that_is_no_stream_is_returned_whole() -> None:
    transport = SyncAppTransport(asgi(build_kit()))
    response = transport.listen(Request("GET", f"{HERE}/health"), lambda _: STOP)
    assert isinstance(response, Response)
    assert response.body
    transport.close()


def test_exception_of_an_application_is_raised() -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise LookupError("inside")

    async def silent(scope: Any, receive: Any, send: Any) -> None:
        """Answer nothing."""

    for app, kind in ((broken, LookupError), (silent, RuntimeError)):
        with pytest.raises(ExceptionGroup) as raised:
            asyncio.run(AppTransport(app).send(Request("GET", HERE)))
        assert raised.group_contains(kind)


def test_a_scope_is_that_of_a_server_on_loopback() -> None:
    made = build_scope(Request("GET", f"{HERE}/caf%C3%A9?a=%20", ((b"x", b"1"),)))
    assert (made["path"], made["raw_path"], made["query_string"]) == ("/café", b"/caf%C3%A9", b"a=%20")
    assert made["headers"] == [(b"host", b"127.0.0.1:9627"), (b"x", b"1")]
    assert build_scope(Request("GET", HERE, ((b"host", b"other"),)))["headers"] == [(b"host", b"other")]


def test_canned_transport_limits_its_requests() -> None:
    transport = CannedTransport(lambda _: STOP, most=2)
    assert transport.send(STREAM) is transport.listen(STREAM, lambda _: None) is STOP
    assert transport.sent == [STREAM, STREAM]
    with pytest.raises(RuntimeError, match="more than 2 requests"):
        transport.send(STREAM)
    transport.close()


def test_canned_stream_is_received_in_chunks() -> None:
    stream = Response(200, ((b"content-type", b"text/event-stream"),), b"event:a\ndata:b\n\n")
    pieces: list[bytes] = []
    assert CannedTransport(lambda _: stream).listen(STREAM, pieces.append) == stream._replace(body=b"")
    assert b"".join(pieces) == stream.body
    assert CannedTransport(lambda _: stream).listen(STREAM, lambda _: STOP) is STOP
