"""Let people sign in at a gateway itself: its authorization server, as the file of the gateway sets it."""
# GW-02

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Final, NamedTuple

from toolwire.core.errors import DefinitionError, UsageError
from toolwire.limits import USER_PREFIX, RulesByCaller
from toolwire.server.access.caller_rules import apply_rules
from toolwire.server.access.callers import Caller
from toolwire.server.access.people import FindUser, SignedInUser
from toolwire.stores.paths import find_state_places

if TYPE_CHECKING:
    from toolwire.oauth import Accounts, AuthorizationServer

EVERYONE: Final = "tools"
"""The scope of what every person may use who signs in, because an upstream asks for none."""
_NO_STATE: Final = (
    'Who may sign in, and who did, is kept in the state: name a folder or a PostgreSQL URL, such as state = "state".'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """An app that is registered at a gateway: its name on pages, and where its users return to."""

    name: str
    redirect_uris: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInSettings:
    """How people sign in at a gateway, as its file has it.

    ``scopes`` maps each scope to the words that people read. With ``registration``, an app may register itself;
    ``clients`` are those that the operator registered, by their ids. ``cache_s`` is for how many seconds a worker may
    accept a token that was revoked elsewhere. ``operators`` are the names of people who may open the console.
    """

    issuer: str
    name: str
    scopes: Mapping[str, str]
    default_scopes: Sequence[str] = ()
    registration: bool = True
    clients: Mapping[str, ClientSettings] = field(default_factory=dict)
    cache_s: int = 0
    operators: Sequence[str] = ()


class OpenSignIn(NamedTuple):
    """The authorization server of a gateway, and what finds the person who is signed in at a browser."""

    server: AuthorizationServer
    find_user: FindUser
    login_path: str


def open_sign_in(settings: SignInSettings, state: Path | str, rules: RulesByCaller) -> OpenSignIn:
    """Return the authorization server for ``settings``, with its people and tokens in ``state``.

    Raises:
        DefinitionError: a setting is wrong, the extra is not installed, or the database cannot be used.
        UsageError: the state does not last.
    """
    from toolwire.auth.clients import Client  # an extra, and most servers do without
    from toolwire.oauth import OAuthStore, authorization_server  # as above

    store = OAuthStore(find_people_place(state))

    def find_scopes(person: str) -> frozenset[str] | None:
        own = rules.find(person).scopes
        return None if own is None else own | {EVERYONE}

    server = authorization_server(
        issuer=settings.issuer,
        name=settings.name,
        scopes=settings.scopes,
        default_scopes=tuple(settings.default_scopes or settings.scopes),
        users=open_people(store),
        store=store,
        clients=tuple(
            Client(id=name, name=one.name, redirect_uris=tuple(one.redirect_uris))
            for name, one in settings.clients.items()
        ),
        registration=settings.registration,
        # An app that asks for a scope of another gateway gets those that there are here.
        drop_unknown_scopes=True,
        cache_s=float(settings.cache_s),
        find_scopes=find_scopes,
    )

    async def find_user(headers: Sequence[tuple[bytes, bytes]]) -> SignedInUser | None:
        person = await server.find_user(headers)
        # In their own browser, people are not limited to what they allowed an app.
        return None if person is None else SignedInUser(apply_rules(Caller(person.id), rules), person.name)

    return OpenSignIn(server, find_user, "/oauth/login")


def find_people_place(state: Path | str) -> str:
    """Return where a gateway with this ``state`` keeps its people and their tokens.

    Raises:
        UsageError: it does not last.
    """
    place = find_state_places(state).oauth
    if not place:
        raise UsageError(_NO_STATE)
    return place


def open_people(store: object) -> Accounts:
    """Return the accounts of people in ``store``, an ``OAuthStore`` or what it takes."""
    from toolwire.oauth import Accounts, OAuthStore  # an extra, and most commands do without

    return Accounts(store if isinstance(store, OAuthStore) else OAuthStore(str(store)))


def make_user_id(name: str) -> str:
    """Return the name in calls of a new person: another one for another person of the same name later."""
    # GW-02: credentials, calls and permissions belong to this name, and nobody inherits them.
    return f"{USER_PREFIX}{name}:{token_hex(6)}"


def check_sign_in(settings: SignInSettings, state: Path | str) -> None:
    """Check what only the authorization server can say about ``settings``.

    Raises:
        DefinitionError: a setting is wrong, or the extra is not installed.
        UsageError: the state does not last.
    """
    from toolwire.oauth import OAuthSettings  # an extra, and most servers do without

    find_people_place(state)
    try:
        OAuthSettings(issuer=settings.issuer, resource=settings.issuer, name=settings.name, scopes=settings.scopes)
    except DefinitionError as error:
        raise UsageError(f"People cannot sign in: {error}") from error
