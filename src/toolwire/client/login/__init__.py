"""Sign in to sites, and add the credentials to requests. Imports client.discovery and client.transport."""

from toolwire.auth.client_identity import ClientIdentity
from toolwire.auth.program_grants import IdentityProvider

from .credential_auth import CredentialAuth, Refused
from .sign_in import (
    SignInOptions,
    SignInUser,
    find_declared_sign_in,
    find_sign_in,
    find_target,
    read_challenge,
    read_declared_sign_in,
    refuse_server,
    resolve_sign_in,
    sign_in,
    sign_in_with_secret,
    sign_out,
    step_up,
)
from .token_refresher import TokenRefresher

__all__ = [
    "ClientIdentity",
    "CredentialAuth",
    "IdentityProvider",
    "Refused",
    "SignInOptions",
    "SignInUser",
    "TokenRefresher",
    "find_declared_sign_in",
    "find_sign_in",
    "find_target",
    "read_challenge",
    "read_declared_sign_in",
    "refuse_server",
    "resolve_sign_in",
    "sign_in",
    "sign_in_with_secret",
    "sign_out",
    "step_up",
]
