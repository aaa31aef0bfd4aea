"""Read how often limits were used lately from the place where calls are counted, for an operator."""
# CO-02, XL-066

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from toolwire.stores.open_rows import open_overview
from toolwire.stores.paths import is_postgres_url

from .tables import RATES, RATES_FILE

_LIST = "SELECT key, at FROM taken WHERE at > ? ORDER BY at DESC LIMIT ?"
_MOST = 100_000


class CountOverview:
    """The calls that count in ``where``: a folder, or the URL of a PostgreSQL database."""

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
                for key, at in rows.select_rows(_LIST, now - within_s, _MOST):
                    found.setdefault(str(key), []).append(now - float(at))
        return found
