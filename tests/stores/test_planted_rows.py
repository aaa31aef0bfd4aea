"""What somebody who can write the state puts there: it opens nothing, and costs only who it is about."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import Postgres, psycopg, shared_postgres  # noqa: F401 - the fixture
from toolwire.auth.credential import read_credential
from toolwire.core.model import Secret
from toolwire.stores.credentials.caller_vault import CallerVault
from toolwire.stores.credentials.files import CredentialFolder
from toolwire.stores.credentials.postgres import PostgresCredentials
from toolwire.stores.credentials.sealing import CredentialError
from toolwire.stores.database import Database
from toolwire.stores.sessions.session_rows import NoticePosition, SessionBounds, StoredSession, open_sessions
from toolwire.stores.sessions.tables import SESSIONS

pytestmark = pytest.mark.requirement("D-08", "ST-01")
KEYS = (Secret("k" * 64),)
BOUNDS = SessionBounds(most=1_000, most_each=50, idle_s=1_800, longest_s=86_400)
GOOD = StoredSession("ann", "ann", "{}", "info", {}, NoticePosition({"toolsListChanged": "d"}, 0))


@pytest.fixture(params=["folder", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "folder":
        return CredentialFolder(tmp_path / "kept")
    return PostgresCredentials(request.getfixturevalue("shared_postgres").create_database())


def test_sign_in_of_another_caller_under_a_state_that_an_attacker_knows_does_not_open(place: Any) -> None:
    vault = CallerVault(place, KEYS)
    assert vault.store_started("of-ann", "ann", 600.0, 0.0)
    [row] = place.list_names()
    place.write(f"started.600.{sha256(b'of-mallory').hexdigest()}", place.read(row))
    with pytest.raises(CredentialError):
        vault.take_started("of-mallory", 1.0)
    assert vault.take_started("of-ann", 1.0) == "ann"


def test_sign_in_that_is_over_does_not_open_with_a_later_end(place: Any) -> None:
    vault = CallerVault(place, KEYS)
    assert vault.store_started("of-ann", "ann", 600.0, 0.0)
    [row] = place.list_names()
    place.write(row.replace("started.600.", "started.9999999999."), place.read(row))
    place.delete(row)
    with pytest.raises(CredentialError):
        vault.take_started("of-ann", 700.0)


def test_rows_that_nobody_could_have_begun_keep_no_other_from_signing_in(place: Any) -> None:
    vault = CallerVault(place, KEYS)
    for name in ("started.\u00b2.x", "started..", "started.-1.x", f"started.{'9' * 400}.x", "started.x"):
        place.write(name[:200], "planted")
    assert vault.store_started("of-ann", "ann", 600.0, 0.0)
    assert vault.take_started("of-ann", 1.0) == "ann"


@pytest.mark.parametrize(
    "change", [{"expires_at": 10**400}, {"expires_at": "soon"}, {"scopes": 7}, {"resource": 7}, {"base": []}]
)
def test_credential_with_members_that_cannot_be_is_none(change: dict[str, Any]) -> None:
    plain = {"kind": "key", "resource": "https://tasks.example", "scopes": [], **change}
    assert read_credential(plain, {"access": "at"}) is None


@pytest.mark.requirement("MC-10")
@pytest.mark.parametrize("text", ["", "[]", "{", "null", "7", "[1, 2]", '[{}, "x"]', '["a", 1]', "[{}, 1, 2]"])
def test_session_that_another_program_wrote_is_none_and_the_others_go_on(tmp_path: Path, text: str) -> None:
    file = tmp_path / "sessions.sqlite3"
    rows = open_sessions(str(file), BOUNDS)
    assert rows is not None
    assert rows.open(b"planted", GOOD)
    assert rows.open(b"other", GOOD)
    with Database(file, SESSIONS).transaction() as cursor:
        cursor.execute("UPDATE sessions SET told = ?, watched = ? WHERE key = ?", (text, text, b"planted"))
    assert rows.find(b"planted") is None
    assert rows.watch(b"planted", "notes://a", most=2)
    assert rows.find(b"other") == GOOD
    assert rows.store({b"other": None}, [b"other", b"planted"]) >= {b"other"}
    rows.close()
