# ruff: noqa: F811 - fixtures are imported
"""Users and tokens in the state of the server: one setting, and tables with versions."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from tests.postgres import Postgres, psycopg, shared_postgres  # noqa: F401 - the fixture
from toolwire.core.errors import DefinitionError
from toolwire.oauth import open_accounts
from toolwire.stores.oauth.database import OAuthStore
from toolwire.stores.oauth.migrations import MIGRATIONS
from toolwire.stores.oauth.tables import METADATA


@pytest.mark.requirement("ST-04", "ST-01")
def test_versions_of_the_tables_end_where_the_program_begins(shared_postgres: Postgres) -> None:
    migrated, fresh = shared_postgres.create_database(), shared_postgres.create_database()
    OAuthStore(migrated).close()
    engine = create_engine(fresh.replace("postgresql://", "postgresql+psycopg://"))
    METADATA.create_all(engine)
    engine.dispose()
    describe = (
        "SELECT table_name, column_name, data_type, character_maximum_length, is_nullable"
        " FROM information_schema.columns WHERE table_name LIKE 'oauth%' ORDER BY 1, 2"
    )
    found = []
    for url in (migrated, fresh):
        with psycopg.connect(url) as connection:
            indexes = connection.execute("SELECT indexdef FROM pg_indexes WHERE tablename LIKE 'oauth%' ORDER BY 1")
            found.append((indexes.fetchall(), connection.execute(describe.encode()).fetchall()))
    assert found[0] == found[1]
    # Programs before the first version made the same tables without one.
    OAuthStore(fresh).close()
    with psycopg.connect(fresh, autocommit=True) as connection:
        versions = connection.execute("SELECT version FROM toolwire_schema WHERE part = 'oauth'").fetchall()
        assert versions == [(len(MIGRATIONS),)]
        connection.execute("UPDATE toolwire_schema SET version = 99, works_with = 99")
    with pytest.raises(DefinitionError, match="install a newer toolwire"):
        OAuthStore(fresh)


@pytest.mark.requirement("ST-01")
def test_users_and_tokens_are_kept_in_the_state(
    shared_postgres: Postgres, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TOOLWIRE_STATE", raising=False)
    with pytest.raises(DefinitionError, match=r"^Users and tokens need a store"):
        open_accounts()
    for where in (shared_postgres.create_database(), str(tmp_path / "state")):
        monkeypatch.setenv("TOOLWIRE_STATE", where)
        with closing(open_accounts()) as accounts, closing(open_accounts()) as others:
            added = accounts.add("ada", "a long password")
            assert added is not None
            assert others.check("ada", "a long password") == added
    assert (tmp_path / "state" / "oauth.sqlite3").stat().st_mode & 0o777 == 0o600
