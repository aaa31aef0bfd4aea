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
    """The settings of one issuer and of the one resource that its tokens are for. Times are in seconds.

    Scopes:

    - ``scopes``: the text that users read for each scope.
    - ``default_scopes``: the scopes of a client that requests none. Only these are preselected.
    - ``drop_unknown_scopes``: ignore unknown scopes, instead of refusing the request.
    - ``find_scopes``: returns the scopes that the user with this ID can give to apps, or None for all. Without it,
      every user can give all.

    Lifetimes:

    - ``code_s``, ``access_s``: of authorization codes and access tokens.
    - ``idle_s``, ``grant_s``: a grant ends after ``idle_s`` without use, and always after ``grant_s``.
    - ``session_s``: of a browser session.
    - ``grace_s``: how long a repeated refresh gets the same tokens. 0 treats every repetition as theft.
    - ``cache_s``: how long other processes can accept a revoked token.
    - ``body_s``, ``store_s``: how long a form can take to arrive, and the database to answer.

    Pages of your application:

    - ``login_url``, ``logout_url``: where users sign in and out.
    - ``connected_url``: where users see their grants. Without it, this server has such a page.
    - ``sign_up_url``: where users create an account. The sign-in page links to it.

    Other:

    - ``key``: sign access tokens as JWTs with this key.
    - ``registration``: allow dynamic client registration.
    - ``local_documents``: allow HTTP metadata documents on this machine.
    - ``cookie_name``: the name of this issuer's session cookie.

    Raises:
        DefinitionError: a URL is not HTTPS (HTTP is allowed on this machine only), or a scope is not a single word.
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
        """The page where users see and revoke their grants."""
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
        """Whether the issuer is on this machine, where HTTP is allowed."""
        return get_host(self.issuer) in _LOOPBACK

    @property
    def is_secure(self) -> bool:
        """Whether the issuer has an HTTPS URL."""
        return self.issuer.startswith("https://")

    @property
    def origin(self) -> str:
        """The issuer's origin. Only its own forms are accepted."""
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
        """Return the account with this ID, or None. Its name is the first text in ``name``, ``username``, ``email``."""
        user = self.find_user(user_id)
        if user is None:
            return None
        names = (getattr(user, name, None) for name in _NAMES)
        return AppAccount(user_id, next((name for name in names if isinstance(name, str) and name), user_id))
