"""Open transactions on the database of the authorization server.

Rules:
- What a transaction reads and then changes is locked: the whole file in SQLite, the row in PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import RLock

from toolwire.core.errors import ToolwireError

from .engine import READ_ONLY, UNAVAILABLE, is_in_memory, open_engine
from .rows import GrantEvent, OAuthRows

__all__ = ["GrantEvent", "OAuthRows", "OAuthStore", "StoreUnavailableError"]


class StoreUnavailableError(ToolwireError):
    """The database does not answer. It is unknown whether the last transaction was committed; it never is in part.

    The text is for the log and names no user.
    """


class OAuthStore:
    """The database at ``url``: an SQLAlchemy URL, or the path of an SQLite file."""

    def __init__(self, url: str | Path) -> None:
        self._engine, self._is_hanging = open_engine(url)
        # A database in memory has one connection. Threads that share it must not mix their transactions.
        self._turn = RLock() if is_in_memory(self._engine) else nullcontext()

    @contextmanager
    def write_transaction(self) -> Generator[OAuthRows, None, None]:
        """Give the rows for one transaction. It is rolled back if the block raises.

        Raises:
            StoreUnavailableError: the database cannot be asked.
        """
        self._check_answering()
        try:
            with self._turn, self._engine.begin() as connection:
                yield OAuthRows(connection)
        except UNAVAILABLE as error:
            raise StoreUnavailableError(f"the database cannot be asked: {type(error).__name__}") from error

    @contextmanager
    def read_transaction(self) -> Generator[OAuthRows, None, None]:
        """Give the rows for one transaction that only reads, and so waits for no other.

        Raises:
            StoreUnavailableError: the database cannot be asked.
        """
        self._check_answering()
        try:
            with self._turn, self._engine.connect() as connection:
                yield OAuthRows(connection.execution_options(**{READ_ONLY: True}))
        except UNAVAILABLE as error:
            raise StoreUnavailableError(f"the database cannot be asked: {type(error).__name__}") from error

    def _check_answering(self) -> None:
        if self._is_hanging():
            raise StoreUnavailableError("the database did not answer a moment ago, and is asked again in some seconds")

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()
