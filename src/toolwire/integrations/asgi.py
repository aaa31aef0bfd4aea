"""Let models use the application of any ASGI framework, such as Litestar or Django, by its OpenAPI document.

Rules:
- The application stays as it was. Its tools are served in front of it, at paths of their own.
"""
# XL-121, FU-30

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypedDict

from toolwire.client.transport.in_process import Asgi
from toolwire.core.errors import DefinitionError
from toolwire.protocols.openapi.document.versions import Version, as_version
from toolwire.server.http.messages import split_mount_path
from toolwire.server.options import ServerOptions

from .app_server import DEFAULT_OPTIONS, AppServer, choose_paths
from .documents import (
    CATALOG,
    LINKSET_TYPE,
    OPENAPI,
    DocumentAnswer,
    answer,
    api_catalog,
    build_documents,
    check_app,
    read_app_document,
    send_answer,
)
from .route_marks import Include, check_document, mark_document, read_site_marks, x_llm
from .routes import Routes
from .sign_in import (
    add_security_scheme,
    check_enforce,
    check_published,
    check_scopes,
    choose_callers,
    identify_by_route,
)

if TYPE_CHECKING:
    from toolwire.server.oauth import AuthorizationServer

__all__ = ["ServerOptions", "identify_by_route", "publish_tools", "x_llm"]

_READ: Final = ("GET", "HEAD")


class PublishOptions(TypedDict, total=False):
    """What ``publish_tools`` takes besides an application and its document."""

    name: str | None
    description: str
    include: Include | None
    openapi: Version | None
    options: ServerOptions | None
    sign_in: AuthorizationServer | None
    enforce: bool


def publish_tools(
    app: Asgi,
    document: Mapping[str, Any],
    *,
    name: str | None = None,
    description: str = "",
    include: Include | None = None,
    openapi: Version | None = None,
    options: ServerOptions | None = DEFAULT_OPTIONS,
    sign_in: AuthorizationServer | None = None,
    enforce: bool = False,
) -> Asgi:
    """Return an ASGI application that is ``app`` plus its tools. Serve it instead of ``app``.

    - ``document``: the OpenAPI document of ``app`` (3.0 to 3.2, or Swagger 2.0), as its framework generates it. Add
      ``x_llm(...)`` to an operation if the framework lets you.
    - ``include``, ``options``: see ``toolwire.integrations.fastapi.publish_tools``.
    - ``openapi``: the version of the published document. Default: the version of ``document``.
    - ``sign_in``: the authorization server, from ``toolwire.oauth.authorization_server``. Its pages and metadata are
      served as well. An operation with the ``security`` ``[{"oauth": SCOPES}]`` then needs a signed-in user or an
      access token with these scopes. In it, ``scope["state"]["caller"].name`` is the user's ID.
    - ``enforce``: also apply an operation's ``rateLimit`` to direct requests. Calls and requests of one caller are then
      counted together.

    Raises:
        DefinitionError: ``app`` is not an ASGI application, an option is not valid, an ``x-llm`` contains an unknown
            field or an invalid value, or an operation requires a scope that ``sign_in`` does not offer.
    """
    # AO-01
    check_app(app, "ASGI")
    document = read_app_document(document, openapi)
    title = document.get("info", {}).get("title", "Tools")
    site = read_site_marks(name or title, description, include)
    whole = as_version(add_security_scheme(mark_document(document, site), sign_in), openapi)
    check_document(whole)
    if sign_in is not None:
        check_scopes(whole, sign_in)
    return _Published(
        app, whole, choose_callers(options, sign_in), sign_in, enforce=check_enforce(options, enforce=enforce)
    )


class _Published:
    """The application behind the documents and the paths of the protocols."""

    def __init__(
        self,
        app: Asgi,
        document: Mapping[str, Any],
        options: ServerOptions | None,
        sign_in: AuthorizationServer | None,
        *,
        enforce: bool,
    ) -> None:
        self._sign_in = sign_in
        if sign_in is not None:
            app = sign_in.protect(app, Routes(document).find_scopes)
        self._app = app
        self._document, self._documents = document, build_documents(document)
        self._server = None if options is None else AppServer(app, lambda: document, options, sign_in)
        self._limited = self._server.limit_routes(app) if enforce and self._server is not None else app
        own = document.get("paths", {})
        self._paths = frozenset() if options is None else frozenset(choose_paths(options, lambda _, path: path in own))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request, or follow the lifespan of the server."""
        if scope["type"] == "lifespan":
            await self._run_lifespan(scope, receive, send)
        elif scope["type"] != "http":
            await self._app(scope, receive, send)
        else:
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        root, path = split_mount_path(scope.get("root_path") or "", scope["path"])
        if self._sign_in is not None and self._sign_in.find_path(scope) in self._sign_in.paths:
            await self._sign_in(scope, receive, send)
        elif self._server is not None and path in self._paths:
            await self._server(scope, receive, send)
        elif scope["method"] in _READ and (found := self._find_document(scope, root, path)) is not None:
            await send_answer(found, send)
        else:
            await self._limited(scope, receive, send)

    async def _run_lifespan(self, scope: Any, receive: Any, send: Any) -> None:
        """Follow the lifespan of the application, or of the server alone if the application has none, as Django."""
        received = has_started = False

        async def receive_noting() -> Any:
            nonlocal received
            message = await receive()
            received = True
            return message

        async def send_with_lifespan(message: Mapping[str, Any]) -> None:
            nonlocal has_started
            has_started = True
            if message["type"] == "lifespan.startup.complete":
                try:
                    await self._begin()
                except DefinitionError as error:
                    message = {"type": "lifespan.startup.failed", "message": str(error)}
            elif message["type"] == "lifespan.shutdown.complete" and self._server is not None:
                await self._server.end()
            await send(message)

        try:
            await self._app(scope, receive_noting, send_with_lifespan)
        except Exception:
            if has_started:
                raise
            if not received:
                await receive()
            await send_with_lifespan({"type": "lifespan.startup.complete"})
            await receive()
            await send_with_lifespan({"type": "lifespan.shutdown.complete"})

    async def _begin(self) -> None:
        if self._sign_in is not None:
            await check_published(self._app, self._sign_in)
        if self._server is not None:
            await self._server.begin()

    def _find_document(self, scope: Any, root: str, path: str) -> DocumentAnswer | None:
        fields = dict(scope["headers"])
        known = fields.get(b"if-none-match", b"").decode("latin-1")
        if path == CATALOG:
            base = f"{scope.get('scheme', 'http')}://{fields.get(b'host', b'').decode('latin-1')}{root}"
            return answer(api_catalog(base, OPENAPI), scope["method"], known, media_type=LINKSET_TYPE)
        body = self._documents.get(path) if not root else build_documents(self._document, root).get(path)
        return None if body is None else answer(body, scope["method"], known)
