"""The same call, ``add(1, 2)``, in the words of each protocol."""

from __future__ import annotations

from typing import NamedTuple


class Call(NamedTuple):
    """A request: method, path, body, and header fields besides the content type.

    ``numbered``: the body holds a ``%d``, a number that is new in each request.
    """

    method: str
    path: str
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    numbered: bool = False


_MCP = (("accept", "application/json, text/event-stream"), ("mcp-protocol-version", "2025-06-18"))
_STATELESS = (
    ("accept", "application/json, text/event-stream"),
    ("mcp-protocol-version", "2026-07-28"),
    ("mcp-method", "tools/call"),
    ("mcp-name", "add"),
)
_STATELESS_META = (
    b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    b'"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},'
    b'"io.modelcontextprotocol/clientCapabilities":{}}'
)

_OTC = b'{"request":{"tool_id":"Calculator.add@1.0.0","input":{"a":1,"b":2}}}'
_RECORDED = b'{"request":{"call_id":"c%d","tool_id":"Calculator.add@1.0.0","input":{"a":1,"b":2}}}'

CALLS = {
    "opentool": Call("POST", "/opentool/call", b'{"jsonrpc":"2.0","method":"add","params":{"a":1,"b":2},"id":"c1"}'),
    "otc": Call("POST", "/call", _OTC),
    "otc recorded": Call("POST", "/call", _RECORDED, numbered=True),
    "oxp": Call("POST", "/tools/call", _OTC),
    "openapi": Call("GET", "/api/add?a=1&b=2"),
    "mcpo": Call("POST", "/add", b'{"a":1,"b":2}'),
    "mcp": Call(
        "POST",
        "/mcp",
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2}}}',
        _MCP,
    ),
    "mcp stateless": Call(
        "POST",
        "/mcp",
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2},"_meta":%b}}'
        % _STATELESS_META,
        _STATELESS,
    ),
    "list": Call("GET", "/tools"),
    "universal": Call(
        "POST", "/tools/call", b'{"$schema":"otc://1.0","request":{"tool_id":"add","input":{"a":1,"b":2}}}'
    ),
}

LISTS = (
    Call("POST", "/mcp", b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', _MCP),
    Call("GET", "/tools"),
    Call("GET", "/opentool/load"),
    Call("GET", "/openapi.json"),
)
"""The requests for the list of tools over each protocol."""
