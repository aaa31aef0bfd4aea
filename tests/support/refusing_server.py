"""A server that does its work and then says that it refused it, as a hostile one or a proxy behind it can."""

from __future__ import annotations

from typing import Any


class RefusingServer:
    """A server in front of ``app`` that answers each POST with ``status``, if that is set, after ``app`` ran it."""

    def __init__(self, app: Any) -> None:
        self.app, self.status = app, 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if not self.status or scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return

        async def drop(_message: Any) -> None:
            """Nobody learns what happened."""

        await self.app(scope, receive, drop)
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body"})
