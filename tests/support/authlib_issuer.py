"""A small authorization server made with Authlib on Flask. Its tokens are signed, and for the resource asked for."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import grants
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata
from authlib.oauth2.rfc9207 import IssuerParameter
from flask import Flask, jsonify, request
from joserfc import jwt
from joserfc.jwk import RSAKey
from werkzeug.serving import make_server

KEY = RSAKey.generate_key(2048, {"kid": "authlib", "alg": "RS256", "use": "sig"})


class _PublicClient:
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


class _Record:
    """A code or a token that Authlib made, with what it asks about it."""

    def __init__(self, **facts: Any) -> None:
        self.__dict__.update(facts)

    def get_redirect_uri(self) -> str:
        return str(self.redirect_uri)  # type: ignore[attr-defined]  # whatever was kept

    def get_scope(self) -> str:
        return str(self.scope)  # type: ignore[attr-defined]  # whatever was kept

    def check_client(self, client: Any) -> bool:
        return True


def build_issuer(base: str, token_s: int = 600) -> Flask:  # noqa: C901 - a whole server in one place, as Authlib has it
    """Return the server at ``base``, where a browser is let in as its cookie ``person`` says, or else as Ada."""
    codes: dict[str, _Record] = {}
    refresh: dict[str, _Record] = {}
    app = Flask("issuer")

    class CodeGrant(grants.AuthorizationCodeGrant):
        TOKEN_ENDPOINT_AUTH_METHODS = ("none",)

        def save_authorization_code(self, code: str, request: Any) -> None:
            asked = request.payload.data
            codes[code] = _Record(
                redirect_uri=request.payload.redirect_uri,
                scope=request.payload.scope,
                code_challenge=asked["code_challenge"],
                code_challenge_method=asked["code_challenge_method"],
                code=code,
                user=request.user,
            )

        def query_authorization_code(self, code: str, client: Any) -> _Record | None:
            return codes.get(code)

        def delete_authorization_code(self, authorization_code: Any) -> None:
            del codes[authorization_code.code]

        def authenticate_user(self, authorization_code: Any) -> str:
            return str(authorization_code.user)

    class RefreshGrant(grants.RefreshTokenGrant):
        TOKEN_ENDPOINT_AUTH_METHODS = ("none",)
        INCLUDE_NEW_REFRESH_TOKEN = True

        def authenticate_refresh_token(self, refresh_token: str) -> _Record | None:
            return refresh.get(refresh_token)

        def authenticate_user(self, refresh_token: Any) -> str:
            return str(refresh_token.user)

        def revoke_old_credential(self, refresh_token: Any) -> None:
            del refresh[refresh_token.token]

    def write_token(client: Any, grant_type: str, user: str, scope: str, **_more: Any) -> str:
        claims = {
            "iss": base,
            "aud": request.form.get("resource", base),
            "sub": user,
            "scope": scope,
            "exp": int(time.time()) + token_s,
            "jti": secrets.token_hex(8),
        }
        return jwt.encode({"alg": "RS256", "kid": "authlib"}, claims, KEY)

    def save_token(token: dict[str, Any], request: Any) -> None:
        new = token["refresh_token"]
        refresh[new] = _Record(token=new, scope=token.get("scope", ""), user=request.user)

    class Issuer(IssuerParameter):
        def get_issuer(self) -> str:
            return base

    app.config["OAUTH2_REFRESH_TOKEN_GENERATOR"] = True
    app.config["OAUTH2_ACCESS_TOKEN_GENERATOR"] = write_token
    app.config["OAUTH2_TOKEN_EXPIRES_IN"] = {"authorization_code": token_s, "refresh_token": token_s}
    server = AuthorizationServer(app, lambda _: _PublicClient(), save_token)
    server.register_grant(CodeGrant, [CodeChallenge(required=True)])
    server.register_grant(RefreshGrant)
    server.register_extension(Issuer())
    metadata = AuthorizationServerMetadata(
        issuer=base,
        authorization_endpoint=f"{base}/authorize",
        token_endpoint=f"{base}/token",
        jwks_uri=f"{base}/jwks",
        response_types_supported=["code"],
        scopes_supported=["a"],
        code_challenge_methods_supported=["S256"],
        token_endpoint_auth_methods_supported=["none"],
        authorization_response_iss_parameter_supported=True,
    )

    @app.get("/authorize")
    def authorize() -> Any:
        person = request.cookies.get("person", "Ada")
        grant = server.get_consent_grant(end_user=person)
        return server.create_authorization_response(grant_user=person, grant=grant)

    @app.post("/token")
    def token() -> Any:
        return server.create_token_response()

    @app.get("/jwks")
    def keys() -> Any:
        return jsonify({"keys": [KEY.as_dict(private=False)]})

    @app.get("/.well-known/oauth-authorization-server")
    def described() -> Any:
        return jsonify(metadata)

    @app.get("/api")
    def api() -> Any:
        assert request.method == "GET"
        return jsonify({}), 401, {"WWW-Authenticate": 'Bearer realm="api"'}

    return app


@contextmanager
def run_authlib(monkeypatch: pytest.MonkeyPatch, token_s: int = 600) -> Iterator[str]:
    """Serve it, and give its URL. Its tokens are valid for ``token_s`` seconds."""
    monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")
    holder = Flask("holder")
    server = make_server("127.0.0.1", 0, holder, threaded=True)
    base = f"http://127.0.0.1:{server.server_port}"
    server.app = build_issuer(base, token_s)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield base
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()
