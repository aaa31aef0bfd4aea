"""A bare ASGI app that can be asked to stop: what a connection is tested with when no tool matters."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from typing import Any

LARGE = 16 << 20


class Echo:
    """Echoes path and body; ``/early`` does not read, ``/flood`` and ``/large`` say much, ``/sleep/S`` takes S s."""

    def __init__(self) -> None:
        self.active_calls = 0
        self.draining = False
        self.flood_ended = threading.Event()

    def drain(self) -> None:
        self.draining = True

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        match scope["path"]:
            case "/early":
                await answer(send, 413, b"{}")
            case "/flood":
                await self._flood(send)
            case "/large":
                await answer(send, 200, bytes(LARGE))
            case "/pid":
                await answer(send, 200, b"%d" % os.getpid())
            case "/health":
                await answer(send, 503 if self.draining else 200, b"{}")
            case path if path.startswith("/sleep/"):
                await self._sleep(float(path.removeprefix("/sleep/")), send)
            case path:
                body = await whole(receive)
                await answer(send, 200, json.dumps({"path": path, "body": body.decode("latin-1")}).encode())

    async def _sleep(self, seconds: float, send: Any) -> None:
        self.active_calls += 1
        try:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"7")]})
            await asyncio.sleep(seconds)
            await send({"type": "http.response.body", "body": b'"slept"'})
        finally:
            self.active_calls -= 1

    async def _flood(self, send: Any) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(1024):
                await send({"type": "http.response.body", "body": bytes(65_536), "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            self.flood_ended.set()


async def whole(receive: Any) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


async def answer(send: Any, status: int, body: bytes) -> None:
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [length]})
    await send({"type": "http.response.body", "body": body})
