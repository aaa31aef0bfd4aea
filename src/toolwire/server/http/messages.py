"""Read a request body within its limits, and send a response."""

from __future__ import annotations

from collections.abc import Mapping

from toolwire.core.http import Response, get_header
from toolwire.core.model import Kind, Problem
from toolwire.server.deadline_scheduler import DeadlineExceeded, DeadlineScheduler
from toolwire.server.limits import ServerLimits

from .exchange import CLOSE, Exchange, Receive, Scope, Send


async def send_response(scope: Scope, exchange: Exchange, response: Response) -> None:
    """Send ``response``; without its body if the request is a HEAD."""
    if not exchange.try_send_response(response):
        await send_messages(scope, exchange.send, response)


async def send_messages(scope: Scope, send: Send, response: Response) -> None:
    """Send ``response`` as ASGI messages. The connection closes after a 408 (request timeout)."""
    status, _, body = response
    # CR-01: middleware of applications adds fields to this very list, such as GZipMiddleware of Starlette.
    headers = list(response.headers)
    # R9: the rest of a slow request would be read as the next request. HTTP/2 has no such field.
    if status == 408 and scope.get("http_version", "1.1").startswith("1"):
        headers.append(CLOSE)
    if status != 304:  # its content-length would be that of the body which the client has already
        headers.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def take_limited_body(
    exchange: Exchange, fields: Mapping[bytes, bytes], limits: ServerLimits
) -> bytes | Problem | None:
    """Return the body if all of it has arrived, a Problem if it is too large, else None: it must be received."""
    body = exchange.take_body()
    if body is not None:
        return body if len(body) <= limits.body_bytes else _build_too_large(limits)
    # D-34: a body that announces too many bytes is refused before any of them is kept.
    length = fields.get(b"content-length")
    # Twenty digits are enough to be too large, and int() of a very long text takes long.
    too_large = length is not None and length.isdigit() and int(length[:20]) > limits.body_bytes
    return _build_too_large(limits) if too_large else None


async def read_body(
    exchange: Exchange, fields: Mapping[bytes, bytes], limits: ServerLimits, scheduler: DeadlineScheduler
) -> bytes | Problem:
    """Return the whole body, or a Problem if it is too large or too slow."""
    body = take_limited_body(exchange, fields, limits)
    return await receive_body(exchange.receive, limits, scheduler) if body is None else body


async def receive_body(receive: Receive, limits: ServerLimits, scheduler: DeadlineScheduler) -> bytes | Problem:
    """Receive the whole body; return a Problem if it is larger than ``body_bytes`` or takes longer than ``body_s``."""
    # D-34, R10: one client must not keep memory or a connection for as long as it likes.
    try:
        return await scheduler.run_within(_receive_parts(receive, limits), limits.body_s)
    except DeadlineExceeded:
        text = f"The body did not arrive within {limits.body_s:g} seconds."
        return Problem(kind=Kind.TOO_SLOW, message=text)


async def _receive_parts(receive: Receive, limits: ServerLimits) -> bytes | Problem:
    message = await receive()
    body: bytes = message.get("body", b"")
    if message.get("more_body"):
        chunks = [body]
        size = len(body)
        while message.get("more_body") and size <= limits.body_bytes:
            message = await receive()
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
        body = b"".join(chunks)
    if message["type"] == "http.disconnect":
        return Problem(kind=Kind.MALFORMED, message="The body ended before it was complete.")
    return body if len(body) <= limits.body_bytes else _build_too_large(limits)


def split_mount_path(root: str, path: str) -> tuple[str, str]:
    """Return the path where the application is mounted, without a slash at its end, and the path below it."""
    root = root.rstrip("/")
    return root, (path[len(root) :] or "/") if path.startswith(root) else path


def apply_if_none_match(response: Response, fields: Mapping[bytes, bytes]) -> Response:
    """Return a 304 response if ``if-none-match`` has the entity tag of ``response``, else ``response``."""
    given = fields.get(b"if-none-match")
    if not given or response.status != 200:
        return response
    tags = given.decode("latin-1")
    etag = get_header(response.headers, b"etag")
    known = [tag.strip().removeprefix("W/") for tag in tags.split(",")]  # RFC 9110 13.1.2: the comparison is weak
    if not etag or (tags != "*" and etag not in known):
        return response
    return Response(304, [field for field in response.headers if field[0] != b"content-type"])


async def close_websocket(scope: Scope, receive: Receive, send: Send) -> None:
    """Close a WebSocket; ignore any other scope that is neither HTTP nor the lifespan."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1000})


def _build_too_large(limits: ServerLimits) -> Problem:
    return Problem(kind=Kind.TOO_LARGE, message=f"The body is larger than {limits.body_bytes:,} bytes.")
