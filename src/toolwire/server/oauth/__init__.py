"""An authorization server to embed: people sign in, allow apps what they ask for, and take it back."""

from .app import AuthorizationServer
from .protected_app import identified, protected, refusal
from .server_context import Account, Fetch, ServerContext, SignedIn, Users
from .settings import OAuthSettings

__all__ = [
    "Account",
    "AuthorizationServer",
    "Fetch",
    "OAuthSettings",
    "ServerContext",
    "SignedIn",
    "Users",
    "identified",
    "protected",
    "refusal",
]
