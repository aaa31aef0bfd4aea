"""Our own ASGI application: one look in a table by method and path, no framework, nothing between.

Rules:
- Every path of every protocol is in one table, built once for a catalog.
- Whatever arrives is answered in the words of the protocol whose path it is; never a traceback.
- Host and Origin, the API key and the size of the body are looked at before any reader runs. [D-24]
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple, TypeAlias

import anyio

from toolwire.core.codec import Pending, Reader, Site, Streaming
from toolwire.core.http import JSON, STATUS, Headers, Request, Response, header
from toolwire.core.model import AFTER_START, ANONYMOUS, Call, Context, Kind, Problem, Progress, Result
from toolwire.core.toolbox import Toolbox
from toolwire.define.toolkit import Toolkit
from toolwire.framing import jsontext
from toolwire.protocols import BUILTIN
from toolwire.validation import arguments_check

from .functions import FunctionBox
from .guard import Guard, Keys
from .limits import Limits
from .page import page
from .service import Service
from .watch import Watch

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Refuse: TypeAlias = Callable[[Problem], Response]

_log = logging.getLogger("toolwire")


class _Entry(NamedTuple):
    read: Reader
    open: bool
    refuse: Refuse


def asgi(
    target: Toolkit | Toolbox,
    *,
    api_keys: Iterable[str] = (),
    hosts: Iterable[str] = (),
    origins: Iterable[str] = (),
    limits: Limits | None = None,
) -> App:
    """Return an ASGI application that serves ``target`` on every protocol at once.

    With ``api_keys``, calls and tool lists need one of them. ``hosts`` are the Host names it answers to besides
    the loopback ones, ``origins`` the web origins whose pages may call it.
    """
    limits = limits if limits is not None else Limits()
    toolbox = FunctionBox(target, threads=limits.threads) if isinstance(target, Toolkit) else target
    return App(toolbox, keys=Keys(api_keys), guard=Guard(hosts=hosts, origins=origins), limits=limits)


class App:
    """The application. ``drain()`` begins a graceful stop; ``running`` is the number of calls in flight."""

    def __init__(self, toolbox: Toolbox, *, keys: Keys, guard: Guard, limits: Limits) -> None:
        self._toolbox = toolbox
        self._keys = keys
        self._guard = guard
        self._limits = limits
        self._watch = Watch()
        self._service = Service(toolbox, checks=(arguments_check(),), limits=limits, watch=self._watch)
        self._catalog: object = None
        self._table: dict[tuple[str, str], _Entry] = {}
        self._methods: dict[str, list[str]] = {}
        self._prefixes: dict[str, Refuse] = {}
        self._ids = count(1)
        self._id_prefix = secrets.token_hex(8)

    @property
    def running(self) -> int:
        """The number of calls in flight."""
        return self._service.running

    def drain(self) -> None:
        """Take no new calls: /health and every call answer 503 from now on; running ones finish. [R15]"""
        self._service.draining = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request; see the ASGI specification."""
        if scope["type"] != "http":
            await _other(scope, receive, send)
            return
        if self._catalog is not self._toolbox.catalog():
            self._mount()
        method: str = scope["method"]
        path = _path(scope)
        fields = dict(scope["headers"])
        entry = self._table.get((method, path))
        if entry is None:
            entry, method = self._unlisted(method, path)
        problem = self._early(scope, fields)
        principal = ANONYMOUS.principal
        if problem is None and not entry.open:
            known = self._keys.principal(fields)
            if isinstance(known, Problem):
                problem = known
            else:
                principal = known
        body: bytes | Problem = b""
        if problem is None and method not in ("GET", "HEAD"):
            body = await self._body(fields, receive)
            problem = body if isinstance(body, Problem) else None
        if problem is not None or isinstance(body, Problem):
            await _respond(send, entry.refuse(problem or body), scope)  # type: ignore[arg-type]  # one of the two is a Problem
            return
        await self._answer(entry, self._request(scope, path, body), principal, scope, receive, send)

    def _request(self, scope: Scope, path: str, body: bytes) -> Request:
        query: bytes = scope["query_string"]
        url = f"{path}?{query.decode('latin-1')}" if query else path
        return Request(scope["method"], url, scope["headers"], body, f"{self._id_prefix}-{next(self._ids)}")

    async def _answer(
        self, entry: _Entry, request: Request, principal: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        try:
            reading = entry.read(request)
        except Exception:  # noqa: BLE001 - a reader that raises has a bug; the caller still gets an answer
            _log.exception("reading %s %s failed", request.method, request.url.partition("?")[0])
            reading = entry.refuse(Problem(kind=Kind.INTERNAL, message="The server failed; its log has the details."))
        if isinstance(reading, Response):
            await _respond(send, _not_modified(reading, request), scope)
        elif isinstance(reading, Pending):
            call = _owned(reading.call, principal)
            result, duration = await self._service.run(call)
            await _respond(send, self._said(entry, reading, result, duration), scope)
        else:
            call = _owned(reading.call, principal)
            await self._stream(reading._replace(call=call), receive, send)

    def _said(self, entry: _Entry, pending: Pending, result: Result, duration: float) -> Response:
        try:
            return pending.reply(result, duration)
        except (TypeError, ValueError) as error:  # a foreign Toolbox gave a value that is not JSON
            _log.error("the result of %s cannot be written: %s", pending.call.tool.id, error)
            return pending.reply(
                Problem(kind=Kind.INTERNAL, message="The tool's result cannot be written as JSON."), duration
            )

    async def _stream(self, streaming: Streaming, receive: Receive, send: Send) -> None:
        refusal = self._service.refusal()
        if refusal is not None:
            await _respond(send, streaming.refuse(refusal), None)
            return
        opened = False

        async def write(data: bytes) -> None:
            nonlocal opened
            if not opened:
                opened = True
                await send({"type": "http.response.start", "status": 200, "headers": list(streaming.headers)})
                data = streaming.opening + data
            await send({"type": "http.response.body", "body": data, "more_body": True})

        async def notify(progress: Progress) -> None:
            await write(streaming.frame(progress))

        async with anyio.create_task_group() as group:
            group.start_soon(_cancel_when_gone, receive, group.cancel_scope)
            result, duration = await self._service.run(streaming.call, notify)
            if not opened and isinstance(result, Problem) and result.kind not in AFTER_START:
                await _respond(send, streaming.refuse(result), None)
            else:
                await write(streaming.closing(result, duration))
                await send({"type": "http.response.body", "body": b""})
            group.cancel_scope.cancel()

    async def _body(self, fields: dict[bytes, bytes], receive: Receive) -> bytes | Problem:
        length = fields.get(b"content-length")
        if length is not None and length.isdigit() and int(length[:20]) > self._limits.body_bytes:
            return self._too_large()
        task = self._watch.start(self._limits.body_s)
        try:
            return await self._collect(receive)
        except asyncio.CancelledError:
            if not self._watch.stop(task):
                raise
            return Problem(
                kind=Kind.TOO_SLOW,
                message=f"The body did not arrive within {self._limits.body_s:g} seconds.",
            )
        finally:
            self._watch.stop(task)

    async def _collect(self, receive: Receive) -> bytes | Problem:
        message = await receive()
        body: bytes = message.get("body", b"")
        if not message.get("more_body"):
            return body if len(body) <= self._limits.body_bytes else self._too_large()
        chunks, size = [body], len(body)
        while message.get("more_body") and size <= self._limits.body_bytes:
            message = await receive()
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
        return b"".join(chunks) if size <= self._limits.body_bytes else self._too_large()

    def _too_large(self) -> Problem:
        return Problem(kind=Kind.TOO_LARGE, message=f"The body is larger than {self._limits.body_bytes:,} bytes.")

    def _early(self, scope: Scope, fields: dict[bytes, bytes]) -> Problem | None:
        server = scope.get("server")
        problem = self._guard.refusal(server[0] if server else "", fields)
        if problem is None and self._service.draining:
            return self._service.refusal()
        return problem

    def _mount(self) -> None:
        catalog = self._toolbox.catalog()
        site = Site(keys=bool(self._keys))
        table: dict[tuple[str, str], _Entry] = {}
        prefixes: dict[str, Refuse] = {}
        for codec in BUILTIN:
            for (method, path), route in codec.routes(catalog, site).items():
                table[method, path] = _Entry(route.read, route.open, codec.refuse)
                prefixes.setdefault(_first_segment(path), codec.refuse)
        table["GET", "/"] = _Entry(page(catalog, BUILTIN), True, _plain)
        methods: dict[str, list[str]] = {}
        for method, path in table:
            methods.setdefault(path, []).append(method)
        self._table, self._methods, self._prefixes, self._catalog = table, methods, prefixes, catalog

    def _unlisted(self, method: str, path: str) -> tuple[_Entry, str]:
        allowed = self._methods.get(path)
        if method == "HEAD" and allowed and "GET" in allowed:
            return self._table["GET", path], "GET"
        if allowed:
            refuse = self._table[allowed[0], path].refuse
            allow = ", ".join([*allowed, "HEAD"] if "GET" in allowed else allowed)
            return _Entry(lambda _: _wrong_method(refuse, allow), True, refuse), "GET"
        refuse = self._prefixes.get(_first_segment(path), _plain)
        return _Entry(lambda _: refuse(_nothing_here()), True, refuse), "GET"


def _path(scope: Scope) -> str:
    path: str = scope["path"]
    root: str = scope.get("root_path") or ""
    return (path[len(root) :] or "/") if root and path.startswith(root) else path


def _owned(call: Call, principal: str) -> Call:
    if principal == ANONYMOUS.principal:
        return call
    context = Context(principal=principal) if call.context is ANONYMOUS else replace(call.context, principal=principal)
    return Call(call.tool, call.arguments, call.call_id, context)


def _first_segment(path: str) -> str:
    return path.split("/", 2)[1] if path.startswith("/") else ""


def _wrong_method(refuse: Refuse, allow: str) -> Response:
    response = refuse(Problem(kind=Kind.WRONG_METHOD, message=f"This path takes {allow}."))
    return response._replace(headers=[*response.headers, (b"allow", allow.encode())])


def _nothing_here() -> Problem:
    return Problem(kind=Kind.NOT_FOUND, message="There is nothing at this path; GET / says what is here.")


def _plain(problem: Problem) -> Response:
    body = jsontext.write({"error": problem.kind.value, "message": problem.message})
    return Response(STATUS[problem.kind], JSON, body)


def _not_modified(response: Response, request: Request) -> Response:
    wanted = header(request.headers, b"if-none-match")
    if not wanted or response.status != 200:
        return response
    etag = header(response.headers, b"etag")
    if not etag or (wanted != "*" and etag not in [tag.strip().removeprefix("W/") for tag in wanted.split(",")]):
        return response
    return Response(304, [field for field in response.headers if field[0] != b"content-type"])


async def _respond(send: Send, response: Response, scope: Scope | None) -> None:
    status, headers, body = response
    fields: Headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    if scope is not None and scope["method"] == "HEAD":
        body = b""
    await send({"type": "http.response.body", "body": body})


async def _cancel_when_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _other(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1000})
