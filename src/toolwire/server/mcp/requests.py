"""Answer what only clients of MCP send: requests within a session, to open one, and to hear of changes."""
# MC-06, MC-10

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from anyio import to_thread

from toolwire.core.catalog import Catalog
from toolwire.core.codec import RemoteChanges, SessionStart, Subscription
from toolwire.core.http import Response
from toolwire.core.model import Kind, Problem
from toolwire.framing.jsontext import get_text
from toolwire.protocols.mcp.revision import LIST_HEADER, LIST_META, SESSION_HEADER, STATELESS, VERSION_HEADER
from toolwire.server.deadline_scheduler import DeadlineScheduler
from toolwire.server.http.exchange import STDIO_EXTENSION, Exchange, Scope
from toolwire.server.http.messages import read_body, send_response
from toolwire.server.limits import ServerLimits

from .change_stream import CallerView, ChangeStreams, McpClient

if TYPE_CHECKING:  # few servers keep sessions
    from toolwire.stores.sessions.session_rows import SessionRows

    from .host import Serve
    from .session_manager import McpSessionManager

_WRONG_METHOD = Problem(kind=Kind.WRONG_METHOD, message="A session accepts only GET, POST and DELETE.")


class McpRequests:
    """The sessions and the change streams of one application, whose catalog ``find_catalog`` returns.

    ``use`` says which clients get a session: ``all``, ``none``, or ``needed``, for those that show forms. With
    ``rows``, other processes share the sessions, and tell what changes in them. ``is_draining`` returns whether the
    server takes no new requests.
    """

    def __init__(
        self,
        find_catalog: Callable[[], Catalog],
        is_draining: Callable[[], bool],
        limits: ServerLimits,
        scheduler: DeadlineScheduler,
        *,
        use: str,
        rows: SessionRows | None,
    ) -> None:
        self._find_catalog, self._is_draining = find_catalog, is_draining
        self._limits, self._scheduler = limits, scheduler
        self._use, self._rows = use, rows
        self._changes = ChangeStreams(find_catalog, is_draining)
        self._manager: McpSessionManager | None = None
        self.serve: Serve | None = None
        """Answers a request without a session, as the application does."""

    async def begin(self) -> None:
        """Tell other processes from now on what changes here, if they share the sessions."""
        if self._rows is not None:
            await self._load_manager().begin()

    async def end(self) -> None:
        """End the sessions of this process."""
        if self._manager is not None:
            await self._manager.end()
        if self._rows is not None:
            await to_thread.run_sync(self._rows.close)

    def drain(self) -> None:
        """End the questions that wait for users, so that running calls end."""
        if self._manager is not None:
            self._manager.drain()

    def has_session(self, fields: Mapping[bytes, bytes]) -> bool:
        """Return whether a request with ``fields`` belongs to a session."""
        # Since 2026-07-28 there are no sessions.
        return SESSION_HEADER in fields and self._use != "none" and fields.get(VERSION_HEADER) != STATELESS.encode()

    async def answer(
        self,
        scope: Scope,
        exchange: Exchange,
        fields: Mapping[bytes, bytes],
        client: McpClient,
        refuse: Callable[[Problem], Response],
    ) -> None:
        """Answer a request of ``client`` within a session."""
        if scope["method"] not in ("GET", "POST", "DELETE"):
            response = refuse(_WRONG_METHOD)
            response = response._replace(headers=(*response.headers, (b"allow", b"GET, POST, DELETE")))
            await send_response(scope, exchange, response)
            return
        body: bytes | Problem = b""
        if scope["method"] == "POST":
            body = await read_body(exchange, fields, self._limits, self._scheduler)
        if isinstance(body, Problem):
            await send_response(scope, exchange, refuse(body))
            return
        from .session_manager import SessionRequest  # few servers keep sessions

        manager = self._load_manager()
        session = await manager.find(fields[SESSION_HEADER], client.owner)
        if isinstance(session, Problem):
            await send_response(scope, exchange, refuse(session))
            return
        await manager.answer(SessionRequest(scope, exchange, session, client, refuse), body)

    async def start_session(self, scope: Scope, start: SessionStart, client: McpClient) -> Response:
        """Return the answer to a ``client`` that begins: within a session if it gets one."""
        if STDIO_EXTENSION in scope.get("extensions", ()):
            choice = get_text(start.capabilities, LIST_META).encode()
            return start.lasting._replace(headers=(*start.lasting.headers, (LIST_HEADER, choice)))
        is_wanted = self._use == "all" or (self._use == "needed" and start.has_forms)
        if not is_wanted or not start.has_id or self._is_draining():
            return start.stateless
        return await self._load_manager().open_session(start, client)

    async def stream_changes(
        self, scope: Scope, exchange: Exchange, subscription: Subscription, client: McpClient
    ) -> None:
        """Send what changes for ``client`` until it leaves."""
        await self._prepare_stream()
        await self._changes.run(scope, exchange, subscription, client)

    @asynccontextmanager
    async def subscribe_to_remote_changes(self) -> AsyncGenerator[Callable[[], RemoteChanges], None]:
        """Give a function that returns what has changed in other processes of the same state since its last call."""
        await self._prepare_stream()
        with self._changes.track_changes(CallerView(None)) as take_changes:
            yield take_changes

    async def _prepare_stream(self) -> None:
        if self._rows is not None:
            await self._load_manager().prepare_stream()

    def _load_manager(self) -> McpSessionManager:
        if self._manager is None:
            from .session_manager import McpSessionManager  # few servers keep sessions

            if self.serve is None:
                raise RuntimeError("no application serves these sessions")
            self._manager = McpSessionManager(self.serve, self._changes, self._find_catalog, self._limits, self._rows)
        return self._manager
