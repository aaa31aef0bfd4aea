"""Questions that wait in a file, and the record of what was decided."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.clock import Clock
from toolwire.client.approvers.store_approver import store_approver
from toolwire.consent.decision_record import FIRST_DIGEST, Decision, compute_chain_digest, find_chain_fault
from toolwire.core.check import Answer, Question
from toolwire.core.model import Approval, Call, Tool
from toolwire.stores.consent.approvals import Approvals, build_answer_record
from toolwire.stores.consent.audit import StoredAudit, list_audit_files
from toolwire.stores.consent.memory import MemoryAudit

QUESTION = Question(
    Call(Tool(name="note"), {"text": "tea"}), "https://a.example", "POST /note", Approval.PER_CALL, True, binding="b1"
)
RECORD = Decision(at=1.0, principal="ada", connection="a", tool="note", binding="b1", decision="allowed")


@pytest.fixture
def clock() -> Clock:
    return Clock(1_000.0)


@pytest.mark.requirement("XL-050")
def test_stored_question_survives_a_restart_and_can_be_answered_elsewhere(tmp_path: Path, clock: Clock) -> None:
    first = Approvals(tmp_path, clock=clock)
    id_ = first.ask(QUESTION)
    assert first.take(id_, "b1") is None
    first.close()
    other = Approvals(tmp_path, clock=clock)
    (waiting,) = other.list_pending()
    assert (waiting.id, waiting.rows[1].text) == (id_, "https://a.example")
    assert other.answer(id_, Answer(allowed=True, always=True))
    other.close()
    third = Approvals(tmp_path, clock=clock)
    assert third.ask(QUESTION) == id_
    assert third.take(id_, "b1") == Answer(allowed=True, always=True, channel="store")
    third.close()


@pytest.mark.requirement("XL-050", "D-20")
def test_answer_is_accepted_once_for_its_question_before_its_timeout(tmp_path: Path, clock: Clock) -> None:
    approvals = Approvals(tmp_path, clock=clock)
    no = Answer(allowed=False, reason="timeout", channel="store")
    id_ = approvals.ask(QUESTION)
    assert approvals.answer(id_, Answer(allowed=True))
    assert not approvals.answer(id_, Answer(allowed=False))
    assert approvals.take(id_, "b2") == no
    assert approvals.take("other", "b1") == no
    assert approvals.take(id_, "b1") == Answer(allowed=True, channel="store")
    assert approvals.take(id_, "b1") == no
    assert approvals.ask(QUESTION) != id_
    late = approvals.ask(replace(QUESTION, binding="b3"))
    approvals.answer(late, Answer(allowed=True))
    clock.now += 300
    assert approvals.take(late, "b3") == no
    assert list(approvals.list_pending()) == []
    approvals.close()


@pytest.mark.requirement("QF-03")
def test_no_counts_for_the_same_call_for_a_minute(tmp_path: Path, clock: Clock) -> None:
    approvals = Approvals(tmp_path, clock=clock)
    no = Answer(allowed=False, reason="not today", channel="store")
    id_ = approvals.ask(QUESTION)
    assert approvals.answer(id_, no)
    assert [approvals.take(approvals.ask(QUESTION), "b1") for _ in range(2)] == [no, no]
    assert list(approvals.list_pending()) == []
    clock.now += 60
    assert approvals.ask(QUESTION) != id_
    approvals.close()


def test_question_contents_are_deleted_after_the_answer(tmp_path: Path, clock: Clock) -> None:
    approvals = Approvals(tmp_path, clock=clock)
    id_ = approvals.ask(QUESTION)
    approvals.answer(id_, Answer(allowed=True))
    approvals.take(id_, "b1")
    approvals.close()
    connection = sqlite3.connect(tmp_path / "approvals.sqlite3")
    assert connection.execute("SELECT shown FROM questions").fetchall() == [("[]",)]
    connection.close()


def test_an_approver_waits_for_the_answer_of_another_thread(tmp_path: Path) -> None:
    approvals = Approvals(tmp_path)

    def sleep(_: float) -> None:
        (waiting,) = approvals.list_pending()
        threading.Thread(target=approvals.answer, args=(waiting.id, Answer(allowed=True))).run()

    assert store_approver(approvals, sleep=sleep)(QUESTION).allowed

    approvals.close()


def change_file(file: Path, *statements: str) -> None:
    """Change a log as somebody does who does not go through its program."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER IF EXISTS audit_is_not_changed")
        connection.execute("DROP TRIGGER IF EXISTS audit_is_not_cut")
        for statement in statements:
            connection.execute(statement)


def find_fault(folder: Path) -> str:
    with closing(StoredAudit(folder)) as audit:
        return audit.find_start_fault() or find_chain_fault(audit.entries(), audit.start())


EMPTIED = "The record of the log's creation is missing, so the log was emptied."


@pytest.mark.requirement("AT-43")
def test_a_log_is_never_empty_and_its_first_record_is_no_decision(tmp_path: Path) -> None:
    with closing(StoredAudit(tmp_path)) as audit:
        assert (audit.entries(), list(audit.iterate_back()), audit.last_number()) == ([], [], 0)
        assert find_fault(tmp_path) == ""
        audit.append(RECORD)
        assert [entry.number for entry in audit.entries()] == [1]
    assert find_fault(tmp_path) == ""
    with closing(sqlite3.connect(tmp_path / "audit.sqlite3")) as connection:
        assert connection.execute("SELECT number FROM audit").fetchall() == [(0,), (1,)]
    assert [file.name for file in tmp_path.glob(".*")] == []


@pytest.mark.requirement("AT-43")
@pytest.mark.parametrize("records", [0, 3])
@pytest.mark.parametrize("later", [0, 2])
def test_an_emptied_log_is_noticed_also_when_it_goes_on(tmp_path: Path, records: int, later: int) -> None:
    with closing(StoredAudit(tmp_path)) as audit:
        for _ in range(records):
            audit.append(RECORD)
    change_file(tmp_path / "audit.sqlite3", "DELETE FROM audit")
    with closing(StoredAudit(tmp_path)) as audit:
        for _ in range(later):
            audit.append(RECORD)
    assert find_fault(tmp_path) == EMPTIED


@pytest.mark.requirement("AT-43")
@pytest.mark.parametrize("later", [0, 2])
def test_a_log_whose_file_was_emptied_is_noticed(tmp_path: Path, later: int) -> None:
    with closing(StoredAudit(tmp_path)) as audit:
        audit.append(RECORD)
    (tmp_path / "audit.sqlite3").write_bytes(b"")
    with closing(StoredAudit(tmp_path)) as audit:
        for _ in range(later):
            audit.append(RECORD)
    assert find_fault(tmp_path) == EMPTIED


@pytest.mark.requirement("AT-43")
def test_a_changed_first_record_is_noticed_and_a_log_of_an_earlier_version_is_none(tmp_path: Path) -> None:
    with closing(StoredAudit(tmp_path)) as audit:
        audit.append(RECORD)
    file = tmp_path / "audit.sqlite3"
    change_file(file, "UPDATE audit SET record = replace(record, 'log created', 'allowed') WHERE number = 0")
    assert find_fault(tmp_path) == "The record of the log's creation was changed after it was written."
    digest = compute_chain_digest(FIRST_DIGEST, 1, RECORD)
    row = f"UPDATE audit SET digest = '{digest}' WHERE number = 1"
    change_file(file, "DELETE FROM audit WHERE number = 0", "DELETE FROM begins", row)
    assert find_fault(tmp_path) == ""
    with closing(StoredAudit(tmp_path)) as audit:
        audit.append(RECORD)
    assert find_fault(tmp_path) == ""


@pytest.mark.requirement("AT-43")
def test_logs_that_are_made_at_once_have_one_first_record(tmp_path: Path) -> None:
    program = "import sys; from pathlib import Path; from toolwire.stores.consent.audit import StoredAudit;"
    program += "sys.stdin.readline(); StoredAudit(Path(sys.argv[1])).close()"
    command = [sys.executable, "-c", program, str(tmp_path / "state")]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(4)]
    assert [(one.communicate(b"go\n", timeout=60), one.returncode)[1] for one in started] == [0] * 4
    assert find_fault(tmp_path / "state") == ""


@pytest.mark.requirement("XL-055", "CC-07")
def test_audit_chain_reveals_every_change(tmp_path: Path) -> None:
    audit = StoredAudit(tmp_path)
    for number in range(5):
        audit.append(replace(RECORD, at=float(number)))
    assert find_chain_fault(audit.entries(), audit.start()) == ""
    audit.close()
    connection = sqlite3.connect(tmp_path / "audit.sqlite3")
    for statement in ("UPDATE audit SET record = '{}'", "DELETE FROM audit WHERE number = 2"):
        with pytest.raises(sqlite3.IntegrityError, match="only added to"):
            connection.execute(statement)
    connection.execute("DROP TRIGGER audit_is_not_changed")
    connection.execute("UPDATE audit SET record = replace(record, 'allowed', 'denied') WHERE number = 3")
    connection.commit()
    connection.close()
    audit = StoredAudit(tmp_path)
    assert find_chain_fault(audit.entries(), audit.start()) == "Record 3 was changed after it was written."
    entries = audit.entries()
    assert find_chain_fault([*entries[:1], *entries[3:]], audit.start()) == "Record 2 is missing."
    audit.close()


@pytest.mark.requirement("XL-055", "CC-07")
def test_two_processes_add_to_one_chain(tmp_path: Path) -> None:
    first, second = StoredAudit(tmp_path), StoredAudit(tmp_path)
    for audit in (first, second, second, first):
        audit.append(RECORD)
    assert find_chain_fault(first.entries(), first.start()) == ""
    assert len(second.entries()) == 4
    first.close()
    second.close()


@pytest.mark.requirement("XL-055", "CC-07")
def test_audit_chain_continues_across_files(tmp_path: Path) -> None:
    first, second = (StoredAudit(tmp_path, file_bytes=40_000) for _ in range(2))
    for number in range(200):
        (first if number % 3 else second).append(replace(RECORD, at=float(number)))
    files = list_audit_files(tmp_path)
    assert len(files) > 2
    assert all(file.stat().st_size < 80_000 for file in files)
    entries = second.entries()
    assert [entry.record.at for entry in entries] == [float(number) for number in range(200)]
    assert find_chain_fault(entries, second.start()) == ""
    first.close()
    second.close()
    files[0].unlink()
    audit = StoredAudit(tmp_path, file_bytes=40_000)
    start = audit.start()
    assert start.number == entries[start.number - 1].number > 0
    assert find_chain_fault(audit.entries(), start) == ""
    assert find_chain_fault(audit.entries()) == "Record 1 is missing."
    assert audit.find_start_fault() == ""
    audit.close()


@pytest.mark.requirement("XL-055", "CC-07")
def test_full_audit_in_memory_drops_the_oldest_record_and_logs_once(caplog: pytest.LogCaptureFixture) -> None:
    audit = MemoryAudit(3)
    for number in range(5):
        audit.append(replace(RECORD, at=float(number)))
    assert [entry.record.at for entry in audit.entries()] == [2.0, 3.0, 4.0]
    assert [one.levelname for one in caplog.records] == ["WARNING"]
    assert "open_stored_session" in caplog.text


@pytest.mark.requirement("FU-60")
def test_answer_is_taken_with_who_gave_it_and_where(tmp_path: Path) -> None:
    approvals = Approvals(tmp_path)
    for number, (decider, channel) in enumerate((("ops", "console"), ("key:phone", "inbox"), ("ann", "terminal"))):
        question = replace(QUESTION, binding=f"b{number}", principal="key:agent")
        id_ = approvals.ask(question)
        [asked] = approvals.list_pending()
        assert asked.principal == "key:agent"
        answer = Answer(allowed=True, decided_by=decider, channel=channel)
        assert approvals.answer(id_, answer)
        record = build_answer_record(asked, answer, 7.0)
        assert (record.principal, record.caller, record.channel) == (decider, "key:agent", channel)
        assert approvals.take(id_, f"b{number}") == Answer(allowed=True, decided_by=decider, channel=channel)
