"""The authorization server as an ASGI application: one table of paths, and what surrounds every answer."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeAlias
from urllib.parse import urlsplit

from toolwire.auth.grants import Grant
from toolwire.auth.server_metadata import RESOURCE, SERVER, well_known, write_resource, write_server
from toolwire.core.http import Response
from toolwire.core.model import Json, Kind, Problem
from toolwire.framing import jsontext
from toolwire.server.http.exchange import Exchange, Receive, Scope, Send, exchange_of
from toolwire.server.http.messages import body_of, other, respond
from toolwire.server.lifespan import live
from toolwire.server.limits import ServerLimits
from toolwire.server.run.deadline_scheduler import DeadlineScheduler
from toolwire.stores.oauth.database import StoreGoneError

from .authorization_endpoint import authorize, consent
from .pages import error_page
from .registration import register
from .server_context import CORS, Account, OAuthRequest, ServerContext, refused
from .sessions import session_of
from .sign_in import login, logout
from .token_callers import TokenCallers
from .token_endpoint import revocation, token

from toolwire.auth.oauth_error import invalid_request  # isort: skip

_log = logging.getLogger("toolwire.oauth")
_BODY_BYTES = 64 * 1024
_PRUNE_S = 600.0

Asgi: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Endpoint: TypeAlias = Callable[[ServerContext, OAuthRequest], Awaitable[Response]]


class AuthorizationServer:
    """An authorization server for one site. Mount it at the root, or put it ``before`` an application you have.

    ``callers`` says whose request one is by its access token; give it to whatever the tokens are for.
    """

    def __init__(self, desk: ServerContext) -> None:
        self._desk = desk
        self._watch = DeadlineScheduler()
        self._limits = ServerLimits(body_bytes=_BODY_BYTES, body_s=desk.settings.body_s)
        self._pruned = desk.now()
        self._endpoints = _endpoints(desk)
        self._documents = _documents(desk)
        self.callers = TokenCallers(desk)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request; see the ASGI specification."""
        if scope["type"] == "lifespan":
            await live(self, receive, send)
        elif scope["type"] != "http":
            await other(scope, receive, send)
        else:
            exchange = exchange_of(receive, send)
            await respond(scope, exchange, await self._answer(scope, exchange))

    def before(self, app: Asgi) -> Asgi:
        """Return an application that answers the paths of this server, and leaves all others to ``app``."""

        async def both(scope: Scope, receive: Receive, send: Send) -> None:
            ours = scope["type"] == "http" and scope["path"] in self._paths()
            await (self if ours else app)(scope, receive, send)

        return both

    async def person(self, headers: Iterable[tuple[bytes, bytes]]) -> Account | None:
        """Return who is signed in at the browser that sent ``headers``."""
        return (await session_of(self._desk, _visit(headers))).user

    async def form_token(self, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """Return what a form on a page of yours must send as ``token``, to sign out with ``/oauth/logout``."""
        return (await session_of(self._desk, _visit(headers))).token

    async def connected(self, user_id: str) -> list[Grant]:
        """Return what a person allows apps to do, newest first: for a page of connected apps."""
        return await self._desk.run_in_thread(self._connected, user_id)

    async def disconnect(self, user_id: str, grant_id: str) -> bool:
        """End what a person allowed an app, with all its tokens; return False where it is none of theirs."""
        # XL-116
        return await self._desk.run_in_thread(self._disconnect, user_id, grant_id)

    def _paths(self) -> frozenset[str]:
        return frozenset(self._endpoints) | frozenset(self._documents)

    def _connected(self, user_id: str) -> list[Grant]:
        with self._desk.store.looking() as rows:
            return [grant for grant in rows.grants(user_id) if grant.used and grant.alive(self._desk.now())]

    def _disconnect(self, user_id: str, grant_id: str) -> bool:
        with self._desk.store.changing() as rows:
            grant = rows.grant(grant_id)
            if grant is None or grant.user != user_id:
                return False
            self._desk.revoke(rows, grant_id)
            self._desk.note(rows, "revoked by the person", user=user_id, client_id=grant.client_id, grant=grant_id)
        return True

    async def _answer(self, scope: Scope, exchange: Exchange) -> Response:
        path, method = scope["path"], scope["method"]
        document = self._documents.get(path)
        if document is not None:
            return _document(document, method)
        endpoint = self._endpoints.get(path)
        if endpoint is None:
            return error_page("There is nothing at this address.", 404)
        methods, answer, cors = endpoint
        if method == "OPTIONS" and cors:
            return _PREFLIGHT
        if method not in methods:
            refused_page = error_page(f"This address takes {' and '.join(methods)}.", 405)
            return refused_page._replace(headers=(*refused_page.headers, (b"allow", ", ".join(methods).encode())))
        fields = dict(scope["headers"])
        problem = self._misdirected(scope, fields)
        body = b"" if method == "GET" or problem else await body_of(exchange, fields, self._limits, self._watch)
        if problem or isinstance(body, Problem):
            sentence = problem or (body.message if isinstance(body, Problem) else "")
            said = refused(invalid_request(sentence)) if cors else error_page(sentence, 421 if problem else 400)
            is_slow = isinstance(body, Problem) and body.kind is Kind.TOO_SLOW
            return said._replace(status=408) if is_slow else said
        visit = OAuthRequest(method, path, scope["query_string"].decode("latin-1"), fields, body, scope)
        return await self._safely(answer, visit, path)

    async def _safely(self, answer: Endpoint, visit: OAuthRequest, path: str) -> Response:
        try:
            await self._prune()
            return await answer(self._desk, visit)
        except StoreGoneError as error:
            _log.error("answering %s %s: %s", visit.method, path, error)
            busy = error_page("The server cannot do this at the moment; try again.", 503)
            return busy._replace(headers=(*busy.headers, (b"retry-after", b"1")))
        except Exception:  # noqa: BLE001 - whatever failed, the person gets an answer, and the log has the details
            _log.exception("answering %s %s failed", visit.method, path)
            return error_page("The server failed; its log has the details.", 500)

    def _misdirected(self, scope: Scope, fields: Mapping[bytes, bytes]) -> str:
        """Return why a request is not for us: http where the issuer is https, or another name on this machine."""
        settings = self._desk.settings
        if settings.secure and scope.get("scheme", "http") != "https":
            return "This server is reached by https only; a proxy in front of it must say that it was."
        host = fields.get(b"host", b"").decode("latin-1")
        if settings.local and host != urlsplit(settings.issuer).netloc:
            return "This server does not answer to that host name."
        return ""

    async def _prune(self) -> None:
        now = self._desk.now()
        if now - self._pruned >= _PRUNE_S:
            self._pruned = now
            await self._desk.run_in_thread(self._forget, now)

    def _forget(self, now: float) -> None:
        with self._desk.store.changing() as rows:
            rows.prune(now)


def _visit(headers: Iterable[tuple[bytes, bytes]]) -> OAuthRequest:
    fields = list(headers)
    return OAuthRequest("GET", "/", "", dict(fields), b"", {"type": "http", "headers": fields})


def _endpoints(desk: ServerContext) -> Mapping[str, tuple[tuple[str, ...], Endpoint, bool]]:
    """Return who answers each path: the methods, the endpoint, and whether web pages elsewhere may read it."""
    # AS-20
    base = desk.settings.base
    found: dict[str, tuple[tuple[str, ...], Endpoint, bool]] = {
        f"{base}/authorize": (("GET", "POST"), authorize, False),
        f"{base}/consent": (("POST",), consent, False),
        f"{base}/logout": (("POST",), logout, False),
        f"{base}/token": (("POST",), token, True),
        f"{base}/revoke": (("POST",), revocation, True),
    }
    if not desk.settings.login_url:
        found[f"{base}/login"] = (("GET", "POST"), login, False)
    if desk.settings.registration:
        found[f"{base}/register"] = (("POST",), register, True)
    return found


def _documents(desk: ServerContext) -> Mapping[str, Response]:
    """Return the documents that say what is here, each made once."""
    # AS-13, AS-14
    settings = desk.settings
    server = write_server(
        settings.issuer, settings.scopes, registration=settings.registration, keys=settings.key is not None
    )
    resource = write_resource(settings.resource, settings.issuer, settings.scopes, settings.name)
    documents = {
        urlsplit(well_known(SERVER, settings.issuer)).path: _made(server),
        urlsplit(well_known(RESOURCE, settings.resource)).path: _made(resource),
        RESOURCE: _made(resource),
    }
    if settings.key is not None:
        documents[f"{settings.base}/jwks"] = _made(settings.key.public())
    return documents


def _made(data: Json) -> Response:
    headers = ((b"content-type", b"application/json"), (b"cache-control", b"public, max-age=300"), *CORS)
    return Response(200, headers, jsontext.write(data))


def _document(document: Response, method: str) -> Response:
    if method == "OPTIONS":
        return _PREFLIGHT
    return document if method in ("GET", "HEAD") else Response(405, ((b"allow", b"GET, HEAD"), *CORS))


_PREFLIGHT = Response(
    204,
    (
        *CORS,
        (b"access-control-allow-methods", b"GET, POST"),
        (b"access-control-allow-headers", b"authorization, content-type, mcp-protocol-version"),
        (b"access-control-max-age", b"86400"),
    ),
)
