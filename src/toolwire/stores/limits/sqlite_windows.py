"""Count calls for rate limits in SQLite, for all processes of one machine, and read how often each was used lately."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping
from math import inf
from pathlib import Path

from toolwire.core.model import RateLimit
from toolwire.limits import RatesFail
from toolwire.stores.database import Database
from toolwire.stores.open_rows import open_overview
from toolwire.stores.paths import is_postgres_url

from .outage import StoreOutage
from .tables import RATES, RATES_FILE

_MAX_CLOCK_STEP_BACK_S = 1.0
_LIST = "SELECT key, at FROM taken WHERE at > ? ORDER BY at DESC LIMIT ?"
_MAX_ROWS = 100_000


class SqliteWindows:
    """Moving windows in the file ``rates.sqlite3`` of a folder. ``clock`` must be the same for every process."""

    # XL-066

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time, fail: RatesFail = "closed") -> None:
        self._database = Database(folder / RATES_FILE, RATES)
        self._clock = clock
        self._outage = StoreOutage(fail, pause_s=0.0, clock=time.monotonic)

    def take(self, key: str, limit: RateLimit) -> float:
        """Count a call and return 0.0, or return how many seconds must pass first and count nothing.

        Infinite if the file cannot be written.
        """
        if not self._outage.may_ask():
            return inf
        try:
            with self._database.transaction() as cursor:
                wait = self._count_call(cursor, key, limit)
        except (OSError, sqlite3.Error) as error:
            self._outage.record_failure(str(error))
            return inf
        self._outage.record_success()
        return wait

    def _count_call(self, cursor: sqlite3.Cursor, key: str, limit: RateLimit) -> float:
        now = self._clock()
        oldest = now - limit.window_s
        # Calls from the future were counted before the clock was set back. Callers would wait until it has caught up.
        cursor.execute(
            "DELETE FROM taken WHERE key = ? AND (at <= ? OR at > ?)", (key, oldest, now + _MAX_CLOCK_STEP_BACK_S)
        )
        count, first = cursor.execute("SELECT count(*), min(at) FROM taken WHERE key = ?", (key,)).fetchone()
        if count >= limit.max:
            # Never 0.0, which would mean that the call was counted.
            return max(float(first) + limit.window_s - now, 1e-9)
        cursor.execute("INSERT INTO taken VALUES (?, ?)", (key, now))
        return 0.0

    def close(self) -> None:
        """Close the file."""
        self._database.close()


class CountOverview:
    """The calls that count in ``where``: a folder, or the URL of a PostgreSQL database."""

    # CO-02

    def __init__(self, where: str) -> None:
        self._place = where if is_postgres_url(where) else Path(where) / RATES_FILE

    def list_times(self, within_s: float) -> Mapping[str, list[float]]:
        """Return how many seconds ago each call of the last ``within_s`` seconds was, by key; 100,000 calls at most.

        Raises:
            OSError: they cannot be read.
        """
        found: dict[str, list[float]] = {}
        with open_overview(self._place, RATES) as rows:
            if rows is not None:
                now = rows.clock()
                for key, at in rows.select_rows(_LIST, now - within_s, _MAX_ROWS):
                    found.setdefault(str(key), []).append(now - float(at))
        return found
