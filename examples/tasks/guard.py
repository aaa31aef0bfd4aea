"""What holds for every answer of the product, errors too: where it may be shown, what it may load, who may ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

BODY_BYTES = 64 * 1024

_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = {
    b"content-security-policy": _POLICY.encode(),
    b"x-frame-options": b"DENY",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
}


def guarded(app: Callable[..., Any], url: str) -> Callable[..., Any]:
    """Return ``app`` for the host of ``url`` alone, with the headers that protect its pages. [D-23, D-24]"""
    host = urlsplit(url).netloc.encode()

    async def guard(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return

        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":
                said = {name.lower() for name, _ in message["headers"]}
                more = [field for field in _HEADERS.items() if field[0] not in said]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        fields = dict(scope["headers"])
        if fields.get(b"host") != host:
            await _answer(sent, 421, b"This server does not answer to that host name.")
        elif _length(fields.get(b"content-length", b"0")) > BODY_BYTES or b"transfer-encoding" in fields:
            await _answer(sent, 413, b"This is too much at once.")
        else:
            await app(scope, receive, sent)

    return guard


def _length(text: bytes) -> int:
    return int(text) if text.isdigit() and len(text) < 12 else BODY_BYTES + 1


async def _answer(send: Any, status: int, text: bytes) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(text)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text})
