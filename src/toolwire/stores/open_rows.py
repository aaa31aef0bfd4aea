"""Open the tables of a store where a setting says: in a file of SQLite, or in a database of PostgreSQL."""
# ST-01, ST-04

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

from toolwire.core.errors import DefinitionError

from .database import Database, SharedRows
from .paths import is_postgres_url
from .schema import Schema


def open_rows(place: Path | str, schema: Schema) -> SharedRows:
    """Return the tables of ``schema`` in the file or at the URL ``place``, made or brought to its version.

    Raises:
        DefinitionError: the place cannot be used, has other tables, or has those of a newer toolwire.
    """
    if not is_postgres_url(str(place)):
        return Database(Path(place), schema)
    from .postgres_rows import open_postgres_rows  # only the extra brings its driver

    return open_postgres_rows(str(place), schema)


@contextmanager
def open_overview(place: Path | str, schema: Schema) -> Generator[SharedRows | None, None, None]:
    """Give the tables for one reading of an operator; None for a file that is not there yet.

    Raises:
        OSError: they cannot be used.
    """
    is_file = not is_postgres_url(str(place))
    if is_file and not Path(place).exists():
        yield None
        return
    try:
        rows = open_rows(place, schema)
        if is_file:
            with closing(rows):
                yield rows
        else:
            yield rows
    except (sqlite3.Error, DefinitionError) as error:
        raise OSError(f"{place} cannot be read: {error}" if isinstance(error, sqlite3.Error) else str(error)) from error
