"""The server by itself: where it listens, how it begins and ends, and who may stop it."""

from __future__ import annotations

import logging
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from toolwire.core.errors import DefinitionError, ToolwireError
from toolwire.opentool import (
    FunctionCall,
    OpenToolServer,
    OpenToolServerNoAccessException,
    SyncOpenToolClient,
)

from .conftest import DOCUMENT, QUICK, Notes, Serve
from .foreign_clients import ask


def test_stopped_server_is_unreachable_and_can_start_again() -> None:
    server = OpenToolServer(Notes(), port=0, deadlines=QUICK)
    for _ in range(2):
        with server.start(), SyncOpenToolClient(server.url) as client:
            assert client.call(FunctionCall("1", "count")).result == {"count": 0}
        with SyncOpenToolClient(server.url) as client, pytest.raises(OpenToolServerNoAccessException):
            client.version()
    server.stop()


def test_running_server_cannot_start_again(serve: Serve) -> None:
    with pytest.raises(ToolwireError, match="This server has already been started"):
        serve(Notes()).start()


def test_used_port_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = OpenToolServer(Notes(), port=taken.getsockname()[1])
        with pytest.raises(DefinitionError, match="Cannot listen on"):
            server.start()


def test_an_init_that_fails_fails_the_start() -> None:
    class Broken(Notes):
        def init(self) -> None:
            raise OSError("no disk")

    server = OpenToolServer(Broken(), port=0, deadlines=QUICK)
    with pytest.raises(ToolwireError, match=r"The tool's init\(\) failed: OSError: no disk"):
        server.start()
    with SyncOpenToolClient(server.url) as client, pytest.raises(OpenToolServerNoAccessException):
        client.version()


def test_failing_dispose_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Notes):
        def dispose(self) -> None:
            raise OSError("no disk")

    with caplog.at_level(logging.ERROR, "toolwire"), OpenToolServer(Broken(), port=0, deadlines=QUICK):
        pass
    assert "no disk" in caplog.text


def test_call_running_at_stop_still_gets_its_answer(serve: Serve) -> None:
    running, go = threading.Event(), threading.Event()

    class Slow(Notes):
        def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            running.set()
            assert go.wait(10)
            return {"done": True}

    server = serve(Slow())
    with SyncOpenToolClient(server.url) as client, ThreadPoolExecutor(2) as threads:
        answer = threads.submit(client.call, FunctionCall("1", "slow"))
        assert running.wait(10)
        stopped = threads.submit(server.stop)
        go.set()
        assert answer.result(10).result == {"done": True}
        stopped.result(10)


@pytest.mark.requirement("S-8")
def test_server_also_speaks_the_other_protocols(serve: Serve) -> None:
    server = serve(Notes(DOCUMENT))
    assert ask(server.url, "GET", "/health").json["status"] == "OK"
    body = b'{"request":{"tool_id":"Notes.create","call_id":"1","input":{"text":"a"}}}'
    answer = ask(server.url, "POST", "/tools/call", body, content_type="application/json")
    assert answer.json["result"]["value"] == 1


def stop(url: str, **headers: str) -> Any:
    return ask(url, "POST", "/opentool/stop", b"", **headers)


@pytest.mark.requirement("S-17", "A-28")
def test_only_the_admin_key_stops_the_server(serve: Serve) -> None:
    server = serve(Notes(), api_keys=["K1"], admin_key="A1")
    for headers in ({}, {"authorization": "Bearer K1"}, {"authorization": "Bearer A2"}):
        assert stop(server.url, **headers).status == 401
    assert ask(server.url, "GET", "/opentool/version", authorization="Bearer A1").status == 401
    answer = stop(server.url, authorization="Bearer A1")
    assert (answer.status, answer.body) == (200, b'{"status":"stopped"}')
    server.stop()
    with SyncOpenToolClient(server.url) as client, pytest.raises(OpenToolServerNoAccessException):
        client.version()


@pytest.mark.requirement("S-17", "A-28")
def test_stop_route_is_absent_without_an_admin_key(serve: Serve) -> None:
    server = serve(Notes(), api_keys=["K1"])
    assert stop(server.url, authorization="Bearer K1").status == 404
    assert ask(server.url, "GET", "/opentool/version", authorization="Bearer K1").status == 200


def test_server_url_is_its_listening_address(serve: Serve) -> None:
    server = serve(Notes())
    assert server.url.startswith("http://127.0.0.1:")
