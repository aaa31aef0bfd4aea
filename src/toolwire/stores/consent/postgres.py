"""Keep the log of decisions, the user's levels and the used words of confirmations in PostgreSQL, for several machines.

Questions and grants have the same code as in SQLite; see ``approvals.py`` and ``grants.py``.
"""
# ST-01

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from toolwire.consent.decision_record import (
    EMPTIED_DIGEST,
    FIRST,
    ChainedDecision,
    ChainStart,
    Decision,
    compute_chain_digest,
    find_start_fault,
)
from toolwire.consent.policy import NO_PREFERENCES, Preferences
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Approval
from toolwire.stores.clock import ConfirmedTime
from toolwire.stores.database import SharedRows

from .audit import read_records
from .preferences import STORED_LEVELS, StoredLevel, build_preferences

_LAST = "SELECT number, digest FROM audit ORDER BY number DESC LIMIT 1"
_NEWEST = "SELECT number, record, digest FROM audit WHERE number < ? AND number > 0 ORDER BY number DESC LIMIT ?"
_OWN_ANSWERS = (
    "SELECT number, record, digest FROM audit WHERE toolwire_find_answerer(record) = ? ORDER BY number DESC LIMIT ?"
)
_NO_END = 2**62
_PIECE = 200
_READ_AGAIN_S = 1.0
_SWEEP_S = 60.0


class PostgresAudit:
    """The decisions of all processes of all machines, chained in their order."""

    # XL-055

    def __init__(self, rows: SharedRows) -> None:
        self._rows = rows

    def append(self, record: Decision) -> None:
        """Add ``record`` at the end of the chain.

        Raises:
            ConnectionError: the database cannot be asked.
        """
        with self._rows.transaction() as cursor:
            # Writers take turns from here on, so no other machine can add a record with the same number.
            found = cursor.execute(_LAST).fetchone()
            last = ChainStart(*found) if found is not None else ChainStart(0, EMPTIED_DIGEST)
            number = last.number + 1
            row = (number, json.dumps(asdict(record)), compute_chain_digest(last.digest, number, record))
            cursor.execute("INSERT INTO audit VALUES (?, ?, ?)", row)

    def entries(self) -> Sequence[ChainedDecision]:
        """Return all records in order."""
        rows = self._rows.select_rows("SELECT number, record, digest FROM audit WHERE number > 0 ORDER BY number")
        return read_records(rows)

    def last_number(self) -> int:
        """Return the number of the newest record, 0 without any."""
        rows: list[Any] = self._rows.select_rows(_LAST)
        return int(rows[0][0]) if rows else 0

    def iterate_back(self, before: int | None = None) -> Iterator[ChainedDecision]:
        """Yield the records from the newest one back, or from the one before the number ``before``."""
        end = _NO_END if before is None else before
        while rows := list[Any](self._rows.select_rows(_NEWEST, end, _PIECE)):
            yield from read_records(rows)
            end = rows[-1][0]

    def list_answers(self, principal: str, most: int) -> list[ChainedDecision]:
        """Return the last ``most`` answers that ``principal`` gave on the inbox page, the newest first."""
        rows: list[Any] = self._rows.select_rows(_OWN_ANSWERS, principal, most)
        return read_records(rows)

    def start(self) -> ChainStart:
        """Return what the record 1 goes on from: the record 0, which the log begins with."""
        first = self._find_first()
        return FIRST if first is None else ChainStart(0, first.digest)

    def find_start_fault(self) -> str:
        """Return what is wrong with the beginning of the log, or an empty text."""
        # AT-43
        return find_start_fault(self._find_first(), self.start(), has_records=self.last_number() > 0)

    def _find_first(self) -> ChainedDecision | None:
        rows = self._rows.select_rows("SELECT number, record, digest FROM audit WHERE number = 0")
        return next(iter(read_records(rows)), None)

    def close(self) -> None:
        """Close the connection."""
        self._rows.close()


class PostgresPreferences:
    """The levels that the user set. A change on another machine holds within a second.

    While the database cannot be asked, the levels that were read last hold.
    """

    # XL-042

    def __init__(self, rows: SharedRows) -> None:
        """Read the levels.

        Raises:
            DefinitionError: the database cannot be asked. Without the levels, calls could run that the user denied.
        """
        self._rows = rows
        self._levels: dict[str, dict[str, Approval]] = {}
        self._found: dict[str, Preferences] = {}
        self._read_at = 0.0
        try:
            self._read()
        except ConnectionError as error:
            raise DefinitionError(f"Cannot read your rules: {error}.") from error

    def find(self, site: str) -> Preferences:
        """Return the preferences for ``site``; it is the same object until they change."""
        # A request for each call would cost more than the call, so the levels are read once a second.
        if time.monotonic() >= self._read_at + _READ_AGAIN_S:
            with suppress(ConnectionError):
                self._read()
        found = self._found.get(site)
        if found is None:
            levels = self._levels.get(site)
            made = NO_PREFERENCES if not levels else build_preferences(MappingProxyType(levels))
            found = self._found[site] = made
        return found

    def list_levels(self) -> list[StoredLevel]:
        """Return each level, by site and tool."""
        rows: list[Any] = self._rows.select_rows("SELECT site, tool, level FROM levels ORDER BY site, tool")
        return [StoredLevel(site, tool, Approval(level)) for site, tool, level in rows]

    def set(self, site: str, tool: str, level: Approval) -> None:
        """Store ``level`` for ``tool`` of ``site``, an origin.

        Raises:
            DefinitionError: the level is auto, which would loosen.
            ConnectionError: the database cannot be asked.
        """
        if level not in STORED_LEVELS:
            raise DefinitionError(f"{level!r} cannot be stored: a rule must be per-call or deny.")
        statement = "INSERT INTO levels VALUES (?, ?, ?) ON CONFLICT (site, tool) DO UPDATE SET level = excluded.level"
        self._rows.change_row(statement, site, tool, Approval(level).value)
        self._read()

    def unset(self, site: str, tool: str) -> bool:
        """Delete the level for ``tool`` of ``site``, and return whether there was one.

        Raises:
            ConnectionError: the database cannot be asked.
        """
        was = self._rows.change_row("DELETE FROM levels WHERE site = ? AND tool = ?", site, tool) > 0
        self._read()
        return was

    def _read(self) -> None:
        self._read_at = time.monotonic()
        levels: dict[str, dict[str, Approval]] = {}
        for one in self.list_levels():
            levels.setdefault(one.site, {})[one.tool] = one.level
        # The same objects while nothing changes, so that a caller can compare by identity.
        if levels != self._levels:
            self._levels, self._found = levels, {}


class PostgresUsedNonces:
    """The words that were used on any machine, and the key that signs them."""

    # XL-056

    clock_id = b""
    is_remote = True
    """A claim waits for a database."""

    def __init__(self, rows: SharedRows) -> None:
        """Read the key; the first process makes it.

        Raises:
            DefinitionError: the database cannot be asked.
        """
        self._rows = rows
        self._swept_at = 0.0
        self._passed = ConfirmedTime()
        make = "INSERT INTO word_keys VALUES (1, ?) ON CONFLICT (one) DO NOTHING"
        try:
            rows.change_row(make, secrets.token_bytes(32))
            [(key,)] = rows.select_rows("SELECT key FROM word_keys")
        except ConnectionError as error:
            raise DefinitionError(f"Confirmations cannot be stored: {error}.") from error
        self.key: bytes = bytes(key)

    def now(self) -> float:
        """Return the time of the database: the machines agree on it."""
        return self._rows.clock()

    def claim(self, name: str, until: float, now: float) -> bool:
        """Return whether ``name`` was not claimed before on any machine.

        Raises:
            ConnectionError: the database cannot be asked.
        """
        # RE-01: a word that a wrong clock calls expired could be used again when the clock is right.
        passed = self._passed.find(now)
        if not self._swept_at <= passed <= self._swept_at + _SWEEP_S:
            self._swept_at = passed
            # Words of the last minute stay: the clocks of two connections to one database differ a little.
            self._rows.change_row("DELETE FROM spent_words WHERE until < ?", passed - _SWEEP_S)
        return self._rows.change_row("INSERT INTO spent_words VALUES (?, ?) ON CONFLICT DO NOTHING", name, until) == 1
