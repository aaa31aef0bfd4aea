"""Keep long calls in an SQLite file beside the ledger, or in memory, for the processes of one machine.

Rules:
- One thread makes all changes, and all that wait go into one transaction, as for the ledger in the same file.
- A running call belongs to its process as long as that lives: the operating system says so by a lock of its file.
- A store in memory has the same tables and statements, and ends with its process.
"""
# LC-03, LC-04

from __future__ import annotations

import logging
import secrets
import sqlite3
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from toolwire.core.long_call import (
    LongCallLimits,
)
from toolwire.core.model import Problem
from toolwire.stores.clock import ClockMark, LedgerClock, read_boot_id
from toolwire.stores.database import build_unusable_error, close_with, create_tables, open_file
from toolwire.stores.group_commit import GroupCommit
from toolwire.stores.outage_log import OutageLog

from .process_lock import ProcessLock, is_alive
from .sql_long_calls import SqlLongCalls, StoredLongCalls
from .statements import AGE, FORGET_AGE, SAVE_AGE
from .tables import CALLS_FILE

_BUSY_S = 1.0
_MAPPED_BYTES = 256 << 20
_T = TypeVar("_T")
_log = logging.getLogger("toolwire.ledger")


class SqliteLongCalls(StoredLongCalls):
    """The long calls in the file at ``path``, which may be that of a ledger; in memory without ``path``.

    ``clock`` is in seconds and never goes back while the machine, ``boot``, runs; ``wall`` is the time of day.

    Raises:
        DefinitionError: the file is something else, or cannot be opened.
    """

    def __init__(
        self,
        path: Path | str | None = None,
        limits: LongCallLimits | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        boot: str | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._path = None if path is None else Path(path).absolute()
        self._age = LedgerClock(read_boot_id() if boot is None else boot, clock)
        self._calls = SqlLongCalls(
            limits or LongCallLimits(), now=self._age.now, read_wall=wall, is_alive=self._is_alive
        )
        self._changes = GroupCommit(
            begin=self._begin_transaction, commit=self._commit, roll_back=self._roll_back, busy_s=_BUSY_S
        )
        self._outages = OutageLog(_log, f"the long calls in {self._path and self._path.name} can be written again.")
        self._lock: ProcessLock | None = None
        self._owner = 0
        self._is_open = False
        self._open_file()

    async def begin(self) -> None:
        """Open the file again if it was closed."""
        if not self._is_open:
            self._open_file()

    async def end(self) -> None:
        """Close the file. Calls that still run are then as those of a process that died."""
        if self._path is None:
            self._owner = secrets.randbits(62) | 1
        elif self._is_open:
            self._is_open = False
            await self._do(_return_none)  # after the changes that wait
            if self._lock is not None:
                self._lock.release()
            self._connection.close()

    async def renew(self) -> Mapping[str, bool] | Problem:
        """Return the calls that this process runs, and whether they are to be cancelled. There is no lease to renew."""
        return await self._do(self._read_mine)

    def _read_mine(self) -> Mapping[str, bool]:
        return {call_id: asked for call_id, (_, asked) in self._calls.find_mine(self._owner).items()}

    def _is_alive(self, owner: int) -> bool:
        return owner == self._owner or (self._path is not None and is_alive(self._path, owner))

    # A transaction

    def _begin_transaction(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def _commit(self) -> None:
        self._connection.execute("COMMIT")
        self._outages.record_success()

    def _roll_back(self, error: Exception) -> None:
        self._outages.record_failure(
            "the long calls in %s cannot be written: %s.", self._path and self._path.name, error
        )
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error as failure:
            _log.error("the changes of long calls could not be rolled back: %s", failure)

    def _open_file(self) -> None:
        if self._path is None:
            self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            close_with(self, self._connection)  # end() keeps what is in memory
            create_tables(self._connection, CALLS_FILE)
            self._owner = secrets.randbits(62) | 1
            self._calls.attach(self._connection)
            self._is_open = True
            return
        self._connection = open_file(self._path, CALLS_FILE, busy_s=_BUSY_S).connection
        close_with(self, self._connection)  # end() is not called if the server cannot be built
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            mark = self._connection.execute(AGE).fetchone()
            self._age.resume(None if mark is None else ClockMark(*mark))
            self._connection.execute(FORGET_AGE)
            self._connection.execute(SAVE_AGE, self._age.mark())
            self._connection.execute("COMMIT")
            self._lock = ProcessLock(self._path)
        except (sqlite3.Error, OSError) as error:
            self._connection.close()
            raise build_unusable_error(self._path, error) from error
        self._owner = self._lock.number
        # Calls are looked up in no order, so each of them would be read from the file by the usual cache of 2 MiB.
        self._connection.execute(f"PRAGMA mmap_size = {_MAPPED_BYTES}")
        self._connection.execute("PRAGMA busy_timeout = 0")  # from here on GroupCommit repeats, with its own limit
        self._calls.attach(self._connection)
        self._is_open = True


def _return_none() -> None:
    """Change nothing."""
