"""One call, said in each protocol: the requests that loads and mutations start from."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from .peer import message


def opentool(tool: str, arguments: dict[str, Any]) -> bytes:
    return _post("/opentool/call", {"jsonrpc": "2.0", "id": "1", "method": tool, "params": arguments})


def rfc(tool: str, arguments: dict[str, Any]) -> bytes:
    return _post("/call", {"request": {"tool_id": f"Work.{tool}@1.0.0", "inputs": arguments}})


def oxp(tool: str, arguments: dict[str, Any]) -> bytes:
    return _post("/tools/call", {"request": {"tool_id": f"Work.{tool}", "input": arguments}})


def openapi(tool: str, arguments: dict[str, Any]) -> bytes:
    return message("GET", f"/api/{tool}?{urlencode(arguments)}")


def mcp(tool: str, arguments: dict[str, Any]) -> bytes:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    fields = (b"accept: application/json, text/event-stream", b"mcp-protocol-version: 2025-11-25")
    return _post("/mcp", call, *fields)


PATHS = ("/opentool/call", "/call", "/tools/call", "/uts/tools/call", "/mcp")
"""Every path that takes a body."""


def write_recorded_call(key: str, tool: str, arguments: dict[str, Any]) -> bytes:
    """Return a call that the ledger records under ``key``."""
    return _post("/call", {"request": {"tool_id": f"Work.{tool}@1.0.0", "call_id": key, "inputs": arguments}})


CALLS: dict[str, Callable[[str, dict[str, Any]], bytes]] = {
    "opentool": opentool,
    "rfc": rfc,
    "oxp": oxp,
    "openapi": openapi,
    "mcp": mcp,
}


def _post(path: str, data: Any, *fields: bytes) -> bytes:
    return message("POST", path, json.dumps(data).encode(), *fields)
