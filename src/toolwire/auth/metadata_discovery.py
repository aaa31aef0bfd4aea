"""Find the authorization server of a URL: from a 401, the metadata of the resource, and that of the server.

Rules:
- Metadata that names another resource or issuer is not used, and nothing is guessed instead.
- Endpoints are https. Only metadata on this machine may name an endpoint on this machine.
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
from toolwire.core.url_origin import get_host, get_origin, has_same_origin
from toolwire.framing import jsontext

from .challenge import Challenge
from .loopback_hosts import is_loopback_host
from .pkce import METHOD
from .resource_indicators import canonical_uri, is_covered_by
from .server_metadata import BASE_MEMBER, OPENID_PATH, RESOURCE_PATH, SERVER_PATH, well_known_url

_URL = re.compile(
    r"https?://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?:[/?][!$%&'()*+,./0-9:;=?@A-Z_a-z~-]*)?"
)
_ACCEPT_JSON = ((b"accept", b"application/json"),)
_MAX_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationServerMetadata:
    """An authorization server as its metadata, or a document, describes it.

    ``accepts_documents``: takes metadata documents as client ids. ``sends_issuer``: promises ``iss`` in its answers.
    ``is_proven``: its own metadata says that it does PKCE with S256; the document of another site cannot say so.
    ``proof_algorithms`` are those that it accepts proofs with (RFC 9449), empty if it names none. ``pushed_url`` is
    where requests must be pushed before a user comes (RFC 9126), empty where they need not be.
    """

    issuer: str
    authorization_url: str = ""
    token_url: str
    revocation_url: str = ""
    registration_url: str = ""
    device_url: str = ""
    refresh_url: str = ""
    pushed_url: str = ""
    scopes: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    accepts_documents: bool = False
    sends_issuer: bool = False
    is_proven: bool = True
    proof_algorithms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInTarget:
    """Where to sign in for ``resource``. ``scopes`` are the fewest that are said to be needed.

    ``sends_resource`` says whether requests name the resource: some old servers refuse parameters they do not know.
    ``is_declared`` means that only a document or llm.json of the site names the server, which may belong to
    anyone. With ``binds_tokens``, the resource takes only tokens that are bound to a key (RFC 9449). ``base`` is
    the URL below which the server takes the tokens of its resource too, over other protocols, if it says so.
    """

    resource: str
    server: AuthorizationServerMetadata
    scopes: tuple[str, ...] = ()
    sends_resource: bool = True
    is_declared: bool = False
    binds_tokens: bool = False
    base: str = ""

    @property
    def foreign_origins(self) -> tuple[str, ...]:
        """The origins, other than that of the resource, where the user signs in and where the tokens come from."""
        server, home = self.server, get_origin(self.resource)
        urls = (server.issuer, server.authorization_url, server.pushed_url, server.device_url, server.token_url)
        return tuple(dict.fromkeys(origin for url in urls if url and (origin := get_origin(url)) not in ("", home)))

    @property
    def code_receiver(self) -> str:
        """The origin that gets the code of the page where the user signs in, if that is another one; else ``""``.

        A server that promises ``iss`` is left out: then the answer of the page says whose it is.
        """
        # AT-39: the page of an honest server beside the token endpoint of another one.
        server = self.server
        page, receiver = get_origin(server.authorization_url), get_origin(server.token_url)
        return receiver if server.authorization_url and page != receiver and not server.sends_issuer else ""


def find_sign_in_target(
    url: str,
    challenge: Challenge | None = None,
    *,
    scopes: Sequence[str] | None = None,
    authorization_server: str = "",
    resource_metadata: str = "",
) -> Flow[SignInTarget | Problem]:
    """Return where to sign in for ``url``, by the challenge of its 401 if there was one.

    ``scopes`` are those that the call needs, used where the challenge names none; with None, those that the server has
    are. The last two are the URLs that the
    llm.json of the site names. A Problem with the kind UNAUTHORIZED means that the site has no metadata at all.
    """
    # AC-01, AC-08: the scopes of the challenge, then those of the operation, then those that the server has.
    parameters = {} if challenge is None else challenge.parameters
    binds_tokens = challenge is not None and challenge.scheme == "dpop"
    named = tuple(parameters.get("scope", "").split())
    wanted = named if named or scopes is None else tuple(scopes)
    for address in _list_resource_urls(url, parameters.get("resource_metadata", ""), resource_metadata):
        data = yield from _fetch_json(address)
        if data is None:
            continue
        resource, issuers = data.get("resource"), _read_texts(data.get("authorization_servers"))
        base = _read_base(data, address)
        is_known = isinstance(resource, str) and any(is_covered_by(one, url) for one in (resource, base) if one)
        if not isinstance(resource, str) or not is_known or not issuers:
            return _build_problem(f"{address} describes a different resource, not {url}, so it was ignored.")
        server = yield from find_authorization_server(issuers[0], url)
        if isinstance(server, Problem):
            return server
        if not wanted and scopes is None:
            wanted = _read_texts(data.get("scopes_supported"))
        return SignInTarget(
            resource=canonical_uri(resource),
            server=server,
            scopes=wanted,
            binds_tokens=binds_tokens or data.get("dpop_bound_access_tokens_required") is True,
            base=base,
        )
    # XL-021, XL-024: the server that llm.json names may be elsewhere; its metadata must name itself.
    server = (
        (yield from find_authorization_server(authorization_server, url))
        if authorization_server
        else (yield from find_authorization_server(get_origin(url)))
    )
    if isinstance(server, Problem):
        return server
    return SignInTarget(
        resource=get_origin(url),
        server=server,
        scopes=server.scopes if not wanted and scopes is None else wanted,
        sends_resource=False,
        is_declared=bool(authorization_server),
        binds_tokens=binds_tokens,
    )


def find_authorization_server(
    issuer: str, named_by: str | None = None, *, has_page: bool = True
) -> Flow[AuthorizationServerMetadata | Problem]:
    """Return the authorization server whose issuer is ``issuer``, from its metadata.

    ``named_by`` is the URL of what names it, None where the person does. Without ``has_page`` nobody signs in on a page
    there, so that it need not do PKCE.
    """
    # AC-01, AC-02
    if not is_safe_endpoint(issuer, issuer if named_by is None else named_by):
        return _build_problem("The authorization server must have an https URL, and cannot be on this machine.")
    for address in _list_server_urls(issuer):
        data = yield from _fetch_json(address)
        if data is not None:
            return read_server_metadata(data, issuer, has_page=has_page)
    return Problem(kind=Kind.UNAUTHORIZED, message=f"{issuer} does not describe how to sign in.")


def fetch_server_metadata(address: str) -> Flow[AuthorizationServerMetadata | Problem]:
    """Return the authorization server whose metadata is at ``address``, which a document may name."""
    # AC-01
    if not is_safe_endpoint(address, address):
        return _build_problem("The authorization server's metadata must be at an https URL.")
    data = yield from _fetch_json(address)
    issuer = "" if data is None else data.get("issuer")
    if data is None or not isinstance(issuer, str) or address not in _list_server_urls(issuer):
        return _build_problem(f"{address} names a different issuer than its own URL, so it was ignored.")
    return read_server_metadata(data, issuer)


def read_server_metadata(
    data: dict[str, Json], issuer: str, *, has_page: bool = True
) -> AuthorizationServerMetadata | Problem:
    """Return what metadata says, if it is that of ``issuer`` to the letter, and does PKCE where it ``has_page``."""
    # AC-02, AC-03
    if data.get("issuer") not in (issuer, *((issuer + "/",) if issuer.count("/") == 2 else ())):
        return _build_problem(f"The metadata of {issuer} names a different issuer, so it was ignored.")
    if has_page and METHOD not in _read_texts(data.get("code_challenge_methods_supported")):
        return _build_problem(f"{issuer} does not declare PKCE support (S256), so it was not used.")
    endpoints: dict[str, str] = {}
    for name, member in _ENDPOINTS.items():
        given = data.get(member)
        if given is None:
            continue
        if not isinstance(given, str) or not is_safe_endpoint(given, issuer):
            return _build_problem(f"{issuer} declares a {member} that is not an https URL, so it was not used.")
        endpoints[name] = given
    if "token_url" not in endpoints:
        return _build_problem(f"{issuer} declares no token endpoint.")
    needs_push = data.get("require_pushed_authorization_requests") is True
    return AuthorizationServerMetadata(
        issuer=str(data["issuer"]),
        authorization_url=endpoints.get("authorization_url", ""),
        token_url=endpoints["token_url"],
        revocation_url=endpoints.get("revocation_url", ""),
        registration_url=endpoints.get("registration_url", ""),
        device_url=endpoints.get("device_url", ""),
        pushed_url=endpoints.get("pushed_url", "") if needs_push else "",
        scopes=_read_texts(data.get("scopes_supported")),
        methods=_read_texts(data.get("token_endpoint_auth_methods_supported")),
        accepts_documents=data.get("client_id_metadata_document_supported") is True,
        sends_issuer=data.get("authorization_response_iss_parameter_supported") is True,
        proof_algorithms=_read_texts(data.get("dpop_signing_alg_values_supported")),
    )


def is_safe_endpoint(url: str, named_by: str) -> bool:
    """Return whether ``url`` may be an endpoint: https elsewhere, or anything here if ``named_by`` is here too.

    ``named_by`` names it: nothing that is elsewhere may have us ask what listens on this machine.
    """
    # AC-02, D-05, D-29
    if len(url) > _MAX_CHARACTERS or _URL.fullmatch(url) is None:
        return False
    return _is_loopback_url(named_by) if _is_loopback_url(url) else url.startswith("https://")


_ENDPOINTS = {
    "authorization_url": "authorization_endpoint",
    "token_url": "token_endpoint",
    "revocation_url": "revocation_endpoint",
    "registration_url": "registration_endpoint",
    "device_url": "device_authorization_endpoint",
    "pushed_url": "pushed_authorization_request_endpoint",
}


def _list_resource_urls(url: str, *named: str) -> Iterable[str]:
    for one in dict.fromkeys(named):
        if one and is_safe_endpoint(one, url) and has_same_origin(one, url):
            yield one
    parts = urlsplit(url)
    if parts.path.rstrip("/") or parts.query:
        yield well_known_url(RESOURCE_PATH, url)
    yield get_origin(url) + RESOURCE_PATH


def _read_base(data: dict[str, Json], address: str) -> str:
    """Return the URL below which a server takes the tokens of its resource, as the metadata at ``address`` says."""
    # I-23: at a path of its own, one tenant of a host could name the resource of another, and get its tokens.
    resource, base = data.get("resource"), data.get(BASE_MEMBER)
    if not isinstance(resource, str) or not isinstance(base, str) or not is_covered_by(base, resource):
        return ""
    own = (well_known_url(RESOURCE_PATH, resource), get_origin(resource) + RESOURCE_PATH)
    return canonical_uri(base) if has_same_origin(base, address) and address in own else ""


def _list_server_urls(issuer: str) -> Sequence[str]:
    inserted = (well_known_url(SERVER_PATH, issuer), well_known_url(OPENID_PATH, issuer))
    return (*inserted, canonical_uri(issuer) + OPENID_PATH) if urlsplit(issuer).path.strip("/") else inserted


def _fetch_json(address: str) -> Flow[dict[str, Json] | None]:
    response: Response | Problem = yield from fetch(Request("GET", address, _ACCEPT_JSON))
    if isinstance(response, Problem) or response.status != 200:
        return None
    data = jsontext.read(response.body)
    return data if isinstance(data, dict) else None


def _is_loopback_url(url: str) -> bool:
    return is_loopback_host(get_host(url))


def _read_texts(value: Json) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def _build_problem(message: str) -> Problem:
    return Problem(kind=Kind.BAD_ANSWER, message=message)
