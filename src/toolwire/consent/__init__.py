"""Decide whether a call needs the user's approval, show it, and bind the decision to what was shown.

This room has no side effects, and imports only ``core`` and ``framing``. ``stores/consent`` stores what must persist.
"""

from .consent_check import build_consent_check, build_denial
from .decision_record import Audit, Decision
from .definition_lock import DefinitionLock, read_lock, write_lock
from .display import DisplayRow, build_display_rows
from .grant import Grant, GrantKey, Grants, grant_key
from .policy import CLIENT_RULES, NO_PREFERENCES, ClientRules, Preferences, effective_level, site_level, strictest_level

__all__ = [
    "CLIENT_RULES",
    "NO_PREFERENCES",
    "Audit",
    "ClientRules",
    "Decision",
    "DefinitionLock",
    "DisplayRow",
    "Grant",
    "GrantKey",
    "Grants",
    "Preferences",
    "build_consent_check",
    "build_denial",
    "build_display_rows",
    "effective_level",
    "grant_key",
    "read_lock",
    "site_level",
    "strictest_level",
    "write_lock",
]
