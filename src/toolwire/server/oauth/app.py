"""Serve the authorization server as an ASGI application: one table of paths, and the checks before each endpoint."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from toolwire.auth.grants import OAuthGrant
from toolwire.auth.server_metadata import (
    RESOURCE_PATH,
    SERVER_PATH,
    build_resource_metadata,
    build_server_metadata,
    well_known_url,
)
from toolwire.core.http import Response
from toolwire.core.model import Json, Kind, Problem
from toolwire.core.url_origin import get_authority
from toolwire.framing import jsontext
from toolwire.server.access.callers import Caller
from toolwire.server.deadline_scheduler import DeadlineScheduler
from toolwire.server.http.exchange import Exchange, Receive, Scope, Send, get_exchange
from toolwire.server.http.lifespan import run_lifespan
from toolwire.server.http.messages import close_websocket, read_body, send_response, split_mount_path
from toolwire.server.limits import ServerLimits
from toolwire.stores.clock import ConfirmedTime
from toolwire.stores.oauth.database import StoreUnavailableError
from toolwire.stores.outage_log import OutageLog

from .authorization_endpoint import handle_authorization, handle_consent
from .connected_page import handle_connected, list_grants, list_last_uses, revoke_own_grant
from .issuer_sign_in import handle_issuer_callback, handle_issuer_login
from .pages import build_error_page
from .protected_app import RequiredScopes, identify_request, protect_app
from .registration import handle_registration
from .server_context import CORS, Account, OAuthRequest, ServerContext, build_error_response
from .sessions import begin_session, build_cookie, find_session
from .settings import AppUsers, OAuthSettings
from .sign_in import handle_login, handle_logout
from .token_callers import TokenCallers
from .token_endpoint import handle_revocation, handle_token

from toolwire.auth.request_parameters import OAuthError, invalid_request  # isort: skip

_log = logging.getLogger("toolwire.oauth")
_BODY_BYTES = 64 * 1024
_PRUNE_S = 600.0

Asgi: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Endpoint: TypeAlias = Callable[[ServerContext, OAuthRequest], Awaitable[Response]]


class AuthorizationServer:
    """An authorization server for one site, as an ASGI application.

    Mount it at the root, or put it before an application with ``serve_before``. Pass its ``callers`` to the server that
    the tokens are for. It then identifies callers by their access tokens.
    """

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._outages = OutageLog(_log, "The authorization server's store answers again.")
        self._scheduler = DeadlineScheduler()
        self._limits = ServerLimits(body_bytes=_BODY_BYTES, body_s=context.settings.body_s)
        self._pruned_at = context.now()
        self._passed = ConfirmedTime()
        self._endpoints = _build_endpoints(context)
        self._documents = _build_documents(context)
        self.callers: TokenCallers = TokenCallers(context)
        self.paths: frozenset[str] = frozenset(self._endpoints) | frozenset(self._documents)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request; see the ASGI specification."""
        if scope["type"] == "lifespan":
            await run_lifespan(self, receive, send)
        elif scope["type"] != "http":
            await close_websocket(scope, receive, send)
        else:
            exchange = get_exchange(receive, send)
            await send_response(scope, exchange, await self.answer(scope, exchange))

    def serve_before(self, app: Asgi) -> Asgi:
        """Return an application that serves the paths of this server, and passes all other requests to ``app``."""

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            is_ours = scope["type"] == "http" and self.find_path(scope) in self.paths
            await (self if is_ours else app)(scope, receive, send)

        return serve

    def find_path(self, scope: Scope) -> str:
        """Return a request's path in the form that ``paths`` uses: whole, or the part below a mount or root path."""
        # RFC 8414 3.1: the metadata is at the root of the host, and a proxy or a mount may pass it on all the same.
        # FastAPI(root_path=...) names a path that the proxy has taken off.
        path = str(scope["path"])
        root, below = split_mount_path(scope.get("root_path") or "", path)
        return next((one for one in (path, below, root + path) if one in self.paths), below)

    @property
    def settings(self) -> OAuthSettings:
        """The settings of this server."""
        return self._context.settings

    async def identify_request(self, scope: Scope, *scopes: str) -> Caller | Problem:
        """Return who sent the request with this ASGI scope, or a Problem to refuse it with.

        That is the user who is signed in at your application, according to ``identify_user``, or the caller whose
        access token has ``scopes``. If a page of another site uses the user's session to change something, the request
        is refused.
        """
        # AO-01
        return await identify_request(scope, self.callers, scopes, self._context.identify_user)

    def protect(self, app: Asgi, required_scopes: RequiredScopes) -> Asgi:
        """Return ``app`` behind this server, for tokens and your application's own sessions. See ``protect_app``."""
        return protect_app(app, self.callers, required_scopes, self._context.identify_user)

    async def load_user(self, user_id: str) -> Any:
        """Return your application's object for the user with this ID, or None if there is no such account."""
        users = self._context.users
        find = users.find_user if isinstance(users, AppUsers) else users.find
        return await self._context.run_in_thread(find, user_id)

    async def find_user(self, headers: Iterable[tuple[bytes, bytes]]) -> Account | None:
        """Return the user who is signed in with the browser that sent ``headers``, or None."""
        return (await find_session(self._context, _build_request(headers))).user

    async def start_session(self, headers: Iterable[tuple[bytes, bytes]], user_id: str) -> tuple[bytes, bytes]:
        """Sign in a user in the browser that sent ``headers``, and return the header field that sets the cookie.

        Call it where your application knows the user, such as after a registration. First check that the request came
        from your own page. Otherwise another site could sign in its visitors here.

        Raises:
            ValueError: there is no account with this ID.
        """
        user = await self._context.run_in_thread(self._context.users.find, user_id)
        if user is None:
            raise ValueError(f"There is no account with the ID {user_id!r}.")
        # A session gets a new secret at each sign-in: one that an attacker planted before must be of no use after it.
        old = await find_session(self._context, _build_request(headers))
        session = await self._context.run_in_thread(begin_session, self._context, user, old)
        return build_cookie(self._context, session.secret)

    async def form_token(self, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """Return the ``token`` for a form on your own page that posts to ``/oauth/logout``."""
        return (await find_session(self._context, _build_request(headers))).form_token

    async def list_grants(self, user_id: str) -> list[OAuthGrant]:
        """Return the user's active grants, newest first, for a page of connected clients."""
        return await self._context.run_in_thread(list_grants, self._context, user_id)

    async def list_last_uses(self, user_id: str) -> Mapping[str, float]:
        """Return when each of a user's grants last got a token, by grant ID, in seconds since 1970.

        An app in use gets a new access token every ten minutes.
        """
        return await self._context.run_in_thread(list_last_uses, self._context, user_id)

    async def disconnect(self, user_id: str, grant_id: str) -> bool:
        """Revoke a user's grant and all its tokens. Return False if the user has no such grant."""
        # XL-116
        return await self._context.run_in_thread(revoke_own_grant, self._context, user_id, grant_id)

    async def answer(self, scope: Scope, exchange: Exchange) -> Response:
        """Return the response to one HTTP request."""
        path, method = self.find_path(scope), scope["method"]
        document = self._documents.get(path)
        if document is not None:
            return _serve_document(document, method)
        endpoint = self._endpoints.get(path)
        if endpoint is None:
            return build_error_page("There is no page at this address.", 404)
        methods, answer, cors = endpoint
        # Clients that run in a browser ask first; pages for people are never called from other sites.
        if method == "OPTIONS" and cors:
            return _PREFLIGHT
        if method not in methods:
            refused_page = build_error_page(f"This address takes {' and '.join(methods)}.", 405)
            return refused_page._replace(headers=(*refused_page.headers, (b"allow", ", ".join(methods).encode())))
        fields = dict(scope["headers"])
        problem = self._find_misdirection(scope, fields)
        body = b"" if method == "GET" or problem else await read_body(exchange, fields, self._limits, self._scheduler)
        if problem or isinstance(body, Problem):
            sentence = problem or (body.message if isinstance(body, Problem) else "")
            response = (
                build_error_response(invalid_request(sentence))
                if cors
                else build_error_page(sentence, 421 if problem else 400)
            )
            is_slow = isinstance(body, Problem) and body.kind is Kind.TOO_SLOW
            return response._replace(status=408) if is_slow else response
        request = OAuthRequest(method, path, scope["query_string"].decode("latin-1"), fields, body, scope)
        return await self._answer_safely(answer, request, path, cors=cors)

    async def _answer_safely(self, answer: Endpoint, request: OAuthRequest, path: str, *, cors: bool) -> Response:
        def fail(error: str, sentence: str, status: int) -> Response:
            # A client shows what it cannot read to its user, with all of its markup.
            refusal = OAuthError(error=error, description=sentence, status=status)
            return build_error_response(refusal) if cors else build_error_page(sentence, status)

        try:
            await self._prune()
            response = await answer(self._context, request)
        except StoreUnavailableError as error:
            self._outages.record_failure("answering %s %s: %s.", request.method, path, error)
            busy = fail("temporarily_unavailable", "The server cannot do this now. Try again.", 503)
            return busy._replace(headers=(*busy.headers, (b"retry-after", b"1")))
        except Exception:  # noqa: BLE001 - whoever asks gets one sentence, and the log has the details
            _log.exception("answering %s %s failed", request.method, path)
            return fail("server_error", "The server failed. See its log.", 500)
        self._outages.record_success()
        return response

    def _find_misdirection(self, scope: Scope, fields: Mapping[bytes, bytes]) -> str:
        """Return why a request is not for this server, or an empty text."""
        settings = self._context.settings
        # Cookies and codes must not travel over http.
        if settings.is_secure and scope.get("scheme", "http") != "https":
            return "This server accepts only https requests. A proxy in front of it must forward the scheme."
        host = fields.get(b"host", b"").decode("latin-1")
        # A web page can give this machine a name of its own (DNS rebinding). Behind https a certificate prevents that.
        if settings.is_local and host != get_authority(settings.issuer):
            return "This server does not accept that host name."
        return ""

    async def _prune(self) -> None:
        now = self._context.now()
        # A clock that was set back must not delay the next deletion until it has caught up.
        if not self._pruned_at <= now < self._pruned_at + _PRUNE_S:
            self._pruned_at = now
            await self._context.run_in_thread(self._prune_rows, now)

    def _prune_rows(self, now: float) -> None:
        # RE-01: a clock that is wrong for a moment must not end every session and sign-in.
        passed = self._passed.find(now)
        with self._context.store.write_transaction() as rows:
            rows.prune(passed)


def _build_request(headers: Iterable[tuple[bytes, bytes]]) -> OAuthRequest:
    fields = list(headers)
    return OAuthRequest("GET", "/", "", dict(fields), b"", {"type": "http", "headers": fields})


def _build_endpoints(context: ServerContext) -> Mapping[str, tuple[tuple[str, ...], Endpoint, bool]]:
    """Return the methods of each path, its endpoint, and whether web pages of other sites may read the response."""
    # AS-20
    base = context.settings.base_path
    found: dict[str, tuple[tuple[str, ...], Endpoint, bool]] = {
        f"{base}/authorize": (("GET", "POST"), handle_authorization, False),
        f"{base}/consent": (("POST",), handle_consent, False),
        f"{base}/logout": (("POST",), handle_logout, False),
        f"{base}/token": (("POST",), handle_token, True),
        f"{base}/revoke": (("POST",), handle_revocation, True),
    }
    if not context.settings.connected_url:
        found[f"{base}/connected"] = (("GET", "POST"), handle_connected, False)
    if context.identity_provider is not None:
        found[f"{base}/login"] = (("GET",), handle_issuer_login, False)
        found[f"{base}/callback"] = (("GET",), handle_issuer_callback, False)
    elif not context.settings.login_url:
        found[f"{base}/login"] = (("GET", "POST"), handle_login, False)
    if context.settings.registration:
        found[f"{base}/register"] = (("POST",), handle_registration, True)
    return found


def _build_documents(context: ServerContext) -> Mapping[str, Response]:
    """Return the metadata documents by path; each is written once."""
    # AS-13, AS-14
    settings = context.settings
    server = build_server_metadata(
        settings.issuer, settings.scopes, registration=settings.registration, keys=settings.key is not None
    )
    resource = build_resource_metadata(settings.resource, settings.issuer, settings.scopes, settings.name)
    documents = {
        urlsplit(well_known_url(SERVER_PATH, settings.issuer)).path: _build_document(server),
        urlsplit(well_known_url(RESOURCE_PATH, settings.resource)).path: _build_document(resource),
        # Some clients ask at the root although the resource has a path.
        RESOURCE_PATH: _build_document(resource),
    }
    if settings.key is not None:
        documents[f"{settings.base_path}/jwks"] = _build_document(settings.key.public_jwks())
    return documents


def _build_document(data: Json) -> Response:
    headers = ((b"content-type", b"application/json"), (b"cache-control", b"public, max-age=300"), *CORS)
    return Response(200, headers, jsontext.write(data))


def _serve_document(document: Response, method: str) -> Response:
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
