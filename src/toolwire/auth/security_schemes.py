"""Read from an OpenAPI document where and how to sign in.

Rules:
- Implicit and password flows are named and not used: they show tokens, or passwords, where others see them.
- The page and the token endpoint of a flow are of one origin, or a hostile document could have a code that an honest
  server gave sent to itself. A refresh endpoint on another origin is not used.
"""
# AC-13

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import urljoin

from toolwire.core.model import Json
from toolwire.core.url_origin import get_origin

from .metadata_discovery import AuthorizationServerMetadata, SignInTarget, is_safe_endpoint
from .resource_indicators import canonical_uri

SignInMethod: TypeAlias = Literal["page", "secret", "device"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSignIn:
    """What a document declares: where a person, a program or another device signs in, or where metadata is.

    ``keys`` are header schemes: header name and prefix of the value. ``unsafe`` names the flows that are not used.
    ``resource`` is the origin that is signed in for; ``authorization_server`` and ``resource_metadata`` are the URLs
    that llm.json names.
    """

    targets: Mapping[SignInMethod, SignInTarget]
    metadata_urls: tuple[str, ...] = ()
    keys: tuple[tuple[str, str], ...] = ()
    unsafe: tuple[str, ...] = ()
    resource: str = ""
    authorization_server: str = ""
    resource_metadata: str = ""


_METHODS: Mapping[str, SignInMethod] = {
    "authorizationCode": "page",
    "clientCredentials": "secret",
    "deviceAuthorization": "device",
}


def read_security_schemes(document: Json, base: str, resource: str) -> DeclaredSignIn:
    """Return what the OpenAPI ``document`` at ``base`` declares about signing in for ``resource``."""
    # AC-01, XL-110
    components = document.get("components") if isinstance(document, dict) else None
    schemes = components.get("securitySchemes") if isinstance(components, dict) else None
    places: dict[SignInMethod, SignInTarget] = {}
    metadata: list[str] = []
    keys: list[tuple[str, str]] = []
    unsafe: list[str] = []
    for scheme in schemes.values() if isinstance(schemes, dict) else ():
        match scheme:
            case {"type": "oauth2", **more}:
                flows = more.get("flows")
                _read_flows(flows if isinstance(flows, dict) else {}, base, resource, places, unsafe)
                metadata += _resolve_url(base, more.get("oauth2MetadataUrl"))
            case {"type": "openIdConnect", "openIdConnectUrl": str(url)}:
                metadata += _resolve_url(base, url)
            case {"type": "apiKey", "in": "header", "name": str(name)}:
                keys.append((name.lower(), ""))
            case {"type": "http", "scheme": str(name)} if name.lower() in ("bearer", "basic"):
                keys.append(("authorization", f"{name.capitalize()} "))
            case _:
                pass
    return DeclaredSignIn(
        targets=places,
        metadata_urls=tuple(metadata),
        keys=tuple(keys),
        unsafe=tuple(unsafe),
        resource=canonical_uri(resource),
    )


def _read_flows(
    flows: Mapping[str, Json], base: str, resource: str, targets: dict[SignInMethod, SignInTarget], unsafe: list[str]
) -> None:
    for name, flow in flows.items():
        if name in ("implicit", "password"):
            unsafe.append(name)
        elif name in _METHODS and isinstance(flow, dict):
            place = _build_target(flow, base, resource)
            if place is not None:
                targets.setdefault(_METHODS[name], place)


def _build_target(flow: Mapping[str, Json], base: str, resource: str) -> SignInTarget | None:
    """Return where one flow leads; what a document says is unproven, so PKCE is sent and not relied on."""
    # AC-03
    names = ("tokenUrl", "authorizationUrl", "deviceAuthorizationUrl", "refreshUrl")
    urls = [_resolve_url(base, flow.get(name)) for name in names]
    token, page, device, refresh = (found[0] if found else "" for found in urls)
    origin = get_origin(token)
    if not origin or any(url and get_origin(url) != origin for url in (page, device)):
        return None
    scopes = flow.get("scopes")
    server = AuthorizationServerMetadata(
        issuer=origin,
        authorization_url=page,
        token_url=token,
        device_url=device,
        refresh_url=refresh if get_origin(refresh) == origin else "",
        is_proven=False,
    )
    known = tuple(scopes) if isinstance(scopes, dict) else ()
    return SignInTarget(
        resource=canonical_uri(resource), server=server, scopes=known, sends_resource=False, is_declared=True
    )


def _resolve_url(base: str, url: Json) -> list[str]:
    if not isinstance(url, str):
        return []
    try:
        whole = urljoin(base, url)
    except ValueError:
        return []
    return [whole] if is_safe_endpoint(whole, base) else []
