"""Check what an app says about itself, in Client ID Metadata Documents and dynamic registrations (RFC 7591)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from toolwire.core.http import Response, get_header
from toolwire.core.model import Json, Problem
from toolwire.core.url_origin import get_host, read_origin
from toolwire.framing import jsontext

from .clients import GRANTS, METHODS, Client, Method
from .loopback_hosts import is_loopback_host
from .redirect_uris import read_redirect_uri
from .request_parameters import OAuthError, invalid_client

MAX_DOCUMENT_BYTES = 5 * 1024
_URL = re.compile(r"https?://[!$%&'()*+,./0-9:;=?A-Z_a-z~\[\]-]{1,1000}")  # no @, no #, no backslash
_MAX_NAME = 200
_MAX_REDIRECTS = 20
_MIN_S, _MAX_S = 60.0, 86_400.0
_MAX_AGE = re.compile(r"(?:^|,)\s*max-age\s*=\s*\"?([0-9]{1,10})", re.IGNORECASE)


def is_document_url(client_id: str) -> bool:
    """Return whether ``client_id`` is a document's URL rather than a name that we assigned."""
    return client_id.startswith(("https://", "http://"))


def read_document_url(url: str, *, loopback: bool) -> str | OAuthError:
    """Return ``url`` if a metadata document can be there. HTTP is allowed only on ``loopback``, for development."""
    # AS-16
    if _URL.fullmatch(url) is None:
        return invalid_client("client_id is not a URL that a metadata document may have.")
    origin = read_origin(url)
    if origin is None or not origin.port:  # before urlsplit, which raises for a host such as "[a"
        return invalid_client("client_id is a URL without a host.")
    parts = urlsplit(url)
    local = is_loopback_host(get_host(url))
    if (origin.scheme == "http" or local) and not (local and loopback):
        return invalid_client("client_id must be an https URL.")
    segments = [unquote(segment) for segment in parts.path.split("/")]
    if parts.path in ("", "/") or any(segment in (".", "..") for segment in segments):
        return invalid_client("client_id must be a URL with a path, and no dot segments in it.")
    return url


def read_document(url: str, response: Response | Problem) -> Client | OAuthError:
    """Return the client in ``response``, the metadata document at ``url``."""
    # AS-16, XL-114
    data = _read_object(response)
    if isinstance(data, str):
        return invalid_client(f"The app's metadata document {data}.")
    if data.get("client_id") != url:
        return invalid_client("The client_id in the app's metadata document differs from the document's URL.")
    if "client_secret" in data or "client_secret_expires_at" in data:
        return invalid_client("The app's metadata document contains a client_secret, which anyone could read.")
    client = read_metadata(data, url)
    if not isinstance(client, OAuthError) and client.method.startswith("client_secret"):
        return invalid_client("An app with a metadata document cannot authenticate with a secret.")
    return client


def _read_object(response: Response | Problem) -> Mapping[str, Json] | str:
    """Return the received object, or what is wrong with it."""
    if isinstance(response, Problem):
        return "could not be fetched"
    if response.status != 200:
        return f"was answered with {response.status}, not with 200"
    media = get_header(response.headers, b"content-type").partition(";")[0].strip().lower()
    if media != "application/json" and not (media.startswith("application/") and media.endswith("+json")):
        return "is not JSON"
    if len(response.body) > MAX_DOCUMENT_BYTES:
        return f"is larger than {MAX_DOCUMENT_BYTES:,} bytes"
    data = jsontext.read(response.body)
    return data if isinstance(data, dict) else "is not a JSON object"


def read_metadata(data: Mapping[str, Json], client_id: str) -> Client | OAuthError:
    """Return the client that ``data`` describes. Members we do not know are ignored, software statements too."""
    redirects = _read_redirects(data.get("redirect_uris"))
    if isinstance(redirects, OAuthError):
        return redirects
    name = data.get("client_name", "")
    if not isinstance(name, str) or len(name) > _MAX_NAME:
        return _build_error(f"client_name must be a text of at most {_MAX_NAME} characters.")
    method = _read_method(data)
    grants = data.get("grant_types", ["authorization_code"])
    if not isinstance(grants, list) or "authorization_code" not in grants:
        return _build_error("grant_types must contain authorization_code.")
    if isinstance(method, OAuthError):
        return method
    keys, keys_url = _read_keys(data)
    if method == "private_key_jwt" and keys is None and not keys_url:
        return _build_error("private_key_jwt needs jwks or an https jwks_uri.")
    return Client(
        id=client_id,
        name=name.strip(),
        redirect_uris=redirects,
        origin="document" if is_document_url(client_id) else "registered",
        method=method,
        keys=keys,
        keys_url=keys_url,
        grants=tuple(grant for grant in GRANTS if grant in grants),
    )


def _read_redirects(given: Json) -> tuple[str, ...] | OAuthError:
    if not isinstance(given, list) or not 0 < len(given) <= _MAX_REDIRECTS:
        return _build_error(f"redirect_uris must be a list of one to {_MAX_REDIRECTS}.", "invalid_redirect_uri")
    for uri in given:
        read = read_redirect_uri(uri) if isinstance(uri, str) else _build_error("redirect_uris must be strings.")
        if isinstance(read, OAuthError):
            return _build_error(read.description, "invalid_redirect_uri")
    return tuple(given)


def cache_lifetime_s(response: Response) -> float:
    """Return how long a document can be reused, in seconds: as its response says, from a minute to a day."""
    # AS-16
    control = get_header(response.headers, b"cache-control").lower()
    if "no-store" in control or "no-cache" in control:
        return _MIN_S
    match = _MAX_AGE.search(control)
    return min(max(float(match[1]), _MIN_S), _MAX_S) if match else _MIN_S


def _read_method(data: Mapping[str, Json]) -> Method | OAuthError:
    given = data.get("token_endpoint_auth_method", "none")
    for method in METHODS:
        if given == method:
            return method
    return _build_error("token_endpoint_auth_method is not one that is known here.")


def _read_keys(data: Mapping[str, Json]) -> tuple[Mapping[str, Json] | None, str]:
    keys, url = data.get("jwks"), data.get("jwks_uri")
    keys = keys if isinstance(keys, dict) and isinstance(keys.get("keys"), list) else None
    return keys, url if isinstance(url, str) and _URL.fullmatch(url) else ""


def _build_error(description: str, error: str = "invalid_client_metadata") -> OAuthError:
    return OAuthError(error=error, description=description)
