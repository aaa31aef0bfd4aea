"""Sign in to sites, and add the credentials to requests. Imports client.discovery and client.transport."""

from .auth_transport import AuthTransport, CredentialAuth, SyncAuthTransport
from .sign_in import (
    SignInOptions,
    SignInUser,
    find_sign_in,
    read_declared_sign_in,
    resolve_sign_in,
    sign_in,
    sign_in_with_secret,
    sign_out,
    step_up,
)
from .token_refresher import TokenRefresher

__all__ = [
    "AuthTransport",
    "CredentialAuth",
    "SignInOptions",
    "SignInUser",
    "SyncAuthTransport",
    "TokenRefresher",
    "find_sign_in",
    "read_declared_sign_in",
    "resolve_sign_in",
    "sign_in",
    "sign_in_with_secret",
    "sign_out",
    "step_up",
]
