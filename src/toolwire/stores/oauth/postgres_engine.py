"""Connect to PostgreSQL for the authorization server, with a deadline for each statement."""
# R11

from __future__ import annotations

import psycopg
from sqlalchemy import URL, Engine, create_engine

from toolwire.stores.postgres import Breaker, PostgresConnection, PostgresPlace, migrate_schema

from .migrations import MIGRATIONS

_WAIT_S = 5.0


class PostgresConnector:
    """Makes the connections of one engine. While ``breaker`` is open, it makes none."""

    def __init__(self, url: URL) -> None:
        """Bring the tables to the version of this program.

        Raises:
            DefinitionError: the database cannot be used, or its tables are of a newer toolwire.
        """
        self.breaker: Breaker = Breaker()
        self._place = PostgresPlace(url.set(drivername="postgresql").render_as_string(hide_password=False))
        migrate_schema(self._place, "oauth", MIGRATIONS)
        self.engine: Engine = create_engine(url, pool_pre_ping=True, pool_timeout=_WAIT_S, creator=self._connect)

    def _connect(self) -> PostgresConnection:
        if self.breaker.is_open:
            raise psycopg.OperationalError("the database does not answer")
        connection = self._place.connect(on_timeout=self.breaker.open)
        # The ledger has autocommit; SQLAlchemy begins and ends transactions itself.
        connection.autocommit = False
        return connection
