"""A whole server tells its spans, metrics and log what came, from where, and what its ledger made of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.support.wire import HERE, AppTransport
from toolwire import Toolkit, asgi
from toolwire.core.http import JSON_HEADERS, Request

from .sdk import Sdk, attributes


@pytest.mark.parametrize("path", ["/mcp", "/tools/call"])
def test_server_span_records_protocol_and_ledger_outcome(path: str) -> None:
    sdk = Sdk()
    kit = Toolkit("Calc", version="2.1.0")

    @kit.tool(approval="auto", safe=False)
    def add(a: int) -> int:
        """Add one."""
        return a + 1

    messages: dict[str, dict[str, Any]] = {
        "/mcp": {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1}}},
        "/tools/call": {"request": {"tool_id": "Calc.add", "call_id": "c1", "input": {"a": 1}}},
    }

    async def story() -> None:
        transport = AppTransport(asgi(kit, telemetry=sdk.telemetry))
        headers = (*JSON_HEADERS, (b"idempotency-key", b"c1"))
        for _ in range(2):
            answer = await transport.send(Request("POST", HERE + path, headers, json.dumps(messages[path]).encode()))
            assert answer.status == 200

    asyncio.run(story())
    first, second = (attributes(span) for span in sdk.spans.get_finished_spans())
    assert (first["toolwire.idempotency"], first["toolwire.attempt"]) == ("new", 1)
    assert second["toolwire.idempotency"] == "replay"
    assert first["network.protocol.name"] == "http"
    assert first.get("jsonrpc.request.id") == ("7" if path == "/mcp" else None)
    points = sdk.points("toolwire.ledger_op")
    assert {each.attributes["op"]: each.count for each in points} == {"claim": 2, "settle": 1}
