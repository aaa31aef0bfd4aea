"""Answer HTTP requests on all protocols: one look in a table by method and path, no framework.

Rules:
- Each request is answered in the words of the protocol of its path, never with a traceback.
- Host and Origin, the credentials and the size of the body are checked before a protocol reads the request.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from anyio import to_thread

from toolwire.core.catalog import Catalog
from toolwire.core.codec import (
    NO_PAGE,
    RECEIPT_FIELD,
    CallQuery,
    Codec,
    Pending,
    Reading,
    RemoteChanges,
    SessionOffer,
    Site,
    Streaming,
    Subscription,
    ToolCache,
    Work,
)
from toolwire.core.health import UpstreamHealth, list_health
from toolwire.core.http import Headers, Request, Response, make_request
from toolwire.core.model import ANONYMOUS, Call, Kind, Problem, Result, Value, make_call
from toolwire.core.thread_switching import switch_threads_often
from toolwire.core.toolbox import (
    Notify,
    Toolbox,
    find_output_judge,
    find_self_asking,
    ignore_progress,
)
from toolwire.protocols import BUILTIN
from toolwire.protocols.mcp.revision import SESSION_HEADER, STATELESS, VERSION_HEADER
from toolwire.stores.limits.open import open_windows
from toolwire.telemetry.arrival import Arrival
from toolwire.telemetry.calls import Observer, Telemetry, create_observer
from toolwire.telemetry.propagation import add_trace
from toolwire.telemetry.redaction import hide_secrets
from toolwire.validation import (
    build_arguments_check,
    build_requirements_check,
    check_requirements,
    check_scopes,
)

from .access.admission import Admission
from .access.callers import ANONYMOUS_CALLER, Caller, Fields
from .access.host_guard import HostGuard
from .access.key_sessions import KeySessions, find_form_step, read_session_change
from .access.own_lists import open_own_lists
from .access.people import PeopleSignIn
from .access.visibility import add_challenge, filter_reading, mark_private, name_scopes
from .asking.confirmation import (
    CONFIRMATION,
    ConfirmationQuestion,
    Confirmations,
    ConfirmationWords,
    build_confirmation_check,
)
from .asking.decision_log import is_declined
from .asking.host_consent import (
    build_host_question,
    build_reasons,
    can_allow_later,
    count_own_asking_tools,
    describe_host_consent,
)
from .asking.inbox_waiters import QuestionWaits, WaitingCall, leave_long_calls
from .asking.receipts import KEYS_PATH, STDIO
from .asking.user_asker import InputStates
from .deadline_scheduler import DeadlineScheduler
from .http.exchange import Exchange, Receive, Scope, Send, get_exchange
from .http.lifespan import begin_lifespan, end_lifespan, run_lifespan
from .http.messages import (
    apply_if_none_match,
    close_websocket,
    receive_body,
    send_messages,
    send_response,
    split_mount_path,
    take_limited_body,
)
from .http.response_stream import IsStillAuthorized
from .limits import QUESTION_WAIT_S
from .long_calls import calls_resource
from .long_calls.call_queries import answer_query
from .long_calls.long_calls import LongCalls, open_long_calls
from .mcp.change_stream import CallerView, ChangeStreams
from .options import ServerOptions
from .page.browser_request import LoginPlace
from .page.form_fields import find_form_key
from .parts import ServerParts
from .route_table import (
    PAGE_PATH,
    RouteEntry,
    RouteTable,
    has_long_tools,
    list_scopes,
    refuse_request,
)
from .run.function_toolbox import PEER_ADDRESS
from .run.health_report import build_health_report
from .run.idempotency import KEY_HEADER, IdempotencyRunner, open_ledger, parse_key
from .run.large_results import is_large_result
from .run.progress_stream import stream_call
from .run.rate_count import build_rate_counter
from .run.responses import (
    build_large_response,
    build_refusal,
    build_response,
    read_after_work,
    read_request,
    run_in_thread,
)
from .run.service import RunningCall, Service

if TYPE_CHECKING:  # few servers keep sessions, or take tokens of others
    from .mcp.session_manager import McpSessions

_log = logging.getLogger("toolwire")

STDIO_EXTENSION = "toolwire.stdio"
"""The extension in the ASGI scope of a request that came on standard input."""
_MAX_ROOTS = 16

_CLIENT_FIELDS = Request("", "")[5:]
"""The fields of a Request that only clients use, at their defaults."""


class App:
    """The application. ``drain()`` begins a graceful stop; ``running`` is the number of calls in flight.

    ``older_clients``, set to False before it begins, stops the recognition of clients by their User-Agent. ``people``
    is where people sign in at this server, if they do: then pages about their calls know them.
    """

    # S-13: ``older_clients`` can be switched off, because a User-Agent proves nothing.
    takes_exchanges = True
    """Says to our own HTTP server that ``serve`` takes a whole exchange; a subclass does not inherit that."""
    people: PeopleSignIn | None = None

    def __init__(
        self, toolbox: Toolbox, options: ServerOptions, parts: ServerParts, *, codecs: Sequence[Codec] = BUILTIN
    ) -> None:
        callers, limits, rules, inbox, receipts = parts.callers, parts.limits, parts.rules, parts.inbox, parts.receipts
        self._session_use, self._session_rows = parts.sessions, parts.session_rows
        self._public_url = options.public_url
        self._sessions: McpSessions | None = None
        self._receipts, self._rules, self._ask_wait = receipts, rules, options.ask_wait
        self._inbox, self._question_waits = inbox, None if inbox is None else QuestionWaits(inbox)
        self._has_rare_calls = receipts is not None or inbox is not None
        self._private = options.private and callers.needs_credentials
        self._takes_keys = parts.takes_keys
        self.older_clients = True
        self._toolbox, self._own_lists = toolbox, open_own_lists(toolbox, self._build_table)
        self._codecs = codecs
        self._documents, self._resource, self._sign_in = parts.documents, parts.resource, parts.sign_in
        # CC-06: where receipts are required, what a host says of itself proves nothing.
        self._host_confirmation = options.host_confirmation if receipts is None else ""
        self._consent, self._asks_hosts = options.consent, options.ask_hosts
        self._callers = callers
        self._limits, self._scheduler = limits, DeadlineScheduler()
        self._changes = ChangeStreams(toolbox.catalog, lambda: self._service.draining)
        # Calls that only read are recorded in memory, so that no disk and no full ledger stops them
        # (docs/decisions/0012).
        self._idempotency = IdempotencyRunner(
            open_ledger(parts.ledger, limits), open_ledger(None, limits), wait_s=limits.repeat_s
        )
        scopes = (check_scopes,) if callers.needs_credentials else ()
        authorizer = options.authorizer
        required = check_requirements if authorizer is None else build_requirements_check(authorizer)
        self._rates = parts.rates if parts.rates is not None else open_windows("")
        counted = build_rate_counter(self._rates, parts.local_rates, rules)
        own_question, of_all = options.require_confirmation, receipts is not None
        asked = own_question
        if options.ask_hosts or of_all:
            host_question = build_host_question(find_self_asking(toolbox), of_all=of_all)
            asked = _add_host_question(own_question, host_question)
        words = ConfirmationWords(parts.confirmations)
        find_reasons = build_reasons(own_question, of_all=of_all)
        proofs = Confirmations(words, receipts=receipts, inbox=inbox)
        confirm = build_confirmation_check(
            asked,
            proofs,
            find_reasons,
            can_allow_later,
            decisions=parts.decisions,
            asks_itself=find_self_asking(toolbox),
        )
        # In this order: a caller without the right learns nothing about the arguments, and no user must confirm a call
        # that cannot run.
        checks = (*scopes, required, build_arguments_check(), confirm if inbox is None else leave_long_calls(confirm))
        self._service = Service(
            toolbox,
            checks=checks,
            limits=limits,
            scheduler=self._scheduler,
            idempotency=self._idempotency,
            count=counted,
            debug=options.debug,
            inputs=InputStates(words, asked),
            rules=rules,
            check_accepted=None if inbox is None else confirm,
        )
        self._long_calls = LongCalls(
            open_store=open_long_calls(None) if parts.long_calls is None else parts.long_calls,
            engine=parts.engine,
            find_tool=lambda id_: toolbox.catalog().find_or_suggest(id_),
            execute=self._service.run_accepted,
            limits=limits,
            inbox=inbox,
            is_removed=parts.is_removed,
        )
        self._key_sessions = KeySessions(callers, words.derive_key(b"key sessions"), place=parts.confirmations)
        self._service.add_long_calls(self._long_calls)
        if has_long_tools(toolbox.catalog()):  # a server of such tools does not begin without their store
            self._long_calls.prepare()
        self._admission = Admission(parts.guard, callers, self._service)
        self._tables: dict[str, RouteTable] = {}
        self._building: dict[str, asyncio.Task[RouteTable]] = {}
        self._working: dict[Callable[[], object], asyncio.Task[None]] = {}
        self._cache = ToolCache()
        self._prepared: RouteTable | None = None
        # A random beginning and a number: as unique as a random id, and cheaper for each request.
        self._id_prefix = f"{secrets.token_hex(8)}-"
        self._next_number = count(1).__next__
        self._telemetry = options.telemetry or Telemetry()
        self._observer: Observer | None = None

    @property
    def active_calls(self) -> int:
        """The number of calls in flight."""
        return self._service.active_calls

    def list_running(self, most: int) -> list[RunningCall]:
        """Return at most ``most`` of the calls that wait for their tools now, the oldest first; no long calls."""
        return self._service.list_running(most)

    def catalog(self) -> Catalog:
        """Return what is served now; another object after each change."""
        return self._toolbox.catalog()

    def list_health(self) -> Sequence[UpstreamHealth]:
        """Return how each server behind this one is; none if there are none."""
        return list_health(self._toolbox)

    def drain(self) -> None:
        """Answer each new request with 503 from now on, ``/health`` too; running calls finish."""
        # R15
        self._service.draining = True
        if self._question_waits is not None:
            self._question_waits.drain()
        if self._sessions is not None:
            self._sessions.drain()

    async def begin(self) -> None:
        """Begin the ledger and the Toolbox, if they have a lifespan."""
        await begin_lifespan(self._idempotency)
        await begin_lifespan(self._toolbox)
        await begin_lifespan(self._long_calls)
        # Other processes have clients that are told of what changes in this one.
        if self._session_rows is not None:
            await self._load_sessions().begin()
        self._log_consent()
        self._prepared = self._build_table(
            "", self._toolbox.catalog()
        )  # so that the first request does not wait for it

    @asynccontextmanager
    async def hear_other_processes(self) -> AsyncGenerator[Callable[[], RemoteChanges], None]:
        """Give a function that returns what has changed in other processes of the same state since its last call."""
        if self._session_rows is not None:
            await self._load_sessions().prepare_stream()
        with self._changes.hear(CallerView(None)) as take_changes:
            yield take_changes

    def _log_consent(self) -> None:
        """Log who asks about the tools that need consent."""
        if not self._asks_hosts and self._receipts is None:
            return
        receipts = "" if self._receipts is None else "required"
        note = describe_host_consent(count_own_asking_tools([self._toolbox]), self._consent, receipts)
        if note:
            _log.info("%s", note)

    async def end(self) -> None:
        """End the sessions, and the Toolbox, the ledger and the store of rate limits, if they have a lifespan."""
        if self._sessions is not None:
            await self._sessions.end()
        if self._session_rows is not None:
            await to_thread.run_sync(self._session_rows.close)
        await end_lifespan(self._long_calls)
        await end_lifespan(self._toolbox)
        await end_lifespan(self._idempotency)
        await end_lifespan(self._rates)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request, as ASGI specifies."""
        if scope["type"] == "http":
            await self.serve(scope, get_exchange(receive, send))
        else:
            await (
                run_lifespan(self, receive, send)
                if scope["type"] == "lifespan"
                else close_websocket(scope, receive, send)
            )

    async def serve(self, scope: Scope, exchange: Exchange) -> None:  # noqa: C901, PLR0912 - in line: each request
        """Answer the HTTP request of ``exchange`` with the ASGI ``scope``."""
        # D-24: Host, Origin and credentials come first, then the body, then the protocol.
        table, path = self._find_table(scope)
        if table is None:
            table = await self._wait_for_table(scope, path)
        fields: Fields = dict(scope["headers"])
        entry = table.find_entry(scope["method"], path)
        # MC-10: a call without a session pays for one lookup.
        if SESSION_HEADER in fields and self._uses_session(table, path, fields):
            await self._serve_session(scope, exchange, fields, table, path)
            return
        # Most callers are known without waiting; only a signed or stored token may need the network or a database.
        caller = self._admission.admit(scope, fields, entry, table)
        if caller is None:
            caller = await self._admission.verify_caller(fields, entry)
        body: bytes | Problem | None = None
        if isinstance(caller, Problem) and caller.kind is Kind.UNAUTHORIZED and _takes_people(entry, scope["headers"]):
            # Only pages pay for this: a refused form may have the key in it, and a browser a session.
            body = await self._receive_body(exchange, fields) if entry.takes_body else b""
            caller, entry = await self._admit_person(scope, fields, entry, table, body, caller)
        if isinstance(caller, Problem):
            refusal = self._refuse_caller(scope, entry, caller)
            named = name_scopes(caller, frozenset() if self._private else table.scopes)
            await send_response(scope, exchange, add_challenge(refusal, named, self._callers, path))
            return
        if self._own_lists is not None and caller is not ANONYMOUS_CALLER:
            own = await self._own_lists.find_table(caller.name, table, scope.get("root_path") or "")
            if own is not table:
                table, entry = own, own.find_entry(scope["method"], path)
        if body is None:
            # The body is usually here already; waiting for it costs a task switch.
            body = take_limited_body(exchange, fields, self._limits) if entry.takes_body else b""
        if body is None:
            body = await receive_body(exchange.receive, self._limits, self._scheduler)
        if isinstance(body, Problem):
            await send_response(scope, exchange, entry.refuse(body))
            return
        query: bytes = scope["query_string"]
        url = f"{path}?{query.decode('latin-1')}" if query else path
        request = make_request(
            (scope["method"], url, scope["headers"], body, f"{self._id_prefix}{self._next_number()}", *_CLIENT_FIELDS)
        )
        reading = read_request(entry, request)
        if isinstance(reading, Work):
            await self._run_once(reading)
            reading = read_after_work(entry, request)
        # Without scopes every caller sees the same tools, so nothing has to be filtered.
        if table.depends_on_caller and self._admission.needs_credentials:
            reading = self._filter_for_caller(table, entry, caller, path, request, reading)
        if not isinstance(reading, (Pending, Streaming)):
            await self._answer_without_call(scope, exchange, fields, reading, caller=caller, entry=entry)
            return
        call = (
            _set_peer_address(reading.call, scope) if caller is ANONYMOUS_CALLER else _set_caller(reading.call, caller)
        )
        await self._run_and_answer(
            scope, exchange, fields, request=request, reading=reading, call=call, protocol=entry.protocol
        )

    async def _report_health(self, fields: Fields, entry: RouteEntry, path: str) -> Response:
        """Return the health of each server behind this one, for a known caller."""
        # GW-05: the path is open for probes, so the caller is looked at only here.
        found = self._callers.find_caller(fields) or await self._callers.verify(fields)
        if isinstance(found, Problem):
            return add_challenge(entry.refuse(found), found, self._callers, path)
        scopes = found.scopes if self._admission.needs_credentials else None
        return mark_private(build_health_report(self._toolbox, scopes, self._service.active_calls))

    async def _answer_without_call(
        self,
        scope: Scope,
        exchange: Exchange,
        fields: Fields,
        reading: Response | Subscription | CallQuery | SessionOffer,
        *,
        caller: Caller,
        entry: RouteEntry,
    ) -> None:
        if isinstance(reading, SessionOffer):
            reading = await self._take_offer(scope, reading, caller)
        if isinstance(reading, Response):
            if entry.takes_any_host and scope["query_string"] == b"full":
                reading = await self._report_health(fields, entry, scope["path"])
            await send_response(scope, exchange, apply_if_none_match(reading, fields))
            return
        if isinstance(reading, CallQuery):
            is_still_authorized = self._build_check(fields, caller)
            await answer_query(scope, exchange, reading, caller.name, self._long_calls, is_still_authorized)
            return
        if self._session_rows is not None:
            await self._load_sessions().prepare_stream()
        share, view = _find_share(scope, caller), self._build_view(caller, fields)
        await self._changes.run(scope, exchange, reading, owner=share, view=view)

    def _build_view(self, caller: Caller, fields: Fields | None = None) -> CallerView:
        """Return what ``caller`` may see of a catalog; for a stream, as long as the credentials in ``fields`` last."""
        is_still_authorized = None if fields is None else self._build_check(fields, caller)
        own = None if self._own_lists is None else self._own_lists.find_finder(caller)
        return CallerView(caller.scopes if self._admission.needs_credentials else None, is_still_authorized, own)

    def _build_check(self, fields: Fields, caller: Caller) -> IsStillAuthorized | None:
        """Return what checks the credentials of a stream again, or None if its caller came without any."""
        # Who is signed in at a browser has none in the header fields.
        if not self._admission.needs_credentials or isinstance(self._callers.find_caller(fields), Problem):
            return None
        return partial(self._is_admitted, fields, caller.name)

    async def _is_admitted(self, fields: Fields, name: str) -> bool:
        found = self._callers.find_caller(fields) or await self._callers.verify(fields)
        # A store that cannot be asked now has taken nothing away.
        return found.name == name if isinstance(found, Caller) else found.kind is not Kind.UNAUTHORIZED

    async def _take_offer(self, scope: Scope, offer: SessionOffer, caller: Caller) -> Response:
        """Return the answer to a client that begins: within a session if it gets one."""
        if STDIO_EXTENSION in scope.get("extensions", ()):
            return offer.lasting
        is_wanted = self._session_use == "all" or (self._session_use == "needed" and offer.has_forms)
        if not is_wanted or not offer.has_id or self._service.draining:
            return offer.stateless
        seen = self._build_view(caller)(self._toolbox.catalog())
        return await self._load_sessions().open(offer, _find_owner(caller), _find_share(scope, caller), seen)

    def _load_sessions(self) -> McpSessions:
        if self._sessions is None:
            from .mcp.session_manager import McpSessions  # few servers keep sessions

            self._sessions = McpSessions(
                self.serve, self._changes, self._toolbox.catalog, self._limits, self._session_rows
            )
        return self._sessions

    def _uses_session(self, table: RouteTable, path: str, fields: Fields) -> bool:
        """Return whether a request that names a session is one of it; since 2026-07-28 there are no sessions."""
        has_sessions = self._session_use != "none" and table.find_entry("POST", path).has_sessions
        return has_sessions and fields.get(VERSION_HEADER) != STATELESS.encode()

    async def _serve_session(
        self, scope: Scope, exchange: Exchange, fields: Fields, table: RouteTable, path: str
    ) -> None:
        """Answer a request that names a session."""
        entry = table.find_entry("POST", path)  # a GET and a DELETE need the same credentials
        caller = self._admission.admit(scope, fields, entry, table)
        if caller is None:
            caller = await self._admission.verify_caller(fields, entry)
        if isinstance(caller, Problem):
            named = name_scopes(caller, frozenset() if self._private else table.scopes)
            await send_response(scope, exchange, add_challenge(entry.refuse(caller), named, self._callers, path))
            return
        if scope["method"] not in ("GET", "POST", "DELETE"):
            wrong = Problem(kind=Kind.WRONG_METHOD, message="A session takes GET, POST and DELETE.")
            response = entry.refuse(wrong)
            await send_response(
                scope, exchange, response._replace(headers=(*response.headers, (b"allow", b"GET, POST, DELETE")))
            )
            return
        body = await self._receive_body(exchange, fields) if scope["method"] == "POST" else b""
        if isinstance(body, Problem):
            await send_response(scope, exchange, entry.refuse(body))
            return
        sessions = self._load_sessions()
        session = await sessions.find(fields[SESSION_HEADER], _find_owner(caller))
        if isinstance(session, Problem):
            await send_response(scope, exchange, entry.refuse(session))
            return
        share, view = _find_share(scope, caller), self._build_view(caller, fields)
        await sessions.answer(scope, exchange, session, body, share=share, view=view, refuse=entry.refuse)

    async def _run_and_answer(
        self,
        scope: Scope,
        exchange: Exchange,
        fields: Fields,
        *,
        request: Request,
        reading: Pending | Streaming,
        call: Call,
        protocol: str,
    ) -> None:
        # Three lookups instead of a copy of the call: most requests have none of these fields.
        if b"traceparent" in fields or CONFIRMATION in fields or KEY_HEADER in fields:
            call = _apply_headers(call, fields)
        if self._has_rare_calls or call.tool.long:
            call = self._apply_rare_headers(call, fields, scope, request, protocol)
        came = None if self._observer is None else _build_arrival(request, scope)
        if not isinstance(reading, Pending):
            start, survives_disconnect = self._prepare_stream(call, protocol, came)
            await stream_call(scope, exchange, reading, start, survives_disconnect=survives_disconnect)
            return
        if not call.key:  # a recorded call continues: the same call sent again gets its result
            exchange.cancel_on_disconnect()
        try:
            result, duration = await (
                self._run_waiting(exchange, call, protocol, came)
                if call.context.ask_wait_s
                else self._start_run(call, protocol, came)
            )
        except asyncio.CancelledError:
            # The client has gone, so no response is needed. Any other cancellation is one of the server.
            if not exchange.is_disconnected():
                raise
            return
        finally:
            exchange.ignore_disconnect()
        if is_large_result(result):
            response = await build_large_response(reading, call, result, duration)
        else:
            response = build_response(reading, call, result, duration)
        if call.tool.long:
            response = _add_call_location(response, result, scope, request)
        # The fast way writes head and body at once; servers of other makers get ASGI messages.
        if not exchange.try_send_response(response):
            await send_messages(scope, exchange.send, response)

    def _run_waiting(
        self, exchange: Exchange, call: Call, protocol: str, came: Arrival | None
    ) -> Awaitable[tuple[Result, float]]:
        """Run ``call`` when its user has decided. While it waits, a recorded call ends with its client too."""
        waits, start = self._question_waits, partial(self._start_run, call, protocol, came)
        return start() if waits is None else WaitingCall(waits, call, start, exchange if call.key else None).run()

    def _prepare_stream(
        self, call: Call, protocol: str, came: Arrival | None
    ) -> tuple[Callable[..., Awaitable[tuple[Result, float]]], Callable[[], bool]]:
        """Return what runs a ``call`` that streams, and what says whether it goes on if its client leaves now."""
        start = partial(self._start_run, call, protocol, came)
        if not call.context.ask_wait_s or self._question_waits is None:
            return start, partial(bool, call.key)
        waiting = WaitingCall(self._question_waits, call, start, None)  # the stream watches its client by itself
        return waiting.run, waiting.survives_disconnect

    def _apply_rare_headers(self, call: Call, fields: Fields, scope: Scope, request: Request, protocol: str) -> Call:
        """Return ``call`` with its receipt, where those are required, and with what its caller waits for."""
        if self._receipts is not None:
            call = _apply_receipt(call, fields, scope, self._admission.guard)
        if self._question_waits is not None:
            is_due = self._rules is not None and self._rules.find(call.context.principal).inbox
            call = _choose_inbox(call, request, self._ask_wait, is_due=is_due)
        return _apply_preference(call, request, protocol) if call.tool.long else call

    async def _receive_body(self, exchange: Exchange, fields: Fields) -> bytes | Problem:
        body = take_limited_body(exchange, fields, self._limits)
        return body if body is not None else await receive_body(exchange.receive, self._limits, self._scheduler)

    async def _admit_person(
        self,
        scope: Scope,
        fields: Fields,
        entry: RouteEntry,
        table: RouteTable,
        body: bytes | Problem,
        refusal: Problem,
    ) -> tuple[Caller | Problem, RouteEntry]:
        """Return the caller whose key is in a form, or who is signed in at the browser, and the entry for them."""
        caller = await self._admit_form(scope, fields, entry, table, body) if entry.takes_body else None
        page, people, sessions = entry.page, self.people, self._key_sessions
        root, step = scope.get("root_path", ""), find_form_step(body) if entry.takes_body else ""
        if caller is not None or page is None or b"authorization" in fields:
            if isinstance(caller, Caller) and page is not None and step == "sign-in" and isinstance(body, bytes):
                cookie = await sessions.begin(scope, fields, find_form_key(body), caller)
                entry = replace(entry, read=partial(read_session_change, root, cookie, entry.read))
            return caller or refusal, entry
        person = None if people is None else await people.find_user(scope["headers"])
        user = person or await sessions.find(scope, fields)
        if user is None or isinstance(user, Problem):
            return user or refusal, entry
        read = page.build_reader(user.name, user.by_key)
        if user.by_key and step == "sign-out":
            read = partial(read_session_change, root, await sessions.end(scope, fields), read)
        return user.caller, replace(entry, read=read)

    def _refuse_caller(self, scope: Scope, entry: RouteEntry, problem: Problem) -> Response:
        page, people = entry.page, self.people
        if page is None or not page.is_wanted(scope["headers"]):
            root = scope.get("root_path", "")
            return refuse_request(scope["method"], scope["headers"], problem, entry.refuse, root)
        return page.refuse(problem, LoginPlace() if people is None else people.login)

    async def _admit_form(
        self, scope: Scope, fields: Fields, entry: RouteEntry, table: RouteTable, body: bytes | Problem
    ) -> Caller | Problem | None:
        """Return the caller whose key is in a form of the page, which can set no header field; None without a key."""
        key = b"" if isinstance(body, Problem) else find_form_key(body)
        if not key:
            return None
        fields = {**fields, b"authorization": b"Bearer " + key}
        return self._admission.admit(scope, fields, entry, table) or await self._admission.verify_caller(fields, entry)

    def _find_table(self, scope: Scope) -> tuple[RouteTable | None, str]:
        """Return the route table of the current catalog and mount path, None if it must be built, and the path."""
        root, path = scope.get("root_path"), scope["path"]
        if root:
            root, path = split_mount_path(root, path)
        table = self._tables.get(root or "")
        # A catalog is never changed in place, so identity says whether the table still fits.
        if table is None or table.catalog is not self._toolbox.catalog():
            table = self._take_prepared(root or "")
        return table, path

    def _filter_for_caller(
        self, table: RouteTable, entry: RouteEntry, caller: Caller, path: str, request: Request, reading: Reading
    ) -> Reading:
        """Return what ``caller`` may see of ``reading``, or a refusal."""
        if entry.page is not None:  # the same for all scopes; and a form is read once, by who sent it
            return mark_private(reading) if isinstance(reading, Response) else reading
        seen = filter_reading(table, caller, path, request, reading, read_after_work)
        if not isinstance(seen, Problem):
            return seen
        # AT-36: the reply of a form shows its tool, and all others beside it.
        response = entry.refuse(seen) if path == PAGE_PATH else build_refusal(reading, seen)
        return add_challenge(mark_private(response), seen, self._callers, path)

    def _start_run(
        self, call: Call, protocol: str, came: Arrival | None, notify: Notify = ignore_progress
    ) -> Awaitable[tuple[Result, float]]:
        """Run ``call``, with telemetry if it is on, and keep its secrets out of every log."""
        run, context = self._service.run, call.context
        if context.tokens or context.secrets:
            return self._run_hiding_secrets(call, protocol, came, notify)
        return (
            run(call, notify) if self._observer is None else self._observer.run_call(run, call, notify, protocol, came)
        )

    async def _run_hiding_secrets(
        self, call: Call, protocol: str, came: Arrival | None, notify: Notify
    ) -> tuple[Result, float]:
        with hide_secrets(call.context):
            if self._observer is None:
                return await self._service.run(call, notify)
            return await self._observer.run_call(self._service.run, call, notify, protocol, came)

    def _take_prepared(self, root: str) -> RouteTable | None:
        """Return the table that was built before the first request, or None if it is of no use."""
        prepared = self._prepared
        if prepared is None or root or prepared.catalog is not self._toolbox.catalog():
            return None
        return self._mount_table(root, prepared)

    async def _wait_for_table(self, scope: Scope, path: str) -> RouteTable:
        """Return the table of the current catalog, which one task builds in a thread for all requests that wait.

        A health probe does not wait: the table before answers it.
        """
        # D-34: a site behind a gateway decides how long it takes to describe its tools.
        root, _ = split_mount_path(scope.get("root_path") or "", "")
        before = next(iter(self._tables.values()), self._prepared)
        if before is not None and before.find_entry(scope["method"], path).takes_any_host:
            return before
        task = self._building.get(root)
        if task is None:
            task = self._building[root] = asyncio.create_task(self._build_and_mount(root))
            task.add_done_callback(lambda _: self._building.pop(root, None))
        return await asyncio.shield(task)  # a client that leaves does not stop the build that others wait for

    async def _run_once(self, work: Work) -> None:
        """Do ``work`` in a thread, once for all requests that wait for it."""
        task = self._working.get(work.run)
        if task is None:
            task = self._working[work.run] = asyncio.create_task(run_in_thread(work))
            task.add_done_callback(lambda _: self._working.pop(work.run, None))
        await asyncio.shield(task)  # a client that leaves does not stop the work that others wait for

    async def _build_and_mount(self, root: str) -> RouteTable:
        catalog = self._toolbox.catalog()
        self._cache.keep_only(catalog.tools)
        with switch_threads_often():
            table = await to_thread.run_sync(self._build_table, root, catalog)
        return self._mount_table(root, table)

    def _mount_table(self, root: str, table: RouteTable) -> RouteTable:
        """Keep ``table`` for the mount path ``root``, and return it."""
        # A proxy may choose the mount path, so the number of tables has a limit.
        if len(self._tables) >= _MAX_ROOTS:
            self._tables.clear()
        # Only now, because a program sets its telemetry providers while it starts (docs/decisions/0015).
        self._observer = create_observer(self._telemetry)
        if self._observer is not None:
            self._idempotency.observe_ledgers(self._observer.observe_ledger)
        self._tables[root] = table
        self._prepared = None
        return table

    def _build_table(self, root: str, catalog: Catalog, cache: ToolCache | None = None) -> RouteTable:
        catalog.find("")  # makes its index, so that no call waits for it
        site = Site(
            keys=self._admission.needs_credentials,
            root=root,
            older_clients=self.older_clients,
            cache=self._cache if cache is None else cache,
            host_confirmation=self._host_confirmation,
            refuses_unasked=self._consent != "hints",
            has_sessions=True,
            private=self._private,
            takes_work=True,
            find_inbox_page=NO_PAGE if self._inbox is None else self._inbox.find_page,
            sign_in=self._sign_in,
            takes_keys=self._takes_keys,
            public_url=self._public_url or ("" if self._resource is None else self._resource.base_url),
            judge_output=find_output_judge(self._toolbox),
        )
        documents = self._documents
        if self._receipts is not None:
            documents = {**documents, f"{root}{KEYS_PATH}": self._receipts.publish}
        if self._resource is not None:
            # The names of scopes may say which tools there are.
            scopes = () if self._private else list_scopes(catalog)
            documents = {**documents, **self._resource.build_documents(scopes, catalog.title)}
        return RouteTable(catalog, self._codecs, site, documents)


def _takes_people(entry: RouteEntry, headers: Headers) -> bool:
    """Return whether the caller of a request may be known by its form or its browser: for pages alone."""
    return entry.takes_form_key or (entry.page is not None and entry.page.is_wanted(headers))


def _add_host_question(required: ConfirmationQuestion | None, ask_host: ConfirmationQuestion) -> ConfirmationQuestion:
    """Return the question that the server requires of every caller, else the one for a host that shows forms."""
    return ask_host if required is None else lambda call: required(call) or ask_host(call)


def _find_owner(caller: Caller) -> Hashable:
    """Return to whom a session belongs: the principal, and the program that acts for it."""
    return caller.name, caller.client_id


def _find_share(scope: Scope, caller: Caller) -> Hashable:
    """Return who counts for what one caller may have: a name, or the address of a caller without one."""
    return (scope.get("client") or ("",))[0] if caller is ANONYMOUS_CALLER else (caller.name,)


def _build_arrival(request: Request, scope: Scope) -> Arrival:
    client = scope.get("client")
    return Arrival(request, client[0] if client else "", scope.get("http_version", ""))


def _apply_headers(call: Call, fields: Fields) -> Call:
    """Return ``call`` with trace, confirmation and key from the request head, which all protocols share."""
    # OTC-019, XL-056
    context = call.context
    if b"traceparent" in fields:
        context = add_trace(context, fields[b"traceparent"].decode("latin-1"))
    if CONFIRMATION in fields and context.input_responses is None:  # the state of a tool's question is the word there
        context = replace(context, confirmation=fields[CONFIRMATION].decode("latin-1"))
    key = parse_key(fields[KEY_HEADER]) if KEY_HEADER in fields and not call.key else call.key
    return call._replace(context=context, call_id=key or call.call_id, key=key)


def _apply_preference(call: Call, request: Request, protocol: str) -> Call:
    """Return ``call`` of a long tool with the time that its caller wants to wait for its end."""
    # LC-02: only OpenAPI has a usual word for "later", so there a caller waits only if it says so.
    preference = calls_resource.read_preference(request.headers)
    if preference is not None:
        return call._replace(context=replace(call.context, wait_s=preference[0]))
    return call._replace(context=replace(call.context, wait_s=0.0)) if protocol == "openapi" else call


def _choose_inbox(call: Call, request: Request, ask_wait: float, *, is_due: bool) -> Call:
    """Return ``call``, about which its user decides in the inbox if its client cannot ask, wants that, or ``is_due``.

    ``ask_wait`` is how many seconds such a call waits, if its request names no other time.
    """
    # GW-04
    context = call.context
    preference = calls_resource.read_preference(request.headers)
    # With respond-async, a client of long calls says how long it waits for their end.
    wait_s = preference[0] if preference is not None and preference[1] != b"respond-async" else None
    if is_due:
        # What the client asked its user, or says it did, decides nothing here. The state of a tool's question is kept.
        word = context.confirmation if context.input_responses is not None else ""
        said = context.user_answer if is_declined(call) else None
        context = replace(
            context, can_ask=False, must_confirm=True, needs_inbox=True, confirmation=word, user_answer=said
        )
    elif wait_s is not None and not context.can_ask and not context.confirmation and not context.receipt:
        context = replace(context, must_confirm=True, needs_inbox=True)
    if not context.needs_inbox:
        return call
    if wait_s is None:  # a page that the user has not seen is told first
        wait_s = 0.0 if context.opens_pages else max(ask_wait, context.ask_wait_s)
    wait_s = min(wait_s, QUESTION_WAIT_S)
    return call._replace(context=replace(context, ask_wait_s=0.0 if call.tool.long else wait_s))


def _add_call_location(response: Response, result: Result, scope: Scope, request: Request) -> Response:
    """Return ``response`` with the address of the call, if the call goes on, and with the preference that it meets."""
    if isinstance(result, Value):
        return calls_resource.add_applied_wait(response, request.headers)
    if result.kind is not Kind.ACCEPTED:
        return response
    root, _ = split_mount_path(scope.get("root_path") or "", "")
    return calls_resource.add_location(response, result, root, request.headers)


def _apply_receipt(call: Call, fields: Fields, scope: Scope, guard: HostGuard) -> Call:
    """Return ``call`` with the receipt in its head, if it has none, and with the host of this server it came to."""
    # CC-06, AT-34
    context, field = call.context, fields.get(RECEIPT_FIELD, b"")
    named = fields.get(b"host", b"").decode("latin-1")
    is_stdio = STDIO_EXTENSION in scope.get("extensions", ())
    host = STDIO if is_stdio else guard.find_own_host(scope.get("server"), named)
    receipt = context.receipt or field.decode("latin-1")
    return call._replace(context=replace(context, receipt=receipt, host=host))


def _set_peer_address(call: Call, scope: Scope) -> Call:
    """Return ``call``, after keeping the address of its anonymous caller: worker threads are shared by address."""
    client = scope.get("client")
    PEER_ADDRESS.set(client[0] if client else "")
    return call


def _set_caller(call: Call, caller: Caller) -> Call:
    context = call.context
    context = (
        caller.context
        if context is ANONYMOUS
        else replace(context, principal=caller.name, scopes=caller.scopes, client_id=caller.client_id)
    )
    return make_call((call.tool, call.arguments, call.call_id, context, call.key))
