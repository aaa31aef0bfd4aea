"""Open the place where rate limits are counted, as named in a setting."""

from __future__ import annotations

import time
from pathlib import Path

from toolwire.limits import MemoryWindows, RatesFail, Windows
from toolwire.stores.paths import is_postgres_url


def open_windows(where: str, *, fail: RatesFail = "closed", owner: str = "") -> Windows:
    """Return the windows that ``where`` names: "" for this process, a folder, or a URL.

    The URL is one of PostgreSQL, or one such as ``redis://host``. ``fail`` says what happens to calls while the store
    is lost; the log says it too. Servers with different ``owner`` do not share what one Redis counts.

    Raises:
        DefinitionError: it names no place that can count calls.
    """
    if not where:
        return MemoryWindows(time.monotonic)
    if is_postgres_url(where):
        from .postgres_windows import PostgresWindows  # only the extra brings its driver

        return PostgresWindows(where, fail=fail)
    if "://" in where:
        from .library_windows import LibraryWindows  # only the extra brings it

        return LibraryWindows(where, fail=fail, owner=owner)
    from .sqlite_windows import SqliteWindows  # loads sqlite3

    return SqliteWindows(Path(where), fail=fail)
