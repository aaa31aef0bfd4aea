"""Whether a call needs a person's yes: the strictest of site, user and client."""

from .check import consent_check, denied
from .policy import NO_PREFERENCES, Preferences, effective, site_level, strictest

__all__ = ["NO_PREFERENCES", "Preferences", "consent_check", "denied", "effective", "site_level", "strictest"]
