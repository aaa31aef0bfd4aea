"""An MCP server of another maker as an ASGI application: it lists what a test says, and keeps what is called."""

import json
from typing import Any


class ListedTools:
    """Lists ``tools``, entries of ``tools/list`` that a test may change, and appends each call to ``called``."""

    def __init__(self, *tools: dict[str, Any]) -> None:
        self.tools = list(tools)
        self.called: list[tuple[str, Any]] = []
        self.answer = "rose"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request of the transport "Streamable HTTP", without a session."""
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        asked = json.loads(body) if scope["method"] == "POST" else {}
        result = self._answer(asked)
        status = 200 if result is not None else 202 if "method" in asked and "id" not in asked else 404
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": asked.get("id"), "result": result}
        if result == {}:
            reply = {**reply, "error": {"code": -32602, "message": "Unknown tool"}}
            del reply["result"]
        head = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": head})
        await send({"type": "http.response.body", "body": json.dumps(reply).encode() if result is not None else b""})

    def _answer(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        match asked.get("method"):
            case "initialize":
                info = {"name": "Listed", "version": "1"}
                return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                return {"tools": self.tools}
            case "tools/call":
                params = asked["params"]
                if all(one["name"] != params["name"] for one in self.tools):
                    return {}
                self.called.append((params["name"], params.get("arguments") or {}))
                return {"content": [{"type": "text", "text": self.answer}]}
            case _:
                return None


def list_tool(name: str, *, about: str = "", names: tuple[str, ...] = (), **annotations: bool) -> dict[str, Any]:
    """Return an entry of ``tools/list`` that takes texts by ``names``, with ``annotations`` if there are any."""
    schema = {"type": "object", "properties": {one: {"type": "string"} for one in names}}
    entry: dict[str, Any] = {"name": name, "description": about or f"{name} it.", "inputSchema": schema}
    return {**entry, "annotations": annotations} if annotations else entry
