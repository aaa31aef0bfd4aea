"""An authorization server to embed: people sign in, allow apps what they ask for, and take it back."""

from .app import AuthorizationServer
from .protected_app import build_refusal, identify_caller, protect_app
from .server_context import Account, Fetch, IdentifyUser, ServerContext, Users
from .settings import OAuthSettings

__all__ = [
    "Account",
    "AuthorizationServer",
    "Fetch",
    "IdentifyUser",
    "OAuthSettings",
    "ServerContext",
    "Users",
    "build_refusal",
    "identify_caller",
    "protect_app",
]
