"""Connect the tools of an application with its sign-in, and find at startup what would not work.

Rules:
- The document names the sign-in and the scopes, so that clients of each protocol learn where their users sign in.
- A sign-in that could never work stops the application when it starts, with one sentence.
"""
# AO-01

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import replace
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from toolwire.client.transport.in_process import Asgi
from toolwire.core.errors import DefinitionError
from toolwire.server.options import ServerOptions

from .route_marks import iterate_operations

if TYPE_CHECKING:
    from toolwire.server.oauth import AuthorizationServer

SCHEME: Final = "oauth"
"""The name of the sign-in in ``securitySchemes``."""


def choose_callers(wires: ServerOptions | None, sign_in: AuthorizationServer | None) -> ServerOptions | None:
    """Return ``wires`` whose callers bring the tokens of ``sign_in``.

    Raises:
        DefinitionError: ``wires`` names callers too.
    """
    if sign_in is None or not isinstance(wires, ServerOptions):
        return wires
    if wires.callers is not None:
        raise DefinitionError("Callers come from sign_in or from callers of wires, not from both. Leave one out.")
    return replace(wires, callers=sign_in.callers)


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
                    f"{one.where} requires the scope {scope!r}, which sign_in does not offer."
                    f" Its scopes are: {', '.join(known)}."
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
                f"{path} is a route of the application, and sign_in needs this path. Rename the route."
            )
    page = urlsplit(sign_in.settings.login_url)
    if page.path and not page.netloc and not has_page(page.path):
        text = f"login_url of sign_in is {page.path}, but the application has no page at this path."
        raise DefinitionError(text)


async def check_identify_user(sign_in: AuthorizationServer, scope: MutableMapping[str, Any]) -> None:
    """Check that ``identify_user`` can tell who is signed in for a request without a session: nobody.

    Raises:
        DefinitionError: it fails, for example because the middleware of sessions is missing.
    """
    try:
        await sign_in.identify_request(scope)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        lacks_session = "session" in said and "session" not in scope
        hint = " Add SessionMiddleware to the application." if lacks_session else ""
        text = f"identify_user of sign_in fails for a request without a session ({said}).{hint}"
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


async def send_probe(app: Asgi, scope: dict[str, Any]) -> None:
    """Send a request without a body through ``app``, and leave its response."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(_message: Any) -> None:
        """Leave the response."""

    await app(scope, receive, send)
