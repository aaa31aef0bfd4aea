"""Our own ASGI application: one look in a table by method and path, no framework, nothing between.

Rules:
- Whatever arrives is answered in the words of the protocol whose path it is; never a traceback.
- Host and Origin, the API key and the size of the body are looked at before any reader runs. [D-24]
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count

import anyio

from toolwire.core.codec import Codec, Pending, Reading, Site, Streaming
from toolwire.core.http import Request, Response
from toolwire.core.model import AFTER_START, ANONYMOUS, Call, Context, Kind, Problem, Progress, Result
from toolwire.core.toolbox import Toolbox
from toolwire.define import Toolkit
from toolwire.protocols import BUILTIN
from toolwire.validation import arguments_check, requirements_check

from .functions import FunctionBox
from .guard import Fields, Guard, Keys
from .lifespan import begin, end, live
from .limits import Limits
from .service import Service
from .table import Entry, Table
from .watch import Watch
from .wire import Receive, Scope, Send, Wire, below, not_modified, other

_log = logging.getLogger("toolwire")


def asgi(
    target: Toolkit | Toolbox,
    *,
    api_keys: Iterable[str] = (),
    hosts: Iterable[str] = (),
    origins: Iterable[str] = (),
    limits: Limits | None = None,
) -> App:
    """Return an ASGI application that serves ``target`` on every protocol at once.

    With ``api_keys``, calls and lists need one of them; ``/``, ``/health``, ``llm.json`` and the OpenAPI document stay
    open, as discovery asks for them without credentials. ``hosts`` are the Host names it answers to besides
    the loopback ones, ``origins`` the web origins whose pages may call it.
    """
    limits = limits if limits is not None else Limits()
    toolbox = FunctionBox(target, threads=limits.threads) if isinstance(target, Toolkit) else target
    return App(toolbox, keys=Keys(api_keys), guard=Guard(hosts=hosts, origins=origins), limits=limits)


class App:
    """The application. ``drain()`` begins a graceful stop; ``running`` is the number of calls in flight."""

    def __init__(
        self, toolbox: Toolbox, *, keys: Keys, guard: Guard, limits: Limits, codecs: Sequence[Codec] = BUILTIN
    ) -> None:
        self._toolbox = toolbox
        self._codecs = codecs
        self._keys = keys
        self._keyed = bool(keys)
        self._guard = guard
        self._limits = limits
        self._watch = Watch()
        self._service = Service(
            toolbox, checks=(requirements_check, arguments_check()), limits=limits, watch=self._watch
        )
        self._tables: dict[str, Table] = {}
        self._ids = count(1)
        self._id_prefix = secrets.token_hex(8)

    @property
    def running(self) -> int:
        """The number of calls in flight."""
        return self._service.running

    def drain(self) -> None:
        """Take no new requests: each is answered 503 from now on, /health too; running calls finish. [R15]"""
        self._service.draining = True

    async def begin(self) -> None:
        """Begin the Toolbox, where it has something to do before its first call."""
        await begin(self._toolbox)

    async def end(self) -> None:
        """End the Toolbox, where it has something to let go of."""
        await end(self._toolbox)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request; see the ASGI specification."""
        if scope["type"] == "lifespan":
            await live(self, receive, send)
            return
        if scope["type"] != "http":
            await other(scope, receive, send)
            return
        root, path = scope.get("root_path"), scope["path"]
        if root:
            root, path = below(root, path)
        table = self._tables.get(root or "")
        if table is None or table.catalog is not self._toolbox.catalog():
            table = self._mounted(root or "")
        fields: Fields = dict(scope["headers"])
        entry = table.entry(scope["method"], path)
        wire = Wire(scope, receive, send)
        principal = self._admitted(scope, fields, entry)
        if isinstance(principal, Problem):
            await wire.respond(entry.refuse(principal))
            return
        body = await wire.body(fields, self._limits, self._watch) if entry.takes_body else b""
        if isinstance(body, Problem):
            await wire.respond(entry.refuse(body))
            return
        query: bytes = scope["query_string"]
        url = f"{path}?{query.decode('latin-1')}" if query else path
        request = Request(scope["method"], url, scope["headers"], body, f"{self._id_prefix}-{next(self._ids)}")
        reading = _read(entry, request)
        if isinstance(reading, Pending):
            call = reading.call if principal is _NOBODY else _owned(reading.call, principal)
            result, duration = await self._service.run(call)
            await wire.respond(_said(reading, result, duration))
        elif isinstance(reading, Response):
            await wire.respond(not_modified(reading, fields))
        else:
            await self._stream(wire, reading, _owned(reading.call, principal))

    def _admitted(self, scope: Scope, fields: Fields, entry: Entry) -> str | Problem:
        """Return whose request this is, or why it goes no further."""
        server = scope.get("server")
        problem = self._guard.refusal(server[0] if server else "", fields)
        if len(fields) != len(scope["headers"]) and _says_host_twice(scope):
            problem = _TWO_HOSTS
        if problem is None and not entry.open and b"sec-fetch-site" in fields:
            problem = self._guard.cross_site(server[0] if server else "", fields)
        if problem is None and self._service.draining:
            problem = self._service.refusal()
        if problem is not None:
            return problem
        return self._keys.principal(fields) if self._keyed and not entry.open else _NOBODY

    async def _stream(self, wire: Wire, streaming: Streaming, call: Call) -> None:
        opened = False

        async def write(data: bytes) -> None:
            nonlocal opened
            if not opened:
                opened = True
                start = {"type": "http.response.start", "status": 200, "headers": list(streaming.headers)}
                await wire.send(start)
                await wire.send({"type": "http.response.body", "body": streaming.opening, "more_body": True})
            await wire.send({"type": "http.response.body", "body": data, "more_body": True})

        async def notify(progress: Progress) -> None:
            await write(streaming.frame(progress))

        async with anyio.create_task_group() as group:
            group.start_soon(_cancel_when_gone, wire.receive, group.cancel_scope)
            result, duration = await self._service.run(call, notify)
            if isinstance(result, Problem) and result.kind not in AFTER_START and not opened:
                await wire.respond(streaming.refuse(result))
            else:
                await write(_closing(streaming, result, duration))
                await wire.send({"type": "http.response.body", "body": b""})
            group.cancel_scope.cancel()

    def _mounted(self, root: str) -> Table:
        """Return the table for where the application is mounted; documents name their own paths."""
        if len(self._tables) >= _ROOTS:
            self._tables.clear()
        site = Site(keys=self._keyed, root=root)
        table = self._tables[root] = Table(self._toolbox.catalog(), self._codecs, site)
        return table


_ROOTS = 16
_NOBODY = ANONYMOUS.principal
_TWO_HOSTS = Problem(kind=Kind.MALFORMED, message="A request says its Host once.")


def _says_host_twice(scope: Scope) -> bool:
    return [name for name, _ in scope["headers"]].count(b"host") > 1


def _read(entry: Entry, request: Request) -> Reading:
    try:
        return entry.read(request)
    except Exception:  # noqa: BLE001 - a reader that raises has a bug; the caller still gets an answer
        _log.exception("reading %s %s failed", request.method, request.url.partition("?")[0])
        return entry.refuse(Problem(kind=Kind.INTERNAL, message="The server failed; its log has the details."))


def _said(pending: Pending, result: Result, duration: float) -> Response:
    try:
        return pending.reply(result, duration)
    except (TypeError, ValueError, RecursionError):  # somebody's Toolbox gave a value that is not JSON data
        return pending.reply(_unwritable(pending.call), duration)


def _closing(streaming: Streaming, result: Result, duration: float) -> bytes:
    try:
        return streaming.closing(result, duration)
    except (TypeError, ValueError):
        return streaming.closing(_unwritable(streaming.call), duration)


def _unwritable(call: Call) -> Problem:
    _log.exception("the result of %s in call %s cannot be written", call.tool.id, call.call_id)
    return Problem(kind=Kind.INTERNAL, message="The tool's result cannot be written as JSON.")


def _owned(call: Call, principal: str) -> Call:
    if principal is _NOBODY:
        return call
    context = Context(principal=principal) if call.context is ANONYMOUS else replace(call.context, principal=principal)
    return Call(call.tool, call.arguments, call.call_id, context)


async def _cancel_when_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
