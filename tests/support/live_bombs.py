"""A site whose tools are bombs, on each protocol."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

from tests.support.document_bombs import mcp, openapi, opentool, otc

TOOLS: Final = 6


def many_operations(schema: dict[str, Any], count: int = TOOLS) -> dict[str, Any]:
    """Return a document whose operations share one page of definitions."""
    document = openapi(schema)
    operation = document["paths"]["/a"]["post"]
    document["paths"] = {f"/a{n}": {"post": {**operation, "operationId": f"op{n}"}} for n in range(count)}
    return document


def many_functions(schema: dict[str, Any]) -> dict[str, Any]:
    document = opentool(schema)
    document["functions"] = [{**document["functions"][0], "name": f"op{n}"} for n in range(TOOLS)]
    return document


def many_items(schema: dict[str, Any]) -> dict[str, Any]:
    (item,) = otc(schema)["items"]
    items = [{**item, "id": f"T.op{n}@1.0.0", "name": f"op{n}"} for n in range(TOOLS)]
    return {"items": items, "tools": items}


class BombSite:
    """A site of one wire, every tool of which has the same bomb in its input and its output."""

    def __init__(
        self, wire: str, schema: dict[str, Any], listen: Callable[..., Any], said: Callable[..., bytes]
    ) -> None:
        self._said = said
        (tool,) = mcp(schema)["tools"]
        self._tools = [{**tool, "name": f"op{n}"} for n in range(TOOLS)]
        self._documents: dict[str, Any] = {
            "openapi": {"/openapi.json": many_operations(schema)},
            "opentool": {"/opentool/version": {"version": "1.0.0"}, "/opentool/load": many_functions(schema)},
            "otc": {"/tools": many_items(schema)},
            "mcp": {},
        }[wire]
        self._wire = wire
        self.origin: str = listen(self._answer).origin
        self.url = self.origin + {"openapi": "/openapi.json"}.get(wire, "")

    def _answer(self, seen: Any) -> Iterator[bytes]:
        method, path, _ = seen.line.split(" ")
        body: Any = self._documents.get(path.partition("?")[0]) if method == "GET" else None
        if method == "POST" and self._wire == "mcp" and path == "/mcp":
            body = self._say_mcp(json.loads(seen.body))
        elif method == "POST" and path.startswith("/model"):
            message = {"role": "assistant", "content": "Hello."}
            body = {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
            body["choices"] = [{"index": 0, "finish_reason": "stop", "message": message}]
        fields = ("content-type: application/json", "cache-control: no-store")
        yield self._said(json.dumps(body).encode(), *fields, status="404 X" if body is None else "200 X")

    def _say_mcp(self, asked: Any) -> Any:
        match asked.get("method"):
            case "initialize":
                info = {"name": "T", "version": "1"}
                result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                result = {"tools": self._tools}
            case _:
                result = {}
        return {"jsonrpc": "2.0", "id": asked.get("id"), "result": result}
