"""Let users sign in to a gateway itself, through the authorization server that the gateway's file sets up."""
# GW-02

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from toolwire.core.condition import read_ask_when
from toolwire.core.errors import DefinitionError, UsageError
from toolwire.core.model import Json, Problem, Secret
from toolwire.core.url_origin import get_host, get_origin
from toolwire.limits import USER_PREFIX, RulesByCaller
from toolwire.server.access.browser_session import BrowserUser, FindUser
from toolwire.server.access.caller_rules import apply_rules, find_group, list_groups, meets_claims
from toolwire.server.access.callers import Caller
from toolwire.stores.paths import find_state_places

if TYPE_CHECKING:
    from toolwire.oauth import Accounts, AuthorizationServer, OAuthStore
    from toolwire.oauth.openid_provider import OpenIdProvider

EVERYONE: Final = "tools"
"""The scope that every signed-in user has, for upstreams that require none."""
_GOOGLE: Final = "accounts.google.com"
_SESSION_S: Final = 12 * 3_600.0
_NO_STATE: Final = (
    'Users and their sign-ins are stored in the state. Set it to a folder or a PostgreSQL URL, such as state = "state".'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """An app that is registered at a gateway: its name on pages, and its redirect URIs."""

    name: str
    redirect_uris: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """The external issuer where users sign in, as written in a file.

    ``client_secret_env`` is the environment variable with the secret, empty for a public client. ``groups_claim`` is
    the claim that lists a user's groups. ``claims`` are conditions, written as in ``ask_when``, that the claims of
    everyone who signs in must meet. The users in ``operator_groups`` may open the console.
    """

    # PL-03

    issuer: str
    client_id: str
    client_secret_env: str = ""
    groups_claim: str = "groups"
    claims: Sequence[Json] = ()
    operator_groups: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInSettings:
    """How users sign in to a gateway, as written in its file.

    ``scopes`` maps each scope to the text that users read. With ``registration``, an app can register itself.
    ``clients`` are the apps that the operator registered, by ID. ``cache_s`` is how long a worker can accept a token
    that was revoked elsewhere, in seconds. ``operators`` are the names of users who may open the console. With a
    ``provider``, users sign in there. Otherwise they use the gateway's own accounts.
    """

    issuer: str
    name: str
    scopes: Mapping[str, str]
    default_scopes: Sequence[str] = ()
    registration: bool = True
    clients: Mapping[str, ClientSettings] = field(default_factory=dict)
    cache_s: int = 0
    operators: Sequence[str] = ()
    provider: ProviderSettings | None = None


class OpenSignIn(NamedTuple):
    """A gateway's authorization server, and the function that finds the user who is signed in with a browser."""

    server: AuthorizationServer
    find_user: FindUser
    login_path: str


def open_sign_in(settings: SignInSettings, state: Path | str, rules: RulesByCaller) -> OpenSignIn:
    """Return the authorization server for ``settings``. It stores users and tokens in ``state``.

    Raises:
        DefinitionError: a setting is wrong, the extra is not installed, or the database cannot be used.
        UsageError: the state is not persistent.
    """
    from toolwire.auth.clients import Client  # an extra, and most servers do without
    from toolwire.oauth import OAuthStore, authorization_server  # as above
    from toolwire.stores.oauth.issuer_accounts import VALID_S  # as above

    store = OAuthStore(find_people_place(state))
    provider = None if settings.provider is None else open_provider(settings.provider, store)
    users = open_people(store) if provider is None else provider
    # PL-03: a user's claims are read again at each sign-in, so a session is short.
    lasting: dict[str, Any] = (
        {} if provider is None else {"session_s": _SESSION_S, "grant_s": VALID_S, "idle_s": VALID_S}
    )

    def find_scopes(person: str) -> frozenset[str] | None:
        own = rules.find(person, find_group(_build_caller(users.find(person), person), rules)).scopes
        return None if own is None else own | {EVERYONE}

    server = authorization_server(
        issuer=settings.issuer,
        name=settings.name,
        scopes=settings.scopes,
        default_scopes=tuple(settings.default_scopes or settings.scopes),
        users=users,
        store=store,
        clients=tuple(
            Client(id=name, name=one.name, redirect_uris=tuple(one.redirect_uris))
            for name, one in settings.clients.items()
        ),
        registration=settings.registration,
        # An app that requests another gateway's scope gets the scopes that exist here.
        drop_unknown_scopes=True,
        cache_s=float(settings.cache_s),
        find_scopes=find_scopes,
        **lasting,
    )
    groups_claim = "" if settings.provider is None else settings.provider.groups_claim

    async def find_user(headers: Sequence[tuple[bytes, bytes]]) -> BrowserUser | None:
        person = await server.find_user(headers)
        if person is None:
            return None
        # In their own browser, users are not limited to what they allowed an app.
        caller = apply_rules(_build_caller(person, person.id), rules)
        return BrowserUser(caller, person.name, groups=list_groups(caller, rules, groups_claim))

    return OpenSignIn(server, find_user, f"{server.settings.base_path}/login")


def _build_caller(account: object, name: str) -> Caller:
    """Return the caller ``name`` with the claims that the issuer made about the user, if any."""
    return Caller(name, claims=getattr(account, "claims", {}))


def open_provider(settings: ProviderSettings, store: OAuthStore) -> OpenIdProvider:
    """Return the external issuer that ``settings`` name, with its users in ``store``.

    Raises:
        UsageError: the environment has no such variable.
    """
    from toolwire.client.transport.limits import TransportLimits
    from toolwire.client.transport.network import Network
    from toolwire.oauth.openid_provider import OpenIdProvider  # an extra, and most servers do without
    from toolwire.stores.oauth.issuer_accounts import IssuerAccounts  # as above

    name = settings.client_secret_env
    if name and not os.environ.get(name):
        raise UsageError(f"The environment variable {name} for the sign-in secret is not set.")
    conditions = read_ask_when(settings.claims, "sign-in", "claims")
    network = Network(limits=TransportLimits(total_s=10.0, redirects=0), allow_private=(get_origin(settings.issuer),))
    return OpenIdProvider(
        settings.issuer,
        settings.client_id,
        IssuerAccounts(store, settings.issuer),
        network.send,
        secret=Secret(os.environ[name]) if name else None,
        groups_claim=settings.groups_claim,
        admits=lambda claims: meets_claims(conditions, claims),
    )


def list_issuer_faults(settings: SignInSettings | None, state: Path | str) -> Iterator[str]:
    """Yield a sentence for each setting of the external issuer, if there is one, that will not work or is too open.

    Raises:
        ToolwireError: the issuer or the state cannot be used at all.
    """
    if settings is None or settings.provider is None:
        return
    from toolwire.oauth import OAuthStore  # an extra, and most commands do without

    provider = settings.provider
    if get_host(provider.issuer) == _GOOGLE and not provider.claims:
        yield (
            'Everyone with a Google account can sign in. To allow only your domain, write claims = [["/hd", '
            '"eq", "YOUR-DOMAIN"]] in [sign-in].'
        )
    with closing(OAuthStore(find_people_place(state))) as store:
        found = asyncio.run(open_provider(provider, store).find_metadata())
    if isinstance(found, Problem):
        yield found.message


def find_people_place(state: Path | str) -> str:
    """Return where a gateway with this ``state`` stores its users and their tokens.

    Raises:
        UsageError: the state is not persistent.
    """
    place = find_state_places(state).oauth
    if not place:
        raise UsageError(_NO_STATE)
    return place


def open_people(store: object) -> Accounts:
    """Return the users' accounts in ``store``, an ``OAuthStore`` or its argument."""
    from toolwire.oauth import Accounts, OAuthStore  # an extra, and most commands do without

    return Accounts(store if isinstance(store, OAuthStore) else OAuthStore(str(store)))


def make_user_id(name: str) -> str:
    """Return a new user's name in calls. A later user with the same name gets a different one."""
    # GW-02: credentials, calls and permissions belong to this name, and nobody inherits them.
    return f"{USER_PREFIX}{name}:{token_hex(6)}"


def check_sign_in(settings: SignInSettings, state: Path | str) -> None:
    """Check the parts of ``settings`` that only the authorization server can check.

    Raises:
        DefinitionError: a setting is wrong, or the extra is not installed.
        UsageError: the state is not persistent.
    """
    from toolwire.oauth import OAuthSettings  # an extra, and most servers do without

    find_people_place(state)
    try:
        OAuthSettings(issuer=settings.issuer, resource=settings.issuer, name=settings.name, scopes=settings.scopes)
    except DefinitionError as error:
        raise UsageError(f"Users cannot sign in: {error}") from error
