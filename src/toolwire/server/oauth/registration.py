"""Dynamic client registration (RFC 7591): off unless it was switched on, and bounded then."""
# AS-18

from __future__ import annotations

from dataclasses import replace

from toolwire.auth.client_metadata import read_metadata
from toolwire.auth.clients import Client, digest, write_client
from toolwire.auth.oauth_error import OAuthError
from toolwire.core.http import Request, Response
from toolwire.core.model import Json, Problem
from toolwire.framing import jsontext

from .server_context import OAuthRequest, ServerContext, refused, said

_A_MINUTE, _MINUTE_S = 20, 60.0
_UNUSED, _UNUSED_S = 10_000, 86_400.0
"""How many apps that nobody has allowed anything are kept, and for how long; the oldest go first."""


async def register(desk: ServerContext, visit: OAuthRequest) -> Response:
    """Register the app that a JSON object describes, and return the id it has from now on."""
    request = Request("POST", visit.path, tuple(visit.fields.items()), visit.body)
    data = jsontext.read_object(request)
    if isinstance(data, Problem):
        return refused(OAuthError(error="invalid_client_metadata", description=data.message))
    client = read_metadata(data, f"app-{desk.secret()}")
    if isinstance(client, OAuthError):
        return refused(client)
    if data.get("application_type", "native") not in ("native", "web"):
        text = "application_type is native or web."
        return refused(OAuthError(error="invalid_client_metadata", description=text))
    return await desk.run_in_thread(_registered, desk, client, visit.network)


def _registered(desk: ServerContext, client: Client, network: str) -> Response:
    now, key = desk.now(), digest(f"registrations from {network}")
    secret = desk.secret() if client.method.startswith("client_secret") else ""
    with desk.store.changing() as rows:
        if rows.attempts(key, now) >= _A_MINUTE:
            text = "Too many apps register from your address: wait a minute."
            return refused(OAuthError(error="temporarily_unavailable", description=text, status=429))
        rows.attempt(key, now + _MINUTE_S)
        kept = replace(client, secret_digest=digest(secret) if secret else "")
        rows.add_client(client.id, write_client(kept), now + _UNUSED_S)
        rows.drop_unused_clients(_UNUSED)
        desk.note(rows, "app registered", client_id=client.id)
    body: dict[str, Json] = {
        "client_id": client.id,
        "client_id_issued_at": int(now),
        "client_name": client.name,
        "redirect_uris": list(client.redirect_uris),
        "grant_types": list(client.grants),
        "response_types": ["code"],
        "token_endpoint_auth_method": client.method,
    }
    if secret:
        body |= {"client_secret": secret, "client_secret_expires_at": 0}
    return said(body, 201)
