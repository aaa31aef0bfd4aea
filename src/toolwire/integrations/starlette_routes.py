"""Add the paths of documents and protocols to the router of a Starlette or FastAPI application.

Rules:
- They come before the routes that are there, because a mount of everything, such as static files, would hide them.
- A route of the application at one of these paths stays.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from toolwire.core.lazy_import import explain_missing_module

try:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Match, Mount, Route
except ModuleNotFoundError as _error:
    raise explain_missing_module(_error, "starlette") from _error

from .wires import AppWires, choose_paths


def add_document_route(app: Starlette, path: str, endpoint: Callable[[Request], Awaitable[Response]]) -> None:
    """Let ``endpoint`` answer GET and HEAD at ``path``."""
    if not _is_taken(app, "GET", path):
        app.router.routes.insert(0, Route(path, endpoint, methods=["GET", "HEAD"], include_in_schema=False))


def add_wires(app: Starlette, wires: AppWires) -> None:
    """Route the paths of the protocols to ``wires``, which begins and ends with the lifespan of ``app``."""
    paths = choose_paths(wires.wires, partial(_is_taken, app))
    app.router.routes[:0] = [Route(path, wires, include_in_schema=False) for path in paths]
    original = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(scope: Any) -> AsyncGenerator[Any, None]:
        async with original(scope) as state:
            await wires.begin()
            try:
                yield state
            finally:
                await wires.end()

    app.router.lifespan_context = lifespan


def _is_taken(app: Starlette, method: str, path: str) -> bool:
    """Return whether ``app`` has a route of its own for ``path``; a mount of everything is none."""
    scope = {"type": "http", "method": method, "path": path, "root_path": "", "headers": []}
    own = (route for route in app.router.routes if not (isinstance(route, Mount) and not route.path))
    return any(route.matches(scope)[0] is Match.FULL for route in own)
