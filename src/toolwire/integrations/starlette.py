"""Add ``x-llm`` to the OpenAPI document of a Starlette application, and serve it.

Rules:
- The app stays as it was but for the routes of its documents and of the other protocols, and a check when it starts.
"""
# XL-121

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack

from toolwire.core.lazy_import import explain_missing_module

try:
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.routing import Mount, Route
except ModuleNotFoundError as _error:
    raise explain_missing_module(_error, "starlette") from _error

from toolwire.core.errors import DefinitionError
from toolwire.protocols.openapi.document.versions import Version, as_version
from toolwire.server.options import ServerOptions

from . import route_marks
from .app_server import DEFAULT_OPTIONS, AppServer
from .documents import LLM, OPENAPI, build_documents, read_app_document
from .route_marks import Include, RouteMarks, check_document, iterate_operations, mark_document, read_site_marks
from .routes import Routes
from .sign_in import add_security_scheme, check_enforce, check_scopes, choose_callers
from .starlette_routes import add_app_server, add_catalog_route, add_document_route, add_sign_in

if TYPE_CHECKING:
    from toolwire.server.oauth import AuthorizationServer

__all__ = ["ServerOptions", "publish_tools", "x_llm"]

F = TypeVar("F", bound=Callable[..., Any])

_MARK: Final = "__x_llm__"


def x_llm(**marks: Unpack[RouteMarks]) -> Callable[[F], F]:
    """Return a decorator that says ``x-llm`` of an endpoint.

    Raises:
        DefinitionError: there is no such member, or its value cannot be.
    """
    data = route_marks.x_llm(**marks)

    def mark(endpoint: F) -> F:
        setattr(endpoint, _MARK, data)
        return endpoint

    return mark


def publish_tools(
    app: Starlette,
    document: Mapping[str, Any],
    *,
    name: str | None = None,
    description: str = "",
    include: Include | None = None,
    openapi: Version | None = None,
    path: str = "/openapi.json",
    options: ServerOptions | None = DEFAULT_OPTIONS,
    sign_in: AuthorizationServer | None = None,
    enforce: bool = False,
) -> Starlette:
    """Let models use ``app``, whose OpenAPI ``document`` is given, of 3.0 to 3.2, or Swagger 2.0, and return it.

    The document is served at ``path`` and at the well-known place. ``include`` is as for
    FastAPI, and so is ``options``. Call it after the routes are there. ``openapi`` converts a
    document of 3.1; without it, the document keeps its version. ``sign_in`` is as for
    ``toolwire.integrations.asgi.publish_tools``: ``request.state.caller.name`` is the id of the user.

    With ``enforce``, the ``rateLimit`` of an operation also holds for requests that come to the route itself: then the
    calls of one caller count together, whichever way they come.

    Raises:
        DefinitionError: an option is not valid, an ``x-llm`` has an unknown member or a wrong value, or an operation
            requires a scope that ``sign_in`` does not offer.
    """
    # XL-018, XL-019, XL-121..124
    if not isinstance(app, Starlette):
        raise DefinitionError(f"publish_tools needs a Starlette application here, not {type(app).__name__}.")
    document = read_app_document(document, openapi)
    title = document.get("info", {}).get("title", "Tools")
    site = read_site_marks(name or title, description, include)
    whole = as_version(add_security_scheme(mark_document(_add_marks(document, app), site), sign_in), openapi)
    check_document(whole)
    check_enforce(options, enforce=enforce)
    options = choose_callers(options, sign_in)
    if sign_in is not None:
        check_scopes(whole, sign_in)
        find = Routes(whole).find_scopes
        # The last middleware of the application: its sessions are read before.
        app.user_middleware.append(Middleware(lambda inner: sign_in.protect(inner, find)))
        add_sign_in(app, sign_in)
    if options is not None:
        add_app_server(app, AppServer(app, lambda: whole, options, sign_in), enforce=enforce)
    for place, what in ((path, path), (OPENAPI, path), (LLM, LLM)):
        add_document_route(app, place, partial(_read_document, whole, path, what))
    add_catalog_route(app, lambda request: _find_root(request) + path)
    return app


def _add_marks(document: Mapping[str, Any], app: Starlette) -> dict[str, Any]:
    """Return ``document`` with what the endpoints were marked with."""
    built = deepcopy(dict(document))
    marks = dict(_iterate_marks(app.router.routes))
    for one in iterate_operations(built):
        one.node.update(marks.get((one.method, one.path), {}))
    return built


def _iterate_marks(routes: Any, root: str = "") -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    for route in routes:
        if isinstance(route, Mount):
            yield from _iterate_marks(route.routes, root + route.path)
        mark = getattr(route.endpoint, _MARK, None) if isinstance(route, Route) else None
        if isinstance(route, Route) and mark is not None:
            for method in route.methods or ():
                yield (method.lower(), root + route.path_format), mark


async def _read_document(document: Mapping[str, Any], place: str, what: str, request: Request) -> bytes:
    return build_documents(document, _find_root(request), place)[what]


def _find_root(request: Request) -> str:
    return str(request.scope.get("root_path", "")).rstrip("/")
