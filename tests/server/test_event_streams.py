"""Streams of events say to proxies that they must not be held back."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from toolwire import Toolkit, asgi
from toolwire.testing import background

CALL = {"jsonrpc": "2.0", "id": "1", "method": "count", "params": {}}
PARAMS = {"name": "count", "arguments": {}, "_meta": {"progressToken": "p"}}
MCP = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": PARAMS}


@pytest.mark.requirement("I-32")
@pytest.mark.parametrize(
    ("path", "body", "fields"),
    [
        ("/opentool/streamCall", CALL, {}),
        ("/mcp", MCP, {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}),
    ],
)
def test_a_stream_of_events_is_not_kept_by_a_proxy(path: str, body: Any, fields: dict[str, str]) -> None:
    kit = Toolkit("Desk")

    @kit.tool(approval="auto", safe=True)
    def count() -> Iterator[str]:
        yield from ("one", "two")

    with background(asgi(kit)) as url:
        request = urllib.request.Request(
            url + path, json.dumps(body).encode(), {"content-type": "application/json", **fields}
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            assert response.headers["content-type"] == "text/event-stream"
            assert response.headers["x-accel-buffering"] == "no"
            assert response.headers["cache-control"] == "no-store"
            assert b"two" in response.read()
