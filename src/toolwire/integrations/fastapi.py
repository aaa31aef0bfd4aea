"""Add ``x-llm`` to a FastAPI application, and serve its document where clients look for it.

Rules:
- The app stays as it was but for its OpenAPI document, three well-known routes, those of the other protocols, and a
  check when it starts.
"""
# XL-121

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from toolwire.core.lazy_import import explain_missing_module

try:
    from fastapi import FastAPI, HTTPException, Request, Response, Security
    from fastapi.openapi.models import OAuth2 as OAuth2Model
    from fastapi.security import SecurityScopes
    from fastapi.security.base import SecurityBase
except ModuleNotFoundError as _error:
    raise explain_missing_module(_error, "fastapi") from _error

from toolwire.core.errors import DefinitionError
from toolwire.core.http import STATUS_BY_KIND
from toolwire.core.model import Kind, Problem
from toolwire.protocols.openapi.document.versions import RELEASES, Version, as_version
from toolwire.server.options import ServerOptions

from .app_server import DEFAULT_OPTIONS, AppServer
from .documents import LLM, OPENAPI, llm_json
from .route_marks import Include, SiteMarks, check_document, mark_document, read_site_marks, x_llm
from .sign_in import SCHEME, add_security_scheme, check_enforce, check_scopes, choose_callers
from .starlette_routes import add_app_server, add_catalog_route, add_document_route, add_sign_in

if TYPE_CHECKING:
    from toolwire.server.oauth import AuthorizationServer

__all__ = ["ServerOptions", "publish_tools", "require_user", "x_llm"]


def publish_tools(
    app: FastAPI,
    *,
    name: str | None = None,
    description: str = "",
    include: Include | None = None,
    openapi: Version = "3.1",
    options: ServerOptions | None = DEFAULT_OPTIONS,
    sign_in: AuthorizationServer | None = None,
    enforce: bool = False,
) -> FastAPI:
    """Make the routes of ``app`` available as tools, and return ``app``. Call it once.

    The OpenAPI document gets ``x-llm``, where clients find the tools. They are also served over MCP (at ``/mcp``),
    OpenTool and Open Tool Calling. A tool call is a request to the route, with the caller's credentials, so your app
    authenticates its users as before. A protocol is left out if ``app`` has a route at one of its paths.

    - ``include``: ``"marked"`` publishes routes with ``x_llm``. ``"all"`` publishes every route in the document, except
      those with ``enabled=False``. Default: ``"marked"`` if any route has ``x_llm``, else ``"all"``.
    - ``options``: the options of the other protocols. With None, only the document is published.
    - ``sign_in``: the authorization server, from ``toolwire.oauth.authorization_server``. Its pages and metadata become
      routes of ``app``. MCP, OpenTool and Open Tool Calling then accept only its tokens. Protect the routes themselves
      with ``require_user``.
    - ``enforce``: also apply an operation's ``rateLimit`` to direct requests. Calls and requests of one caller are then
      counted together.

    When the app starts, invalid ``x-llm`` is refused. Warnings about tools that a model could misunderstand are logged.

    Raises:
        DefinitionError: an option is not valid. When the app starts: an ``x-llm`` contains an unknown field or an
            invalid value, or nobody can sign in.
    """
    # XL-018, XL-019, XL-121..124, AO-01
    if not isinstance(app, FastAPI):
        raise DefinitionError(f"publish_tools needs a FastAPI application here, not {type(app).__name__}.")
    site = read_site_marks(name or app.title, description, include)
    check_enforce(options, enforce=enforce)
    options = choose_callers(options, sign_in)
    app.openapi = _wrap_openapi(app.openapi, site, openapi, sign_in)  # type: ignore[method-assign]  # as FastAPI's guide does it
    if sign_in is not None:
        add_sign_in(app, sign_in)
    _check_at_start(app, sign_in)
    if options is not None:
        # FastAPI names its root path as a server: the proxy's address of it, and not a path of its routes.
        served = AppServer(app, lambda: {**app.openapi(), "servers": []}, options, sign_in)
        add_app_server(app, served, enforce=enforce)
    find_place = partial(_get_document_url, app)

    async def read_llm(request: Request) -> bytes:
        return llm_json(app.openapi(), find_place(request))

    async def read_document(request: Request) -> bytes:
        return bytes((await _find_own_endpoint(app)(request)).body)

    add_document_route(app, LLM, read_llm)
    add_document_route(app, OPENAPI, read_document)
    add_catalog_route(app, find_place)
    return app


def require_user(sign_in: AuthorizationServer, *scopes: str) -> Any:
    """Return a route dependency whose value is the user for whom a request is made.

    The user is signed in at your application, or has given an app ``scopes``, and the app sends its access token. The
    value is what ``users`` of ``authorization_server`` returns for the user. Other requests get 401 or 403, with a
    challenge that tells clients where to sign in and with which scopes. The OpenAPI document names the scopes.
    """
    # AO-01, I-22
    scheme = _SignInScheme(sign_in)

    async def find_user(request: Request, needed: SecurityScopes, _: None = Security(scheme)) -> Any:
        caller = await sign_in.identify_request(request.scope, *needed.scopes)
        user = None if isinstance(caller, Problem) else await sign_in.load_user(caller.name)
        if user is not None:
            return user
        problem = caller if isinstance(caller, Problem) else _GONE
        challenge = sign_in.callers.challenge(problem, request.url.path)
        fields = {name.decode("latin-1"): value.decode("latin-1") for name, value in challenge}
        raise HTTPException(STATUS_BY_KIND[problem.kind], problem.message, fields)

    return Security(find_user, scopes=scopes)


class _SignInScheme(SecurityBase):
    """What the document says of the sign-in."""

    def __init__(self, sign_in: AuthorizationServer) -> None:
        self.scheme_name = SCHEME
        self.model = OAuth2Model.model_validate(sign_in.callers.security_scheme)

    async def __call__(self) -> None:
        """Take nothing: ``require_user`` reads the request."""


_GONE = Problem(
    kind=Kind.UNAUTHORIZED, message="The account of this token was removed.", details={"error": "invalid_token"}
)


def _wrap_openapi(
    original: Callable[[], dict[str, Any]], site: SiteMarks, version: Version, sign_in: AuthorizationServer | None
) -> Callable[[], dict[str, Any]]:
    """Return ``app.openapi`` with ``x-llm`` in what it gives; made anew only when the original is."""
    known: tuple[Any, dict[str, Any]] = (None, {})

    def write() -> dict[str, Any]:
        nonlocal known
        plain = original()
        if known[0] is not plain:
            # FastAPI writes schemas of 3.1 whatever its ``openapi_version`` says.
            marked = {**add_security_scheme(mark_document(plain, site), sign_in), "openapi": RELEASES["3.1"]}
            known = (plain, as_version(marked, version))
        return known[1]

    return write


def _check_at_start(app: FastAPI, sign_in: AuthorizationServer | None) -> None:
    original = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(scope: Any) -> AsyncGenerator[Any, None]:
        check_document(app.openapi())
        if sign_in is not None:
            check_scopes(app.openapi(), sign_in)
        async with original(scope) as state:
            yield state

    app.router.lifespan_context = lifespan


def _get_document_url(app: FastAPI, request: Request) -> str:
    root = str(request.scope.get("root_path", "")).rstrip("/")
    return root + (app.openapi_url or OPENAPI)


def _find_own_endpoint(app: FastAPI) -> Any:
    """Return the app's own endpoint of its document, so that both places answer the same bytes."""
    for route in app.router.routes:
        if getattr(route, "path", None) == app.openapi_url:
            return cast("Any", route).endpoint  # a route with a path has an endpoint

    async def endpoint(_: Request) -> Response:
        from fastapi.responses import JSONResponse  # only an app without an openapi_url needs it

        return JSONResponse(app.openapi())

    return endpoint
