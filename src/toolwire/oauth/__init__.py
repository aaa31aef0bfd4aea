"""Build an authorization server for a site, and protect an application with its access tokens.

Needs the extra ``toolwire[oauth]``. This room puts ``server.oauth``, ``stores.oauth`` and the network of ``client``
together; no other room may do that.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from toolwire.core.errors import DefinitionError

if TYPE_CHECKING:
    from toolwire.auth.clients import Client
    from toolwire.auth.jwt import SigningKey
    from toolwire.server.oauth import (
        Account,
        AuthorizationServer,
        Fetch,
        IdentifyUser,
        OAuthSettings,
        Users,
        build_refusal,
        identify_caller,
        protect_app,
    )
    from toolwire.stores.oauth.accounts import Accounts
    from toolwire.stores.oauth.database import GrantEvent, OAuthStore

    from .factory import authorization_server, open_accounts

# Each name needs the extra, so its module is imported when the name is first used.
_HOME = {
    **dict.fromkeys(("Account", "AuthorizationServer", "Fetch", "IdentifyUser", "OAuthSettings"), "server.oauth"),
    **dict.fromkeys(("Users", "build_refusal", "identify_caller", "protect_app"), "server.oauth"),
    "Accounts": "stores.oauth.accounts",
    **dict.fromkeys(("GrantEvent", "OAuthStore"), "stores.oauth.database"),
    "Client": "auth.clients",
    "SigningKey": "auth.jwt",
    **dict.fromkeys(("authorization_server", "open_accounts"), "oauth.factory"),
}

__all__ = [
    "Account",
    "Accounts",
    "AuthorizationServer",
    "Client",
    "Fetch",
    "GrantEvent",
    "IdentifyUser",
    "OAuthSettings",
    "OAuthStore",
    "SigningKey",
    "Users",
    "authorization_server",
    "build_refusal",
    "identify_caller",
    "open_accounts",
    "protect_app",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"toolwire.{home}"), name)
    except ModuleNotFoundError as error:
        text = f"OAuth needs toolwire[oauth]: {error.name} is not installed."
        raise DefinitionError(text) from error
