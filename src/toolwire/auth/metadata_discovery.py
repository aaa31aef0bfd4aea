"""Finding out where a person signs in for a URL: from a 401, the metadata of the resource, and that of its server.

Rules:
- What names another resource or issuer than was asked for is not used, and nothing is guessed in its place.
- Endpoints are https; only what is itself on this machine may name one here, in https or http.
"""
# AC-02

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from toolwire.core.codec import Flow, fetch
from toolwire.core.http import Request, Response
from toolwire.core.model import Json, Kind, Problem
from toolwire.framing import jsontext

from .challenge import Challenge
from .loopback_hosts import is_here
from .pkce import METHOD
from .resource_indicators import canonical, covers
from .server_metadata import OPENID, RESOURCE, SERVER, well_known

_URL = re.compile(
    r"https?://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?:[/?][!$%&'()*+,./0-9:;=?@A-Z_a-z~-]*)?"
)
_GET = ((b"accept", b"application/json"),)
_CHARS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationServerMetadata:
    """An authorization server as its metadata, or a document, describes it.

    ``documents``: takes metadata documents as client ids. ``names_issuer``: promises ``iss`` in its answers.
    ``proven``: says itself that it does PKCE with S256; a document of somebody else's cannot say so.
    """

    issuer: str
    authorization_url: str = ""
    token_url: str
    revocation_url: str = ""
    registration_url: str = ""
    device_url: str = ""
    scopes: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    documents: bool = False
    names_issuer: bool = False
    proven: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInTarget:
    """Where to sign in for ``resource``. ``scopes`` are the fewest that are said to be needed.

    ``indicated`` says whether requests name the resource: some old servers refuse parameters they do not know.
    """

    resource: str
    server: AuthorizationServerMetadata
    scopes: tuple[str, ...] = ()
    indicated: bool = True


def find_place(url: str, challenge: Challenge | None = None) -> Flow[SignInTarget | Problem]:
    """Return where to sign in for ``url``, by the challenge of its 401 if there was one."""
    # AC-01
    said = {} if challenge is None else challenge.parameters
    wanted = tuple(said.get("scope", "").split())
    for address in _resource_urls(url, said.get("resource_metadata", "")):
        data = yield from _json(address)
        if data is None:
            continue
        resource, issuers = data.get("resource"), _texts(data.get("authorization_servers"))
        if not isinstance(resource, str) or not covers(resource, url) or not issuers:
            return _bad(f"{address} is about another resource than {url}, so it is not used.")
        server = yield from find_server(issuers[0], url)
        if isinstance(server, Problem):
            return server
        scopes = wanted or _texts(data.get("scopes_supported"))
        return SignInTarget(resource=canonical(resource), server=server, scopes=scopes)
    server = yield from find_server(_origin(url))
    if isinstance(server, Problem):
        return server
    return SignInTarget(resource=_origin(url), server=server, scopes=wanted or server.scopes, indicated=False)


def find_server(issuer: str, near: str | None = None) -> Flow[AuthorizationServerMetadata | Problem]:
    """Return the authorization server whose issuer is ``issuer``, from its metadata.

    ``near`` is the URL of what names it, None where the person does.
    """
    # AC-01, AC-02
    if not is_safe(issuer, issuer if near is None else near):
        return _bad("The authorization server is not named by an https URL, or is on this machine.")
    for address in _server_urls(issuer):
        data = yield from _json(address)
        if data is not None:
            return read_server(data, issuer)
    return Problem(kind=Kind.UNAUTHORIZED, message=f"{issuer} does not say how to sign in there.")


def find_server_at(address: str) -> Flow[AuthorizationServerMetadata | Problem]:
    """Return the authorization server whose metadata is at ``address``, which a document may name."""
    # AC-01
    if not is_safe(address, address):
        return _bad("The metadata of the authorization server is not at an https URL.")
    data = yield from _json(address)
    issuer = "" if data is None else data.get("issuer")
    if data is None or not isinstance(issuer, str) or address not in _server_urls(issuer):
        return _bad(f"{address} is not the metadata of the issuer that it names, so it is not used.")
    return read_server(data, issuer)


def read_server(data: dict[str, Json], issuer: str) -> AuthorizationServerMetadata | Problem:
    """Return what metadata says, if it is that of ``issuer`` to the letter and does PKCE."""
    # AC-02, AC-03
    if data.get("issuer") not in (issuer, *((issuer + "/",) if issuer == _origin(issuer) else ())):
        return _bad(f"The metadata of {issuer} names another issuer, so it is not used.")
    if METHOD not in _texts(data.get("code_challenge_methods_supported")):
        return _bad(f"{issuer} does not say that it protects sign-in with PKCE (S256), so it is not used.")
    endpoints: dict[str, str] = {}
    for name, member in _ENDPOINTS.items():
        given = data.get(member)
        if given is None:
            continue
        if not isinstance(given, str) or not is_safe(given, issuer):
            return _bad(f"{issuer} names a {member} that is not an https URL, so it is not used.")
        endpoints[name] = given
    if "token_url" not in endpoints:
        return _bad(f"{issuer} names no token endpoint.")
    return AuthorizationServerMetadata(
        issuer=str(data["issuer"]),
        authorization_url=endpoints.get("authorization_url", ""),
        token_url=endpoints["token_url"],
        revocation_url=endpoints.get("revocation_url", ""),
        registration_url=endpoints.get("registration_url", ""),
        device_url=endpoints.get("device_url", ""),
        scopes=_texts(data.get("scopes_supported")),
        methods=_texts(data.get("token_endpoint_auth_methods_supported")),
        documents=data.get("client_id_metadata_document_supported") is True,
        names_issuer=data.get("authorization_response_iss_parameter_supported") is True,
    )


def is_safe(url: str, near: str) -> bool:
    """Return whether ``url`` may be an endpoint: https elsewhere, or anything here if ``near`` is here too.

    ``near`` names it: nothing that is elsewhere may have us ask what listens on this machine.
    """
    # AC-02, D-05, D-29
    if len(url) > _CHARS or _URL.fullmatch(url) is None:
        return False
    return _is_here(near) if _is_here(url) else url.startswith("https://")


_ENDPOINTS = {
    "authorization_url": "authorization_endpoint",
    "token_url": "token_endpoint",
    "revocation_url": "revocation_endpoint",
    "registration_url": "registration_endpoint",
    "device_url": "device_authorization_endpoint",
}


def _resource_urls(url: str, named: str) -> Iterable[str]:
    if named and is_safe(named, url) and _origin(named) == _origin(url):
        yield named
    path = urlsplit(url).path.rstrip("/")
    if path:
        yield well_known(RESOURCE, url)
    yield _origin(url) + RESOURCE


def _server_urls(issuer: str) -> Sequence[str]:
    inserted = (well_known(SERVER, issuer), well_known(OPENID, issuer))
    return (*inserted, canonical(issuer) + OPENID) if urlsplit(issuer).path.strip("/") else inserted


def _json(address: str) -> Flow[dict[str, Json] | None]:
    response: Response | Problem = yield from fetch(Request("GET", address, _GET))
    if isinstance(response, Problem) or response.status != 200:
        return None
    data = jsontext.read(response.body)
    return data if isinstance(data, dict) else None


def _origin(url: str) -> str:
    return "/".join(url.partition("?")[0].split("/")[:3])


def _is_here(url: str) -> bool:
    return is_here(urlsplit(url).hostname)


def _texts(value: Json) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def _bad(message: str) -> Problem:
    return Problem(kind=Kind.BAD_ANSWER, message=message)
