"""Open what is stored about consent where a setting says: in a folder, or in a database for several machines."""
# ST-01

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from toolwire.core.model import Approval
from toolwire.stores.paths import is_postgres_url

from .used_nonces import MemoryUsedNonces, SharedUsedNonces, UsedNonces

if TYPE_CHECKING:  # each loads sqlite3 or the driver of PostgreSQL, or what only clients need
    from collections.abc import Iterator, Sequence

    from toolwire.consent.decision_record import ChainedDecision, ChainStart, Decision
    from toolwire.consent.policy import Preferences
    from toolwire.stores.database import SharedRows

    from .approvals import Approvals
    from .ended_sessions import EndedSessions
    from .grants import StoredGrants
    from .preferences import KeptLevel

Place: TypeAlias = Path | str
"""A folder, or the URL of a PostgreSQL."""


class StoredDecisions(Protocol):
    """A log of decisions that outlives the process."""

    def append(self, record: Decision) -> None:
        """Add ``record`` at the end of the chain."""
        ...

    def entries(self) -> Sequence[ChainedDecision]:
        """Return all records in order."""
        ...

    def last_number(self) -> int:
        """Return the number of the newest record, 0 without any."""
        ...

    def iterate_back(self, before: int | None = None) -> Iterator[ChainedDecision]:
        """Yield the records from the newest one back, or from the one before the number ``before``."""
        ...

    def list_answers(self, principal: str, most: int) -> list[ChainedDecision]:
        """Return the last ``most`` answers that ``principal`` gave on the inbox page, the newest first."""
        ...

    def start(self) -> ChainStart:
        """Return what the first record goes on from."""
        ...

    def find_start_fault(self) -> str:
        """Return what is wrong with the beginning of the log, or an empty text."""
        ...

    def close(self) -> None:
        """Close the file or the connection."""
        ...


class StoredLevels(Protocol):
    """The levels of consent that the user set: a ``PreferenceStore`` that can list and delete them."""

    def find(self, site: str, /) -> Preferences:
        """Return the preferences for ``site``, an origin; it is the same object until they change."""
        ...

    def list_levels(self) -> list[KeptLevel]:
        """Return each level, by site and tool."""
        ...

    def unset(self, site: str, tool: str) -> bool:
        """Delete the level for ``tool`` of ``site``, and return whether there was one."""
        ...

    def set(self, site: str, tool: str, level: Approval) -> None:
        """Store ``level``, per-call or deny, for ``tool`` of ``site``."""
        ...


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
