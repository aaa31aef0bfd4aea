"""State of a newer toolwire, and of 1.0.0rc1: what a user reads."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome
from tests.rc1 import make_rc1_folder
from toolwire import Toolkit, asgi
from toolwire.core.errors import DefinitionError
from toolwire.stores.consent.tables import APPROVALS, AUDIT, GRANTS
from toolwire.stores.database import Database
from toolwire.stores.ledger.tables import CALLS_FILE
from toolwire.stores.limits.tables import RATES
from toolwire.stores.oauth.tables import OAUTH
from toolwire.stores.sessions.tables import SESSIONS

pytestmark = pytest.mark.requirement("ST-04")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state of 1.0.0rc1."""
    folder = tmp_path / "state"
    make_rc1_folder(folder)
    monkeypatch.setenv("TOOLWIRE_STATE", str(folder))
    return folder


@pytest.fixture
def make_newer(state: Path) -> Callable[[str], str]:
    """Make one file newer than this program, and return the sentence that refuses it."""
    kinds = {
        "approvals.sqlite3": APPROVALS,
        "audit.sqlite3": AUDIT,
        "calls.sqlite": CALLS_FILE,
        "grants.sqlite3": GRANTS,
        "oauth.sqlite3": OAUTH,
        "rates.sqlite3": RATES,
        "sessions.sqlite3": SESSIONS,
    }

    def make(name: str) -> str:
        schema, file = kinds[name], state / name
        Database(file, schema).close()
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("UPDATE toolwire_schema SET version = 9, works_with = 9")
        return (
            f"The tables of {schema.name} in {file} have version 9, and this toolwire knows versions up to"
            f" {schema.version}: install a newer toolwire."
        )

    return make


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("grants.sqlite3", ["approvals", "list"]),
        ("approvals.sqlite3", ["approvals", "allow", "abc"]),
        ("audit.sqlite3", ["approvals", "log"]),
        ("audit.sqlite3", ["approvals", "log", "--verify"]),
    ],
)
def test_command_refuses_newer_decisions_in_one_sentence(
    make_newer: Callable[[str], str], toolwire: Callable[..., Outcome], name: str, words: list[str]
) -> None:
    sentence = make_newer(name)
    assert toolwire(*words) == Outcome(2, "", f"toolwire: {sentence}\n")


@pytest.mark.parametrize("name", ["calls.sqlite", "rates.sqlite3", "sessions.sqlite3"])
def test_server_refuses_newer_state_before_it_listens(
    make_newer: Callable[[str], str], toolwire: Callable[..., Outcome], desk: Path, state: Path, name: str
) -> None:
    sentence = make_newer(name)
    outcome = toolwire("serve", desk, "--port", "0", "--state", state)
    assert outcome.code == 2
    assert outcome.err.endswith(f"toolwire: {sentence}\n")
    with pytest.raises(DefinitionError) as raised:
        asgi(Toolkit("desk"), state=str(state))
    assert str(raised.value) == sentence


def test_gateway_refuses_newer_state(
    make_newer: Callable[[str], str],
    toolwire: Callable[..., Outcome],
    state: Path,
    tmp_path: Path,
    desk: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sentence = make_newer("calls.sqlite")
    monkeypatch.setenv("TOOLWIRE_SETTINGS", "trust")
    (tmp_path / "toolwire.toml").write_text(f"state = '{state}'\n[upstreams.desk]\ntarget = '{desk}'\n")
    outcome = toolwire("gateway", "check", "--file", tmp_path / "toolwire.toml")
    assert outcome.code
    assert sentence in outcome.out + outcome.err


def test_commands_show_what_1_0_0rc1_stored(state: Path, toolwire: Callable[..., Outcome]) -> None:
    listed = toolwire("approvals", "list")
    assert listed.code == 0
    assert "https://bank.example" in listed.out
    assert toolwire("approvals", "log", "--verify").out.startswith("2 records, each as it was written.")
