"""A server that asks its caller's user, with a form or a page."""

from __future__ import annotations

import json
from typing import Any

FORM = {"type": "object", "properties": {"size": {"type": "integer"}}}

TOOLS = [
    {"name": "go", "inputSchema": {"type": "object"}},
    {
        "name": "other",
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
        "_meta": {"toolwire/x-llm": {"approval": "auto"}},
    },
]


def form(schema: Any = FORM, message: str = "How large?") -> dict[str, Any]:
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def page(url: str) -> dict[str, Any]:
    return {"method": "elicitation/create", "params": {"mode": "url", "message": "Open this.", "url": url}}


class Server:
    """A server of 2026-07-28 that asks ``asked`` before its result, and what its calls brought.

    None in the place of a question is the result.
    """

    def __init__(self, *asked: dict[str, Any] | None, endless: bool = False, state: Any = "state") -> None:
        self.asked, self.endless, self.state = list(asked), endless, state
        self.calls: list[dict[str, Any]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            part = await receive()
            body, more = body + part.get("body", b""), part.get("more_body", False)
        status, answer = (405, {}) if scope["method"] != "POST" else (200, self.answer(json.loads(body)))
        headers = [(b"content-type", b"application/json"), (b"allow", b"POST")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        method, params = message["method"], message["params"]
        result: dict[str, Any] = {"resultType": "complete"}
        if method == "server/discover":
            result |= {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        elif method == "tools/list":
            result |= {"tools": TOOLS}
        else:
            self.calls.append(params)
            number = 0 if self.endless else len(self.calls) - 1
            if number < len(self.asked) and self.asked[number] is not None:
                result = {"resultType": "input_required", "inputRequests": self.asked[number]}
                result |= {} if self.state is None else {"requestState": self.state}
            else:
                result |= {"content": [{"type": "text", "text": json.dumps(params.get("inputResponses"))}]}
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}
