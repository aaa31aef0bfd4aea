"""Put an authorization server together from its store, its settings and a guarded network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from toolwire.client.transport.limits import TransportLimits
from toolwire.client.transport.network import Network
from toolwire.core.errors import DefinitionError
from toolwire.core.http import Request, Response
from toolwire.core.model import Problem
from toolwire.server.oauth import (
    AppUsers,
    AuthorizationServer,
    Fetch,
    FindUser,
    IdentifyUser,
    IdentityProvider,
    OAuthSettings,
    ServerContext,
    Users,
)
from toolwire.server.oauth.client_lookup import count_fetch_from
from toolwire.server.oauth.server_context import Audit
from toolwire.stores.oauth.accounts import Accounts
from toolwire.stores.oauth.database import OAuthStore
from toolwire.stores.paths import find_state_places

_DOCUMENTS = TransportLimits(connect_s=3.0, total_s=5.0, response_bytes=5 * 1024, header_bytes=16 * 1024, redirects=0)
_JSON = ((b"accept", b"application/json"),)


def authorization_server(
    *,
    issuer: str,
    scopes: Mapping[str, str],
    users: Users | FindUser,
    store: OAuthStore | str | Path = "",
    resource: str = "",
    name: str = "",
    audit: Audit | None = None,
    fetch: Fetch | None = None,
    now: Callable[[], float] | None = None,
    identify_user: IdentifyUser | None = None,
    **more: Any,
) -> AuthorizationServer:
    """Return an authorization server. It is an ASGI application, and its ``callers`` identify your server's callers.

    - ``scopes``: the text that users read for each scope.
    - ``users``: checks passwords and finds accounts. See ``open_accounts``. With an ``IdentityProvider``, users sign in
      at its issuer.
    - ``store``: the path of an SQLite file, the URL of a PostgreSQL database, or an ``OAuthStore``. Default: the state
      in the environment variable TOOLWIRE_STATE.
    - ``resource``: the URL that tokens are for. Default: ``issuer``.
    - ``audit``: called with each ``GrantEvent``.
    - ``fetch``, ``now``: replace the guarded network and the clock of the database (seconds since 1970).
    - ``more``: other fields of ``OAuthSettings``.

    If users sign in at your application, set ``login_url`` to its page. ``identify_user`` is then a function that takes
    a request's ASGI scope and returns the signed-in user's ID, or None. ``users`` can be a function that takes a user's
    ID as a string and returns your own user object, or None.

    Raises:
        DefinitionError: a setting is not valid, or the database cannot be used.
    """
    settings = OAuthSettings(issuer=issuer, resource=resource or issuer, name=name or issuer, scopes=scopes, **more)
    if bool(settings.login_url) is not (identify_user is not None):
        raise DefinitionError(
            "Set both login_url and identify_user, or neither. login_url is your application's sign-in "
            "page. identify_user returns the signed-in user from the ASGI scope of a request."
        )
    if identify_user is None and not hasattr(users, "check"):
        raise DefinitionError(
            "users must be an object that checks passwords, such as open_accounts(store). A function that only finds"
            " users needs login_url and identify_user, because users then sign in at your application."
        )
    store = _open_store(store)

    async def may_connect(address: str) -> bool:
        return await context.run_in_thread(count_fetch_from, context, address)

    context = ServerContext(
        settings=settings,
        store=store,
        users=AppUsers(users) if callable(users) else users,
        fetch=fetch or build_document_fetch(Network(limits=_DOCUMENTS, may_connect=may_connect)),
        audit=audit,
        now=now or store.clock,  # hosts that share a database may disagree about the time
        identify_user=identify_user,
        identity_provider=None
        if callable(users) or not hasattr(users, "identify")
        else cast("IdentityProvider", users),
    )
    return AuthorizationServer(context)


def open_accounts(store: OAuthStore | str | Path = "") -> Accounts:
    """Return accounts with passwords in ``store``, for a server without accounts of its own.

    ``add(name, password)`` creates an account. Pass the ``store`` of ``authorization_server``.

    Raises:
        DefinitionError: there is no store, or the database cannot be used.
    """
    return Accounts(_open_store(store))


def _open_store(store: OAuthStore | str | Path) -> OAuthStore:
    if isinstance(store, OAuthStore):
        return store
    # ST-01: one setting for all that lasts.
    where = str(store) or find_state_places("").oauth
    if not where:
        raise DefinitionError("Users and tokens need a store. Pass one, or set TOOLWIRE_STATE to a folder or a URL.")
    return OAuthStore(where)


def build_document_fetch(network: Network) -> Fetch:
    """Return a function that fetches the metadata document of a client through ``network``, without redirects."""
    # AS-16, XL-114, D-05

    async def fetch(url: str) -> Response | Problem:
        return await network.send(Request("GET", url, _JSON))

    return fetch
