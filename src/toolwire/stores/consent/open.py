"""Open what is stored about consent where a setting says: in a folder, or in a database for several machines."""
# ST-01

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from toolwire.stores.paths import is_postgres_url

from .used_nonces import MemoryUsedNonces, SharedUsedNonces

if TYPE_CHECKING:  # each loads sqlite3 or the driver of PostgreSQL, or what only clients need
    from toolwire.stores.database import SharedRows

    from .approvals import Approvals
    from .audit import StoredAudit
    from .ended_sessions import EndedSessions
    from .grants import StoredGrants
    from .postgres import PostgresAudit, PostgresPreferences, PostgresUsedNonces
    from .preferences import StoredPreferences

Place: TypeAlias = Path | str
"""A folder, or the URL of a PostgreSQL."""


StoredDecisions: TypeAlias = "StoredAudit | PostgresAudit"
"""A log of decisions that outlives the process."""
StoredLevels: TypeAlias = "StoredPreferences | PostgresPreferences"
"""The levels of consent that the user set: a ``PreferenceStore`` that can list and delete them."""
UsedNonces: TypeAlias = "MemoryUsedNonces | SharedUsedNonces | PostgresUsedNonces"
"""The words of confirmations that were used, and the key that signs them, which all who share the words have.

``now`` returns seconds of a clock that they have in common, and ``clock_id`` names it until it begins again, so that no
word is valid by another one. ``is_remote`` says that a claim waits for a database, so that it must not run on an event
loop.
"""


def open_approvals(place: Place) -> Approvals:
    """Return the questions that wait, and their answers. ``open_decisions`` lists the errors."""
    from .approvals import Approvals  # loads sqlite3

    return Approvals(_find_rows(place))


def open_grants(place: Place) -> StoredGrants:
    """Return what the user allowed "always". ``open_decisions`` lists the errors."""
    from .grants import StoredGrants  # loads sqlite3

    return StoredGrants(_find_rows(place))


def open_ended_sessions(place: Place) -> EndedSessions:
    """Return the sessions of consoles that were ended. ``open_decisions`` lists the errors."""
    from .ended_sessions import EndedSessions  # loads sqlite3

    return EndedSessions(_find_rows(place))


def open_decisions(place: Place) -> StoredDecisions:
    """Return the log of decisions.

    Raises:
        DefinitionError: the folder or the database cannot be used.
    """
    if is_in_database(place):
        from .postgres import PostgresAudit

        return PostgresAudit(_open_shared(place))
    from .audit import StoredAudit  # loads sqlite3

    return StoredAudit(Path(place))


def open_levels(place: Place) -> StoredLevels:
    """Return the user's levels of consent. ``open_decisions`` lists the errors."""
    if is_in_database(place):
        from .postgres import PostgresPreferences

        return PostgresPreferences(_open_shared(place))
    from .preferences import StoredPreferences  # few programs need it

    return StoredPreferences(Path(place))


def open_used_nonces(place: Place = "") -> UsedNonces:
    """Return the used nonces; ``""`` keeps them in this process. ``open_decisions`` lists the errors."""
    if not str(place):
        return MemoryUsedNonces()
    if is_in_database(place):
        from .postgres import PostgresUsedNonces

        return PostgresUsedNonces(_open_shared(place))
    return SharedUsedNonces(Path(place))


def is_in_database(place: Place) -> bool:
    """Return whether ``place`` is a database, which may take long to answer."""
    return isinstance(place, str) and is_postgres_url(place)


def _find_rows(place: Place) -> Path | SharedRows:
    """Return the folder, or the tables of consent in the database."""
    return _open_shared(place) if is_in_database(place) else Path(place)


def _open_shared(place: Place) -> SharedRows:
    from toolwire.stores.open_rows import open_rows  # loads sqlite3

    from .tables import CONSENT

    return open_rows(place, CONSENT)
