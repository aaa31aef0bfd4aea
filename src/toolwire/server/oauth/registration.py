"""Serve dynamic client registration (RFC 7591), if it is switched on. The number of clients is limited."""
# AS-18

from __future__ import annotations

from dataclasses import replace

from toolwire.auth.client_metadata import read_metadata
from toolwire.auth.clients import Client, hash_secret, write_client
from toolwire.auth.request_parameters import OAuthError
from toolwire.core.http import Request, Response
from toolwire.core.model import Json, Problem
from toolwire.framing import jsontext

from .server_context import OAuthRequest, ServerContext, build_error_response, build_json_response

_MAX_A_MINUTE, _MINUTE_S = 20, 60.0
_MAX_UNUSED, _UNUSED_S = 10_000, 86_400.0
"""How many clients without a grant are stored, and for how many seconds. The oldest are deleted first."""


async def handle_registration(context: ServerContext, request: OAuthRequest) -> Response:
    """Register the client that a JSON object describes, and return its new id."""
    post = Request("POST", request.path, tuple(request.headers.items()), request.body)
    data = jsontext.read_object(post)
    if isinstance(data, Problem):
        return build_error_response(OAuthError(error="invalid_client_metadata", description=data.message))
    client = read_metadata(data, f"app-{context.make_secret()}")
    if isinstance(client, OAuthError):
        return build_error_response(client)
    if data.get("application_type", "native") not in ("native", "web"):
        text = "application_type must be native or web."
        return build_error_response(OAuthError(error="invalid_client_metadata", description=text))
    return await context.run_in_thread(_register_client, context, client, request.network)


def _register_client(context: ServerContext, client: Client, network: str) -> Response:
    now, key = context.now(), hash_secret(f"registrations from {network}")
    secret = context.make_secret() if client.method.startswith("client_secret") else ""
    with context.store.write_transaction() as rows:
        if rows.count_attempts(key, now) >= _MAX_A_MINUTE:
            text = "Too many clients are registering from your address. Wait a minute."
            return build_error_response(OAuthError(error="temporarily_unavailable", description=text, status=429))
        rows.add_attempt(key, now=now, until=now + _MINUTE_S)
        # Only the digest of the secret is stored: a copy of the database authenticates no client.
        stored = replace(client, secret_digest=hash_secret(secret) if secret else "")
        rows.add_client(client.id, write_client(stored), now + _UNUSED_S)
        rows.drop_unused_clients(_MAX_UNUSED)
        context.record_event(rows, "app registered", client_id=client.id)
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
        # RFC 7591, 3.2.1: the expiry is required with a secret; 0 means never.
        body |= {"client_secret": secret, "client_secret_expires_at": 0}
    return build_json_response(body, 201)
