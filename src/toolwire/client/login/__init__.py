"""Signing in to sites, and the credentials that come of it, on every request they are for."""

from .keeper import Keeper
from .signin import Person, Wish, declared, place_of, seek, sign_in, sign_out, step_up, with_secret
from .signing import Hand, Signing, SyncSigning

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
