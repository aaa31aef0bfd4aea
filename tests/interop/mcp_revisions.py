"""A server of the MCP SDK as one that knows the older revisions only."""

from __future__ import annotations

from typing import Any


def of_2025(app: Any) -> Any:
    """Return ``app`` as a server that does not know the revision of 2026-07-28, which begins with server/discover."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await app(scope, receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        given = [{"type": "http.request", "body": body}]

        async def again() -> Any:
            return given.pop() if given else await receive()

        if b"server/discover" not in body:
            await app(scope, again, send)
            return
        refusal = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}'
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": refusal})

    return answer
