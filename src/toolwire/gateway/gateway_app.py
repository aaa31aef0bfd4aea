"""Serve a gateway: the application of its tools, with pages for its callers in front."""
# GW-02, GW-03

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

import anyio.to_thread

from toolwire.core.catalog import Catalog
from toolwire.core.health import UpstreamHealth
from toolwire.core.http import JSON_HEADERS, STATUS_BY_KIND, Response
from toolwire.core.model import Problem, Secret
from toolwire.framing import jsontext
from toolwire.server import App
from toolwire.server.access.callers import Fields, read_credential
from toolwire.server.access.host_guard import HostGuard
from toolwire.server.deadline_scheduler import DeadlineScheduler
from toolwire.server.http.exchange import Exchange, Receive, Scope, Send, get_exchange
from toolwire.server.http.lifespan import run_lifespan
from toolwire.server.http.messages import close_websocket, read_body, send_response, split_mount_path
from toolwire.server.limits import ServerLimits
from toolwire.server.run.service import RunningCall

from .caller_request import CALLER_TOKEN
from .sign_in_pages import PageRequest


class Service(Protocol):
    """What serves beside an application, such as its metrics at another address."""

    def start(self) -> None:
        """Serve from now on. It returns at once."""
        ...

    def stop(self) -> None:
        """Stop serving. It may wait."""
        ...


class SignInServer(Protocol):
    """The authorization server of a gateway, at which its callers sign in."""

    paths: frozenset[str]
    """The paths that it answers."""

    async def answer(self, scope: Scope, exchange: Exchange) -> Response:
        """Return the response to one HTTP request."""
        ...


AnswerPage: TypeAlias = Callable[[PageRequest], Awaitable[Response]]

_LIMITS: Final = ServerLimits(body_bytes=64 * 1024)


class GatewayApp:
    """The application ``app``, and before it ``pages`` by the beginning of their path.

    ``public_url`` is the address of the gateway, which its pages name. With ``keeps_tokens``, the token of a request is
    at hand while its call runs. ``services`` start and stop with the application. ``sign_in`` is where people sign in
    at the gateway itself.
    """

    takes_exchanges = True
    """Says to our own HTTP server that ``serve`` takes a whole exchange."""

    def __init__(
        self,
        app: App,
        pages: Mapping[str, AnswerPage],
        guard: HostGuard,
        *,
        public_url: str = "",
        keeps_tokens: bool = False,
        services: Sequence[Service] = (),
        sign_in: SignInServer | None = None,
    ) -> None:
        self._app, self._pages, self._guard, self._services = app, dict(pages), guard, services
        self._prefixes = tuple(pages)
        self._sign_in = sign_in
        self._sign_in_paths = frozenset() if sign_in is None else sign_in.paths
        self._public_url = public_url.rstrip("/")
        self._keeps_tokens = keeps_tokens
        self._scheduler = DeadlineScheduler()

    @property
    def active_calls(self) -> int:
        """The number of calls in flight."""
        return self._app.active_calls

    def list_running(self, most: int) -> list[RunningCall]:
        """Return at most ``most`` of the calls that wait for their tools now, the oldest first; no long calls."""
        return self._app.list_running(most)

    def catalog(self) -> Catalog:
        """Return what is served now."""
        return self._app.catalog()

    def list_health(self) -> Sequence[UpstreamHealth]:
        """Return the health of each upstream."""
        return self._app.list_health()

    def drain(self) -> None:
        """Answer each new request with 503 from now on; running calls finish."""
        self._app.drain()

    async def begin(self) -> None:
        """Begin the application, and what serves beside it."""
        await self._app.begin()
        for service in self._services:
            service.start()

    async def end(self) -> None:
        """End the application, and what serves beside it."""
        for service in self._services:
            await anyio.to_thread.run_sync(service.stop)
        await self._app.end()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request, as ASGI specifies."""
        if scope["type"] == "http":
            await self.serve(scope, get_exchange(receive, send))
        elif scope["type"] == "lifespan":
            await run_lifespan(self, receive, send)
        else:
            await close_websocket(scope, receive, send)

    async def serve(self, scope: Scope, exchange: Exchange) -> None:
        """Answer the HTTP request of ``exchange`` with the ASGI ``scope``."""
        fields: Fields = dict(scope["headers"])
        _, path = split_mount_path(scope.get("root_path") or "", scope["path"])
        if self._keeps_tokens:
            CALLER_TOKEN.set(Secret(read_credential(fields).decode("latin-1")))
        if path in self._sign_in_paths and self._sign_in is not None:
            await send_response(scope, exchange, await self._answer_sign_in(self._sign_in, scope, exchange, fields))
            return
        if not path.startswith(self._prefixes):
            await self._app.serve(scope, exchange)
            return
        await send_response(scope, exchange, await self._answer_page(scope, exchange, fields, path))

    async def _answer_sign_in(
        self, sign_in: SignInServer, scope: Scope, exchange: Exchange, fields: Fields
    ) -> Response:
        server = scope.get("server")
        # D-24: a browser of another program can read its pages at the names of this gateway alone. An origin may be
        # any: the server itself says which of its addresses pages of other sites may read.
        own = {name: value for name, value in fields.items() if name != b"origin"}
        refusal = self._guard.check_host(server[0] if server else "", own)
        return await sign_in.answer(scope, exchange) if refusal is None else _build_refusal(refusal)

    async def _answer_page(self, scope: Scope, exchange: Exchange, fields: Fields, path: str) -> Response:
        server = scope.get("server")
        refusal = self._guard.check_host(server[0] if server else "", fields)  # D-24: before anything else is read
        if refusal is not None:
            return _build_refusal(refusal)
        body = await read_body(exchange, fields, _LIMITS, self._scheduler) if scope["method"] == "POST" else b""
        if isinstance(body, Problem):
            return _build_refusal(body)
        query = scope["query_string"].decode("latin-1")
        request = PageRequest(scope["method"], path, query, scope["headers"], fields, body, self._public_url)
        prefix = next(one for one in self._prefixes if path.startswith(one))
        return await self._pages[prefix](request)


def _build_refusal(problem: Problem) -> Response:
    body = jsontext.write({"error": problem.kind.value, "message": problem.message})
    return Response(STATUS_BY_KIND[problem.kind], JSON_HEADERS, body)
