"""Our own ASGI application: one look in a table by method and path, no framework, nothing between.

Rules:
- Whatever arrives is answered in the words of the protocol whose path it is; never a traceback.
- Host and Origin, the API key and the size of the body are looked at before any reader runs. [D-24]
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import anyio

from toolwire.core.codec import Codec, Pending, Reading, Site, Streaming
from toolwire.core.http import Request, Response
from toolwire.core.ledger import Ledger, replayed
from toolwire.core.model import AFTER_START, ANONYMOUS, Call, Kind, Problem, Progress, Result
from toolwire.core.toolbox import Notify, Toolbox, unheard
from toolwire.define import Toolkit
from toolwire.limits import Windows, rate_check
from toolwire.protocols import BUILTIN
from toolwire.stores.ledger_memory import MemoryLedger
from toolwire.stores.rates import windows_at
from toolwire.telemetry.calls import Observer, Telemetry, observer
from toolwire.telemetry.joining import joined
from toolwire.telemetry.logs import keep_secrets
from toolwire.telemetry.redaction import secrets_of
from toolwire.validation import Authorizer, arguments_check, authorized_by, requirements_check, scopes_check

from .callers import NOBODY, Caller, Callers, Fields, Several
from .functions import FunctionBox
from .guard import Guard
from .idempotency import HEADER, Once, keyed, malformed_key, marked, opened
from .keys import ApiKey, Keys
from .lifespan import begin, end, live
from .limits import Limits
from .service import Service
from .table import Entry, Table
from .views import as_seen, challenged, private
from .watch import Watch
from .wire import Receive, Scope, Send, Wire, below, not_modified, other

_log = logging.getLogger("toolwire")
ANY_TELEMETRY = Telemetry()


def asgi(
    target: Toolkit | Toolbox,
    *,
    api_keys: Iterable[str | ApiKey] = (),
    hosts: Iterable[str] = (),
    origins: Iterable[str] = (),
    limits: Limits | None = None,
    ledger: Ledger | Path | str | None = None,
    rates: str = "",
    callers: Callers | None = None,
    authorizer: Authorizer | None = None,
    telemetry: Telemetry = ANY_TELEMETRY,
) -> App:
    """Return an ASGI application that serves ``target`` on every protocol at once.

    With ``api_keys``, calls and lists need one of them; ``/``, ``/health``, ``llm.json`` and the OpenAPI document stay
    open, as discovery asks for them without credentials. ``hosts`` are the Host names it answers to besides
    the loopback ones, ``origins`` the web origins whose pages may call it. ``ledger`` remembers the calls that carry
    a key of their caller's: the path of an SQLite file, which restarts and several processes share, else this process.
    ``rates`` is where calls are counted against their tools' limits: a folder, which several processes share, a URL
    such as ``redis://host``, else this process. [XL-066]

    ``callers`` is another way to tell callers apart, such as signed tokens; with keys too, either will do. What a
    caller sees and calls are then the tools whose scopes they have. ``authorizer`` knows where a person grants what
    a tool requires. ``telemetry`` takes spans and metrics elsewhere than to what is set up for the process.

    Raises:
        DefinitionError: the ledger or what ``rates`` names cannot be opened.
    """
    limits = limits if limits is not None else Limits()
    toolbox = FunctionBox(target, threads=limits.threads) if isinstance(target, Toolkit) else target
    guard = Guard(hosts=hosts, origins=origins)
    return App(
        toolbox,
        callers=callers_of(api_keys, callers),
        guard=guard,
        limits=limits,
        ledger=opened(ledger),
        rates=windows_at(rates),
        authorizer=authorizer,
        telemetry=telemetry,
    )


def callers_of(api_keys: Iterable[str | ApiKey], callers: Callers | None) -> Callers:
    """Return whom a server answers: holders of a key, those whom ``callers`` know, or everybody where neither is."""
    keys = Keys(api_keys)
    if callers is None:
        return keys
    return Several(keys, callers) if keys.wanted else callers


class App:
    """The application. ``drain()`` begins a graceful stop; ``running`` is the number of calls in flight.

    ``older_clients``, set to False before the first request, lets nobody be known by their User-Agent. [S-13]
    """

    def __init__(
        self,
        toolbox: Toolbox,
        *,
        callers: Callers,
        guard: Guard,
        limits: Limits,
        codecs: Sequence[Codec] = BUILTIN,
        ledger: Ledger | None = None,
        rates: Windows | None = None,
        authorizer: Authorizer | None = None,
        telemetry: Telemetry = ANY_TELEMETRY,
    ) -> None:
        self.older_clients = True
        self._toolbox = toolbox
        self._codecs = codecs
        self._callers = callers
        self._wanted = callers.wanted
        self._guard = guard
        self._limits = limits
        self._watch = Watch()
        self._once = Once(opened(ledger), MemoryLedger(), wait_s=limits.repeat_s)
        scopes = (scopes_check,) if self._wanted else ()
        required = requirements_check if authorizer is None else authorized_by(authorizer)
        rated = rate_check(rates if rates is not None else windows_at(""))
        checks = (*scopes, required, arguments_check(), rated)
        self._service = Service(toolbox, checks=checks, limits=limits, watch=self._watch, once=self._once)
        self._tables: dict[str, Table] = {}
        self._ids = count(1)
        self._id_prefix = secrets.token_hex(8)
        self._telemetry = telemetry
        self._observer: Observer | None = None
        keep_secrets()

    @property
    def running(self) -> int:
        """The number of calls in flight."""
        return self._service.running

    def drain(self) -> None:
        """Take no new requests: each is answered 503 from now on, /health too; running calls finish. [R15]"""
        self._service.draining = True

    async def begin(self) -> None:
        """Begin the Toolbox and the ledger, where they have something to do before the first call."""
        await begin(self._once)
        await begin(self._toolbox)

    async def end(self) -> None:
        """End the Toolbox and the ledger, where they have something to let go of."""
        await end(self._toolbox)
        await end(self._once)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request; see the ASGI specification."""
        if scope["type"] != "http":
            await (live(self, receive, send) if scope["type"] == "lifespan" else other(scope, receive, send))
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
        caller = self._admitted(scope, fields, entry, table)
        if caller is None:
            caller = await self._verified(fields, entry)
        if isinstance(caller, Problem):
            await wire.respond(challenged(entry.refuse(caller), caller, self._callers, path))
            return
        body = await wire.body(fields, self._limits, self._watch) if entry.takes_body else b""
        if isinstance(body, Problem):
            await wire.respond(entry.refuse(body))
            return
        query: bytes = scope["query_string"]
        url = f"{path}?{query.decode('latin-1')}" if query else path
        request = Request(scope["method"], url, scope["headers"], body, f"{self._id_prefix}-{next(self._ids)}")
        reading = _read(entry, request)
        if table.scopes and self._wanted:
            reading = self._as_seen(table, caller, path, request, reading)
        await self._answer(wire, entry, request, reading, fields, caller)

    async def _answer(
        self, wire: Wire, entry: Entry, request: Request, reading: Reading, fields: Fields, caller: Caller
    ) -> None:
        if isinstance(reading, Response):
            await wire.respond(not_modified(reading, fields))
            return
        call = reading.call if caller is NOBODY else _owned(reading.call, caller)
        if b"traceparent" in fields:
            call = call._replace(context=joined(call.context, fields[b"traceparent"].decode("latin-1")))
        if call.call_id != request.id or HEADER in fields:
            call = keyed(call, request.id, fields)
        if isinstance(reading, Pending):
            result, duration = await self._running(call, entry.protocol)
            response = _said(reading, result, duration)
            await wire.respond(marked(response) if call.key and replayed(result) else response)
        else:
            await self._stream(wire, reading, call, entry.protocol)

    def _as_seen(self, table: Table, caller: Caller, path: str, request: Request, reading: Reading) -> Reading:
        """Return ``reading`` as ``caller`` sees it, or how it is refused."""
        seen = as_seen(table, caller, path, request, reading, _read)
        if not isinstance(seen, Problem):
            return seen
        return challenged(private(_refused(reading, seen)), seen, self._callers, path)

    async def _verified(self, fields: Fields, entry: Entry) -> Caller | Problem:
        said = await self._callers.verify(fields)
        return NOBODY if entry.open and isinstance(said, Problem) else said

    def _running(self, call: Call, protocol: str, notify: Notify = unheard) -> Awaitable[tuple[Result, float]]:
        """Return the run of ``call``: observed where somebody wants to know, its secrets kept out of every log."""
        run = self._service.run
        if call.context.tokens or call.context.secrets:
            return self._discreetly(call, protocol, notify)
        return run(call, notify) if self._observer is None else self._observer.run(run, call, notify, protocol)

    async def _discreetly(self, call: Call, protocol: str, notify: Notify) -> tuple[Result, float]:
        with secrets_of(call.context):
            if self._observer is None:
                return await self._service.run(call, notify)
            return await self._observer.run(self._service.run, call, notify, protocol)

    def _admitted(self, scope: Scope, fields: Fields, entry: Entry, table: Table) -> Caller | Problem | None:
        """Return whose request this is, why it goes no further, or None where that must be verified.

        What is open is so to anybody; where tools are not, whoever says who they are sees their own.
        """
        server = scope.get("server")
        problem = self._guard.refusal(server[0] if server else "", fields)
        if len(fields) != len(scope["headers"]) and _says_host_twice(scope):
            problem = _TWO_HOSTS
        if problem is None and not entry.open and b"sec-fetch-site" in fields:
            problem = self._guard.cross_site(server[0] if server else "", fields)
        if problem is None and HEADER in fields:
            problem = malformed_key(fields)
        if problem is None and self._service.draining:
            problem = self._service.refusal()
        if problem is not None:
            return problem
        if not self._wanted or (entry.open and not table.scopes):
            return NOBODY
        said = self._callers.known(fields)
        return NOBODY if entry.open and isinstance(said, Problem) else said

    async def _stream(self, wire: Wire, streaming: Streaming, call: Call, protocol: str) -> None:
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
            result, duration = await self._running(call, protocol, notify)
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
        self._observer = observer(self._telemetry)
        site = Site(keys=self._wanted, root=root, older_clients=self.older_clients)
        table = self._tables[root] = Table(self._toolbox.catalog(), self._codecs, site)
        return table


_ROOTS = 16
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


def _owned(call: Call, caller: Caller) -> Call:
    context = call.context
    context = caller.context if context is ANONYMOUS else replace(context, principal=caller.name, scopes=caller.scopes)
    return Call(call.tool, call.arguments, call.call_id, context, call.key)


def _refused(reading: Reading, problem: Problem) -> Response:
    """Return ``problem`` in the words in which the call would have been answered."""
    if isinstance(reading, Response):
        return reading
    return reading.reply(problem, 0.0) if isinstance(reading, Pending) else reading.refuse(problem)


async def _cancel_when_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
