"""Build the metadata of the authorization server (RFC 8414) and of the protected resource (RFC 9728)."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from toolwire.core.model import Json
from toolwire.core.url_origin import get_origin

from .clients import GRANTS, METHODS
from .pkce import METHOD
from .resource_indicators import canonical_uri

SERVER_PATH = "/.well-known/oauth-authorization-server"
RESOURCE_PATH = "/.well-known/oauth-protected-resource"
OPENID_PATH = "/.well-known/openid-configuration"
ALGORITHMS = ("ES256", "RS256", "PS256")


def well_known_url(name: str, url: str) -> str:
    """Return the well-known URL ``name`` of the issuer or resource ``url``, inserted before its path and query."""
    # AS-13, AS-14, O-38
    parts = urlsplit(canonical_uri(url))
    return get_origin(url) + name + parts.path.rstrip("/") + (f"?{parts.query}" if parts.query else "")


def build_server_metadata(
    issuer: str, scopes: Iterable[str], *, registration: bool = False, keys: bool = False
) -> dict[str, Json]:
    """Return the metadata of our authorization server; true in every member."""
    # AS-13
    base = canonical_uri(issuer) + "/oauth"
    methods = list(METHODS)
    algorithms = list(ALGORITHMS)
    metadata: dict[str, Json] = {
        "issuer": issuer,
        "authorization_endpoint": f"{base}/authorize",
        "token_endpoint": f"{base}/token",
        "revocation_endpoint": f"{base}/revoke",
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": list(GRANTS),
        "code_challenge_methods_supported": [METHOD],
        "token_endpoint_auth_methods_supported": methods,
        "token_endpoint_auth_signing_alg_values_supported": algorithms,
        "revocation_endpoint_auth_methods_supported": methods,
        "revocation_endpoint_auth_signing_alg_values_supported": algorithms,
        "scopes_supported": list(scopes),
        "client_id_metadata_document_supported": True,
        "authorization_response_iss_parameter_supported": True,
    }
    if registration:
        metadata["registration_endpoint"] = f"{base}/register"
    if keys:
        metadata["jwks_uri"] = f"{base}/jwks"
    return metadata


BASE_MEMBER = "toolwire_base"
"""The member of a resource's metadata with the URL below which all protocols of its server take its tokens."""


def build_resource_metadata(resource: str, issuer: str, scopes: Iterable[str], name: str) -> dict[str, Json]:
    """Return the metadata of a resource that takes our tokens, in the header only."""
    # AS-14
    return {
        "resource": canonical_uri(resource),
        "authorization_servers": [issuer],
        "scopes_supported": [scope for scope in scopes if scope != "offline_access"],
        "bearer_methods_supported": ["header"],
        "resource_name": name,
    }
