"""Serve the console as an ASGI application: who may see it, one table of pages, and the events that keep them fresh.

Rules:
- Host and Origin are checked as by every server of this project. A form must come from a page of the same session.
- Without a session there is one page: that which asks for the key.
- Pages read files, so each is made in a thread.
"""
# CO-02, D-19, D-22, D-24

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias
from urllib.parse import parse_qs

import anyio.to_thread

from toolwire.client.approvers.browser_approver import is_other_user
from toolwire.core.errors import ToolwireError
from toolwire.core.http import EVENT_HEADERS, STATUS_BY_KIND, Response
from toolwire.core.model import Problem
from toolwire.core.url_origin import get_authority
from toolwire.framing.csrf import find_form_origin
from toolwire.framing.html import Html
from toolwire.framing.html_page import load_script
from toolwire.server.access.browser_session import BrowserSession
from toolwire.server.access.host_guard import HostGuard
from toolwire.server.deadline_scheduler import DeadlineScheduler
from toolwire.server.http.cookies import build_cookie, find_cookie, is_by_https, name_server_cookie
from toolwire.server.http.exchange import Exchange, Receive, Scope, Send, get_exchange
from toolwire.server.http.lifespan import run_lifespan
from toolwire.server.http.messages import close_websocket, read_body, send_response, split_mount_path
from toolwire.server.limits import ServerLimits
from toolwire.stores.outage_log import OutageLog, list_store_errors

from . import connections_page, inbox_page, log_page, operator_actions, overview_page, permissions_page, server_pages
from .events import BEAT_S, ChangeFeed, read_all_topics
from .inbox_page import GROUPS
from .log_page import write_csv, write_json_lines
from .operator_actions import AllGrants, AllQuestions
from .page import (
    SCRIPT_PATH,
    Action,
    Download,
    Page,
    PageRequest,
    Redirect,
    build_download,
    build_page,
    build_refusal,
    build_sign_in_page,
)
from .page_tables import PageTables
from .sessions import Found, OperatorSessions, SessionUser, SignInKey
from .source import ConsoleSource

Fields: TypeAlias = Mapping[bytes, bytes]

_log = logging.getLogger("toolwire.console")
_LIMITS: Final = ServerLimits(body_bytes=4 << 20)
_MAX_FIELDS: Final = 5_000
_THREADS: Final = 16
_LEFT: Final = "You left this page. You are still signed in at this server with your account."
_SESSION_OVER: Final = "Your session has expired, so nothing was changed. Sign in and try again."
_NO_SESSION: Final = ("Sign in first.", 401)
_NO_ROOM: Final = ("Too many pages.", 503)
_SCRIPT_HEADERS: Final = (
    (b"content-type", b"text/javascript; charset=utf-8"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),
)
_SAFE_PATH: Final = re.compile(r"/[A-Za-z0-9/_-]{0,100}")


class PageGroup:
    """Further pages of a console, such as a chat: their place in the navigation, and their pages and actions by path.

    ``looks`` are its topics, as for ``ChangeFeed``; ``attach`` is called with what tells the pages of news.
    """

    def __init__(
        self,
        *,
        place: tuple[str, str],
        pages: Mapping[str, Action],
        actions: Mapping[str, Action],
        attach: Callable[[Callable[[str], None]], object] = lambda _: None,
        close: Callable[[], object] = lambda: None,
    ) -> None:
        self.place: tuple[str, str] = place
        self.pages: Mapping[str, Action] = pages
        self.actions: Mapping[str, Action] = actions
        self.attach: Callable[[Callable[[str], None]], object] = attach
        self.close: Callable[[], object] = close


class Console:
    """The pages of one console, as an ASGI application that can be stopped.

    - ``sign_in``: recognizes the operators' keys.
    - ``root``: the path of the pages. ``App.add_front`` puts them before a server's application.
    - ``hosts``: the accepted host names, in addition to this machine's.
    - ``own_user_only``: refuse programs of this machine's other users, where the system can identify them. The page's
      link can then contain the key.
    - ``secret``: signs the sessions. All workers of a server need the same secret.
    - ``tables``: other pages than an operator's.
    - ``public_url``: the server's URL for its users, if known.
    - ``find_known``: passed to ``OperatorSessions``.
    """

    active_calls = 0

    def __init__(
        self,
        source: ConsoleSource,
        sign_in: SignInKey,
        *,
        root: str = "",
        hosts: Iterable[str] = (),
        own_user_only: bool = False,
        secret: bytes = b"",
        groups: Sequence[PageGroup] = (),
        tables: PageTables | None = None,
        public_url: str = "",
        find_known: Callable[[str], Found] = lambda _: None,
    ) -> None:
        self._source = source
        self._root = root  # below the path at which a proxy or an application has the server
        self._guard = HostGuard(hosts=hosts)
        self._own_user_only = own_user_only
        self._secure_host = get_authority(public_url) if public_url.startswith("https://") else ""
        self._scheduler = DeadlineScheduler()
        self._limiters: list[anyio.CapacityLimiter] = []
        self._groups = groups
        self._tables = build_operator_tables(source, groups) if tables is None else tables
        self._sessions = OperatorSessions(sign_in, secret=secret, audience=self._tables.name, find_known=find_known)
        self._pages, self._actions = self._tables.pages, self._tables.actions
        self._feed = ChangeFeed(self._tables.read_topics)
        self._draining = False
        self._outages = OutageLog(_log, "the sessions of the console can be read again.")
        self._streams: Counter[str] = Counter()
        for group in groups:
            group.attach(self._feed.notify)

    async def begin(self) -> None:
        """Open the stores."""
        self._source.open()

    async def end(self) -> None:
        """Close what the page groups opened."""
        for group in self._groups:
            await anyio.to_thread.run_sync(group.close)

    def drain(self) -> None:
        """End the event streams. Pages are still served."""
        self._draining = True
        self._feed.notify("")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request; see the ASGI specification."""
        if scope["type"] == "lifespan":
            await run_lifespan(self, receive, send)
        elif scope["type"] != "http":
            await close_websocket(scope, receive, send)
        else:
            await self.serve(scope, get_exchange(receive, send))

    def takes(self, scope: Scope) -> bool:
        """Return whether the console handles this path. ``tables.announce`` gets all others."""
        # CR-02: a proxy, or an application that mounts the server, may have it below a path.
        path, root = split_mount_path(scope.get("root_path") or "", scope["path"])[1], self._root
        is_own = path == root or path.startswith(f"{root}/")
        if not is_own and self._tables.announce is not None:
            self._tables.announce(scope)
        return is_own

    def _find_root(self, scope: Scope) -> str:
        """Return the path of the pages as the browser knows it."""
        return split_mount_path(scope.get("root_path") or "", "")[0] + self._root

    async def serve(self, scope: Scope, exchange: Exchange) -> None:
        """Answer the HTTP request in ``exchange``, with its ASGI ``scope``."""
        fields: Fields = dict(scope["headers"])
        refusal = self._find_refusal(scope, fields) or await self._refuse_other_users(scope)
        path = split_mount_path(scope.get("root_path") or "", scope["path"])[1][len(self._root) :] or "/"
        if refusal is None and path == "/events" and scope["method"] == "GET":
            await self._serve_events(scope, exchange, fields)
            return
        try:
            response = refusal or await self._answer(scope, exchange, fields, path)
        except list_store_errors() as error:
            response = self._refuse_unreadable(error)
        else:
            self._outages.record_success()
        await send_response(scope, exchange, response)

    # Admission

    def _find_refusal(self, scope: Scope, fields: Fields) -> Response | None:
        """Return why nothing of this console is for who sent this request, or None."""
        address = (scope.get("server") or ("", 0))[0]
        problem = self._guard.check_host(address, fields)
        if problem is not None:
            return build_refusal(problem.message, STATUS_BY_KIND[problem.kind])
        # A link may lead here from anywhere; anything else of another site is refused, whatever cookie it has.
        is_link = scope["method"] in ("GET", "HEAD") and fields.get(b"sec-fetch-mode") == b"navigate"
        if not is_link and find_form_origin(fields) == "cross_site":
            return build_refusal("This console accepts requests only from its own pages.", 403)
        return None

    async def _refuse_other_users(self, scope: Scope) -> Response | None:
        client, server = scope.get("client"), scope.get("server")
        if self._own_user_only and (not client or not server or await self._is_other_user(client[1], server[1])):
            return build_refusal("This console accepts requests only from the user who started it.", 403)
        return None

    async def _is_other_user(self, peer: int, own: int) -> bool:
        # The system writes its table of connections anew for each reader.
        return await anyio.to_thread.run_sync(is_other_user, peer, own, limiter=self._find_limiter())

    async def _find_session(self, scope: Scope, fields: Fields) -> BrowserSession | None:
        """Return the session of a request, or None if it has none, or one that has ended.

        Raises:
            OSError, sqlite3.Error: it is not known whether it has ended.
        """
        name, is_secure = self._name_cookie(scope), self._is_secure(scope, fields)
        # Behind a proxy, the address of a page does not always tell that the browser came by https.
        cookie = find_cookie(fields, name, is_secure=True) or ("" if is_secure else find_cookie(fields, name))
        session = self._sessions.find(cookie) if cookie else None
        if session is not None and await self._has_ended(session):
            session = None
        names = self._tables.key_names
        if session is not None and not session.has_account and names is not None and session.name not in names:
            # AT-42: what signs a cookie is in the state where only people are let in; who reads it must not get in.
            session = None
        if session is not None and session.has_account:
            # D-38: a person who signs out there, or is removed, is let in nowhere any more.
            user = await self._find_user(scope)
            is_known = isinstance(user, SessionUser) and user.name == session.name
            # PL-03: the groups of now, never those of a cookie.
            session = (
                replace(session, details={GROUPS: user.groups}) if isinstance(user, SessionUser) and is_known else None
            )
        return session

    async def _has_ended(self, session: BrowserSession) -> bool:
        # ST-01: in any process, so each request looks; only who has a valid cookie gets here.
        ended = self._source.sign_outs
        if await anyio.to_thread.run_sync(
            ended.has_ended, session.build_record(session.name), limiter=self._find_limiter()
        ):
            return True
        if session.has_account or not self._tables.stores_sessions:
            return False
        # AT-42: what signs a cookie is in the state; who reads it must not get in.
        return not await anyio.to_thread.run_sync(
            ended.has_session, session.build_record(session.name), limiter=self._find_limiter()
        )

    async def _find_user(self, scope: Scope) -> SessionUser | Problem | None:
        find_user = self._tables.find_user
        return None if find_user is None else await find_user(scope["headers"])

    # Pages

    async def _answer(self, scope: Scope, exchange: Exchange, fields: Fields, path: str) -> Response:
        match scope["method"]:
            case "POST":
                return await self._answer_form(scope, exchange, fields, path)
            case "GET" | "HEAD" if path == SCRIPT_PATH:
                return Response(200, _SCRIPT_HEADERS, load_script("console.js", __file__))
            case "GET" | "HEAD":
                session = await self._find_session(scope, fields)
                if session is None:
                    return await self._welcome(scope, fields, path)
                query = {name: one[0] for name, one in _parse(scope["query_string"].decode("latin-1")).items()}
                request = PageRequest(session=session, root=self._find_root(scope), path=path, query=query)
                return await self._make(self._pages.get(path), request)
            case _:
                return build_refusal("This address accepts only GET and POST.", 405)

    async def _answer_form(self, scope: Scope, exchange: Exchange, fields: Fields, path: str) -> Response:
        body = await read_body(exchange, fields, _LIMITS, self._scheduler)
        if isinstance(body, Problem):
            return build_refusal(body.message, STATUS_BY_KIND[body.kind])
        form = _parse(body.decode("utf-8", "replace"))
        if path == "/sign-in":
            return await self._sign_in(scope, fields, form)
        session = await self._find_session(scope, fields)
        if session is None:
            return self._build_sign_in(scope, path, _SESSION_OVER)
        request = PageRequest(session=session, root=self._find_root(scope), path=path, form=form)
        if not session.owns(request.get("token")):
            return build_refusal("This form has expired or was not sent from this page. Go back and reload it.", 403)
        if path == "/sign-out":
            await anyio.to_thread.run_sync(
                self._source.sign_outs.end, session.build_record(session.name), limiter=self._find_limiter()
            )
            # A redirect would begin a session for the same person again.
            response = (
                self._build_sign_in(scope, "/", _LEFT, 200)
                if session.has_account
                else _redirect(f"{self._find_root(scope)}/")
            )
            gone = self._build_cookie(scope, fields, "", "SameSite=Strict; Max-Age=0")
            return response._replace(headers=(*response.headers, gone))
        return await self._make(self._actions.get(path), request)

    async def _make(self, handler: Action | None, request: PageRequest) -> Response:
        """Return the response of a page or an action, which runs in a thread."""
        if handler is None:
            handler = _build_missing
        return await anyio.to_thread.run_sync(self._run, handler, request, limiter=self._find_limiter())

    def _find_limiter(self) -> anyio.CapacityLimiter:
        if not self._limiters:  # made in the event loop that uses it
            self._limiters.append(anyio.CapacityLimiter(_THREADS))
        return self._limiters[0]

    def _run(self, handler: Action, request: PageRequest) -> Response:
        try:
            made = handler(request)
            if isinstance(made, Redirect):
                note = f"{'&' if '?' in made.path else '?'}note={made.note}" if made.note else ""
                return _redirect(f"{request.root}{made.path}{note}")
            if isinstance(made, Download):
                return build_download(made)
            return build_page(request, made, self._tables.list_places(request))
        except list_store_errors(ToolwireError) as error:  # also a database that went away
            self._outages.record_failure("the page %s failed: %s.", request.path, error)
            text = str(error) if isinstance(error, ToolwireError) else "Cannot read one of the console's files now."
            return build_refusal(text, 500)
        except Exception:  # noqa: BLE001 - the browser gets a page, and the log has the details
            _log.exception("the page %s failed", request.path)
            return build_refusal("The page could not be displayed. See the program's log.", 500)

    async def _welcome(self, scope: Scope, fields: Fields, path: str) -> Response:
        """Return the page that asks for a key; or begin the session of a person who is signed in at the server."""
        user = await self._find_user(scope)
        wanted = path if path in self._pages else "/"
        if not isinstance(user, SessionUser):
            return (
                self._build_sign_in(scope, path)
                if user is None
                else self._build_sign_in(scope, path, user.message, 403)
            )
        return self._redirect_with_cookie(scope, fields, wanted, self._sessions.start_for(user))

    def _redirect_with_cookie(self, scope: Scope, fields: Fields, path: str, cookie: str) -> Response:
        response = _redirect(f"{self._find_root(scope)}{path}")
        return response._replace(headers=(*response.headers, self._build_cookie(scope, fields, cookie)))

    def _build_cookie(
        self, scope: Scope, fields: Fields, value: str, more: str = "SameSite=Strict"
    ) -> tuple[bytes, bytes]:
        is_secure = self._is_secure(scope, fields)
        return build_cookie(
            self._name_cookie(scope), value, is_secure=is_secure, path=self._find_root(scope) or "/", more=more
        )

    def _is_secure(self, scope: Scope, fields: Fields) -> bool:
        """Return whether the browser came by https, perhaps to a proxy in front."""
        if is_by_https(scope, fields):
            return True
        return bool(self._secure_host) and fields.get(b"host", b"").decode("latin-1").lower() == self._secure_host

    def _build_sign_in(self, scope: Scope, path: str, notice: str = "", status: int = 401) -> Response:
        wanted = path if path in self._pages else "/"
        tables = self._tables
        return build_sign_in_page(
            self._find_root(scope),
            wanted,
            tables.words,
            notice,
            status,
            login_path=tables.login_path,
            takes_keys=tables.takes_keys,
            takes_link_keys=self._own_user_only,
        )

    def _name_cookie(self, scope: Scope) -> str:
        return name_server_cookie(f"toolwire_{self._tables.name}", scope, dict(scope["headers"]))

    async def _sign_in(self, scope: Scope, fields: Fields, form: Mapping[str, Sequence[str]]) -> Response:
        wanted, key = ((form.get(name) or ("",))[0] for name in ("next", "key"))
        path = wanted if _SAFE_PATH.fullmatch(wanted) and wanted in self._pages else "/"
        address = (scope.get("client") or ("", 0))[0]
        cookie = await self._sessions.start(key.strip(), address)
        if cookie is None:
            return self._build_sign_in(scope, path, self._tables.words.wrong, 403)
        session = self._sessions.find(cookie) if self._tables.stores_sessions else None
        if session is not None:
            begin = self._source.sign_outs.begin
            await anyio.to_thread.run_sync(begin, session.build_record(session.name), limiter=self._find_limiter())
        return self._redirect_with_cookie(scope, fields, path, cookie)

    # Events

    async def _serve_events(self, scope: Scope, exchange: Exchange, fields: Fields) -> None:
        refusal: Response | None = None
        try:
            session = await self._find_session(scope, fields)
        except list_store_errors() as error:
            session, refusal = None, self._refuse_unreadable(error)
        if session is None or self._feed.is_full or self._streams[session.name] >= self._tables.streams_each:
            refusal = refusal or build_refusal(*_NO_SESSION if session is None else _NO_ROOM)
            await send_response(scope, exchange, refusal)
            return
        leaving = asyncio.ensure_future(_wait_for_disconnect(exchange))
        change = self._feed.wait_for_change()
        self._streams[session.name] += 1
        try:
            await self._feed.open_stream()
            await exchange.send({"type": "http.response.start", "status": 200, "headers": list(EVENT_HEADERS)})
            await exchange.send({"type": "http.response.body", "body": b"retry: 2000\n\n", "more_body": True})
            while not self._draining:
                await asyncio.wait((leaving, change), timeout=BEAT_S, return_when=asyncio.FIRST_COMPLETED)
                if leaving.done() or not await self._is_still_authorized(scope, fields):
                    break
                data = b": \n\n"
                if change.done():
                    topics, change = change.result(), self._feed.wait_for_change()
                    topics = self._select_topics(session, topics)
                    if not topics:
                        continue
                    data = f"event: change\ndata: {topics}\n\n".encode()
                await exchange.send({"type": "http.response.body", "body": data, "more_body": True})
            if not leaving.done():
                await exchange.send({"type": "http.response.body", "body": b""})
        finally:
            leaving.cancel()
            change.cancel()
            self._feed.close_stream()
            self._streams[session.name] -= 1
            if not self._streams[session.name]:
                del self._streams[session.name]

    async def _is_still_authorized(self, scope: Scope, fields: Fields) -> bool:
        """Return whether the session of a stream has not ended; a page whose stream ends asks for it again."""
        try:
            return await self._find_session(scope, fields) is not None
        except list_store_errors():
            return False

    def _refuse_unreadable(self, error: Exception) -> Response:
        # A session of which nothing says that it goes on is none, and a sign-out that nobody keeps is none either.
        self._outages.record_failure("the sessions of the console cannot be read: %s.", error)
        return build_refusal("Cannot read or end the console's sessions now. Try again.", 503)

    def _select_topics(self, session: BrowserSession, topics: str) -> str:
        """Return those of ``topics`` that a session hears of."""
        own = self._tables.find_topics(session)
        return topics if own is None else " ".join(topic for topic in topics.split() if topic in own)


async def _wait_for_disconnect(exchange: Exchange) -> None:
    while (await exchange.receive())["type"] != "http.disconnect":
        pass


def build_operator_tables(source: ConsoleSource, groups: Sequence[PageGroup] = ()) -> PageTables:
    """Return the pages of an operator."""
    pages: dict[str, Action] = {
        "/": lambda request: overview_page.build_overview(source, request),
        "/inbox": lambda request: inbox_page.build_inbox(AllQuestions(source, request.session), request),
        "/permissions": lambda request: permissions_page.build_permissions(source.grants, request),
        "/rules": lambda request: permissions_page.build_rules(source, request),
        "/log": lambda request: log_page.build_log(source, request),
        "/log/decisions.csv": lambda request: log_page.export_log(source, request, write_csv, "csv", "text/csv"),
        "/log/decisions.jsonl": lambda request: log_page.export_log(
            source, request, write_json_lines, "jsonl", "application/jsonl"
        ),
    }
    actions: dict[str, Action] = {
        "/inbox": lambda request: inbox_page.answer_question(AllQuestions(source, request.session), request),
        "/permissions": lambda request: permissions_page.revoke_permission(
            AllGrants(source, request.session.name), request
        ),
        "/rules": lambda request: operator_actions.change_rule(source, request),
    }
    places = [("/permissions", "Permissions"), ("/rules", "Rules"), ("/log", "Log")]
    if source.list_connections is not None:
        pages["/connections"] = lambda request: connections_page.build_connections(source, request)
        actions["/connections"] = lambda request: connections_page.show_site_tools(source, request)
        places.insert(0, ("/connections", "Connections"))
    if source.list_locked is not None:
        pages["/lock"] = lambda request: connections_page.build_lock(source, request)
        actions["/lock"] = lambda request: connections_page.compare_with_lock(source, request)
        places.append(("/lock", "Lock"))
    if source.list_upstreams is not None:
        pages["/upstreams"] = lambda request: server_pages.build_upstreams(source, request)
        actions["/upstreams"] = lambda request: server_pages.try_upstream(source, request)
        places.append(("/upstreams", "Upstreams"))
    if source.upstream_changes is not None:
        actions["/upstreams/add"] = lambda request: server_pages.add_upstream(source, request)
        actions["/upstreams/remove"] = lambda request: server_pages.remove_upstream(source, request)
    if source.list_calls is not None or source.list_running is not None:
        pages["/calls"] = lambda request: server_pages.build_calls(source, request)
        places.append(("/calls", "Calls"))
    if source.list_calls is not None:
        actions["/calls"] = lambda request: operator_actions.cancel_call(source, request)
    if source.list_limits is not None or source.limit_notes:
        pages["/limits"] = lambda request: server_pages.build_limits(source, request)
        places.append(("/limits", "Limits"))
    for group in groups:
        pages |= group.pages
        actions |= group.actions

    def list_places(_request: PageRequest) -> list[tuple[str, str]]:
        count = len(source.approvals.list_pending())
        inbox = ("/inbox", f"Inbox ({count})" if count else "Inbox")
        return [("/", "Overview"), *(group.place for group in groups), inbox, *places]

    return PageTables(
        pages=pages,
        actions=actions,
        list_places=list_places,
        read_topics=partial(read_all_topics, _build_readers(source)),
    )


def _build_readers(source: ConsoleSource) -> Mapping[str, Callable[[], object]]:
    readers: dict[str, Callable[[], object]] = {
        # With the number of all: a question that was asked and answered between two looks has changed the page too.
        "inbox": lambda: (source.approvals.count_stored(), [one.id for one in source.approvals.list_pending()]),
        "permissions": lambda: [(one.id, one.uses_left) for one in source.grants.list_grants()],
        "rules": source.preferences.list_levels,
        "log": source.audit.last_number,
    }
    given = (("upstreams", source.list_upstreams), ("calls", source.list_calls), ("running", source.list_running))
    return readers | {topic: reader for topic, reader in given if reader is not None}


def _redirect(address: str) -> Response:
    # 303: whatever the form was, the page is then fetched, and loading it again sends nothing again.
    return Response(303, ((b"location", address.encode("latin-1", "replace")), (b"cache-control", b"no-store")))


def _parse(text: str) -> dict[str, list[str]]:
    try:
        return parse_qs(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError:
        return {}


def _build_missing(_request: PageRequest) -> Page:
    return _NO_PAGE


_NO_PAGE: Final = Page(
    "No such page",
    Html('<div class="card"><h1>There is no such page</h1><p>The links above lead on.</p></div>'),
    status=404,
)
