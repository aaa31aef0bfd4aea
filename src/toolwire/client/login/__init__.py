"""Signing in to sites, and the credentials that come of it, on every request they are for."""

from .auth_transport import AuthTransport, CredentialAuth, SyncAuthTransport
from .sign_in import SignInOptions, SignInUser, declared, place_of, seek, sign_in, sign_out, step_up, with_secret
from .token_refresher import TokenRefresher

__all__ = [
    "AuthTransport",
    "CredentialAuth",
    "SignInOptions",
    "SignInUser",
    "SyncAuthTransport",
    "TokenRefresher",
    "declared",
    "place_of",
    "seek",
    "sign_in",
    "sign_out",
    "step_up",
    "with_secret",
]
