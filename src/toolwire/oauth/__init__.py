"""Build an authorization server for a site, and protect an application with its access tokens.

Needs the extra ``toolwire[oauth]``. This room puts ``server.oauth``, ``stores.oauth`` and the network of ``client``
together; no other room may do that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolwire.core.errors import DefinitionError
from toolwire.core.lazy_import import export_lazily

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
    **dict.fromkeys(
        ("Account", "AuthorizationServer", "Fetch", "IdentifyUser", "OAuthSettings"), "toolwire.server.oauth"
    ),
    **dict.fromkeys(("Users", "build_refusal", "identify_caller", "protect_app"), "toolwire.server.oauth"),
    "Accounts": "toolwire.stores.oauth.accounts",
    **dict.fromkeys(("GrantEvent", "OAuthStore"), "toolwire.stores.oauth.database"),
    "Client": "toolwire.auth.clients",
    "SigningKey": "toolwire.auth.jwt",
    **dict.fromkeys(("authorization_server", "open_accounts"), "factory"),
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

_load_export, __dir__ = export_lazily(__name__, _HOME)


def __getattr__(name: str) -> Any:
    try:
        return _load_export(name)
    except ModuleNotFoundError as error:
        text = f"OAuth needs toolwire[oauth]: {error.name} is not installed."
        raise DefinitionError(text) from error
