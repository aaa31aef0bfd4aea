"""Read how often limits were used lately from the place where calls are counted, for an operator."""
# CO-02, XL-066

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from toolwire.stores.paths import is_postgres_url

if TYPE_CHECKING:  # only the extra brings its driver
    from toolwire.stores.postgres_rows import PostgresRows

_LIST = "SELECT key, at FROM taken WHERE at > ? ORDER BY at DESC LIMIT ?"
_MOST = 100_000
_BUSY_S = 2.0


class CountOverview:
    """The calls that count in ``where``: a folder, or the URL of a PostgreSQL."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._rows: PostgresRows | None = None

    def list_times(self, within_s: float) -> Mapping[str, list[float]]:
        """Return how many seconds ago each call of the last ``within_s`` seconds was, by key; 100,000 calls at most.

        Raises:
            OSError: they cannot be read.
        """
        rows = self._open_rows()
        now = time.time() if rows is None else rows.clock()
        found: dict[str, list[float]] = {}
        for key, at in self._select(rows, now - within_s):
            found.setdefault(str(key), []).append(now - float(at))
        return found

    def _open_rows(self) -> PostgresRows | None:
        if self._rows is None and is_postgres_url(self._where):
            from toolwire.stores.postgres_rows import open_rows  # only the extra brings its driver

            self._rows = open_rows(self._where, "overview", ())
        return self._rows

    def _select(self, rows: PostgresRows | None, since: float) -> list[Any]:
        if rows is not None:
            return list(rows.select_rows(_LIST, since, _MOST))
        file = Path(self._where) / "rates.sqlite3"
        if not file.exists():
            return []
        try:
            address = f"file:{quote(str(file.absolute()))}?mode=ro"
            with closing(sqlite3.connect(address, uri=True, timeout=_BUSY_S)) as connection:
                return connection.execute(_LIST, (since, _MOST)).fetchall()
        except sqlite3.Error as error:
            raise OSError(f"{file} cannot be read: {error}") from error
