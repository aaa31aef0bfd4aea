"""State of a newer toolwire, and of 1.0.0rc1: what a user reads."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome
from tests.rc1 import copy_rc1_home, make_rc1_folder
from toolwire import Toolkit, asgi
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Secret
from toolwire.stores.consent.tables import APPROVALS, AUDIT, GRANTS
from toolwire.stores.credentials.files import CredentialStore
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
    copy_rc1_home(folder)
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
            f"The tables of {schema.name} in {file} have version 9, but this toolwire supports versions "
            f"up to {schema.version}. Install a newer toolwire."
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


def test_user_of_1_0_0rc1_keeps_permissions_and_rules(state: Path, toolwire: Callable[..., Outcome]) -> None:
    listed = toolwire("approvals", "list").out
    assert [line.split()[1] for line in listed.splitlines() if "2027-02-14" in line] == ["pay", "order"]
    assert listed.splitlines()[-1].split() == ["https://bank.example", "delete", "deny"]
    assert toolwire("approvals", "unset", "https://bank.example", "delete").code == 0
    assert toolwire("approvals", "revoke", "https://bank.example").code == 0
    assert "https://bank.example" not in toolwire("approvals", "list").out


@pytest.mark.requirement("QF-08")
def test_sign_ins_of_1_0_0rc1_are_those_of_the_account_without_a_name(
    state: Path, toolwire: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLWIRE_PASSPHRASE", "passphrase of rc1")
    listed = toolwire("connections", "--json")
    assert listed.code == 0
    rows = {(one["resource"], one["account"]) for one in json.loads(listed.out) if one["kind"] != "command"}
    assert rows == {("https://bank.example", ""), ("https://shop.example", "")}
    store = CredentialStore(state / "credentials", passphrase=Secret("passphrase of rc1"))
    for site, text in (("https://bank.example", "key-of-rc1"), ("https://shop.example", "token-of-rc1")):
        found = store.find_covering(f"{site}/tools")
        assert found is not None
        assert (found.access.reveal(), found.account) == (text, "")
        assert (state / "credentials" / f"{found.storage_name}.json").exists()  # the next refresh writes the same file
        assert store.find_covering(site, "work") is None
    assert toolwire("logout", "https://bank.example", "--account", "work").code == 1
    assert toolwire("logout", "https://bank.example").out == "Signed out of https://bank.example.\n"
    assert [one.resource for one in store.list_all()] == ["https://shop.example"]


def test_receipts_of_1_0_0rc1_are_verified_with_its_keys(state: Path, toolwire: Callable[..., Outcome]) -> None:
    keys = json.loads((state / "receipt-keys.json").read_text())["keys"]
    assert [one["kid"] for one in json.loads(toolwire("approvals", "key").out)["keys"]] == [keys[0]["kid"]]
    verified = toolwire("approvals", "verify", state / "receipt.json")
    assert (verified.code, "pay" in verified.out) == (0, True)


def test_settings_of_1_0_0rc1_are_read(
    state: Path, tmp_path: Path, toolwire: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "toolwire" / "toolwire.toml"
    own.parent.mkdir()
    own.write_text((state / "settings.toml").read_text())
    checked = toolwire("settings", "check")
    assert (checked.code, checked.out) == (0, f"{own}: no faults\n")
    shown = toolwire("settings", "show", "serve").out
    assert [line.split()[1] for line in shown.splitlines() if "toolwire.toml:" in line] == [
        "9629",
        "closed",
        "inbox",
        "json",
    ]


@pytest.fixture
def log_as_before() -> Iterator[None]:
    """Take back that a file lets this process log as JSON."""
    loggers = [logging.getLogger(name) for name in ("toolwire", "uvicorn", "uvicorn.error", "uvicorn.access")]
    before = [(one.handlers, one.level, one.propagate) for one in loggers]
    yield
    for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
        logger.handlers, logger.level, logger.propagate = handlers, level, propagate


@pytest.mark.usefixtures("log_as_before")
def test_gateway_file_of_1_0_0rc1_is_served(
    state: Path, desk: Path, toolwire: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLWIRE_SETTINGS", "trust")
    (state / "desk.py").write_text(desk.read_text())
    listed = toolwire("gateway", "list", "--file", state / "gateway.toml")
    assert (listed.code, listed.err) == (0, "")
    file = state / "one.toml"
    text = (state / "gateway.toml").read_text()
    file.write_text(text)
    # AT-34: the one thing that a user has to add.
    assert "set public-url" in toolwire("gateway", "check", "sums", "--file", file).err
    file.write_text(f'public-url = "https://tools.example"\n{text}')
    checked = toolwire("gateway", "check", "sums", "--file", file)
    assert checked.code == 0
    assert checked.out.splitlines()[1].split()[0] == "sums"


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        (["serve", "--connections", "sites.json"], "`toolwire gateway add URL` adds a server to toolwire.toml"),
        (["serve", "a.py", "--workflows", "a.json"], "write a tool that runs the steps"),
        (["tools", "a.py", "--recipes"], "`next` of a tool names the tools that follow"),
        (["call", "a.py", "add", "--step", "one"], "call the tools of the steps"),
    ],
)
def test_removed_option_names_what_to_do_instead(
    toolwire: Callable[..., Outcome], words: list[str], instead: str
) -> None:
    outcome = toolwire(*words)
    assert outcome.code == 2
    assert "removed in 1.0.0rc2" in outcome.err
    assert outcome.err.endswith(f"{instead}.\n")
