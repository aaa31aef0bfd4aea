"""Connect to PostgreSQL with a deadline for each statement, and bring its tables to the version of this program.

Rules:
- No wait for the database is longer than the deadline. A connection that missed it is closed and not used again.
- No text of an error has the password or the rest of the URL: a URL is described by its host, port and database.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from toolwire.core.errors import DefinitionError

from .schema import Schema, migrate_tables, name_postgres_tables, write_for_postgres

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
except ModuleNotFoundError as _error:
    raise DefinitionError("State in PostgreSQL needs psycopg: pip install 'toolwire[postgres]'.") from _error

DEADLINE_S = 1.0
"""How long one statement waits for the database."""
_CONNECT_S = 2
_OPEN_S = 5.0
_UNREADABLE = (
    "Cannot read the PostgreSQL URL. Write postgresql://USER:PASSWORD@HOST/DATABASE, and percent-encode "
    "characters such as @ and / in the password (%40, %2F)."
)
_ABANDONED_MS = 5_000
"""After how many milliseconds the database itself ends what a client left behind."""
_NOTICE_LOST_MACHINES = (
    # ST-02: a machine that loses its power or its network closes no connection. By default, the database keeps such a
    # connection for two hours, and those of a few dead machines are all that it takes. These settings close it after
    # 20 seconds. They have no effect on a Unix socket, or where the system of the database does not know them.
    ", set_config('tcp_keepalives_idle', '5', false), set_config('tcp_keepalives_interval', '5', false),"
    " set_config('tcp_keepalives_count', '3', false), set_config('tcp_user_timeout', '20000', false)"
)
MIGRATION_LOCK = 1_953_460_077
_MIGRATION_S = 60.0
_READ_ONLY = "25006"
"""The database has become a standby: another server has taken its place."""


class PostgresPlace:
    """The database that a URL names. ``str()`` of it shows no password."""

    def __init__(self, url: str) -> None:
        """Read ``url``.

        Raises:
            DefinitionError: it is no URL of PostgreSQL.
        """
        scheme, _, rest = url.partition("://")
        self._dsn = f"{scheme.partition('+')[0]}://{rest}"
        try:
            parts: dict[str, Any] = conninfo_to_dict(self._dsn)
        except psycopg.Error:  # "from None" below: the driver's text shows the URL, and so its password
            raise DefinitionError(_UNREADABLE) from None
        # A password with a "/" or "@" of its own shifts the parts, and an error about a part would show it.
        ports = str(parts.get("port") or "5432").split(",")
        if any("@" in str(parts.get(name, "")) for name in ("host", "dbname")) or not all(map(str.isdigit, ports)):
            raise DefinitionError(_UNREADABLE)
        self._patience: dict[str, Any] = {} if "connect_timeout" in parts else {"connect_timeout": _CONNECT_S}
        host = parts.get("host") or parts.get("hostaddr") or "localhost"
        self._name = f"{host}:{parts.get('port') or 5432}/{parts.get('dbname') or parts.get('user') or ''}"

    def __str__(self) -> str:
        return self._name

    def connect(
        self, deadline_s: float = DEADLINE_S, *, on_timeout: Callable[[], object] | None = None
    ) -> PostgresConnection:
        """Return a new connection whose statements each wait for at most ``deadline_s``.

        ``on_timeout`` is called after a statement that took longer.

        Raises:
            psycopg.Error: the database cannot be reached.
        """
        # Autocommit: a single statement is committed without two more round trips for BEGIN and COMMIT.
        connection = PostgresConnection.connect(
            self._dsn, autocommit=True, application_name="toolwire", **self._patience
        )
        connection.deadline_s, connection.on_timeout = deadline_s, on_timeout
        try:
            connection.execute(
                # The database itself ends what this process left behind after a loss of the network, because it still
                # has locks. The time limit for a lock is shorter than the deadline: then only one statement fails, and
                # the connection can be used further.
                "SELECT set_config('statement_timeout', %s, false),"
                " set_config('idle_in_transaction_session_timeout', %s, false), set_config('lock_timeout', %s, false)"
                + _NOTICE_LOST_MACHINES,
                tuple(str(int(ms)) for ms in (max(_ABANDONED_MS, 1000 * deadline_s), _ABANDONED_MS, 500 * deadline_s)),
            )
        except BaseException:
            connection.close()
            raise
        return connection


class PostgresConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that waits for the database for at most ``deadline_s`` at a time; then it is closed."""

    deadline_s = DEADLINE_S
    on_timeout: Callable[[], object] | None = None
    closes_itself = False
    """Whether it is closed when nothing holds it any more, without a warning."""

    def __del__(self, *arguments: Any) -> None:
        if self.closes_itself:
            self.close()
        super().__del__(*arguments)

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """Return what the database answers.

        Raises:
            psycopg.OperationalError: it does not answer in time.
        """
        patience = self.deadline_s if timeout is None else timeout
        until = time.monotonic() + patience
        try:
            return super().wait(gen, interval, patience)
        except psycopg.OperationalError:
            if time.monotonic() >= until:
                # The answer may still arrive, and would be taken for the answer to the next statement.
                self.close()
                if self.on_timeout is not None:
                    self.on_timeout()
            raise


class Breaker:
    """Remembers that a database hangs, so that no request waits for it for a while."""

    def __init__(self) -> None:
        self._open_until = 0.0

    @property
    def is_open(self) -> bool:
        """Whether the database must not be asked now."""
        return time.monotonic() < self._open_until

    def open(self) -> None:
        """Stop all requests to the database for 5 seconds."""
        self._open_until = time.monotonic() + _OPEN_S


def migrate_schema(place: PostgresPlace, schema: Schema) -> None:
    """Bring the tables of ``schema`` to its version; of several processes, one does it.

    Raises:
        DefinitionError: the database cannot be used, or its tables are of a newer version that this program cannot
            work with.
    """
    try:
        with place.connect(_MIGRATION_S) as connection, connection.transaction():
            # ST-04: one process at a time, and all versions in one transaction: as a whole or not at all.
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
            migrate_tables(
                PostgresCursor(connection),
                schema,
                place,
                lambda migration: connection.execute(write_for_postgres(migration).encode()),
            )
    except psycopg.Error as error:
        raise build_unusable_error(place, error) from None


class PostgresCursor:
    """Runs the statements that are written for SQLite on one connection."""

    __slots__ = ("_connection",)

    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Sequence[object] = (), /) -> psycopg.Cursor[tuple[Any, ...]]:
        """Run ``statement`` and return its rows."""
        return self._connection.execute(translate(statement), values or None)


@lru_cache(maxsize=256)
def translate(statement: str) -> bytes:
    """Return ``statement`` as PostgreSQL reads it: with its own marks for values, and toolwire's names of tables."""
    return name_postgres_tables(statement).replace("%", "%%").replace("?", "%s").encode()


def build_unusable_error(place: PostgresPlace, error: psycopg.Error) -> DefinitionError:
    """Return the error that says why the database cannot be used."""
    return DefinitionError(f"The database {place} cannot be used: {describe_error(error)}.")


def is_connection_lost(connection: PostgresConnection, error: psycopg.Error) -> bool:
    """Return whether ``connection`` is of no use after ``error``; otherwise only its statement failed."""
    if connection.closed or connection.broken or error.sqlstate == _READ_ONLY:
        return True
    # An error that the server reports has an SQLSTATE. Without one, the connection itself failed.
    return error.sqlstate is None and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)


def describe_error(error: psycopg.Error) -> str:
    """Return the reason that the server gives, else the last sentence of the driver, or the kind of error."""
    if error.diag.message_primary:  # the lines after it are details and hints
        return error.diag.message_primary.rstrip(".")
    # Lines that begin with a tab continue the one before, such as with a question about the server.
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.startswith("\t")]
    return lines[-1].rstrip(".") if lines else type(error).__name__
