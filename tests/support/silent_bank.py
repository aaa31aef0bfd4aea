"""A bank of another maker, by MCP and by OpenAPI, which says nothing of answers that cover later calls."""

from __future__ import annotations

import json
from typing import Any

from tests.support.listed_tools import ListedTools

POLICY = "toolwire/x-llm"


class SilentBank:
    """An ASGI application: MCP at ``/mcp``, a plain OpenAPI document at ``/openapi.json``, payments at ``/pay``.

    ``marks`` are added to the entry of the tool ``pay``, ``policy`` is its ``x-llm`` in the document.
    """

    def __init__(self, **marks: Any) -> None:
        number, text = {"type": "number"}, {"type": "string"}
        self.schema = {"type": "object", "properties": {"to": text, "amount": number}, "required": ["to", "amount"]}
        self.entry: dict[str, Any] = {
            "name": "pay",
            "description": "Pay somebody.",
            "inputSchema": self.schema,
            **marks,
        }
        self.policy: dict[str, Any] | None = None
        self.server = "/"
        self.has_document = True
        self.method = "post"
        self.paid: list[Any] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        if scope["path"] == "/mcp":
            listed = ListedTools(self.entry)
            await listed(scope, receive, send)
            self.paid += [arguments for _, arguments in listed.called]
        elif scope["path"] == "/openapi.json" and self.has_document:
            await _send(send, 200, self._write_document())
        elif scope["path"] == "/pay":
            self.paid.append(json.loads((await receive())["body"]))
            await _send(send, 200, "paid")
        else:
            await _send(send, 404, None)

    def _write_document(self) -> Any:
        media = {"application/json": {"schema": self.schema}}
        operation: dict[str, Any] = {
            "operationId": "pay",
            "requestBody": {"content": media, "required": True},
            "responses": {"200": {"description": "Paid.", "content": {"application/json": {"schema": {}}}}},
        }
        if self.policy is not None:
            operation["x-llm"] = self.policy
        info = {"title": "Bank", "version": "1"}
        return {
            "openapi": "3.1.0",
            "info": info,
            "servers": [{"url": self.server}],
            "paths": {"/pay": {self.method: operation}},
        }


async def _send(send: Any, status: int, data: Any) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": json.dumps(data).encode()})
