"""Let models use the application of any ASGI framework, such as Litestar or Django, by its OpenAPI document.

Rules:
- The application stays as it was. Its tools are served in front of it, at paths of their own.
"""
# XL-121, FU-30

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypedDict

from toolwire.client.transport.in_process import Asgi
from toolwire.protocols.openapi.document.versions import Version, as_version
from toolwire.server.options import ServerOptions

from .documents import (
    CATALOG,
    LLM,
    OPENAPI,
    DocumentAnswer,
    answer,
    api_catalog,
    catalog_answer,
    check_app,
    llm_json,
    read_app_document,
    send_answer,
    write_json,
)
from .route_marks import Include, check_document, mark_document, read_site_marks, x_llm
from .wires import ALL_WIRES, AppWires, choose_paths

__all__ = ["ServerOptions", "publish_tools", "x_llm"]

_READ: Final = ("GET", "HEAD")


class PublishOptions(TypedDict, total=False):
    """What ``publish_tools`` takes besides an application and its document."""

    name: str | None
    description: str
    default_approval: Literal["auto", "per-call"]
    include: Include | None
    openapi: Version | None
    wires: ServerOptions | None


def publish_tools(
    app: Asgi,
    document: Mapping[str, Any],
    *,
    name: str | None = None,
    description: str = "",
    default_approval: Literal["auto", "per-call"] = "per-call",
    include: Include | None = None,
    openapi: Version | None = None,
    wires: ServerOptions | None = ALL_WIRES,
) -> Asgi:
    """Return an ASGI application that is ``app`` with tools: serve it instead.

    ``document`` is the OpenAPI document of ``app``, of 3.0 to 3.2, or Swagger 2.0, as its framework writes it. An
    operation has its ``x-llm`` from ``x_llm(...)``, where the framework lets you add to an operation. ``include`` and
    ``wires`` are as for FastAPI. ``openapi`` converts a document of 3.1; without it, the document
    keeps its version.

    Raises:
        DefinitionError: ``app`` is no ASGI application, an option is not valid, or an ``x-llm`` has an unknown member
            or a wrong value.
    """
    check_app(app, "ASGI")
    document = read_app_document(document, openapi)
    title = document.get("info", {}).get("title", "Tools")
    site = read_site_marks(name or title, description, default_approval, include)
    whole = as_version(mark_document(document, site), openapi)
    check_document(whole)
    return _Published(app, whole, wires)


class _Published:
    """The application behind the documents and the paths of the protocols."""

    def __init__(self, app: Asgi, document: Mapping[str, Any], wires: ServerOptions | None) -> None:
        self._app = app
        self._documents = {OPENAPI: write_json(document), LLM: llm_json(document, OPENAPI)}
        self._wires = None if wires is None else AppWires(app, lambda: document, wires)
        own = document.get("paths", {})
        self._paths = frozenset() if wires is None else frozenset(choose_paths(wires, lambda _, path: path in own))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request, or follow the lifespan of the server."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, self._wrap_lifespan(send))
        elif scope["type"] != "http":
            await self._app(scope, receive, send)
        elif self._wires is not None and scope["path"] in self._paths:
            await self._wires(scope, receive, send)
        elif scope["method"] in _READ and (found := self._find_document(scope)) is not None:
            await send_answer(found, send)
        else:
            await self._app(scope, receive, send)

    def _wrap_lifespan(self, send: Any) -> Any:
        async def send_with_wires(message: Mapping[str, Any]) -> None:
            if self._wires is not None and message["type"] == "lifespan.startup.complete":
                await self._wires.begin()
            if self._wires is not None and message["type"] == "lifespan.shutdown.complete":
                await self._wires.end()
            await send(message)

        return send_with_wires

    def _find_document(self, scope: Any) -> DocumentAnswer | None:
        fields = dict(scope["headers"])
        known = fields.get(b"if-none-match", b"").decode("latin-1")
        if scope["path"] == CATALOG:
            base = f"{scope.get('scheme', 'http')}://{fields.get(b'host', b'').decode('latin-1')}"
            return catalog_answer(api_catalog(base, OPENAPI), scope["method"], known)
        body = self._documents.get(scope["path"])
        return None if body is None else answer(body, scope["method"], known)
