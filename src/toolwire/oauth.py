"""``authorization_server``: OAuth for a site that has none, with everything it needs put together.

Needs the extra ``toolwire[oauth]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

from .client.transport.limits import TransportLimits
from .client.transport.network import Network
from .core.errors import DefinitionError
from .core.http import Request, Response
from .core.model import Problem

if TYPE_CHECKING:
    from .server.oauth import AuthorizationServer, Users
    from .server.oauth.server_context import Audit, Fetch, IdentifyUser
    from .stores.oauth.accounts import Accounts
    from .stores.oauth.database import OAuthStore

_DOCUMENTS = TransportLimits(connect_s=3.0, total_s=5.0, response_bytes=5 * 1024, header_bytes=16 * 1024, redirects=0)
_JSON = ((b"accept", b"application/json"),)


def authorization_server(
    *,
    issuer: str,
    scopes: Mapping[str, str],
    store: OAuthStore | str | Path,
    users: Users,
    resource: str = "",
    name: str = "",
    audit: Audit | None = None,
    fetch: Fetch | None = None,
    now: Callable[[], float] = time,
    identify_user: IdentifyUser | None = None,
    **more: Any,
) -> AuthorizationServer:
    """Return an authorization server: an ASGI application, with ``callers`` for whatever its tokens are for.

    ``scopes`` maps each scope to the words a person reads. ``store`` is the path of an SQLite file, an SQLAlchemy URL,
    or a store. ``resource`` is what tokens are for, the issuer's own site if it is not named. ``audit`` is given each
    Event. ``fetch`` takes the place of the guarded network, ``now`` that of the clock. Where people sign in at your
    application, ``login_url`` is its page, and ``signed_in`` is given the ASGI scope of a request and returns the id of
    the person it is from, or None. ``more`` is any other setting of ``toolwire.server.oauth.Settings``.

    Raises:
        DefinitionError: a setting cannot be, or ``toolwire[oauth]`` is not installed.
    """
    try:
        from .server.oauth import AuthorizationServer, OAuthSettings, ServerContext  # noqa: PLC0415 - an extra
        from .server.oauth.client_lookup import count_fetch_from  # noqa: PLC0415 - an extra
        from .stores.oauth.database import OAuthStore  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise _build_missing_error(error) from error
    settings = OAuthSettings(issuer=issuer, resource=resource or issuer, name=name or issuer, scopes=scopes, **more)
    if bool(settings.login_url) is not (identify_user is not None):
        raise DefinitionError(
            "Set both login_url and identify_user, or neither. login_url is the page of your application where users"
            " sign in. identify_user returns who is signed in there, from the ASGI scope of a request."
        )
    kept = store if isinstance(store, OAuthStore) else OAuthStore(store)

    async def may_connect(address: str) -> bool:
        return await context.run_in_thread(count_fetch_from, context, address)

    context = ServerContext(
        settings=settings,
        store=kept,
        users=users,
        fetch=fetch or build_document_fetch(Network(limits=_DOCUMENTS, may_connect=may_connect)),
        audit=audit,
        now=now,
        identify_user=identify_user,
    )
    return AuthorizationServer(context)


def accounts(store: OAuthStore | str | Path) -> Accounts:
    """Return accounts with passwords in ``store``, for a site that has none: ``add(name, password)`` makes one.

    Raises:
        DefinitionError: ``toolwire[oauth]`` is not installed.
    """
    try:
        from .stores.oauth.accounts import Accounts  # noqa: PLC0415 - an extra
        from .stores.oauth.database import OAuthStore  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise _build_missing_error(error) from error
    return Accounts(store if isinstance(store, OAuthStore) else OAuthStore(store))


def build_document_fetch(network: Network) -> Fetch:
    """Return what GETs an app's documents through ``network``, without following redirects."""
    # AS-16, XL-114, D-05

    async def fetch(url: str) -> Response | Problem:
        return await network.send(Request("GET", url, _JSON))

    return fetch


def _build_missing_error(error: ModuleNotFoundError) -> DefinitionError:
    return DefinitionError(f"OAuth needs toolwire[oauth]: there is no {error.name}.")
