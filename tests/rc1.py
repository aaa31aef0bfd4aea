"""Make the files and the database that 1.0.0rc1 left, of the texts in ``tests/fixtures/rc1``."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

FIXTURES = Path(__file__).parent / "fixtures" / "rc1"
FILES = sorted(file.name.removesuffix(".sql") for file in FIXTURES.glob("*.sqlite*.sql"))


def make_rc1_file(name: str, folder: Path) -> Path:
    """Make one file in ``folder`` and return it."""
    folder.mkdir(mode=0o700, exist_ok=True)
    file = folder / name
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript((FIXTURES / f"{name}.sql").read_text())
    file.chmod(0o600)
    return file


def make_rc1_folder(folder: Path) -> None:
    """Make all files in ``folder``."""
    for name in FILES:
        make_rc1_file(name, folder)
    (folder / "preferences.json").write_text((FIXTURES / "preferences.json").read_text())
    (folder / "preferences.json").chmod(0o600)


def make_rc1_database(url: str) -> None:
    """Make the tables in the empty database of PostgreSQL at ``url``."""
    import psycopg  # only the extra brings it

    with psycopg.connect(url) as connection:
        connection.execute((FIXTURES / "postgres.sql").read_bytes())


def copy_rc1_home(folder: Path) -> None:
    """Copy the credentials, keys and settings of a user into ``folder``, readable by this user alone."""
    shutil.copytree(FIXTURES / "home", folder, dirs_exist_ok=True)
    for file in (folder, *folder.rglob("*")):
        file.chmod(0o700 if file.is_dir() else 0o600)
