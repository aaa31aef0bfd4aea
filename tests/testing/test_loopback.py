"""A server in a thread: it is there while the block runs, and nothing of it is left behind."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from typing import Any

import pytest

from toolwire.testing.loopback import background


class Hello:
    """The smallest app there is."""

    active_calls = 0

    def drain(self) -> None:
        """Nothing to refuse."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
        await send({"type": "http.response.body", "body": b"hello"})


class Broken:
    """An app that fails as soon as it is looked at: uvicorn calls it with nothing, to see whether it is a factory."""

    active_calls = 0

    def drain(self) -> None:
        """Nothing to refuse."""

    def __call__(self, *_: Any) -> Any:
        raise LookupError("no app here")


def read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as response:
        body: bytes = response.read()
    return body


def test_an_app_is_served_on_a_free_port_while_the_block_runs() -> None:
    with background(Hello()) as one, background(Hello()) as two:
        assert one != two
        assert one.startswith("http://127.0.0.1:")
        assert read(one) == read(two + "/any/path") == b"hello"


def test_block_end_leaves_no_thread_or_server() -> None:
    before = set(threading.enumerate())
    with background(Hello()) as url:
        read(url)
    assert set(threading.enumerate()) <= before, "threads of other tests may end meanwhile"
    with pytest.raises(urllib.error.URLError):
        read(url)


def test_the_same_app_can_be_served_again() -> None:
    app = Hello()
    for _ in range(2):
        with background(app) as url:
            assert read(url) == b"hello"


def test_a_failing_block_stops_the_server_as_well() -> None:
    before = set(threading.enumerate())
    with pytest.raises(LookupError, match="in the block"), background(Hello()):
        raise LookupError("in the block")
    assert set(threading.enumerate()) <= before


def test_server_that_cannot_start_raises_at_the_block_end() -> None:
    failing = pytest.raises(RuntimeError, match="the loopback server failed")
    with failing, background(Broken()) as url, pytest.raises(OSError, match=r".*"):
        read(url)
