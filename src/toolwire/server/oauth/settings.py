"""Hold the settings of one authorization server, and check them. Its accounts can be those of an application."""
# AO-01

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from toolwire.auth.authorization_request import SupportedScopes
from toolwire.auth.clients import Client
from toolwire.auth.jwt import SigningKey
from toolwire.auth.request_parameters import OAuthError
from toolwire.auth.resource_indicators import canonical_uri
from toolwire.auth.scopes import read_scopes
from toolwire.core.errors import DefinitionError
from toolwire.core.url_origin import get_host, get_origin, read_origin

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthSettings:
    """The settings of one issuer and of the one resource that its tokens are for. Seconds end in ``_s``.

    ``scopes`` maps each scope to the words that users read. ``default_scopes`` are for a client that requests none;
    only these are preselected. With ``drop_unknown_scopes`` unknown scopes are ignored; otherwise they are an error.
    ``code_s`` and ``access_s`` are the lifetimes of codes and access tokens. A grant ends after ``idle_s`` without use,
    and after ``grant_s`` in any case. ``session_s`` is the lifetime of a session in a browser. Within ``grace_s`` a
    repeated refresh gets the same tokens; 0 treats each repetition as theft. ``registration`` allows dynamic
    registration, and ``local_documents`` http metadata documents on this machine. ``cache_s`` is how long other
    processes may accept a revoked token. ``body_s`` is how long a form may take to arrive, ``store_s`` how long the
    database may take to answer. ``key`` makes access tokens JWTs. ``find_scopes`` returns which scopes the user with an
    id may give to apps, or None for all; without it, each user may give all. ``cookie_name`` is that of the session
    cookie of this issuer.

    ``login_url`` is the sign-in page of your application, ``logout_url`` the page where users sign out there, and
    ``connected_url`` its page of grants; without it, this server has one. ``sign_up_url`` is the page where a user
    creates an account; the sign-in page links to it.

    Raises:
        DefinitionError: a URL is not https (http is allowed on this machine only), or a scope is not a single word.
    """

    # AS-21

    issuer: str
    resource: str
    name: str
    scopes: Mapping[str, str]
    default_scopes: tuple[str, ...] = ()
    drop_unknown_scopes: bool = False
    clients: tuple[Client, ...] = ()
    code_s: float = 60.0  # AS-05
    access_s: float = 600.0  # AS-10
    idle_s: float = 30 * _DAY_S  # AS-11
    grant_s: float = 90 * _DAY_S  # AS-11
    grace_s: float = 0.0
    session_s: float = 14 * _DAY_S
    registration: bool = False
    local_documents: bool = False
    cache_s: float = 5.0
    body_s: float = 10.0
    store_s: float = 10.0
    key: SigningKey | None = None
    login_url: str = ""
    logout_url: str = ""
    connected_url: str = ""
    sign_up_url: str = ""
    find_scopes: Callable[[str], frozenset[str] | None] | None = None
    supported_scopes: SupportedScopes = field(init=False)
    cookie_name: str = field(init=False)

    @property
    def grants_url(self) -> str:
        """The page where users see and take back their grants."""
        return self.connected_url or f"{self.base_path}/connected"

    def __post_init__(self) -> None:
        for what, url in (("issuer", self.issuer), ("resource", self.resource)):
            _check_url(what, url)
        if not self.scopes or any(isinstance(read_scopes(scope), OAuthError) or " " in scope for scope in self.scopes):
            raise DefinitionError("scopes must map each scope, a word without spaces, to what it allows an app to do.")
        # Only the first scope, so that a client that requests none does not get all of them.
        defaults = self.default_scopes or tuple(self.scopes)[:1]
        if not set(defaults) <= set(self.scopes):
            raise DefinitionError("default_scopes contains a scope that is not in scopes.")
        supported = SupportedScopes(
            resource=canonical_uri(self.resource),
            scopes=tuple(self.scopes),
            defaults=defaults,
            drop_unknown=self.drop_unknown_scopes,
        )
        object.__setattr__(self, "supported_scopes", supported)
        # AS-19: all ports of a host share their cookies, so a name that two servers had would sign users out of one.
        own = sha256(canonical_uri(self.issuer).encode()).hexdigest()[:12]
        object.__setattr__(self, "cookie_name", f"toolwire-session-{own}")

    @property
    def is_local(self) -> bool:
        """Whether the issuer is on this machine, where http is allowed."""
        return get_host(self.issuer) in _LOOPBACK

    @property
    def is_secure(self) -> bool:
        """Whether the issuer has an https URL."""
        return self.issuer.startswith("https://")

    @property
    def origin(self) -> str:
        """The origin of the issuer, the only one whose forms are accepted."""
        return get_origin(self.issuer)

    @property
    def base_path(self) -> str:
        """The path prefix of the endpoints."""
        return urlsplit(canonical_uri(self.issuer)).path + "/oauth"


def _check_url(what: str, url: str) -> None:
    parts = urlsplit(url)
    origin = read_origin(url)
    if origin is None or origin.has_user_info or parts.query or parts.fragment:
        raise DefinitionError(f"{what} must be a URL without user, query and fragment, not {url!r}.")
    if origin.scheme != "https" and get_host(url) not in _LOOPBACK:
        raise DefinitionError(f"{what} must be an https URL (http is allowed on this machine only), not {url!r}.")


FindUser: TypeAlias = Callable[[str], Any]
"""Takes the id of a user as text. Returns the application's own object for that user, or None. May be slow."""

_NAMES: Final = ("name", "username", "email")


class AppAccount(NamedTuple):
    """A user of an application, as the pages of the authorization server know them."""

    id: str
    name: str


class AppUsers:
    """The users that ``find_user`` returns. They sign in at the application, so no password is checked here."""

    def __init__(self, find_user: FindUser) -> None:
        self.find_user: FindUser = find_user

    def check(self, _name: str, _password: str, /) -> None:
        """Return None: the passwords are the application's own."""

    def find(self, user_id: str, /) -> AppAccount | None:
        """Return the account with this id, or None. Its name is the first text in ``name``, ``username``, ``email``."""
        user = self.find_user(user_id)
        if user is None:
            return None
        names = (getattr(user, name, None) for name in _NAMES)
        return AppAccount(user_id, next((name for name in names if isinstance(name, str) and name), user_id))
