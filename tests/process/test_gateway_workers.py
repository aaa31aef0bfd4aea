# ruff: noqa: F811 - fixtures are imported
"""A gateway with two workers and its state in PostgreSQL: each worker uses the sign-in that is stored now."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from tests.postgres import Postgres, shared_postgres  # noqa: F401 - the fixture
from tests.programs import find_free_port
from tests.support.gateway_process import run_gateway
from toolwire import ApiKey, Context, Secret, Toolkit, asgi
from toolwire.testing import background

ACCOUNTS = ("first", "second", "bobs")
CALLS = 16
"""As many calls, each over a connection of its own, come to both workers."""


@pytest.fixture
def site() -> Any:
    kit = Toolkit("Mail")

    @kit.tool(safe=True, approval="auto")
    def tell(context: Context) -> str:
        """Tell whose account this is."""
        return context.principal

    keys = [ApiKey(key=Secret(f"canary-of-{name}"), name=name) for name in ACCOUNTS]
    with background(asgi(kit, api_keys=keys, private=True)) as url:
        yield url


def tell(url: str, key: str) -> Any:
    answer = httpx2.get(f"{url}/api/tell", headers={"x-api-key": key, "connection": "close"}, timeout=30)
    return answer.json() if answer.status_code == 200 else answer.status_code


def sign_in(url: str, who: str, account: str) -> None:
    form = {"key": f"key-of-{who}", "step": "key", "site_key": f"canary-of-{account}"}
    page = httpx2.post(f"{url}/sign-in/mail", data=form, headers={"connection": "close"}, timeout=30)
    assert "You are signed in" in page.text


def list_processes(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children for one in list_processes(int(child)))]


@pytest.mark.requirement("AT-34", "AT-47", "AT-55", "ST-01", "D-08")
def test_workers_on_postgresql_follow_a_sign_in_and_keep_no_secret_in_the_open(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared_postgres: Postgres
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keys.txt").write_text("key-of-ann ann\nkey-of-bob bob\n")
    key = tmp_path / "vault.key"
    key.touch(mode=0o600)
    key.write_text(secrets.token_hex(32))
    state, port = shared_postgres.create_database(), find_free_port()
    file = (
        f'port = {port}\nworkers = 2\npublic-url = "http://127.0.0.1:{port}"\napi-key-file = "keys.txt"\n'
        f'key-file = "vault.key"\nstate = "{state}"\n'
        f'[upstreams.mail]\ntarget = "{site}"\nagree = true\ncredentials = "caller"\n'
    )
    (tmp_path / "toolwire.toml").write_text(file)
    with run_gateway() as (process, url):
        assert tell(url, "key-of-ann") == 404  # the list of a caller who is not signed in names no such tool
        sign_in(url, "ann", "first")
        sign_in(url, "bob", "bobs")
        wait_for_lists(url)
        assert {tell(url, "key-of-ann") for _ in range(CALLS)} == {"key:first"}
        sign_in(url, "ann", "second")
        assert {tell(url, "key-of-ann") for _ in range(CALLS)} == {"key:second"}
        assert {tell(url, "key-of-bob") for _ in range(CALLS)} == {"key:bobs"}
        with psycopg.connect(state, autocommit=True) as connection:
            stored = dump(connection)
            # Whoever can write to the database copies the row of Bob to the name of Ann.
            rows = dict(connection.execute("SELECT name, record FROM toolwire_credentials").fetchall())
            ann, bob = find_row(rows, "key:ann"), find_row(rows, "key:bob")
            connection.execute("UPDATE toolwire_credentials SET record = %s WHERE name = %s", (rows[bob], ann))
        assert {tell(url, "key-of-ann") for _ in range(CALLS)} == {503}
        seen = [
            Path(f"/proc/{pid}/{part}").read_bytes()
            for pid in list_processes(process.pid)
            for part in ("environ", "cmdline")
        ]
    assert "canary-of-" not in stored
    assert not any(b"canary-of-" in text or key.read_text().encode() in text for text in seen)


def wait_for_lists(url: str) -> None:
    """Call until each worker has seen that the caller is signed in: a list is looked at once in two seconds."""
    right = 0
    while right < CALLS:
        right = right + 1 if tell(url, "key-of-ann") == "key:first" and tell(url, "key-of-bob") == "key:bobs" else 0


def find_row(rows: dict[str, str], principal: str) -> str:
    from hashlib import sha256

    start = sha256(principal.encode()).hexdigest()
    return next(name for name in rows if name.startswith(start))


def dump(connection: Any) -> str:
    """Return all rows of all tables as text."""
    tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    found = [connection.execute(f'SELECT t::text FROM "{table}" t').fetchall() for (table,) in tables]
    return repr(found)
