"""A server that refuses calls with a status, as a proxy before it can."""

from __future__ import annotations

from typing import Any


class RefusingServer:
    """A server in front of ``app`` that answers each POST with ``status``, if that is set."""

    def __init__(self, app: Any) -> None:
        self.app, self.status = app, 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if not self.status or scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body"})
