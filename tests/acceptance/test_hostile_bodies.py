"""Bodies that no reader should take, sent by hand to a running server, on each path that takes one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from toolwire import ServerLimits, Toolkit, asgi
from toolwire.testing.loopback import background

PATHS = {
    "/api/add": '{"a": 1, "b": %s}',
    "/opentool/call": '{"jsonrpc": "2.0", "id": "1", "method": "add", "params": {"a": 1, "b": %s}}',
    "/call": '{"request": {"tool_id": "Raw.add", "input": {"a": 1, "b": %s}}}',
    "/tools/call": '{"request": {"tool_id": "Raw.add", "input": {"a": 1, "b": %s}}}',
    "/mcp": '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add", "arguments": '
    '{"a": 1, "b": %s}}}',
}
VALUES: dict[str, tuple[str | bytes, set[int]]] = {
    "NaN": ("NaN", {400}),
    "Infinity": ("-Infinity", {400}),
    "bad UTF-8": (b'"\xff\xfe"', {400}),
    "a lone surrogate": ('"\\ud800"', {400, 422}),
    "300 deep": ("[" * 300 + "]" * 300, {400}),
    "100,000 deep": ("[" * 100_000, {400, 413}),
    "too large": ('"' + "x" * 200_000 + '"', {413}),
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    toolkit = Toolkit("Raw", version="1.2.3")

    @toolkit.tool(approval="per-call")
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    with background(asgi(toolkit, limits=ServerLimits(body_bytes=150_000))) as base:
        yield base


@pytest.mark.requirement("S-16", "D-16")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", VALUES)
def test_a_hostile_body_is_refused_in_json_and_never_a_5xx(url: str, path: str, name: str) -> None:
    value, expected = VALUES[name]
    before, after = PATHS[path].split("%s")
    body = before.encode() + (value if isinstance(value, bytes) else value.encode()) + after.encode()
    connection = HTTPConnection(urlsplit(url).netloc, timeout=30)
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    assert answer.status in expected, text
    assert isinstance(json.loads(text), dict)
    assert b"Traceback" not in text
