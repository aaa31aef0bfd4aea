"""``toolwire approvals``, ``lock`` and ``diff``: decisions from another process, and definitions that are pinned."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.orders import build_order
from tests.support.waiting import wait_until
from toolwire.consent.decision_record import Decision
from toolwire.consent.tool_definition import compute_digest
from toolwire.core.check import Question
from toolwire.core.model import Approval, Call, Tool
from toolwire.stores.consent.approvals import Approvals
from toolwire.stores.consent.open import open_decisions

QUESTION = Question(
    Call(Tool(name="note"), {"text": "te\u202ea"}), "https://a.example", "POST /note", Approval.PER_CALL
)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "toolwire"


def test_a_waiting_question_is_listed_and_answered(state: Path, toolwire: Callable[..., Any]) -> None:
    approvals = Approvals(state)
    id_ = approvals.ask(QUESTION)
    listed = toolwire("approvals")
    assert f"{id_}  waits until" in listed.out
    assert 'text = "te\\u202ea"' in listed.out
    assert toolwire("approvals", "deny", id_, "--reason", "not now").code == 0
    assert approvals.take(id_, "") is not None
    assert toolwire("approvals", "allow", id_).code == 1
    assert toolwire("approvals").out.startswith("No questions are pending")
    approvals.close()


@pytest.mark.requirement("XL-050", "QF-03")
def test_a_call_is_allowed_from_another_process(site: str, state: Path, toolwire: Callable[..., Any]) -> None:
    line = [sys.executable, "-m", "toolwire", "call", site, "note", "text=hello", "--ask", "store"]
    approvals = Approvals(state)
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as call:
        assert call.stderr is not None
        assert "toolwire approvals" in call.stderr.readline()
        waiting: Any = wait_until(lambda: call.poll() is not None or approvals.list_pending())
        assert call.poll() is None
        assert toolwire("approvals", "allow", waiting[0].id, "--always").code == 0
        _, errors = call.communicate(timeout=20)
    assert (call.returncode, errors) == (0, "")
    approvals.close()
    granted = toolwire("approvals", "list").out
    assert "note" in granted
    assert "nothing yet" in granted
    assert toolwire("call", site, "note", "text=again").code == 0
    assert "1 call, last 20" in toolwire("approvals").out
    (row,) = json.loads(toolwire("approvals", "--json").out)["grants"]
    assert row["covered"] == 1
    assert toolwire("approvals", "revoke", granted.splitlines()[1].split()[0]).code == 0
    assert toolwire("approvals", "revoke", "none").code == 1
    assert toolwire("call", site, "note", "text=again").code == 3


@pytest.mark.requirement("XL-055", "CC-07")
def test_audit_log_is_printed_and_verified(site: str, state: Path, toolwire: Callable[..., Any]) -> None:
    missing = toolwire("approvals", "log", "--verify", "--path", state / "elsewhere")
    assert (missing.code, "contains no decision log. Is it the right folder?" in missing.err) == (1, True)
    assert not (state / "elsewhere" / "audit.sqlite3").exists()
    assert toolwire("approvals", "log").out == "No decisions yet.\n"
    for _ in range(2):
        toolwire("call", site, "note", "text=canary-in-the-coal-mine")
    log = toolwire("approvals", "log").out
    assert log.count("denied") == 2
    assert "canary" not in log
    assert "canary" not in "".join(
        path.read_bytes().decode("latin-1") for path in state.iterdir() if "audit" in path.name
    )
    verified = toolwire("approvals", "log", "--verify")
    assert (verified.code, verified.out.startswith("2 records, each as it was written.")) == (0, True)
    connection = sqlite3.connect(state / "audit.sqlite3")
    connection.execute("DROP TRIGGER audit_is_not_cut")
    connection.execute("DELETE FROM audit WHERE number = 1")
    connection.commit()
    connection.close()
    broken = toolwire("approvals", "log", "--verify")
    assert (broken.code, broken.err) == (1, "toolwire: Record 1 is missing.\n")


@pytest.mark.requirement("AT-43")
def test_an_emptied_log_is_not_verified(state: Path, toolwire: Callable[..., Any]) -> None:
    made = toolwire("approvals", "log")
    assert (made.out, toolwire("approvals", "log", "--verify").code) == ("No decisions yet.\n", 0)
    with closing(open_decisions(state)) as decisions:
        decisions.append(Decision(at=1.0, principal="me", connection="a", tool="note", decision="allowed", binding=""))
    with closing(sqlite3.connect(state / "audit.sqlite3", isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER audit_is_not_cut")
        connection.execute("DELETE FROM audit")
    emptied = toolwire("approvals", "log", "--verify")
    text = "toolwire: The record of the log's creation is missing, so the log was emptied.\n"
    assert (emptied.code, emptied.err) == (1, text)


@pytest.mark.requirement("GR-06")
def test_since_reads_only_the_end_of_the_log(state: Path, toolwire: Callable[..., Any]) -> None:
    with closing(open_decisions(state)) as decisions:
        one = Decision(at=1.0, principal="me", connection="a", tool="old", decision="allowed", binding="")
        for at in (5e9, *[1.0] * 1_500, 5e9, 1.0, 5e9):  # the clocks of two programs differ
            decisions.append(replace(one, at=at))
    with closing(sqlite3.connect(state / "audit.sqlite3", isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER audit_is_not_changed")
        connection.execute("UPDATE audit SET record = '{}' WHERE number = 1")
    shown = toolwire("approvals", "log", "--since", "2100-01-01", "--json")
    assert (shown.code, [json.loads(line)["number"] for line in shown.out.splitlines()]) == (0, [1502, 1504])


def test_log_is_printed_whatever_time_another_program_wrote(state: Path, toolwire: Callable[..., Any]) -> None:
    decisions = open_decisions(state)
    decisions.append(Decision(at=1e20, principal="me", connection="a", tool="note", decision="allowed", binding=""))
    decisions.close()
    printed = toolwire("approvals", "log")
    assert (printed.code, "at no time" in printed.out, printed.err) == (0, True, "")
    exported = toolwire("approvals", "log", "--json")
    assert json.loads(exported.out.splitlines()[0])["at"].startswith("9999-12-31T")


def test_approvals_folder_can_be_chosen(tmp_path: Path, toolwire: Callable[..., Any]) -> None:
    assert toolwire("approvals", "--path", tmp_path / "own").code == 0
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700
    assert toolwire("approvals", "allow").code == 2


def test_lock_command_refuses_a_file_as_a_site(tmp_path: Path, toolwire: Callable[..., Any]) -> None:
    file = tmp_path / "shop.py"
    file.write_text("")
    outcome = toolwire("lock", file)
    assert (outcome.code, "lock needs URLs. Local files change only when you edit them" in outcome.err) == (2, True)
    assert toolwire("lock", "a" * 5_000).code == 2


@pytest.mark.requirement("D-04")
def test_lock_refuses_a_connection_that_changed(
    site: str, desk: Path, tmp_path: Path, toolwire: Callable[..., Any], state: Path
) -> None:
    lock = tmp_path / "toolwire.lock"
    options = ("--file", lock, "--protocol", "openapi")
    assert toolwire("diff", site, *options).code == 2
    locked = toolwire("lock", site, *options)
    assert (locked.code, "tools pinned" in locked.out) == (0, True)
    assert "has not changed since it was locked" in toolwire("diff", site, *options).out
    assert toolwire("tools", site, "--locked", *options).code == 0
    assert toolwire("call", site, "add", "a=1", "--locked", *options).out == "2\n"
    data = json.loads(lock.read_text())
    (url,) = data["connections"]
    tools = data["connections"][url]
    del tools[next(id_ for id_ in tools if ".add@" in id_)]
    lock.write_text(json.dumps(data))
    changed = toolwire("diff", site, *options)
    assert (changed.code, "add@1.2.0: added, wider" in changed.out) == (1, True)
    assert [one["what"] for one in json.loads(toolwire("diff", site, *options, "--json").out)] == ["added"]
    refused = toolwire("call", site, "add", "a=1", "--locked", *options)
    assert (refused.code, "was added since the lock" in refused.err) == (1, True)
    assert toolwire("tools", site, "--locked", *options).code == 1
    assert toolwire("tools", site, "--locked", "--findings", *options).code == 1
    assert toolwire("call", site, "say", "text=x", "--locked", *options).code == 0
    assert toolwire("tools", desk, "--locked", *options[:2]).code == 2
    lock.write_text("{}")
    assert toolwire("diff", site, *options).code == 2


_ESCAPES = "\x1b]0;title\x07\x1b[2J\x9b31m\u202e\r\x08"


@pytest.mark.requirement("D-03", "D-04")
@pytest.mark.parametrize("fmt", [(), ("--json",)])
def test_foreign_lock_file_cannot_control_the_terminal_or_cause_a_traceback(
    fmt: tuple[str, ...], site: str, tmp_path: Path, toolwire: Callable[..., Any], state: Path
) -> None:
    lock = tmp_path / "toolwire.lock"
    options = ("--file", lock, "--protocol", "openapi")
    assert toolwire("lock", site, *options).code == 0
    data = json.loads(lock.read_text())
    (url,) = data["connections"]
    tools = data["connections"][url]
    for entry in tools.values():
        odd = {_ESCAPES: 1, "description": _ESCAPES, "rate_limit": {"max": "x"}, "scopes": [[1]], "cost": {}}
        entry["definition"] |= {**odd, "input_schema": [[1]], "approval": [1]}
        entry["sha256"] = compute_digest(entry["definition"])
    lock.write_text(json.dumps(data))
    for words in (("diff", site), ("tools", site, "--locked"), ("tools", site, "--locked", "--findings")):
        outcome = toolwire(*words, *options, *fmt)
        assert outcome.code == 1
        text = outcome.out + outcome.err
        assert text
        assert "Traceback" not in text
        assert not any(character in text for character in _ESCAPES if not character.isprintable())


@pytest.mark.requirement("D-04")
def test_a_link_in_place_of_the_lock_is_replaced_and_not_followed(
    site: str, tmp_path: Path, toolwire: Callable[..., Any], state: Path
) -> None:
    lock, elsewhere = tmp_path / "toolwire.lock", tmp_path / "elsewhere"
    lock.symlink_to(elsewhere)
    assert toolwire("lock", site, "--file", lock).code == 0
    assert not elsewhere.exists()
    assert not lock.is_symlink()
    assert lock.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in tmp_path.iterdir() if "lock" in one.name] == ["toolwire.lock"]
    refused = toolwire("lock", site, "--file", tmp_path / "nowhere" / "toolwire.lock")
    assert refused.out == ""  # nothing was pinned
    assert (refused.code, "Cannot write" in refused.err) == (2, True)


@pytest.mark.requirement("XL-055", "CC-07")
def test_the_log_is_searched_and_exported(site: str, state: Path, toolwire: Callable[..., Any]) -> None:
    for name, argument in (("note", "text=a"), ("shred", "pages=[1]"), ("note", "text=b")):
        toolwire("call", site, name, argument)
    log = [json.loads(line) for line in toolwire("approvals", "log", "--json").out.splitlines()]
    assert [(one["number"], one["decision"], one["site"]) for one in log] == [(n, "denied", site) for n in (1, 2, 3)]
    assert log[0]["at"].endswith("Z")
    for options, count in (
        (("--tool", "note"), 2),
        (("--tool", "shred", "--site", "127.0.0.1"), 1),
        (("--site", "elsewhere.example"), 0),
        (("--since", "1h"), 3),
        (("--since", log[1]["at"]), 2),
        (("--since", "2999-01-01"), 0),
    ):
        assert len(toolwire("approvals", "log", "--json", *options).out.splitlines()) == count, options
        assert (toolwire("approvals", "log", *options).out == "No decision fits.\n") == (count == 0)
    wrong = toolwire("approvals", "log", "--since", "yesterday")
    assert (
        wrong.code,
        "Invalid time for --since" in wrong.err,
    ) == (2, True)
    listed = json.loads(toolwire("approvals", "list", "--json").out)
    assert listed == {"waiting": [], "grants": [], "levels": [], "definitions": []}


@pytest.mark.requirement("FU-55", "FU-59")
def test_permissions_are_one_row_for_each_tool_and_server_and_every_row_is_cleared(
    site: str, state: Path, toolwire: Callable[..., Any]
) -> None:
    for protocol in ("otc", "opentool", "mcp"):
        assert toolwire("call", site, "add", "a=1", "--protocol", protocol, "--agree").code == 0
    listed = toolwire("approvals").out
    rows = [line for line in listed.splitlines() if "Desk.add" in line]
    assert len(rows) == 1
    assert "every call, as its site needs no question, in 3 forms" in rows[0]
    assert "unasked" not in listed
    assert toolwire("approvals", "revoke", rows[0].split()[0]).code == 0
    assert "Desk.add" not in toolwire("approvals").out
    for protocol in ("otc", "opentool", "mcp"):
        assert toolwire("call", site, "add", "a=1", "--protocol", protocol).code == 3
    assert "Desk.say" in toolwire("approvals").out


@pytest.mark.requirement("FU-55")
def test_all_that_is_kept_for_a_site_is_shown_and_revoked_by_its_url(
    site: str, state: Path, toolwire: Callable[..., Any]
) -> None:
    assert toolwire("call", site, "note", "text=a", "--yes").code == 0
    listed = toolwire("approvals").out
    assert listed.startswith("No questions are pending")  # --yes allows no later call
    assert "APPROVED ONCE: A CHANGED DEFINITION IS SHOWN" in listed
    assert json.loads(toolwire("approvals", "--json").out)["definitions"] == [{"site": site, "tool": "Desk.note@1.2.0"}]
    assert toolwire("call", site, "add", "a=1", "--protocol", "otc", "--agree").code == 0
    outcome = toolwire("approvals", "revoke", site)
    assert (outcome.code, f"All permissions for {site} were revoked" in outcome.out) == (0, True)
    assert "Desk" not in toolwire("approvals").out
    assert toolwire("call", site, "add", "a=1", "--protocol", "otc").code == 3
    again = toolwire("approvals", "revoke", site)
    assert (again.code, ". `toolwire approvals list` shows what is stored" in again.err) == (1, True)


@pytest.mark.requirement("FU-55")
def test_flags_say_what_they_keep(toolwire: Callable[..., Any]) -> None:
    text = " ".join(toolwire("call", "--help-all").out.split())
    assert "for 30 days or until a definition changes" in text
    assert "Only the tool's definition is stored, to show later changes" in text


@pytest.mark.requirement("QF-05")
def test_list_puts_the_questions_of_a_task_together_and_marks_what_differs(
    state: Path, toolwire: Callable[..., Any]
) -> None:
    order, approvals = build_order(request=None), Approvals(state)
    later = order.call._replace(arguments={**order.call.arguments, "by": "2027-04-01"})
    first = approvals.ask(replace(order, binding="first"))
    other = approvals.ask(replace(order, binding="other", site="https://b.example"))
    second = approvals.ask(replace(order, binding="second", call=later))
    approvals.close()
    listed = toolwire("approvals").out
    assert [listed.index(one) for one in (first, second, other)] == sorted(map(listed.index, (first, second, other)))
    assert listed.startswith("2 calls at http://127.0.0.1:9723:\n")
    assert 'by = "2027-03-01"  (in the body; differs)' in listed
    assert listed.count("differs)") == 2
    waiting = json.loads(toolwire("approvals", "--json").out)["waiting"]
    assert [one["differs"] for one in waiting] == [["by"], ["by"], []]
