"""Whether a call needs a person's yes: the strictest of site, user and client."""

from .check import consent_check, denied
from .grant import Grants, grant_key
from .policy import NO_PREFERENCES, Preferences, effective, site_level, strictest

__all__ = [
    "NO_PREFERENCES",
    "Grants",
    "Preferences",
    "consent_check",
    "denied",
    "effective",
    "grant_key",
    "site_level",
    "strictest",
]
