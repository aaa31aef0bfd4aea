"""Add the paths of documents and protocols to the router of a Starlette or FastAPI application.

Rules:
- They come before the routes that are there, because a mount of everything, such as static files, would hide them.
- A route of the application at one of these paths stays, whether it is added before or after them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from toolwire.core.lazy_import import explain_missing_module

try:
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute, Match, Mount, Route
except ModuleNotFoundError as _error:
    raise explain_missing_module(_error, "starlette") from _error

from toolwire.core.errors import DefinitionError

from .app_server import AppServer, choose_paths
from .documents import CATALOG, JSON_TYPE, LINKSET_TYPE, answer, api_catalog
from .sign_in import build_probe, check_identify_user, check_paths, send_probe

if TYPE_CHECKING:
    from toolwire.server.oauth import AuthorizationServer


def add_document_route(
    app: Starlette, path: str, read_body: Callable[[Request], Awaitable[bytes]], *, media_type: str = JSON_TYPE
) -> None:
    """Let the document that ``read_body`` returns be answered at ``path``, to GET and HEAD."""

    async def endpoint(request: Request) -> Response:
        known = request.headers.get("if-none-match", "")
        found = answer(await read_body(request), request.method, known, media_type=media_type)
        return Response(found.body, found.status, found.headers)

    if not _is_taken(app.router.routes, "GET", path):
        app.router.routes.insert(0, Route(path, endpoint, methods=["GET", "HEAD"], include_in_schema=False))


def add_catalog_route(app: Starlette, find_place: Callable[[Request], str]) -> None:
    """Let ``app`` answer with the catalog of its API, whose document is at ``find_place(request)``."""

    async def read_body(request: Request) -> bytes:
        return api_catalog(f"{request.url.scheme}://{request.url.netloc}", find_place(request))

    add_document_route(app, CATALOG, read_body, media_type=LINKSET_TYPE)


def add_app_server(app: Starlette, server: AppServer, *, enforce: bool) -> None:
    """Route the paths of the protocols to ``server``, which begins and ends with the lifespan of ``app``.

    With ``enforce``, the limits of the tools also hold for the routes themselves.
    """
    if enforce:  # the last middleware of the application: its sessions are read before
        app.user_middleware.append(Middleware(server.limit_routes))
    paths = choose_paths(server.options, partial(_is_taken, app.router.routes))
    routes = [Route(path, server, include_in_schema=False) for path in paths]
    app.router.routes[:0] = routes
    original = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(scope: Any) -> AsyncGenerator[Any, None]:
        async with original(scope) as state:
            # CR-01: such as a mount of other tools at /tools, which would lose /tools/call
            own = [route for route in app.router.routes if route not in routes]
            if any(_is_taken(own, method, path) for path in paths for method in ("GET", "POST")):
                chosen = choose_paths(server.options, partial(_is_taken, own))
                for route in routes:
                    if route.path not in chosen:
                        app.router.routes.remove(route)
            await server.begin()
            try:
                yield state
            finally:
                await server.end()

    app.router.lifespan_context = lifespan


def add_sign_in(app: Starlette, sign_in: AuthorizationServer) -> None:
    """Route the pages and the metadata of ``sign_in``, and check when ``app`` starts that users can sign in."""
    # As routes, they come after every middleware of the application, such as that of its sessions.
    # Below a root path, the router sees the part of a path after it, and the sign-in sees the whole.
    root = urlsplit(sign_in.settings.issuer).path.rstrip("/")
    paths = sorted(sign_in.paths | {path.removeprefix(root) for path in sign_in.paths})
    routes = [Route(path, sign_in, include_in_schema=False) for path in paths]
    app.router.routes[:0] = routes
    original = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(scope: Any) -> AsyncGenerator[Any, None]:
        async with original(scope) as state:
            own = [route for route in app.router.routes if route not in routes]
            check_paths(
                sign_in,
                lambda path: any(getattr(route, "path", "") == path for route in own),
                lambda path: bool(_find_routes(own, "GET", path)),
            )
            await _check_sessions(app, sign_in)
            yield state

    app.router.lifespan_context = lifespan


async def _check_sessions(app: Starlette, sign_in: AuthorizationServer) -> None:
    """Check that ``identify_user`` understands a request as the middleware of ``app`` passes it on."""
    scope, path = build_probe(sign_in)
    found: list[DefinitionError] = []

    async def endpoint(request: Request) -> Response:
        try:
            await check_identify_user(sign_in, request.scope)
        except DefinitionError as error:
            found.append(error)
        return Response()

    probe = Route(path, endpoint)
    app.router.routes.insert(0, probe)
    try:
        # A middleware may answer instead: then there is nothing to learn.
        with suppress(Exception):
            await send_probe(app, scope)
    finally:
        app.router.routes.remove(probe)
    for error in found:
        raise error


def _is_taken(routes: Iterable[BaseRoute], method: str, path: str) -> bool:
    """Return whether one of ``routes`` is for ``path``; a mount of everything is not."""
    own = [route for route in routes if not (isinstance(route, Mount) and not route.path)]
    return bool(_find_routes(own, method, path))


def _find_routes(routes: Iterable[BaseRoute], method: str, path: str) -> list[BaseRoute]:
    scope = {"type": "http", "method": method, "path": path, "root_path": "", "headers": []}
    return [route for route in routes if route.matches(scope)[0] is Match.FULL]
