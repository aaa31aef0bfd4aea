"""Read an authorization request, and build the redirect that answers it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import urlencode

from .clients import Client
from .pkce import read_challenge
from .redirect_uris import choose_registered
from .request_parameters import OAuthError, RequestParameters, invalid_request
from .resource_indicators import read_resource
from .scopes import read_scopes, select_supported_scopes

_STATE_CHARS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationRequest:
    """A client requests ``scopes`` for ``resource``. The response goes to ``redirect_uri`` with ``state``."""

    client_id: str
    redirect_uri: str
    state: str
    challenge: str
    resource: str
    scopes: tuple[str, ...]
    force_consent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportedScopes:
    """A server's scopes. ``defaults`` are for a client that requests none. ``drop_unknown`` ignores unknown scopes."""

    resource: str
    scopes: Collection[str]
    defaults: tuple[str, ...]
    drop_unknown: bool = False


def choose_redirect_uri(parameters: RequestParameters, client: Client) -> str | OAuthError:
    """Return the redirect URI of the response. An error is shown to the user and not redirected."""
    # AS-01
    if parameters.repeated & {"client_id", "redirect_uri"}:
        return invalid_request("client_id or redirect_uri came more than once.")
    return choose_registered(client.redirect_uris, parameters.get("redirect_uri"))


def read_authorization_request(
    parameters: RequestParameters, client: Client, redirect_uri: str, supported: SupportedScopes
) -> AuthorizationRequest | OAuthError:
    """Return the request of ``client``, or the error for its redirect URI."""
    # AS-03, AS-04, AS-07, AS-08
    problem = parameters.find_repeated() or _find_unsupported(parameters)
    if problem is not None:
        return problem
    challenge = read_challenge(parameters)
    if isinstance(challenge, OAuthError):
        return challenge
    resource = read_resource(parameters.resources, supported.resource)
    if isinstance(resource, OAuthError):
        return resource
    asked = read_scopes(parameters.get("scope"))
    if isinstance(asked, OAuthError):
        return asked
    scopes = select_supported_scopes(asked or supported.defaults, supported.scopes, drop=supported.drop_unknown)
    if isinstance(scopes, OAuthError):
        return scopes
    return AuthorizationRequest(
        client_id=client.id,
        redirect_uri=redirect_uri,
        state=parameters.get("state"),
        challenge=challenge,
        resource=resource,
        scopes=scopes,
        force_consent="consent" in parameters.get("prompt").split(),
    )


def build_response_url(redirect_uri: str, issuer: str, state: str, members: dict[str, str]) -> str:
    """Return the URL that sends ``members``, the issuer and the state back to the client."""
    # AS-06
    pairs = {**members, "iss": issuer, **({"state": state} if state else {})}
    return redirect_uri + ("&" if "?" in redirect_uri else "?") + urlencode(pairs)


def _find_unsupported(parameters: RequestParameters) -> OAuthError | None:
    response_type = parameters.get("response_type")
    if not response_type:
        return invalid_request("response_type is missing.")
    if response_type != "code":
        return OAuthError(error="unsupported_response_type", description="response_type must be code.")
    if parameters.get("response_mode") not in ("", "query"):
        return invalid_request("response_mode must be query.")
    if len(parameters.get("state")) > _STATE_CHARS:
        return invalid_request("state is too long.")
    return None
