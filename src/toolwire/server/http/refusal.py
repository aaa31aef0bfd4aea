"""Build the response to a request that a connection does not pass to the application."""

from __future__ import annotations

import orjson

from toolwire.core.model import Kind

from .exchange import CLOSE, Receive, Scope, Send


class RefusalApp:
    """An ASGI application that answers every request with the same error and closes the connection."""

    # A connection asks each application for this; None means that it takes ASGI messages.
    serve = None

    def __init__(self, status: int, kind: Kind, message: str) -> None:
        """Answer with ``status`` and a JSON body of ``kind`` and ``message``."""
        self._status = status
        self._body = build_refusal_body(kind, message)

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Refuse one request."""
        headers = build_closing_headers(self._body)
        await send({"type": "http.response.start", "status": self._status, "headers": headers})
        await send({"type": "http.response.body", "body": self._body})


def build_refusal_body(kind: Kind, message: str) -> bytes:
    """Return the JSON body of a refusal."""
    return orjson.dumps({"error": kind, "message": message})


def build_closing_headers(body: bytes) -> list[tuple[bytes, bytes]]:
    """Return the header fields of a response with the JSON ``body`` that is the last of its connection."""
    return [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        CLOSE,
    ]
