"""An authorization server to embed: people sign in, allow apps what they ask for, and take it back."""

from .app import AuthorizationServer
from .desk import Account, Desk, Fetch, SignedIn, Users
from .protect import identified, protected, refusal
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
