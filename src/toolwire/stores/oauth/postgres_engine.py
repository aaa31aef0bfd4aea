"""Connect to PostgreSQL for the authorization server, with a deadline for each statement."""
# R11

from __future__ import annotations

import psycopg
from sqlalchemy import URL, Engine, create_engine

from toolwire.stores.postgres import DEADLINE_S, Breaker, PostgresConnection, PostgresPlace

_WAIT_S = 5.0
_CREATE_S = 60.0


class PostgresConnector:
    """Makes the connections of one engine. While ``breaker`` is open, it makes none."""

    def __init__(self, url: URL) -> None:
        self.breaker = Breaker()
        self._place = PostgresPlace(url.set(drivername="postgresql").render_as_string(hide_password=False))
        self._deadline_s = _CREATE_S
        self.engine: Engine = create_engine(url, pool_pre_ping=True, pool_timeout=_WAIT_S, creator=self._connect)

    def start_deadlines(self) -> None:
        """Let each statement wait for one second from now on; until then the tables are created."""
        # The connections that exist have the long deadline for creating tables.
        self.engine.dispose()
        self._deadline_s = DEADLINE_S

    def _connect(self) -> PostgresConnection:
        if self.breaker.is_open:
            raise psycopg.OperationalError("the database does not answer")
        connection = self._place.connect(self._deadline_s, on_timeout=self.breaker.open)
        # The ledger has autocommit; SQLAlchemy begins and ends transactions itself.
        connection.autocommit = False
        return connection
