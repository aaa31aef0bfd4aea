"""Identify this client to an authorization server, by a configured id, a metadata document, or a registration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolwire.core.codec import Flow, fetch
from toolwire.core.errors import DefinitionError
from toolwire.core.http import Headers, Request
from toolwire.core.model import Json, Kind, Problem, Secret
from toolwire.core.url_origin import get_origin
from toolwire.framing import jsontext

from .client_metadata import read_document_url
from .metadata_discovery import AuthorizationServerMetadata
from .request_parameters import OAuthError

if TYPE_CHECKING:  # only the extra installs its requirements
    from .client_key import ClientKey

DOCUMENT_PATH = "/.well-known/oauth-client.json"
"""The default path of our metadata document."""
# OQ-11
LOOPBACK_REDIRECTS = ("http://127.0.0.1/callback", "http://[::1]/callback")
"""The redirect URIs of a program. It cannot know its port beforehand, and servers accept any port for these."""
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
"""The grant of a sign-in on another device (RFC 8628)."""
_POST: Headers = ((b"accept", b"application/json"), (b"content-type", b"application/json"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientIdentity:
    """A client's identity at one authorization server.

    ``is_registered`` means that it was registered for one sign-in only. With a ``key``, the client proves its identity
    with signed assertions (``private_key_jwt``).
    """

    # AC-04

    client_id: str
    secret: Secret | None = None
    method: str = "none"
    is_registered: bool = False
    key: ClientKey | None = None


def resolve_document_url(url: str, *, loopback: bool = False) -> str:
    """Return the URL of our metadata document: ``url``, with the usual path if it is only an origin.

    Raises:
        DefinitionError: no authorization server would accept a document from there.
    """
    # OQ-11, AS-16
    bare = url.rstrip("/")
    address = bare + DOCUMENT_PATH if bare.count("/") == 2 else url
    found = read_document_url(address, loopback=loopback)
    if isinstance(found, OAuthError):
        raise DefinitionError(f"{url} is not a valid URL for a client metadata document: {found.description}")
    return found


def write_document(address: str) -> Mapping[str, Json]:
    """Return the metadata document for ``address``, which is our client ID at every server."""
    # XL-113
    origin = get_origin(address)
    return {"client_id": address, "client_uri": origin, **write_metadata(LOOPBACK_REDIRECTS)}


def write_metadata(redirect_uris: Sequence[str], more_grants: Sequence[str] = ()) -> Mapping[str, Json]:
    """Return the metadata of a program on a user's machine, which cannot keep a secret."""
    return {
        "client_name": "toolwire",
        "application_type": "native",
        "redirect_uris": list(redirect_uris),
        "grant_types": ["authorization_code", "refresh_token", *more_grants],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }


def identify_client(
    server: AuthorizationServerMetadata,
    redirect_uris: Sequence[str],
    *,
    configured: ClientIdentity | None = None,
    document_url: str = "",
    grants: Sequence[str] = (),
) -> Flow[ClientIdentity | Problem]:
    """Return our identity there: the configured one, or else our metadata document, or else a new registration.

    ``grants`` are grant types that a registration must name in addition to the usual ones.
    """
    # AC-04, XL-113
    if configured is not None:
        return configured
    if document_url and server.accepts_documents:
        return ClientIdentity(client_id=document_url)
    if server.registration_url:
        return (yield from _register(server, redirect_uris, grants))
    text = f"{server.issuer} does not know toolwire. Register toolwire there, and pass its client ID with --client-id."
    return Problem(kind=Kind.UNAUTHORIZED, message=text)


def _register(
    server: AuthorizationServerMetadata, redirect_uris: Sequence[str], grants: Sequence[str]
) -> Flow[ClientIdentity | Problem]:
    body = jsontext.write(write_metadata(redirect_uris, grants))
    response = yield from fetch(Request("POST", server.registration_url, _POST, body))
    if isinstance(response, Problem):
        return response
    data = jsontext.read(response.body) if response.status in (200, 201) else None
    if not isinstance(data, dict) or not isinstance(data.get("client_id"), str) or not data["client_id"]:
        text = (
            f"{server.issuer} did not register toolwire (status {response.status}). Pass a client ID with --client-id."
        )
        return Problem(kind=Kind.BAD_ANSWER, message=text)
    secret, method = data.get("client_secret"), data.get("token_endpoint_auth_method", "none")
    if not isinstance(secret, str) or not secret or method == "none":
        return ClientIdentity(client_id=data["client_id"], is_registered=True)
    return ClientIdentity(client_id=data["client_id"], secret=Secret(secret), method=str(method), is_registered=True)
