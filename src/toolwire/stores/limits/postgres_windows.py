"""Count calls for rate limits in PostgreSQL, for several machines, by the clock of the database.

Rules:
- A call waits for at most the deadline of one statement. Only the first call waits for a connection. A lost
  connection is made again by a thread, and until then calls are not counted here.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from math import inf

import psycopg

from toolwire.core.model import RateLimit
from toolwire.limits import RatesFail
from toolwire.stores.postgres import (
    DEADLINE_S,
    PostgresConnection,
    PostgresPlace,
    describe_error,
    migrate_schema,
)

from .outage import StoreOutage
from .tables import RATES

_PAUSE_S = 1.0
_TAKE = "SELECT toolwire_take_call(%s, %s, %s)"


class PostgresWindows:
    """Moving windows in the database at ``url``. Thread-safe."""

    # XL-066, R11

    def __init__(self, url: str, *, fail: RatesFail = "closed") -> None:
        """Make the tables that are missing.

        Raises:
            DefinitionError: the database cannot be used.
        """
        self._place = PostgresPlace(url)
        migrate_schema(self._place, RATES)
        self._connection: PostgresConnection | None = None
        self._is_new = True
        self._turn = threading.Lock()
        self._outage = StoreOutage(fail, pause_s=_PAUSE_S, clock=time.monotonic)

    async def begin(self) -> None:
        """Do nothing: the first call that is counted connects."""

    async def end(self) -> None:
        """Close the connection; the next call that is counted connects again."""
        with self._turn:
            self._disconnect()
            self._is_new = True

    def take(self, key: str, limit: RateLimit) -> float:
        """Count a call and return 0.0, or return how many seconds must pass first and count nothing.

        Infinite if the database does not answer.
        """
        if not self._outage.may_ask():
            return inf
        if not self._turn.acquire(timeout=DEADLINE_S):
            return inf  # the thread that has the turn records the failure
        try:
            if self._connection is None and self._is_new:
                self._is_new = False
                self._connection = self._place.connect()
            if self._connection is None:
                threading.Thread(target=self._reconnect, daemon=True).start()
                return inf
            # PostgreSQL stores no null character and no half of a surrogate pair.
            values = (key.replace("\0", "\ufffd").encode("utf-8", "replace").decode(), limit.max, limit.window_s)
            [(wait,)] = self._connection.execute(_TAKE, values).fetchall()
        except psycopg.Error as error:
            self._disconnect()
            self._outage.record_failure(describe_error(error))
            return inf
        finally:
            self._turn.release()
        self._outage.record_success()
        return float(wait)

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def _reconnect(self) -> None:
        try:
            opened = self._place.connect()
        except psycopg.Error as error:
            self._outage.record_failure(describe_error(error))
            return
        with self._turn:
            # end() may have been called meanwhile. Then this connection is closed again.
            is_wanted = self._connection is None and not self._is_new
            if is_wanted:
                self._connection = opened
        if not is_wanted:
            opened.close()
        self._outage.record_success()
