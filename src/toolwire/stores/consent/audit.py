"""Store the audit log in SQLite. Records are only added, and each holds the digest of the one before.

The first file begins with the record 0, which says when the log was made: a log without any record was emptied.
A file that has grown to its limit is sealed, and the next one goes on with the chain: ``audit.sqlite3``,
``audit-2.sqlite3``, and so on. No file is ever changed after that, so that old ones can be moved away.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from toolwire.consent.decision_record import (
    EMPTIED_DIGEST,
    FIRST,
    ChainedDecision,
    ChainStart,
    Decision,
    build_first_record,
    compute_chain_digest,
    find_start_fault,
)
from toolwire.core.errors import DefinitionError
from toolwire.stores.database import Database
from toolwire.stores.private_file import check_folder

from .tables import AUDIT

_LAST = "SELECT number, digest FROM audit ORDER BY number DESC LIMIT 1"
_NEWEST = "SELECT number, record, digest FROM audit WHERE number < ? AND number > 0 ORDER BY number DESC LIMIT ?"
_OWN_ANSWERS = (
    "SELECT number, record, digest FROM audit WHERE json_extract(record, '$.channel') = 'inbox'"
    " AND json_extract(record, '$.principal') = ? ORDER BY number DESC LIMIT ?"
)
_FIRST = "SELECT number, record, digest FROM audit WHERE number = 0"
_WRITE = "INSERT INTO audit VALUES (?, ?, ?)"
_BEGIN = "INSERT OR IGNORE INTO begins VALUES (1, ?, ?)"
_NO_END = 2**62
_PIECE = 200
_SIZE = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"

_STEM, _SUFFIX = "audit", ".sqlite3"
_NAME = re.compile(r"audit(?:-([0-9]{1,9}))?\.sqlite3")
AUDIT_FILE = f"{_STEM}{_SUFFIX}"
FILE_BYTES = 64 * 1024 * 1024
"""The size at which a file of the log is sealed, in bytes."""


class StoredAudit:
    """The decisions of all processes of this user, chained in their order, in files of about ``file_bytes`` each."""

    # XL-055, CC-07

    def __init__(self, folder: Path, *, file_bytes: int = FILE_BYTES) -> None:
        self._folder, self._file_bytes = folder, file_bytes
        self._lock = threading.Lock()
        files = list_audit_files(folder)
        check_folder(folder, *(file.name for file in files))
        self._file = files[-1] if files else folder / AUDIT_FILE
        if not files:
            _make_first_file(self._file)
        self._database = Database(self._file, AUDIT)
        self._note_if_emptied()

    def append(self, record: Decision) -> None:
        """Add ``record`` at the end of the chain."""
        with self._lock:
            while (last := self._append_unless_sealed(record)) is not None:
                self._open_next(last)

    def entries(self) -> Sequence[ChainedDecision]:
        """Return all records in order."""
        rows: list[Any] = []
        for file in list_audit_files(self._folder):
            with closing(Database(file, AUDIT)) as database:
                rows += database.select_rows(
                    "SELECT number, record, digest FROM audit WHERE number > 0 ORDER BY number"
                )
        return read_records(rows)

    def last_number(self) -> int:
        """Return the number of the newest record, 0 without any."""
        # Files are sealed one after the other, so only the newest one can have grown.
        files = list_audit_files(self._folder)
        if not files or files[-1] == self._file:
            return _find_last(self._database)
        with closing(Database(files[-1], AUDIT)) as database:
            return _find_last(database)

    def iterate_back(self, before: int | None = None) -> Iterator[ChainedDecision]:
        """Yield the records from the newest one back, or from the one before the number ``before``.

        They are read in pieces, so that a reader that stops early does not read the whole log.
        """
        # CO-02
        end = before if before is not None else _NO_END
        for file in reversed(list_audit_files(self._folder)):
            with closing(Database(file, AUDIT)) as database:
                while rows := cast("list[Any]", database.select_rows(_NEWEST, end, _PIECE)):
                    yield from read_records(rows)
                    end = rows[-1][0]

    def list_answers(self, principal: str, most: int) -> list[ChainedDecision]:
        """Return the last ``most`` answers that ``principal`` gave on the inbox page, the newest first."""
        found: list[ChainedDecision] = []
        for file in reversed(list_audit_files(self._folder)):
            if len(found) < most:
                with closing(Database(file, AUDIT)) as database:
                    rows: list[Any] = database.select_rows(_OWN_ANSWERS, principal, most - len(found))
                found += read_records(rows)
        return found

    def start(self) -> ChainStart:
        """Return what the first file that is here goes on from: other than FIRST if earlier files are elsewhere."""
        files = list_audit_files(self._folder)
        if not files:
            return FIRST
        with closing(Database(files[0], AUDIT)) as database:
            return _read_start(database)

    def find_start_fault(self) -> str:
        """Return what is wrong with the beginning of the log, or an empty text."""
        # AT-43
        files = list_audit_files(self._folder)
        with closing(Database(files[0] if files else self._file, AUDIT)) as database:
            start = _read_start(database)
            if start.number:  # the first files are elsewhere, and the chain goes on from them
                return ""
            first: list[Any] = database.select_rows(_FIRST)
            has_records = _find_last(database) > 0
        return find_start_fault(next(iter(read_records(first)), None), start, has_records=has_records)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _append_unless_sealed(self, record: Decision) -> ChainStart | None:
        """Add ``record`` and return None; or return the end of this file if another one goes on from it."""
        with self._database.transaction() as cursor:
            # The write lock is held from here on, so no other process can add a record with the same number.
            found = cursor.execute(_LAST).fetchone() or cursor.execute("SELECT number, digest FROM begins").fetchone()
            last = ChainStart(*found) if found else FIRST
            # Another process has sealed this file since it was opened here.
            if cursor.execute("SELECT 1 FROM sealed").fetchone():
                return last
            number = last.number + 1
            row = (number, json.dumps(asdict(record)), compute_chain_digest(last.digest, number, record))
            cursor.execute(_WRITE, row)
            # Sealed in the transaction of its last record, so that no process adds one behind it.
            if cursor.execute(_SIZE).fetchone()[0] >= self._file_bytes:
                cursor.execute("INSERT INTO sealed VALUES (?)", (number,))
        return None

    def _open_next(self, last: ChainStart) -> None:
        """Go on in the next file. Processes that do this at the same time write the same beginning into it."""
        self._file = self._folder / f"{_STEM}-{_get_number(self._file) + 1}{_SUFFIX}"
        self._database.close()
        self._database = Database(self._file, AUDIT)
        with self._database.transaction() as cursor:
            cursor.execute(_BEGIN, last)

    def _note_if_emptied(self) -> None:
        """Let the chain of a log whose file was emptied show it for ever."""
        # AT-43: a file gets its name with its tables and its first record in it.
        if _get_number(self._file) == 1 and self._database.was_empty:
            with self._database.transaction() as cursor:
                cursor.execute(_BEGIN, (0, EMPTIED_DIGEST))


def read_records(rows: Iterable[Any]) -> list[ChainedDecision]:
    """Return the records in ``rows`` of a log: their number, text and digest."""
    return [ChainedDecision(number, Decision(**json.loads(text)), digest) for number, text, digest in rows]


def _make_first_file(file: Path) -> None:
    """Make ``file`` with the first record of the log; of several processes, one does."""
    new = file.with_name(f".{secrets.token_hex(8)}{_SUFFIX}")
    try:
        with closing(Database(new, AUDIT)) as database, database.transaction() as cursor:
            number, record, digest = build_first_record(time.time())
            cursor.execute(_WRITE, (number, json.dumps(asdict(record)), digest))
            cursor.execute(_BEGIN, (number, digest))
        # It never has its name while it is empty, so that an empty one is a log that somebody emptied.
        with suppress(FileExistsError):
            os.link(new, file)
    except (DefinitionError, OSError) as error:
        raise DefinitionError(f"Cannot create the decision log {file}: {error}") from error
    finally:
        new.unlink(missing_ok=True)


def _read_start(database: Database) -> ChainStart:
    rows: list[Any] = database.select_rows("SELECT number, digest FROM begins")
    return ChainStart(*rows[0]) if rows else FIRST


def _find_last(database: Database) -> int:
    rows: list[Any] = database.select_rows(_LAST) or database.select_rows("SELECT number, digest FROM begins")
    return int(rows[0][0]) if rows else 0


def list_audit_files(folder: Path) -> list[Path]:
    """Return the files of the audit log in ``folder``, oldest first."""
    found = [file for file in folder.glob(f"{_STEM}*{_SUFFIX}") if _NAME.fullmatch(file.name)]
    return sorted(found, key=_get_number)


def _get_number(file: Path) -> int:
    match = _NAME.fullmatch(file.name)
    return int(match[1]) if match is not None and match[1] else 1
