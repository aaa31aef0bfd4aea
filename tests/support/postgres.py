"""A PostgreSQL server, and an empty database on it."""

from __future__ import annotations

import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import canaries
from tests.postgres import build_template, choose_place
from tests.programs import postgres_user, require_postgres

psycopg = pytest.importorskip("psycopg", reason="psycopg is not here: install toolwire[postgres] to prove this")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Path]:
    """A server of its own on a socket in a new folder; PostgreSQL refuses to run as root, so then as its own user."""
    pg_ctl, user = require_postgres("pg_ctl"), postgres_user()
    folder = Path(tempfile.mkdtemp(prefix="toolwire-pg-", dir=choose_place()))

    def do(*command: str) -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder, user=user, timeout=60)

    data, settings = str(folder / "data"), f"-c listen_addresses= -k {folder} -c fsync=off -c shared_buffers=16MB"
    try:
        if user is not None:
            shutil.chown(folder, user)
        subprocess.run(["cp", "-a", build_template(user), data], check=True, timeout=60)
        do(pg_ctl, "-w", "-D", data, "-l", str(folder / "log"), "-o", settings, "start")
        try:
            yield folder
        finally:
            do(pg_ctl, "-w", "-m", "immediate", "-D", data, "stop")
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def url(cluster: Path) -> Iterator[str]:
    """The URL of an empty database."""
    name = f"t{secrets.token_hex(6)}"
    with psycopg.connect(host=str(cluster), user="toolwire", dbname="postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    yield f"postgresql+psycopg://toolwire@/{name}?host={cluster}"
    dump = [require_postgres("pg_dump"), "-h", str(cluster), "-U", "toolwire", name]
    canaries.check_text("PostgreSQL", subprocess.run(dump, check=True, stdout=subprocess.PIPE, text=True).stdout)
