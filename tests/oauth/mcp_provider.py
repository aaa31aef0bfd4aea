"""An authorization server as the MCP SDK wants it."""

from __future__ import annotations

import secrets
import time
from typing import Any
from urllib.parse import urlencode

from mcp.server.auth.provider import AccessToken, AuthorizationCode, AuthorizationParams, RefreshToken
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken


class Provider:
    """The smallest provider the MCP SDK's server takes: everybody is let in."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.revoked: list[str] = []

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = secrets.token_urlsafe(32)
        self.codes[code] = AuthorizationCode(
            code=code, client_id=client.client_id or "", expires_at=time.time() + 60, **_select_parameters(params)
        )
        return f"{params.redirect_uri}?{urlencode({'code': code, 'state': params.state})}"

    async def load_authorization_code(self, client: Any, authorization_code: str) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client: Any, authorization_code: AuthorizationCode) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._issued(authorization_code.client_id, authorization_code.scopes)

    async def load_refresh_token(self, client: Any, refresh_token: str) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(self, client: Any, refresh_token: RefreshToken, scopes: list[str]) -> OAuthToken:
        del self.refresh[refresh_token.token]
        return self._issued(refresh_token.client_id, scopes)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return AccessToken(token=token, client_id="x", scopes=[])

    async def revoke_token(self, token: Any) -> None:
        self.revoked.append(token.token)

    def _issued(self, client_id: str, scopes: list[str]) -> OAuthToken:
        refresh = secrets.token_urlsafe(32)
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=scopes)
        return OAuthToken(
            access_token=secrets.token_urlsafe(32), expires_in=600, refresh_token=refresh, scope=" ".join(scopes)
        )


def _select_parameters(params: AuthorizationParams) -> dict[str, Any]:
    return {
        "scopes": params.scopes or [],
        "code_challenge": params.code_challenge,
        "redirect_uri": params.redirect_uri,
        "redirect_uri_provided_explicitly": params.redirect_uri_provided_explicitly,
        "resource": params.resource,
    }
