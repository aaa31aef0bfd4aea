"""Whether a call needs a person's yes: the strictest of site, user and client, bound to what was shown."""

from .consent_check import build_denial, consent_check
from .decision_record import Audit, Decision
from .definition_lock import DefinitionLock, read_lock, write_lock
from .grant import Grant, GrantKey, Grants, grant_key
from .policy import CLIENT_RULES, NO_PREFERENCES, ClientRules, Preferences, effective, site_level, strictest

__all__ = [
    "CLIENT_RULES",
    "NO_PREFERENCES",
    "Audit",
    "ClientRules",
    "Decision",
    "DefinitionLock",
    "Grant",
    "GrantKey",
    "Grants",
    "Preferences",
    "build_denial",
    "consent_check",
    "effective",
    "grant_key",
    "read_lock",
    "site_level",
    "strictest",
    "write_lock",
]
