"""The answers of one caller are found among any number of decisions of others."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TypeAlias

import psycopg
import pytest

from tests.postgres import Postgres, shared_postgres  # noqa: F401 - the fixtures
from toolwire.consent.decision_record import Decision, find_chain_fault
from toolwire.stores.consent.audit import StoredAudit, list_audit_files
from toolwire.stores.consent.open import StoredDecisions, open_decisions

pytestmark = pytest.mark.requirement("GW-04", "ST-01")

Open: TypeAlias = Callable[[], StoredDecisions]
RECORD = Decision(
    at=1.0, principal="key:ann", connection="inbox", tool="publish", binding="b", decision="allowed", channel="inbox"
)


@pytest.fixture(params=["folder", "postgresql"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> StoredDecisions:
    if request.param == "folder":
        return open_decisions(tmp_path)
    return open_decisions(request.getfixturevalue("shared_postgres").create_database())


def test_answers_of_a_caller_are_the_own_ones_newest_first_and_no_more_than_asked(log: StoredDecisions) -> None:
    for number in range(6):
        log.append(replace(RECORD, tool=f"own-{number}"))
        log.append(replace(RECORD, principal="key:bob"))
        log.append(replace(RECORD, channel="page"))
    assert [one.record.tool for one in log.list_answers("key:ann", 4)] == ["own-5", "own-4", "own-3", "own-2"]
    assert [one.number for one in log.list_answers("key:ann", 50)] == [16, 13, 10, 7, 4, 1]
    assert log.list_answers("key:an", 50) == []


@pytest.mark.parametrize("principal", ["\0", "\ud800", "x" * 5_000, "🎈", '"}'])
def test_no_name_keeps_a_decision_out_of_the_log(principal: str, log: StoredDecisions) -> None:
    log.append(replace(RECORD, principal=principal, tool="\0\ud800"))
    log.append(RECORD)
    assert [one.record.principal for one in log.entries()] == [principal, "key:ann"]
    assert find_chain_fault(log.entries(), log.start()) == ""
    assert [one.number for one in log.list_answers("key:ann", 9)] == [2]


def test_answers_in_sealed_files_are_found_too(tmp_path: Path) -> None:
    log = StoredAudit(tmp_path, file_bytes=60_000)
    log.append(replace(RECORD, tool="first"))
    while len(list_audit_files(tmp_path)) < 4:
        log.append(replace(RECORD, principal="key:bob"))
    log.append(replace(RECORD, tool="last"))
    assert [one.record.tool for one in log.list_answers("key:ann", 50)] == ["last", "first"]
    assert [one.record.tool for one in log.list_answers("key:ann", 1)] == ["last"]


@pytest.mark.requirement("ST-04")
def test_answers_from_before_the_index_are_in_it(shared_postgres: Postgres) -> None:  # noqa: F811 - a fixture
    url = shared_postgres.create_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE toolwire_audit (number bigint PRIMARY KEY, record text, digest text)")
        for number, record in enumerate((RECORD, replace(RECORD, principal="\0"), replace(RECORD, channel="")), 1):
            row = number, json.dumps(asdict(record)), f"{number}"
            connection.execute("INSERT INTO toolwire_audit VALUES (%s, %s, %s)", row)
        log = open_decisions(url)
        assert [one.number for one in log.list_answers("key:ann", 9)] == [1]
        # A program of the version before goes on beside this one.
        connection.execute("INSERT INTO toolwire_audit VALUES (4, %s, '4')", (json.dumps(asdict(RECORD)),))
        assert [one.number for one in log.list_answers("key:ann", 9)] == [4, 1]
        connection.execute("SET enable_seqscan = off")
        plan = connection.execute(
            "EXPLAIN SELECT number FROM toolwire_audit WHERE toolwire_find_answerer(record) = 'key:ann'"
        )
        assert "toolwire_audit_by_answerer" in str(plan.fetchall())
