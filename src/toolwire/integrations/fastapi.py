"""Add ``x-llm`` to a FastAPI application, and serve its document where clients look for it.

Rules:
- The app stays as it was but for its OpenAPI document, three well-known routes, those of the other protocols, and a
  check when it starts.
"""
# XL-121

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal, cast

from toolwire.core.lazy_import import explain_missing_module

try:
    from fastapi import FastAPI, Request, Response
except ModuleNotFoundError as _error:
    raise explain_missing_module(_error, "fastapi") from _error

from toolwire.core.errors import DefinitionError
from toolwire.protocols.openapi.document.versions import RELEASES, Version, as_version
from toolwire.server.options import ServerOptions

from .documents import CATALOG, LLM, OPENAPI, DocumentAnswer, answer, api_catalog, catalog_answer, llm_json
from .route_marks import Include, SiteMarks, check_document, mark_document, read_site_marks, x_llm
from .starlette_routes import add_document_route, add_wires
from .wires import ALL_WIRES, AppWires

__all__ = ["ServerOptions", "publish_tools", "x_llm"]


def publish_tools(
    app: FastAPI,
    *,
    name: str | None = None,
    description: str = "",
    default_approval: Literal["auto", "per-call"] = "per-call",
    include: Include | None = None,
    openapi: Version = "3.1",
    wires: ServerOptions | None = ALL_WIRES,
) -> FastAPI:
    """Let models use ``app``, and return it: its document gets ``x-llm``, and clients find it. Call it once.

    The same tools are served over MCP (at ``/mcp``), OpenTool and Open Tool Calling too, as ``wires`` says, or not at
    all with None. A call is a request to the route, with the credentials of the caller: your app signs its users
    in, and refuses them, as before. A protocol is left out if one of its paths is a route of ``app``.

    ``include`` "marked" offers the routes that have an ``x_llm``, "all" every route of the document but those with
    ``enabled=False``; left out, it is "marked" as soon as one route is. When the app starts, an ``x-llm`` that cannot
    be is refused, and what a model's user would change is logged.

    Raises:
        DefinitionError: an option is not valid; when the app starts, if the ``x-llm`` of a route has an unknown member
            or a wrong value.
    """
    # XL-018, XL-019, XL-121..124
    if not isinstance(app, FastAPI):
        raise DefinitionError(f"publish_tools takes a FastAPI application here, not {type(app).__name__}.")
    site = read_site_marks(name or app.title, description, default_approval, include)
    app.openapi = _wrap_openapi(app.openapi, site, openapi)  # type: ignore[method-assign]  # as FastAPI's guide does it
    _check_at_start(app)
    if wires is not None:
        # FastAPI names its root path as a server: the proxy's address of it, and not a path of its routes.
        add_wires(app, AppWires(app, lambda: {**app.openapi(), "servers": []}, wires))
    add_document_route(app, LLM, _build_llm_endpoint(app))
    add_document_route(app, OPENAPI, _build_document_endpoint(app))
    add_document_route(app, CATALOG, _build_catalog_endpoint(app))
    return app


def _wrap_openapi(
    original: Callable[[], dict[str, Any]], site: SiteMarks, version: Version
) -> Callable[[], dict[str, Any]]:
    """Return ``app.openapi`` with ``x-llm`` in what it gives; made anew only when the original is."""
    known: tuple[Any, dict[str, Any]] = (None, {})

    def write() -> dict[str, Any]:
        nonlocal known
        plain = original()
        if known[0] is not plain:
            # FastAPI writes schemas of 3.1 whatever its ``openapi_version`` says.
            marked = {**mark_document(plain, site), "openapi": RELEASES["3.1"]}
            known = (plain, as_version(marked, version))
        return known[1]

    return write


def _check_at_start(app: FastAPI) -> None:
    original = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(scope: Any) -> AsyncGenerator[Any, None]:
        check_document(app.openapi())
        async with original(scope) as state:
            yield state

    app.router.lifespan_context = lifespan


def _get_document_url(app: FastAPI, request: Request) -> str:
    root = str(request.scope.get("root_path", "")).rstrip("/")
    return root + (app.openapi_url or OPENAPI)


def _build_llm_endpoint(app: FastAPI) -> Any:
    async def llm(request: Request) -> Response:
        body = llm_json(app.openapi(), _get_document_url(app, request))
        return _build_response(answer(body, request.method, request.headers.get("if-none-match", "")))

    return llm


def _build_document_endpoint(app: FastAPI) -> Any:
    async def document(request: Request) -> Response:
        body = bytes((await _replace_own_endpoint(app)(request)).body)
        return _build_response(answer(body, request.method, request.headers.get("if-none-match", "")))

    return document


def _build_catalog_endpoint(app: FastAPI) -> Any:
    async def catalog(request: Request) -> Response:
        base = f"{request.url.scheme}://{request.url.netloc}"
        body = api_catalog(base, _get_document_url(app, request))
        return _build_response(catalog_answer(body, request.method, request.headers.get("if-none-match", "")))

    return catalog


def _replace_own_endpoint(app: FastAPI) -> Any:
    """Return the app's own endpoint of its document, so that both places answer the same bytes."""
    for route in app.router.routes:
        if getattr(route, "path", None) == app.openapi_url:
            return cast("Any", route).endpoint  # a route with a path has an endpoint
    return _build_plain_endpoint(app)


def _build_plain_endpoint(app: FastAPI) -> Any:
    async def endpoint(_: Request) -> Response:
        from fastapi.responses import JSONResponse  # only an app without an openapi_url needs it

        return JSONResponse(app.openapi())

    return endpoint


def _build_response(said: DocumentAnswer) -> Response:
    return Response(said.body, said.status, said.headers)
