"""Back up, check and restore the state in a folder, while servers use it.

Rules:
- SQLite itself copies each of its files, so that a copy is one moment of the file, whoever writes meanwhile.
- The keys that sign one-time tokens and cookies are not copied, and neither are used tokens and locks.
- A restore makes everything beside the folder's own files first, and moves it into place last.
"""
# PL-07

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from toolwire.core.errors import DefinitionError
from toolwire.stores.consent.preferences import PREFERENCES_FILE
from toolwire.stores.consent.receipt_keys import KEYS_FILE
from toolwire.stores.consent.tables import APPROVALS, AUDIT, ENDED_SESSIONS, GRANTS
from toolwire.stores.database import Database, create_private_file, open_file
from toolwire.stores.ledger.tables import CALLS_FILE
from toolwire.stores.limits.tables import RATES, RATES_FILE
from toolwire.stores.oauth.tables import OAUTH
from toolwire.stores.restores import RESTORES, RESTORES_FILE, add_restore
from toolwire.stores.schema import Schema
from toolwire.stores.sessions.tables import SESSIONS

from .archive import BackupHead, check_new_file, read_archive, write_archive
from .void_rows import list_void_statements

KIND: Final = "folder"
_TABLES: Final[Mapping[str, Schema]] = {
    "calls.sqlite": CALLS_FILE,
    RATES_FILE: RATES,
    "oauth.sqlite3": OAUTH,
    "sessions.sqlite3": SESSIONS,
    RESTORES_FILE: RESTORES,
    **{f"{one.name}.sqlite3": one for one in (APPROVALS, GRANTS, ENDED_SESSIONS)},
}
_AUDIT_FILE: Final = re.compile(r"audit(?:-[0-9]{1,9})?\.sqlite3")
_TRUST: Final = frozenset({"commands.json", "settings.json"})
_TEXTS: Final = frozenset({PREFERENCES_FILE, KEYS_FILE, *_TRUST})
# Not "started": a sign-in that began is answered once, soon, or not at all.
_CREDENTIAL: Final = re.compile(r"(?:credentials|callers)/(?!started\.)[A-Za-z0-9_][A-Za-z0-9._@+-]{0,250}\.json")
_NOT_COPIED: Final = ("key", "confirmations")
_BUSY_S: Final = 10.0
_SESSION_GAP: Final = 1_000_000


def back_up_folder(folder: Path, target: Path) -> BackupHead:
    """Write the state in ``folder`` to the new file ``target``, and return what it says of itself.

    Raises:
        DefinitionError: there is no state, or it cannot be read, or ``target`` cannot be written.
    """
    check_new_file(target)
    names = _list_files(folder)
    if not names:
        raise DefinitionError(f"{folder} contains no state. Name the folder that the server uses as --state.")
    made_at = time.time()
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".toolwire-") as scratch:
        copied: dict[str, Path] = {}
        for number, name in enumerate(names):
            copy = Path(scratch, str(number))
            with suppress(FileNotFoundError):  # such as a credential that is deleted meanwhile
                _copy_file(folder / name, copy, _find_schema(name))
                copied[name] = copy
        parts = {name: _check_tables(copied[name], schema) for name, schema in _list_schemas(copied)}
        write_archive(target, copied, kind=KIND, made_at=made_at, parts=parts)
    return read_archive(target, lambda head: check_folder_head(head, target))


def restore_folder(file: Path, folder: Path, *, is_current: bool) -> BackupHead:
    """Restore the backup ``file`` to ``folder``, which must hold no state, and return what it says of itself.

    ``is_current``: nothing has run since the backup was made, so that answers and permissions count.

    Raises:
        DefinitionError: the backup is damaged or of something else, or the folder holds a state. Nothing changes.
    """
    if _list_files(folder) or any((folder / name).exists() for name in _NOT_COPIED):
        raise DefinitionError(f"{folder} already contains a state. Move it away, or name another folder.")
    was_there = folder.is_dir()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=folder, prefix=".restore-"))
    try:
        head = read_archive(file, lambda head: check_folder_head(head, file), scratch)
        for name, schema in _list_schemas(head.files):
            _check_tables(scratch / name, schema, file)
            _void(scratch / name, schema, is_current=is_current)
        if not is_current:
            for name in _TRUST:
                (scratch / name).unlink(missing_ok=True)
        with closing(Database(scratch / RESTORES_FILE, RESTORES)) as rows, rows.transaction() as cursor:
            add_restore(cursor, time.time(), head.made_at, is_current=is_current)
        _move(scratch, folder)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        if not was_there:
            with suppress(OSError):
                folder.rmdir()
        raise
    return head


def check_folder_head(head: BackupHead, file: Path) -> None:
    """Check that ``head`` is that of a backup ``file`` which can be restored to a folder.

    Raises:
        DefinitionError: it is of a database, or of a newer toolwire.
        ValueError: it has a file that is not one of a state, whose name could lead out of the folder.
    """
    if head.kind != KIND:
        raise DefinitionError(f"{file} is a backup of a PostgreSQL database, not of a folder. Name a database.")
    for name, version in head.parts.items():
        schema = _find_schema(name)
        if schema is None or version > schema.version:
            raise DefinitionError(f"{file} was made by a newer toolwire ({head.toolwire}). Install that version.")
    if not all(map(_is_state_file, head.files)):
        raise ValueError("another file")


def check_folder_state(folder: Path) -> list[str]:
    """Return the names of the files of the state in ``folder``, all of which can be read.

    Raises:
        DefinitionError: there is no state, or a file is damaged or of a newer toolwire.
    """
    names = _list_files(folder)
    if not names:
        raise DefinitionError(f"{folder} contains no state. Name the folder that the server uses as --state.")
    with tempfile.TemporaryDirectory(dir=folder, prefix=".check-") as scratch:
        for number, name in enumerate(names):
            schema = _find_schema(name)
            if schema is not None:
                copy = Path(scratch, str(number))
                _copy_file(folder / name, copy, schema)
                _check_tables(copy, schema, folder / name)
    return names


def _list_files(folder: Path) -> list[str]:
    """Return the names of the files of a state in ``folder``. Links are left out: they lead elsewhere."""
    found = [*folder.glob("*"), *folder.glob("credentials/*"), *folder.glob("callers/*")]
    names = [one.relative_to(folder).as_posix() for one in found if one.is_file() and not one.is_symlink()]
    return sorted(filter(_is_state_file, names))


def _is_state_file(name: str) -> bool:
    return name in _TEXTS or _find_schema(name) is not None or _CREDENTIAL.fullmatch(name) is not None


def _find_schema(name: str) -> Schema | None:
    return AUDIT if _AUDIT_FILE.fullmatch(name) else _TABLES.get(name)


def _list_schemas(names: Mapping[str, object]) -> list[tuple[str, Schema]]:
    return [(name, schema) for name in names if (schema := _find_schema(name)) is not None]


def _copy_file(source: Path, copy: Path, schema: Schema | None) -> None:
    create_private_file(copy)
    if schema is None:
        copy.write_bytes(source.read_bytes())
        return
    try:
        # "rw": SQLite may have to finish the log of a process that was killed, and must not create a missing file.
        with (
            closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=rw", uri=True, timeout=_BUSY_S)) as origin,
            closing(sqlite3.connect(copy)) as written,
        ):
            origin.backup(written)
            written.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as error:
        raise DefinitionError(f"Cannot read {source}: {error}.") from error


def _check_tables(copy: Path, schema: Schema, place: Path | None = None) -> int:
    """Return the version of the tables in a copy, after bringing them to the version of this program.

    Raises:
        DefinitionError: the file is damaged, or has other tables or those of a newer toolwire.
    """
    try:
        with closing(sqlite3.connect(copy)) as connection:
            [(fault,)] = connection.execute("PRAGMA quick_check(1)").fetchall()
        if fault != "ok":
            raise DefinitionError(f"{place or copy} is damaged ({fault}): nothing was changed.")
        opened = open_file(copy, schema)
    except (sqlite3.Error, ValueError) as error:
        raise DefinitionError(f"{place or copy} is damaged ({error}): nothing was changed.") from error
    with closing(opened.connection) as connection:
        # A copy is one file: its log is a file of its own.
        connection.execute("PRAGMA journal_mode = DELETE")
    return schema.version


def _void(copy: Path, schema: Schema, *, is_current: bool) -> None:
    parts = (schema.name, "long_calls") if schema is CALLS_FILE else (schema.name,)
    with closing(sqlite3.connect(copy)) as connection, connection:
        for part in parts:
            for statement in list_void_statements(part, is_current=is_current):
                connection.execute(statement)
        if schema is SESSIONS:  # a client that has read on must not take a new message for one that it knows
            statement = "UPDATE sqlite_sequence SET seq = seq + ? WHERE name = 'session_messages'"
            connection.execute(statement, (_SESSION_GAP,))


def _move(scratch: Path, folder: Path) -> None:
    """Move all files from ``scratch`` to ``folder``."""
    # The note of the restore first: what is there after a loss of power never counts as a state without one.
    for file in sorted(scratch.iterdir(), key=lambda one: one.name != RESTORES_FILE):
        os.rename(file, folder / file.name)
    scratch.rmdir()
