"""Say what a restored state must not hold, as statements for SQLite and PostgreSQL alike.

A backup does not know what was used, revoked or signed out after it was made. So a restore makes void what would
otherwise count a second time. The keys that sign one-time tokens and cookies are never in a backup.
"""
# PL-07

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

# A long call that had not started may have run since. It must not start by itself: as the call of a dead process, it
# ends as interrupted.
_ANSWERS: Final[Mapping[str, Sequence[str]]] = {
    "approvals": ("DELETE FROM questions WHERE allowed IS NOT NULL AND used = 0",),
    "grants": (
        "DELETE FROM grants",
        "DELETE FROM bounded_grants",
        "DELETE FROM held_grants",
        "DELETE FROM grant_uses",
        "DELETE FROM grant_sums",
    ),
    "long_calls": ("UPDATE long_calls SET state = 'running', owner = 0 WHERE state = 'accepted' AND can_rerun = 0",),
    "oauth": (
        "UPDATE oauth_grants SET revoked = created WHERE revoked IS NULL",
        "DELETE FROM oauth_tokens WHERE kind = 'access'",
        "DELETE FROM oauth_sessions",
    ),
}
_TOKENS: Final[Mapping[str, Sequence[str]]] = {
    "oauth": ("DELETE FROM oauth_codes", "DELETE FROM oauth_kept"),
    "credentials": ("DELETE FROM credentials WHERE name LIKE 'started.%'",),
}


_CONTAINED: Final[Mapping[str, Sequence[str]]] = {"consent": ("approvals", "grants")}
"""The parts that are one part in PostgreSQL."""


def list_void_statements(part: str, *, is_current: bool) -> list[str]:
    """Return the statements that make void what ``part`` must not hold after a restore.

    ``is_current``: the operator says that nothing has run since the backup. Then one-time tokens alone are void.
    """
    found: list[str] = []
    for name in _CONTAINED.get(part, (part,)):
        found += [*_TOKENS.get(name, ()), *(() if is_current else _ANSWERS.get(name, ()))]
    return found
