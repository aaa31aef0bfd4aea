"""Open transactions on the database of the authorization server.

Rules:
- What a transaction reads and then changes is locked: the whole file in SQLite, the row in PostgreSQL.
- To read waits for no change: it has a connection of its own.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from toolwire.core.errors import DefinitionError, ToolwireError
from toolwire.stores.database import Database, SharedRows

from .rows import GrantEvent, OAuthRows
from .tables import OAUTH

__all__ = ["GrantEvent", "OAuthRows", "OAuthStore", "StoreUnavailableError"]

_POSTGRES = re.compile(r"postgres(ql)?(\+\w+)?://")
_FILE = re.compile(r"sqlite(\+\w+)?:///")


class StoreUnavailableError(ToolwireError):
    """The database does not answer. It is unknown whether the last transaction was committed; it never is in part.

    The text is for the log and names no user.
    """


class OAuthStore:
    """The database at ``url``: the path or URL of an SQLite file, or the URL of a PostgreSQL database.

    It can be your application's database. Your tables are not touched.
    """

    def __init__(self, url: str | Path) -> None:
        """Bring its tables to the version of this program.

        Raises:
            DefinitionError: the database cannot be used, or its tables are of a newer toolwire.
        """
        text = str(url)
        self._changes: SharedRows
        self._reads: SharedRows
        self._lock = " FOR UPDATE" if _POSTGRES.match(text) else ""
        if self._lock:
            from toolwire.stores.postgres_rows import PostgresRows  # only the extra brings its driver

            self._changes, self._reads = PostgresRows(text, OAUTH), PostgresRows(text, OAUTH)
            return
        path = _FILE.sub("", text, count=1)
        if "://" in path:
            raise DefinitionError("Store users and tokens in a file or at a URL such as postgresql://HOST/DATABASE.")
        self._changes, self._reads = Database(Path(path), OAUTH), Database(Path(path), OAUTH)

    @contextmanager
    def write_transaction(self) -> Generator[OAuthRows, None, None]:
        """Yield the rows for one transaction. It is rolled back if the block raises.

        Raises:
            StoreUnavailableError: the database cannot be reached.
        """
        with _name_errors(), self._changes.row_transaction() as cursor:
            yield OAuthRows(cursor.execute, self._lock)

    @contextmanager
    def read_transaction(self) -> Generator[OAuthRows, None, None]:
        """Yield the rows for reading only. This does not wait for writers.

        Raises:
            StoreUnavailableError: the database cannot be reached.
        """
        with _name_errors(), self._reads.open_reader() as cursor:
            yield OAuthRows(cursor.execute)

    def clock(self) -> float:
        """Return the time that all processes with this database share, in seconds since 1970."""
        return self._reads.clock()

    def close(self) -> None:
        """Close all connections."""
        self._changes.close()
        self._reads.close()


@contextmanager
def _name_errors() -> Generator[None, None, None]:
    try:
        yield
    except ConnectionError as error:
        raise StoreUnavailableError(f"cannot query the database: {type(error).__name__}") from error
