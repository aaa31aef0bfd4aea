"""An authorization server to embed: people sign in, allow apps what they ask for, and take it back."""

from .app import AuthorizationServer
from .protected_app import identified, protected, refusal
from .server_context import Account, Desk, Fetch, SignedIn, Users
from .settings import Settings

__all__ = [
    "Account",
    "AuthorizationServer",
    "Desk",
    "Fetch",
    "Settings",
    "SignedIn",
    "Users",
    "identified",
    "protected",
    "refusal",
]
