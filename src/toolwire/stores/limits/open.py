"""Open the place where rate limits are counted, as named in a setting."""

from __future__ import annotations

import time
from pathlib import Path

from toolwire.limits import MemoryWindows, Windows


def open_windows(where: str) -> Windows:
    """Return the windows that ``where`` names: "" for this process, a folder, or a URL such as ``redis://host``.

    Raises:
        DefinitionError: it names no place that can count calls.
    """
    if not where:
        return MemoryWindows(time.monotonic)
    if "://" in where:
        from .library_windows import LibraryWindows  # only the extra brings it

        return LibraryWindows(where)
    from .sqlite_windows import SqliteWindows  # loads sqlite3

    return SqliteWindows(Path(where))
