"""Decisions that another user of the machine could have written are not taken for the user's own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolwire.cli import main
from toolwire.consent.policy import NO_PREFERENCES
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Approval
from toolwire.stores.consent.approvals import Approvals
from toolwire.stores.consent.audit import AUDIT_FILE, StoredAudit
from toolwire.stores.consent.grants import StoredGrants
from toolwire.stores.consent.preferences import PREFERENCES_FILE, StoredPreferences

STORES: dict[str, Callable[[Path], Any]] = {
    "approvals.sqlite3": Approvals,
    "grants.sqlite3": StoredGrants,
    AUDIT_FILE: StoredAudit,
    PREFERENCES_FILE: StoredPreferences,
}
ANOTHER_USER = 12_345


@pytest.fixture(params=STORES, ids=lambda name: name.partition(".")[0])
def name(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The file of a store that is in ``tmp_path``."""
    found: str = request.param
    StoredPreferences(tmp_path).set("https://a.example", "order", Approval.DENY)
    for store in (Approvals, StoredGrants, StoredAudit):
        store(tmp_path).close()
    return found


@pytest.mark.requirement("D-20")
def test_folder_or_file_writable_by_others_is_refused(name: str, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / name):
        before = path.stat().st_mode
        for more in (0o020, 0o002):
            path.chmod(before | more)
            with pytest.raises(DefinitionError, match="Other users can write to"):
                STORES[name](tmp_path)
        path.chmod(before)
    STORES[name](tmp_path)


@pytest.mark.requirement("D-20")
@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")
def test_a_folder_or_file_of_another_user_is_not_used(name: str, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / name):
        os.chown(path, ANOTHER_USER, -1)
        with pytest.raises(DefinitionError, match="belongs to another user"):
            STORES[name](tmp_path)
        os.chown(path, os.getuid(), -1)
    STORES[name](tmp_path)


@pytest.mark.requirement("D-20")
def test_symlink_is_judged_by_its_target(name: str, tmp_path: Path, tmp_path_factory: Any) -> None:
    theirs = tmp_path_factory.mktemp("theirs") / name
    (tmp_path / name).rename(theirs)
    theirs.chmod(0o666)
    (tmp_path / name).symlink_to(theirs)
    with pytest.raises(DefinitionError, match="Other users can write to"):
        STORES[name](tmp_path)


@pytest.mark.requirement("XL-042", "D-20")
def test_preferences_are_not_reread_while_others_can_write_their_file(tmp_path: Path) -> None:
    store = StoredPreferences(tmp_path)
    store.set("https://a.example", "order", Approval.DENY)
    before = store.find("https://a.example")
    (tmp_path / PREFERENCES_FILE).write_text('{"version": 1, "sites": {}}')
    (tmp_path / PREFERENCES_FILE).chmod(0o666)
    assert store.find("https://a.example") == before
    (tmp_path / PREFERENCES_FILE).chmod(0o600)
    assert store.find("https://a.example") == NO_PREFERENCES


@pytest.mark.requirement("D-20")
def test_command_reports_an_unsafe_folder_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tmp_path.chmod(0o777)
    assert main(["approvals", "--path", str(tmp_path)]) != 0
    text = capsys.readouterr().err
    assert "Other users can write to" in text
    assert "chmod go-w" in text
    assert text.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
