"""Serve OAuth: users sign in, allow clients what they ask for, and revoke it; clients get tokens.

This room imports ``auth`` for the rules, ``stores.oauth`` for the database, and ``server.http`` for requests. No other
room of ``server`` imports it.
"""

from .app import AuthorizationServer
from .protected_app import build_refusal, identify_caller, protect_app
from .server_context import Account, Fetch, IdentifyUser, IdentityProvider, ServerContext, Users
from .settings import AppUsers, FindUser, OAuthSettings

__all__ = [
    "Account",
    "AppUsers",
    "AuthorizationServer",
    "Fetch",
    "FindUser",
    "IdentifyUser",
    "IdentityProvider",
    "OAuthSettings",
    "ServerContext",
    "Users",
    "build_refusal",
    "identify_caller",
    "protect_app",
]
