"""What a connection says when it does not let a request through to the application."""

from __future__ import annotations

import orjson

from toolwire.core.model import Kind

from .exchange import Receive, Scope, Send


class RefusalApp:
    """An ASGI app that refuses every request alike and closes the connection."""

    serve = None

    def __init__(self, status: int, kind: Kind, message: str) -> None:
        self._status = status
        self._body = refusal(kind, message)

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Refuse one request."""
        await send({"type": "http.response.start", "status": self._status, "headers": closing(self._body)})
        await send({"type": "http.response.body", "body": self._body})


def refusal(kind: Kind, message: str) -> bytes:
    """Return the body of a refusal."""
    return orjson.dumps({"error": kind, "message": message})


def closing(body: bytes) -> list[tuple[bytes, bytes]]:
    """Return the fields of an answer of ``body`` that is the connection's last."""
    return [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
    ]
