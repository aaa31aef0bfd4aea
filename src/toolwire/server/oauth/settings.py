"""How one authorization server is set up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from toolwire.auth.authorization_request import OfferedScopes
from toolwire.auth.clients import Client
from toolwire.auth.jwt import SigningKey
from toolwire.auth.oauth_error import OAuthError
from toolwire.auth.resource_indicators import canonical_uri
from toolwire.auth.scopes import read_scopes
from toolwire.core.errors import DefinitionError
from toolwire.core.url_origin import get_host, get_origin, read_origin

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthSettings:
    """One issuer, and the one resource its tokens are for. Seconds end in ``_s``.

    ``scopes`` maps each scope to the words a person reads; an app that names none is offered ``first``, which are also
    the only ones that are ticked beforehand.
    ``drop_unknown_scopes`` ignores scopes there are not, where otherwise the request is refused. ``grace_s`` gives a
    refresh that is repeated within it the same successor again; 0 takes every repetition for theft. ``registration``
    lets apps register themselves. ``local_documents`` lets apps on this machine name themselves by http documents.
    ``cache_s`` is how long a token that was good is taken without a look, in processes other than the one that
    revoked it. ``body_s`` is how long a form may take to arrive, ``store_s`` how long the database may take to answer.
    ``key`` makes access tokens JWTs. ``login_url`` is where people sign in, if not here; ``connected_url`` where they
    see and take back what they allowed.

    Raises:
        DefinitionError: a URL is not https (http only on this machine), or a scope is no scope.
    """

    # AS-21

    issuer: str
    resource: str
    name: str
    scopes: Mapping[str, str]
    default_scopes: tuple[str, ...] = ()
    drop_unknown_scopes: bool = False
    clients: tuple[Client, ...] = ()
    code_s: float = 60.0
    access_s: float = 600.0
    idle_s: float = 30 * _DAY_S
    grant_s: float = 90 * _DAY_S
    grace_s: float = 0.0
    session_s: float = 14 * _DAY_S
    registration: bool = False
    local_documents: bool = False
    cache_s: float = 5.0
    body_s: float = 10.0
    store_s: float = 10.0
    key: SigningKey | None = None
    login_url: str = ""
    connected_url: str = ""
    offered_scopes: OfferedScopes = field(init=False)

    def __post_init__(self) -> None:
        for what, url in (("issuer", self.issuer), ("resource", self.resource)):
            _check_url(what, url)
        if not self.scopes or any(isinstance(read_scopes(scope), OAuthError) or " " in scope for scope in self.scopes):
            raise DefinitionError("scopes must map each scope, a word without spaces, to what it lets an app do.")
        defaults = self.default_scopes or tuple(self.scopes)[:1]
        if not set(defaults) <= set(self.scopes):
            raise DefinitionError("default_scopes names a scope that is not in scopes.")
        offered = OfferedScopes(
            resource=canonical_uri(self.resource),
            scopes=tuple(self.scopes),
            defaults=defaults,
            drop_unknown=self.drop_unknown_scopes,
        )
        object.__setattr__(self, "offered_scopes", offered)

    @property
    def is_local(self) -> bool:
        """Whether the issuer is on this very machine, where http is allowed."""
        return get_host(self.issuer) in _LOOPBACK

    @property
    def is_secure(self) -> bool:
        """Whether the issuer is reached by https."""
        return self.issuer.startswith("https://")

    @property
    def origin(self) -> str:
        """Scheme, host and port of the issuer: the only origin whose forms are taken."""
        return get_origin(self.issuer)

    @property
    def base_path(self) -> str:
        """The path below which the endpoints are."""
        return urlsplit(canonical_uri(self.issuer)).path + "/oauth"


def _check_url(what: str, url: str) -> None:
    parts = urlsplit(url)
    origin = read_origin(url)
    if origin is None or origin.has_user_info or parts.query or parts.fragment:
        raise DefinitionError(f"{what} is a URL without user, query and fragment, not {url!r}")
    if origin.scheme != "https" and get_host(url) not in _LOOPBACK:
        raise DefinitionError(f"{what} is an https URL (http only on this machine), not {url!r}")
