# ruff: noqa: F811 - fixtures are imported
"""Users and tokens in the state of the server: one setting."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.postgres import Postgres, shared_postgres  # noqa: F401 - the fixture
from toolwire.core.errors import DefinitionError
from toolwire.oauth import open_accounts


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
