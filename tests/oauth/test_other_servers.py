"""Our client signs in to other people's authorization servers: one made with the MCP SDK, one with Authlib on Flask."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import grants
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata
from authlib.oauth2.rfc9207 import IssuerParameter
from flask import Flask, jsonify, request
from mcp.server.auth.routes import create_auth_routes, create_protected_resource_routes
from mcp.server.auth.settings import ClientRegistrationOptions, RevocationOptions
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from werkzeug.serving import make_server

from tests.oauth.mcp_provider import Provider
from toolwire import Toolkit, asgi
from toolwire.auth.authorization_code import renew_credential
from toolwire.auth.caller_token import ExpectedClaims, read_secret
from toolwire.auth.client_identity import ClientIdentity
from toolwire.auth.credential import Credential
from toolwire.client.login import SignInOptions, find_sign_in, sign_in, sign_out
from toolwire.client.transport.drivers import run
from toolwire.client.transport.network import SyncNetwork
from toolwire.core.model import Problem
from toolwire.server.access.signed_tokens import SignedTokenCallers

from .conftest import Walker


@pytest.mark.requirement("AC-01", "AC-04", "AC-07", "AC-09")
def test_our_client_signs_in_to_a_server_made_with_the_mcp_sdk(serve: Callable[[Callable[[str], Any]], str]) -> None:
    provider = Provider()

    def make(base: str) -> Any:
        options = ClientRegistrationOptions(enabled=True, valid_scopes=["a", "b"], default_scopes=["a"])
        routes = create_auth_routes(provider, AnyHttpUrl(base), None, options, RevocationOptions(enabled=True))  # type: ignore[arg-type]  # a protocol class
        resource = AnyHttpUrl(f"{base}/mcp")
        routes += create_protected_resource_routes(resource, [AnyHttpUrl(base)], ["a"])
        return Starlette(routes=routes)

    base, transport = serve(make), SyncNetwork()
    place = find_sign_in(f"{base}/mcp", transport)
    assert not isinstance(place, Problem), place
    assert (place.resource, place.scopes) == (f"{base}/mcp", ("a",))
    first = sign_in(place, SignInOptions(), Walker().person(), transport)
    assert isinstance(first, Credential), first
    assert first.registered is True
    second = run(renew_credential(first, 0.0), transport)
    assert isinstance(second, Credential)
    assert second.refresh != first.refresh
    assert second.scopes == ("a",)
    assert sign_out(second, transport) is False  # this server wants a client_secret of public clients, and says 400
    assert provider.revoked == []


class FlaskClient:
    """A public client, as Authlib asks for one."""

    client_id = "native"

    def get_default_redirect_uri(self) -> str:
        return ""

    def get_allowed_scope(self, scope: str) -> str:
        return scope

    def check_redirect_uri(self, uri: str) -> bool:
        return uri.startswith("http://127.0.0.1:") and uri.endswith("/callback")

    def check_client_secret(self, secret: str) -> bool:
        return False

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == "none"

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in ("authorization_code", "refresh_token")


class Kept:
    """A code or a token that Authlib made, with what it asks about it."""

    def __init__(self, **facts: Any) -> None:
        self.__dict__.update(facts)

    def get_redirect_uri(self) -> str:
        return str(self.redirect_uri)  # type: ignore[attr-defined]  # whatever was kept

    def get_scope(self) -> str:
        return str(self.scope)  # type: ignore[attr-defined]  # whatever was kept

    def check_client(self, client: Any) -> bool:
        return True


def flask_server(base: str) -> Flask:  # noqa: C901 - a whole server in one place, as Authlib has it
    codes: dict[str, Kept] = {}
    refresh: dict[str, Kept] = {}
    app = Flask("oracle")

    class CodeGrant(grants.AuthorizationCodeGrant):
        TOKEN_ENDPOINT_AUTH_METHODS = ("none",)

        def save_authorization_code(self, code: str, request: Any) -> None:
            asked = request.payload.data
            codes[code] = Kept(
                redirect_uri=request.payload.redirect_uri,
                scope=request.payload.scope,
                code_challenge=asked["code_challenge"],
                code_challenge_method=asked["code_challenge_method"],
                code=code,
            )

        def query_authorization_code(self, code: str, client: Any) -> Kept | None:
            return codes.get(code)

        def delete_authorization_code(self, authorization_code: Any) -> None:
            del codes[authorization_code.code]

        def authenticate_user(self, authorization_code: Any) -> str:
            return "Ada"

    class RefreshGrant(grants.RefreshTokenGrant):
        TOKEN_ENDPOINT_AUTH_METHODS = ("none",)
        INCLUDE_NEW_REFRESH_TOKEN = True

        def authenticate_refresh_token(self, refresh_token: str) -> Kept | None:
            return refresh.get(refresh_token)

        def authenticate_user(self, refresh_token: Any) -> str:
            return "Ada"

        def revoke_old_credential(self, refresh_token: Any) -> None:
            del refresh[refresh_token.token]

    def save_token(token: dict[str, Any], request: Any) -> None:
        refresh[token["refresh_token"]] = Kept(token=token["refresh_token"], scope=token.get("scope", ""))

    class Issuer(IssuerParameter):
        def get_issuer(self) -> str:
            return base

    app.config["OAUTH2_REFRESH_TOKEN_GENERATOR"] = True
    server = AuthorizationServer(app, lambda _: FlaskClient(), save_token)
    server.register_grant(CodeGrant, [CodeChallenge(required=True)])
    server.register_grant(RefreshGrant)
    server.register_extension(Issuer())
    metadata = AuthorizationServerMetadata(
        issuer=base,
        authorization_endpoint=f"{base}/authorize",
        token_endpoint=f"{base}/token",
        response_types_supported=["code"],
        scopes_supported=["a"],
        code_challenge_methods_supported=["S256"],
        token_endpoint_auth_methods_supported=["none"],
        authorization_response_iss_parameter_supported=True,
    )

    @app.get("/authorize")
    def authorize() -> Any:
        grant = server.get_consent_grant(end_user="Ada")
        return server.create_authorization_response(grant_user="Ada", grant=grant)

    @app.post("/token")
    def token() -> Any:
        return server.create_token_response()

    @app.get("/.well-known/oauth-authorization-server")
    def described() -> Any:
        return jsonify(metadata)

    @app.get("/api")
    def api() -> Any:
        assert request.method == "GET"
        return jsonify({}), 401, {"WWW-Authenticate": 'Bearer realm="api"'}

    return app


@pytest.fixture
def flask_site(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")
    holder = Flask("holder")
    server = make_server("127.0.0.1", 0, holder, threaded=True)
    base = f"http://127.0.0.1:{server.server_port}"
    server.app = flask_server(base)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield base
    server.shutdown()
    thread.join(10)
    server.server_close()


@pytest.mark.reveals_secrets  # the log of that server has its request lines
@pytest.mark.requirement("AC-01", "AC-04", "AC-06", "AC-09")
def test_our_client_signs_in_to_a_server_made_with_authlib_on_flask(flask_site: str) -> None:
    transport = SyncNetwork()
    place = find_sign_in(f"{flask_site}/api", transport)
    assert not isinstance(place, Problem), place
    assert (place.sends_resource, place.server.sends_issuer) == (False, True)
    first = sign_in(place, SignInOptions(identity=ClientIdentity(client_id="native")), Walker().person(), transport)
    assert isinstance(first, Credential), first
    assert first.scopes == ("a",)
    second = run(renew_credential(first, 0.0), transport)
    assert isinstance(second, Credential)
    assert second.refresh != first.refresh
    unknown = sign_in(place, SignInOptions(), Walker().person(), transport)
    assert isinstance(unknown, Problem)
    assert "--client-id" in unknown.message


@pytest.mark.reveals_secrets  # the log of that server has its request lines
@pytest.mark.requirement("AS-14", "AS-15", "AC-01", "AC-07")
def test_our_client_finds_the_issuer_of_a_server_that_takes_its_tokens(
    flask_site: str, serve: Callable[[Callable[[str], Any]], str]
) -> None:
    kit = Toolkit("Desk")

    @kit.tool(scopes=["a"])
    def look() -> str:
        """Look."""
        return "tea"

    def make(base: str) -> Any:
        expected = ExpectedClaims(issuer=flask_site, audience=f"{base}/mcp")
        return asgi(kit, callers=SignedTokenCallers(read_secret(b"a secret of at least thirty-two bytes"), expected))

    transport = SyncNetwork()
    place = find_sign_in(f"{serve(make)}/mcp", transport)
    assert not isinstance(place, Problem), place
    assert (place.server.issuer, place.scopes, place.sends_resource) == (flask_site, ("a",), True)
    signed_in = sign_in(place, SignInOptions(identity=ClientIdentity(client_id="native")), Walker().person(), transport)
    assert isinstance(signed_in, Credential), signed_in
    assert signed_in.resource == place.resource
