"""A command closes each SQLite file that it opens: from CPython 3.13 on, one that is left open is a warning."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from toolwire import Toolkit, asgi
from toolwire.client import open_stored_session
from toolwire.consent.grant import GrantKey
from toolwire.core.errors import DefinitionError
from toolwire.stores.database import Database
from toolwire.stores.limits.tables import RATES
from toolwire.testing import background

pytestmark = pytest.mark.requirement("RE-03")

RUN = """
import gc, sqlite3, sys
opened = []
sys.addaudithook(lambda event, values: opened.append(values[0]) if event == "sqlite3.connect/handle" else None)
from toolwire.cli import main
try:
    code = main(sys.argv[1:])
except SystemExit as error:
    code = error.code
gc.collect()
left = 0
for one in opened:
    try:
        one.execute("SELECT 1")
        left += 1
    except sqlite3.ProgrammingError:
        pass
print(f"\\n{code or 0} {len(opened) > 0} {left}")
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "toolwire"


def run(*arguments: object) -> str:
    argv = [sys.executable, "-c", RUN, *map(str, arguments)]
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=120).stdout.splitlines()[-1]


def test_commands_leave_no_database_open(state: Path) -> None:
    kit = Toolkit("desk")

    @kit.tool(approval="auto", safe=True)
    def note(text: str) -> str:
        """Note a text."""
        return text

    with background(asgi(kit)) as url:
        assert run("call", url, "note", "text=tea") == "0 True 0"
        assert run("call", url, "nothing", "text=tea").endswith("True 0")
    for arguments in (("list",), ("log",), ("log", "--verify"), ("revoke", "none")):
        assert run("approvals", *arguments).endswith("True 0")


def test_a_stored_session_is_closed_with_its_files(state: Path) -> None:
    key = GrantKey("me", "a", "https://a.example", "note", "d")
    with open_stored_session() as session:
        session.grants.add(key)
        assert session.grants.has_grant(key)
    session.close()
    with pytest.raises(Exception, match="closed database"):
        session.grants.add(key)
    with open_stored_session() as again:
        assert again.grants.has_grant(key)


def test_a_database_that_nothing_holds_is_closed_and_one_that_cannot_be_opened_is_no_traceback(tmp_path: Path) -> None:
    database = Database(tmp_path / "a.sqlite3", RATES)
    connection = database._connection
    del database
    with pytest.raises(Exception, match="closed database"):
        connection.execute("SELECT 1")
    with pytest.raises(DefinitionError, match="cannot be used"):
        Database(tmp_path, RATES)


def test_no_statement_binds_a_numbered_value_by_a_sequence() -> None:
    """CPython 3.12 warns of ``?1`` and ``:name`` with a tuple."""
    root = Path(__file__).parents[2]
    files = [file for folder in ("src", "examples") for file in (root / folder).rglob("*.py")]
    assert [file.name for file in files if re.search(r"execute\([^)]*\?[0-9]", file.read_text(encoding="utf-8"))] == []
