"""Whether a call needs a person's yes: the strictest of site, user and client."""

from .check import consent_check
from .policy import Preferences, effective, site_level, strictest

__all__ = ["Preferences", "consent_check", "effective", "site_level", "strictest"]
