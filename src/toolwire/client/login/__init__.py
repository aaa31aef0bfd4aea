"""Signing in to sites, and the credentials that come of it, on every request they are for."""

from .auth_transport import Hand, Signing, SyncSigning
from .sign_in import Person, Wish, declared, place_of, seek, sign_in, sign_out, step_up, with_secret
from .token_refresher import Keeper

__all__ = [
    "Hand",
    "Keeper",
    "Person",
    "Signing",
    "SyncSigning",
    "Wish",
    "declared",
    "place_of",
    "seek",
    "sign_in",
    "sign_out",
    "step_up",
    "with_secret",
]
