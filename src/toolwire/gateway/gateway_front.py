"""Serve a gateway's pages for its callers, and their sign-in, in front of the application that serves its tools."""
# GW-02, GW-03

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

import anyio.to_thread

from toolwire.core.http import JSON_HEADERS, STATUS_BY_KIND, Response
from toolwire.core.model import Problem, Secret
from toolwire.framing import jsontext
from toolwire.server.access.callers import Fields, read_credential
from toolwire.server.access.host_guard import HostGuard
from toolwire.server.deadline_scheduler import DeadlineScheduler
from toolwire.server.http.exchange import Exchange, Scope
from toolwire.server.http.messages import read_body, send_response, split_mount_path
from toolwire.server.limits import ServerLimits

from .personal_toolbox import CALLER_TOKEN
from .sign_in_pages import PageRequest


class Service(Protocol):
    """A service that runs next to an application, such as its metrics at another address."""

    def start(self) -> None:
        """Serve from now on. It returns at once."""
        ...

    def stop(self) -> None:
        """Stop serving. It can wait."""
        ...


class SignInServer(Protocol):
    """A gateway's authorization server, where its callers sign in."""

    paths: frozenset[str]
    """The paths that it answers."""

    def find_path(self, scope: Scope) -> str:
        """Return a request's path in the form that ``paths`` uses, or the part below a root path."""
        ...

    async def answer(self, scope: Scope, exchange: Exchange) -> Response:
        """Return the response to one HTTP request."""
        ...


AnswerPage: TypeAlias = Callable[[PageRequest], Awaitable[Response]]

_LIMITS: Final = ServerLimits(body_bytes=64 * 1024)


class GatewayFront:
    """Answers requests before a gateway's application does: ``pages``, by path prefix, and the sign-in.

    ``public_url`` is the gateway's URL on its pages. With ``stores_tokens``, a request's token is available while its
    call runs. ``services`` start and stop with the application. Users sign in to the gateway itself at ``sign_in``.
    """

    def __init__(
        self,
        pages: Mapping[str, AnswerPage],
        guard: HostGuard,
        *,
        public_url: str = "",
        stores_tokens: bool = False,
        services: Sequence[Service] = (),
        sign_in: SignInServer | None = None,
    ) -> None:
        self._pages, self._guard, self._services = dict(pages), guard, services
        self._prefixes = tuple(pages)
        self._sign_in = sign_in
        self._sign_in_paths = frozenset() if sign_in is None else sign_in.paths
        self._public_url = public_url.rstrip("/")
        self._stores_tokens = stores_tokens
        self._scheduler = DeadlineScheduler()

    def takes(self, scope: Scope) -> bool:
        """Return whether a request is for a page or the sign-in. Remember its token if the gateway exchanges tokens."""
        if self._stores_tokens:
            CALLER_TOKEN.set(Secret(read_credential(dict(scope["headers"])).decode("latin-1")))
        path = self._find_path(scope)
        return path in self._sign_in_paths or path.startswith(self._prefixes)

    def _find_path(self, scope: Scope) -> str:
        """Return a request's path below its root path, or in the form that the sign-in uses."""
        if self._sign_in is not None:
            return self._sign_in.find_path(scope)
        return split_mount_path(scope.get("root_path") or "", scope["path"])[1]

    async def begin(self) -> None:
        """Start the services."""
        for service in self._services:
            service.start()

    async def end(self) -> None:
        """Stop the services."""
        for service in self._services:
            await anyio.to_thread.run_sync(service.stop)

    def drain(self) -> None:
        """Do nothing: a page is answered at once."""

    async def serve(self, scope: Scope, exchange: Exchange) -> None:
        """Answer a request for a page or the sign-in."""
        fields: Fields = dict(scope["headers"])
        path = self._find_path(scope)
        if path in self._sign_in_paths and self._sign_in is not None:
            response = await self._answer_sign_in(self._sign_in, scope, exchange, fields)
        else:
            response = await self._answer_page(scope, exchange, fields, path)
        await send_response(scope, exchange, response)

    async def _answer_sign_in(
        self, sign_in: SignInServer, scope: Scope, exchange: Exchange, fields: Fields
    ) -> Response:
        server = scope.get("server")
        # D-24: only requests to the gateway's own host names can read its pages. Any origin is accepted here, because
        # the server itself says which of its paths other sites' pages may read.
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
