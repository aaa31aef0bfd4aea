"""The two ends of one ASGI exchange: the body in, within its limits, and the response out."""

from __future__ import annotations

from collections.abc import Mapping

from toolwire.core.http import Response, get_header
from toolwire.core.model import Kind, Problem
from toolwire.server.deadline_scheduler import DeadlineExceeded, DeadlineScheduler
from toolwire.server.limits import ServerLimits

from .exchange import CLOSE, Exchange, Receive, Scope, Send


async def send_response(scope: Scope, exchange: Exchange, response: Response) -> None:
    """Send ``response`` whole; to HEAD, without its body."""
    if not exchange.try_send_response(response):
        await send_messages(scope, exchange.send, response)


async def send_messages(scope: Scope, send: Send, response: Response) -> None:
    """Send ``response`` in the messages of ASGI; 408, of a request that came too slowly, ends its connection. [R9]"""
    status, headers, body = response
    if status == 408 and scope.get("http_version", "1.1").startswith("1"):
        headers = (*headers, CLOSE)
    if status != 304:  # which would have to give the length of what it does not send
        headers = (*headers, (b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def take_limited_body(
    exchange: Exchange, fields: Mapping[bytes, bytes], limits: ServerLimits
) -> bytes | Problem | None:
    """Return the request's body where it is there already, or the Problem that it is too large; else None. [D-34]"""
    whole = exchange.take_body()
    if whole is not None:
        return whole if len(whole) <= limits.body_bytes else _build_too_large(limits)
    length = fields.get(b"content-length")
    too_large = length is not None and length.isdigit() and int(length[:20]) > limits.body_bytes
    return _build_too_large(limits) if too_large else None


async def read_body(
    exchange: Exchange, fields: Mapping[bytes, bytes], limits: ServerLimits, scheduler: DeadlineScheduler
) -> bytes | Problem:
    """Return the request's body, or the Problem that it is too large or too slow. [D-34, R10]"""
    whole = take_limited_body(exchange, fields, limits)
    return await receive_body(exchange.receive, limits, scheduler) if whole is None else whole


async def receive_body(receive: Receive, limits: ServerLimits, scheduler: DeadlineScheduler) -> bytes | Problem:
    """Return the request's body as it comes, or the Problem that it is too large or too slow. [D-34, R10]"""
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
        return Problem(kind=Kind.MALFORMED, message="The body ended before it was whole.")
    return body if len(body) <= limits.body_bytes else _build_too_large(limits)


def split_mount_path(root: str, path: str) -> tuple[str, str]:
    """Return where the application is mounted, without a last slash, and the path below it."""
    root = root.rstrip("/")
    return root, (path[len(root) :] or "/") if path.startswith(root) else path


def apply_if_none_match(response: Response, fields: Mapping[bytes, bytes]) -> Response:
    """Return 304 in place of ``response`` where the client has it already, by its entity tag."""
    given = fields.get(b"if-none-match")
    if not given or response.status != 200:
        return response
    wanted = given.decode("latin-1")
    etag = get_header(response.headers, b"etag")
    known = [tag.strip().removeprefix("W/") for tag in wanted.split(",")]
    if not etag or (wanted != "*" and etag not in known):
        return response
    return Response(304, [field for field in response.headers if field[0] != b"content-type"])


async def close_websocket(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer what is neither HTTP nor the lifespan: close websockets."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1000})


def _build_too_large(limits: ServerLimits) -> Problem:
    return Problem(kind=Kind.TOO_LARGE, message=f"The body is larger than {limits.body_bytes:,} bytes.")
