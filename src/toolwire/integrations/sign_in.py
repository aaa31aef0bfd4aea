"""Connect the tools of an application with its sign-in, and find at startup what would not work.

Rules:
- The document names the sign-in and the scopes, so that clients of each protocol learn where their users sign in.
- A sign-in that could never work stops the application when it starts, with one sentence.
"""
# AO-01

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import replace
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from toolwire.client.transport.in_process import Asgi
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Problem
from toolwire.framing import jsontext
from toolwire.server.options import ServerOptions

from .route_marks import iterate_operations

if TYPE_CHECKING:
    from toolwire.server.oauth import AuthorizationServer, IdentifyUser

_NO_PAGE: Final = "login_url of sign_in is {}, but the application has no page at this path."
SCHEME: Final = "oauth"
"""The name of the sign-in in ``securitySchemes``."""


def choose_callers(options: ServerOptions | None, sign_in: AuthorizationServer | None) -> ServerOptions | None:
    """Return ``options`` whose callers bring the tokens of ``sign_in``.

    Raises:
        DefinitionError: ``options`` names callers too.
    """
    if sign_in is None or not isinstance(options, ServerOptions):
        return options
    if options.callers is not None:
        raise DefinitionError("sign_in and the option callers both identify callers. Leave one out.")
    return replace(options, callers=sign_in.callers)


def check_enforce(options: ServerOptions | None, *, enforce: bool) -> bool:
    """Return ``enforce``.

    Raises:
        DefinitionError: there is no server that counts calls.
    """
    # AO-04
    if enforce and options is None:
        raise DefinitionError("enforce=True needs options, where the limits are counted. Leave out options=None.")
    return enforce


def add_security_scheme(document: dict[str, Any], sign_in: AuthorizationServer | None) -> dict[str, Any]:
    """Return ``document`` with the sign-in among its ``securitySchemes``."""
    if sign_in is None:
        return document
    components = document.get("components") or {}
    schemes = {SCHEME: sign_in.callers.security_scheme, **(components.get("securitySchemes") or {})}
    return {**document, "components": {**components, "securitySchemes": schemes}}


def list_required_scopes(operation: Mapping[str, Any], document: Mapping[str, Any]) -> list[str] | None:
    """Return the scopes of the sign-in that an operation requires; None if it can be called without the sign-in."""
    security = operation.get("security", document.get("security"))
    found = [one.get(SCHEME) for one in security if isinstance(one, Mapping)] if isinstance(security, list) else []
    if not found or {} in security:
        return None
    # Of several alternatives the first with the sign-in counts.
    return next(([str(scope) for scope in scopes] for scopes in found if isinstance(scopes, list)), None)


def check_scopes(document: Mapping[str, Any], sign_in: AuthorizationServer) -> None:
    """Check that each scope that an operation requires is one that users can allow.

    Raises:
        DefinitionError: the sign-in has no such scope; the sentence names the operation.
    """
    known = sign_in.settings.scopes
    for one in iterate_operations(document):
        for scope in list_required_scopes(one.node, document) or ():
            if scope not in known:
                raise DefinitionError(
                    f"{one.where} requires the scope {scope!r}, which sign_in does not offer. Its scopes: "
                    f"{', '.join(known)}."
                )


def check_paths(sign_in: AuthorizationServer, is_taken: Callable[[str], bool], has_page: Callable[[str], bool]) -> None:
    """Check that no path of the sign-in is a route of the application, and that its sign-in page is one.

    ``is_taken`` says whether the application has a route of exactly this path, and ``has_page`` whether any of its
    routes answers GET there.

    Raises:
        DefinitionError: a path is taken, or the sign-in page is missing.
    """
    for path in sorted(sign_in.paths):
        if is_taken(path):
            raise DefinitionError(
                f"{path} is a route of the application, but sign_in needs this path. Rename the route."
            )
    if (paths := _list_login_paths(sign_in)) and not any(map(has_page, paths)):
        raise DefinitionError(_NO_PAGE.format(paths[0]))


def _list_login_paths(sign_in: AuthorizationServer) -> list[str]:
    """Return where the application can have its sign-in page: as it is given, and below a path that a proxy takes off.

    There is none if the page is at another origin.
    """
    page = urlsplit(sign_in.settings.login_url)
    root = urlsplit(sign_in.settings.issuer).path.rstrip("/")
    below = [page.path.removeprefix(root)] if root and page.path.startswith(f"{root}/") else []
    return [page.path, *below] if page.path and not page.netloc else []


async def check_identify_user(sign_in: AuthorizationServer, scope: MutableMapping[str, Any]) -> None:
    """Check that ``identify_user`` can tell who is signed in for a request without a session: nobody.

    Raises:
        DefinitionError: it fails, for example because the middleware of sessions is missing.
    """
    try:
        await sign_in.identify_request(scope)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        lacks_session = "session" in reason and "session" not in scope
        hint = " Add SessionMiddleware to the application." if lacks_session else ""
        text = f"identify_user of sign_in fails for a request without a session ({reason}).{hint}"
        raise DefinitionError(text) from error


def build_probe(sign_in: AuthorizationServer) -> tuple[dict[str, Any], str]:
    """Return the ASGI scope of a request that a visitor without cookies makes, and its path, which nobody knows."""
    path = f"/.toolwire-{token_urlsafe(16)}"
    parts = urlsplit(sign_in.settings.issuer)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": parts.scheme,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", parts.netloc.encode()), (b"accept", b"*/*")],
        "client": ("127.0.0.1", 0),
        "server": (parts.hostname, port),
        "state": {},
    }
    return scope, path


def identify_by_route(app: Asgi, path: str) -> IdentifyUser:
    """Return a function for ``identify_user`` that asks a route of ``app`` who is signed in.

    The route answers GET at ``path`` with JSON: the signed-in user's ID, or null. It gets the header fields of the
    original request, so your framework's own sessions decide.
    """

    async def identify_user(scope: Mapping[str, Any]) -> str | None:
        fields = [field for field in scope["headers"] if field[0] not in _OF_A_BODY]
        whole = str(scope.get("root_path", "")) + path
        asked = {
            **scope,
            "method": "GET",
            "path": whole,
            "raw_path": whole.encode(),
            "query_string": b"",
            "headers": fields,
        }
        status, body = await send_probe(app, {**asked, "state": dict(scope.get("state", {}))})
        found = jsontext.read(body) if status == _OK else None
        if not (status in _NOBODY or status == _OK) or isinstance(found, (Problem, dict, list, float)):
            raise DefinitionError(
                f"{path} answered with status {status}. It must answer with the signed-in user's ID, or null."
            )
        return str(found) if isinstance(found, (str, int)) and not isinstance(found, bool) else None

    return identify_user


_OF_A_BODY: Final = (b"content-length", b"content-type", b"transfer-encoding", b"expect", b"accept-encoding")
_OK, _NOT_FOUND = 200, 404
_NOBODY: Final = (204, 302, 303, 307, 401, 403)
"""What a route answers for a visitor who is not signed in, besides null."""


async def check_published(app: Asgi, sign_in: AuthorizationServer) -> None:
    """Check that users can sign in at ``app``: that it has its sign-in page, and knows who is signed in.

    Raises:
        DefinitionError: nobody could sign in; the sentence says why.
    """
    scope, _ = build_probe(sign_in)
    await check_identify_user(sign_in, dict(scope))
    paths = _list_login_paths(sign_in)
    for path in paths:
        query = urlsplit(sign_in.settings.login_url).query.encode()
        asked = {**scope, "path": path, "raw_path": path.encode(), "query_string": query}
        status, _ = await send_probe(app, asked)
        if status != _NOT_FOUND:
            return
    if paths:
        raise DefinitionError(_NO_PAGE.format(paths[0]))


async def send_probe(app: Asgi, scope: dict[str, Any]) -> tuple[int, bytes]:
    """Send a request without a body through ``app``, and return the status and the body of its response."""
    status, body, has_body, is_over = 0, bytearray(), True, asyncio.Event()

    async def receive() -> dict[str, Any]:
        nonlocal has_body
        if has_body:
            has_body = False
            return {"type": "http.request", "body": b"", "more_body": False}
        await is_over.wait()  # Django listens for the end of the connection beside its work
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body":
            body.extend(message.get("body", b""))
            if not message.get("more_body", False):
                is_over.set()

    await app(scope, receive, send)
    return status, bytes(body)
