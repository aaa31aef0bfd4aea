"""Answer HTTP requests on all protocols, without a framework: find the route, admit the caller, run the call.

Rules:
- Each request is answered in the format of its path's protocol, never with a traceback.
- Host and Origin, the credentials and the size of the body are checked before a protocol reads the request.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import count
from typing import Protocol

from toolwire.core.catalog import Catalog
from toolwire.core.codec import BlockingTask, CallQuery, Pending, Reading, SessionStart, Streaming, Subscription
from toolwire.core.health import UpstreamHealth, list_health
from toolwire.core.http import JSON_HEADERS, Request, Response, make_request
from toolwire.core.model import ANONYMOUS, Call, Json, Kind, Problem, make_call
from toolwire.core.toolbox import Toolbox
from toolwire.framing import jsontext

from .access.admission import Admission, find_owner_key, find_quota_key
from .access.callers import ANONYMOUS_CALLER, Caller, Fields
from .access.page_callers import PageCallers
from .access.tool_rights import BoundedTools
from .access.visibility import filter_reading, mark_private
from .deadline_scheduler import DeadlineScheduler
from .http.exchange import Exchange, Receive, Scope, Send, get_exchange
from .http.lifespan import begin_lifespan, end_lifespan, run_lifespan
from .http.messages import (
    apply_if_none_match,
    close_websocket,
    read_body,
    receive_body,
    send_response,
    take_limited_body,
)
from .limits import ServerLimits
from .long_calls.call_queries import answer_query, find_refusal
from .long_calls.long_calls import LongCalls
from .mcp.change_stream import McpClient
from .mcp.requests import McpRequests
from .mounted_tables import MountedTables
from .route_table import PAGE_PATH, RouteEntry, RouteTable
from .run.call_runner import CallRunner
from .run.function_toolbox import PEER_ADDRESS
from .run.responses import TaskOnce, build_refusal, read_after_task, read_request
from .run.service import RunningCall

_HEALTH_HEADERS = (*JSON_HEADERS, (b"cache-control", b"no-store"))
_CLIENT_FIELDS = Request("", "")[5:]
"""The fields of a Request that only clients use, at their defaults."""


class Front(Protocol):
    """Answers some requests before an application does, such as pages or a sign-in. It starts and stops with it."""

    def takes(self, scope: Scope) -> bool:
        """Return whether it answers the request. If it does not, it can still store something that the call needs."""
        ...

    async def serve(self, scope: Scope, exchange: Exchange) -> None:
        """Answer a request for which ``takes`` returned True."""
        ...

    async def begin(self) -> None:
        """Begin after the application."""
        ...

    async def end(self) -> None:
        """End before the application."""
        ...

    def drain(self) -> None:
        """End everything that would keep the server from stopping."""
        ...


class App:
    """The ASGI application that ``asgi`` returns. ``drain()`` starts a graceful shutdown.

    - ``tables``: its routes.
    - ``pages``: identifies the callers of pages.
    - ``sessions``: answers requests that only MCP has.
    - ``long_calls``: the calls that continue after their callers disconnect.
    - ``lifespans``: start in this order.
    """

    takes_exchanges = True
    """Says to our own HTTP server that ``serve`` takes a whole exchange; a subclass does not inherit that."""

    def __init__(
        self,
        toolbox: Toolbox,
        *,
        tables: MountedTables,
        admission: Admission,
        pages: PageCallers,
        sessions: McpRequests,
        runner: CallRunner,
        long_calls: LongCalls,
        limits: ServerLimits,
        scheduler: DeadlineScheduler,
        lifespans: Sequence[object],
    ) -> None:
        self._toolbox = toolbox
        self.tables: MountedTables = tables
        self.pages: PageCallers = pages
        self.sessions: McpRequests = sessions
        self._admission, self._runner, self._long_calls = admission, runner, long_calls
        self.limits: ServerLimits = limits
        self._scheduler, self._lifespans = scheduler, lifespans
        self._fronts: tuple[Front, ...] = ()
        self._tasks = TaskOnce()
        sessions.serve = self.serve
        # A random beginning and a number: as unique as a random id, and cheaper for each request.
        self._id_prefix = f"{secrets.token_hex(8)}-"
        self._next_number = count(1).__next__

    def add_front(self, front: Front) -> None:
        """Let ``front`` handle its requests first, before any front that was added earlier."""
        self._fronts = (front, *self._fronts)
        self._lifespans = (*self._lifespans, front)

    @property
    def older_clients(self) -> bool:
        """Whether older client versions are recognized by their User-Agent. Set it before the server starts."""
        # S-13: it can be switched off, because a User-Agent proves nothing.
        return self.tables.older_clients

    @older_clients.setter
    def older_clients(self, is_on: bool) -> None:
        self.tables.older_clients = is_on

    @property
    def active_calls(self) -> int:
        """The number of running calls."""
        return self._runner.service.active_calls

    async def count_call(self, call: Call) -> Problem | None:
        """Count a call that runs elsewhere against its tool's limits. Return a Problem if a limit is exceeded."""
        # AO-04
        return await self._runner.service.count_call(call)

    def list_running(self, most: int) -> list[RunningCall]:
        """Return up to ``most`` running calls, oldest first. Long calls are not included."""
        return self._runner.service.list_running(most)

    def catalog(self) -> Catalog:
        """Return the current catalog. The object is replaced after each change."""
        return self._toolbox.catalog()

    def list_health(self) -> Sequence[UpstreamHealth]:
        """Return the health of each upstream. The result is empty without upstreams."""
        return list_health(self._toolbox)

    def drain(self) -> None:
        """Answer new requests, including ``/health``, with 503 from now on. Running calls finish."""
        # R15
        self._runner.drain()
        self.sessions.drain()
        for front in self._fronts:
            front.drain()

    async def begin(self) -> None:
        """Start the Toolbox and everything else that the server needs."""
        for one in self._lifespans:
            await begin_lifespan(one)

    async def end(self) -> None:
        """Stop everything that ``begin`` started."""
        for one in reversed(self._lifespans):
            await end_lifespan(one)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request, as ASGI specifies."""
        if scope["type"] == "http":
            await self.serve(scope, get_exchange(receive, send))
        elif scope["type"] == "lifespan":
            await run_lifespan(self, receive, send)
        else:
            await close_websocket(scope, receive, send)

    async def serve(self, scope: Scope, exchange: Exchange) -> None:  # noqa: C901, PLR0912, PLR0915 - in line: all run
        """Answer the HTTP request of ``exchange`` with the ASGI ``scope``."""
        for front in self._fronts:
            if front.takes(scope):
                await front.serve(scope, exchange)
                return
        # D-24: Host, Origin and credentials come first, then the body, then the protocol.
        scope = self.tables.enter_bundle(scope)
        table, path = self.tables.find(scope)
        if table is None:
            table = await self.tables.wait_for(scope, path)
        fields: Fields = dict(scope["headers"])
        entry = table.find_entry(scope["method"], path, scope["headers"])
        # MC-10: this costs a call without a session one lookup.
        is_in_session = False
        if self.sessions.has_session(fields):
            posted = table.find_entry("POST", path)  # a GET and a DELETE need the same credentials
            if posted.has_sessions:
                is_in_session, entry = True, posted
        # Most callers are known without waiting. Only a signed or stored token can need the network or a database.
        caller = self._admission.admit(scope, fields, entry, table)
        if caller is None:
            caller = await self._admission.verify_caller(fields, entry)
        body: bytes | Problem | None = None
        has_credentials = caller is not ANONYMOUS_CALLER
        if isinstance(caller, Problem):
            if caller.kind is Kind.UNAUTHORIZED and self.pages.can_admit(entry, scope["headers"]):
                has_credentials = False
                # Only pages pay for this: a refused form can contain the key, and a browser can have a session.
                if entry.takes_body:
                    body = await read_body(exchange, fields, self.limits, self._scheduler)
                given = b"" if body is None else body
                caller, entry = await self.pages.admit(scope, fields, entry, table, given, caller)
            if isinstance(caller, Problem):
                refusal = self.pages.refuse(scope, entry, caller)
                await send_response(scope, exchange, self._admission.add_challenge(refusal, caller, table, path))
                return
        if is_in_session:
            await self.sessions.answer(scope, exchange, fields, self._find_client(scope, caller, fields), entry.refuse)
            return
        if self.tables.has_own_lists and caller is not ANONYMOUS_CALLER:
            own = await self.tables.find_own(caller, table, scope)
            if own is not table:
                table, entry = own, own.find_entry(scope["method"], path)
        if body is None:
            # The body is usually here already; waiting for it costs a task switch.
            body = take_limited_body(exchange, fields, self.limits) if entry.takes_body else b""
        if body is None:
            body = await receive_body(exchange.receive, self.limits, self._scheduler)
        if isinstance(body, Problem):
            await send_response(scope, exchange, entry.refuse(body))
            return
        query: bytes = scope["query_string"]
        url = f"{path}?{query.decode('latin-1')}" if query else path
        request = make_request(
            (scope["method"], url, scope["headers"], body, f"{self._id_prefix}{self._next_number()}", *_CLIENT_FIELDS)
        )
        reading = read_request(entry, request)
        if isinstance(reading, BlockingTask):
            await self._tasks.run(reading)
            reading = read_after_task(entry, request)
        # Without scopes and rights every caller sees the same tools, so nothing has to be filtered.
        if self._admission.rights is not None or (table.depends_on_caller and self._admission.needs_credentials):
            reading = self._filter_for_caller(table, entry, caller, path, request, reading)
        if not isinstance(reading, (Pending, Streaming)):
            await self._answer_without_call(scope, exchange, fields, reading, caller=caller, entry=entry, table=table)
            return
        call = (
            _set_peer_address(reading.call, scope) if caller is ANONYMOUS_CALLER else _set_caller(reading.call, caller)
        )
        await self._runner.answer(
            scope,
            exchange,
            fields,
            request=request,
            reading=reading,
            call=call,
            protocol=entry.protocol,
            is_unrevoked=partial(self._admission.is_unrevoked, fields, caller) if has_credentials else None,
        )

    def _filter_for_caller(
        self, table: RouteTable, entry: RouteEntry, caller: Caller, path: str, request: Request, reading: Reading
    ) -> Reading:
        """Return what ``caller`` may see of ``reading``, or a refusal."""
        if entry.is_redirect:
            return reading
        if entry.page is not None:  # It is the same for all scopes. A form is read once, as its sender.
            return mark_private(reading) if isinstance(reading, Response) else reading
        bounded = self._admission.find_bounded(caller)
        visible = filter_reading(table, caller, path, request, reading, read_after_task, bounded=bounded)
        if not isinstance(visible, Problem):
            return visible
        # AT-36: the reply to a form shows its tool and the list of all others.
        response = entry.refuse(visible) if path == PAGE_PATH else build_refusal(reading, visible)
        return self._admission.add_challenge(mark_private(response), visible, table, path)

    async def _answer_without_call(
        self,
        scope: Scope,
        exchange: Exchange,
        fields: Fields,
        reading: Response | Subscription | CallQuery | SessionStart,
        *,
        caller: Caller,
        entry: RouteEntry,
        table: RouteTable,
    ) -> None:
        if isinstance(reading, CallQuery):
            recheck, calls = self._admission.build_recheck(fields, caller), self._long_calls
            find_catalog = self.tables.find_own_catalog(caller, scope) or self._toolbox.catalog
            judge = self._admission.build_judge(caller, find_catalog)
            refusal = None if judge is None else await find_refusal(reading, caller.name, calls, judge)
            if refusal is None:
                await answer_query(scope, exchange, reading, caller.name, calls, recheck, judge=judge)
                return
            reading = self._admission.add_challenge(reading.reply(refusal), refusal, table, scope["path"])
        if isinstance(reading, Subscription):
            await self.sessions.stream_changes(scope, exchange, reading, self._find_client(scope, caller, fields))
            return
        if isinstance(reading, SessionStart):
            reading = await self.sessions.start_session(scope, reading, self._find_client(scope, caller, None))
        if entry.takes_any_host and scope["query_string"] == b"full":
            reading = await self._report_health(fields, entry, table, scope["path"])
        await send_response(scope, exchange, apply_if_none_match(reading, fields))

    def _find_client(self, scope: Scope, caller: Caller, fields: Fields | None) -> McpClient:
        view = self._admission.build_view(caller, fields, self.tables.find_own_catalog(caller, scope))
        return McpClient(find_owner_key(caller, self.tables.find_bundle(scope)), find_quota_key(scope, caller), view)

    async def _report_health(self, fields: Fields, entry: RouteEntry, table: RouteTable, path: str) -> Response:
        """Return the health of each server behind this one, for a known caller."""
        # GW-05: the path is open for probes, so the caller is looked at only here.
        found = await self._admission.identify(fields)
        if isinstance(found, Problem):
            return self._admission.add_challenge(entry.refuse(found), found, table, path)
        scopes = found.scopes if self._admission.needs_credentials else None
        bounded = self._admission.find_bounded(found)
        return mark_private(_build_health_report(self._toolbox, scopes, bounded, self.active_calls))


def _set_peer_address(call: Call, scope: Scope) -> Call:
    """Return ``call``. Remember an anonymous caller's address first, because worker threads are shared by address."""
    client = scope.get("client")
    PEER_ADDRESS.set(client[0] if client else "")
    return call


def _set_caller(call: Call, caller: Caller) -> Call:
    context = call.context
    context = (
        caller.context
        if context is ANONYMOUS
        else replace(
            context, principal=caller.name, scopes=caller.scopes, client_id=caller.client_id, group=caller.group
        )
    )
    return make_call((call.tool, call.arguments, call.call_id, context, call.key))


def _build_health_report(
    toolbox: Toolbox, scopes: frozenset[str] | None, bounded: BoundedTools | None, active_calls: int
) -> Response:
    """Return the report for a caller with ``scopes`` (None: all): upstreams whose scopes it has.

    It lists only the upstreams that ``bounded`` permits, and counts only the permitted tools.

    ``status`` is ``OK``, or ``DEGRADED`` while an upstream is not ``ok``. The HTTP status is 200 in both cases: an
    orchestrator that restarts the gateway would not mend an upstream.
    """
    shown = [
        one for one in list_health(toolbox) if scopes is None or one.scopes is None or scopes.issuperset(one.scopes)
    ]
    if bounded is not None:  # PL-02
        counts = bounded.count_tools(toolbox.catalog())
        shown = [replace(one, tools=counts[one.name]) for one in shown if one.name in counts]
    is_well = all(one.state == "ok" for one in shown)
    is_all = scopes is None and bounded is None
    report: dict[str, Json] = {
        "status": "OK" if is_well else "DEGRADED",
        "running": active_calls,
        "tools": len(toolbox.catalog().tools) if is_all else sum(one.tools for one in shown),
        "upstreams": [_describe_upstream(asdict(one)) for one in shown],
    }
    return Response(200, _HEALTH_HEADERS, jsontext.write(report))


def _describe_upstream(fields: dict[str, Json]) -> Json:
    del fields["scopes"]
    return {name: value for name, value in fields.items() if value not in (None, "")}
