"""A server ends between the question of a long call and the moment when the call waits: the user's answer still counts.

The test holds the locks of the two files, so that the server stands exactly there.
"""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.support.gateway_process import run_gateway
from tests.support.waiting import wait_until
from toolwire.cli import main
from toolwire.hosting import open_gateway
from toolwire.stores.consent.open import open_approvals
from toolwire.testing import background

pytestmark = pytest.mark.requirement("GW-04", "LC-03")

LONG = """from pathlib import Path

from toolwire import Toolkit

books = Toolkit("Books")


@books.tool(approval="per-call", long=True)
def audit(year: int) -> str:
    \"\"\"Audit a year.\"\"\"
    with Path("runs.txt").open("a") as runs:
        runs.write("run ")
    return f"audited {year}"
"""
FILE = """port = 0
state = "state"
consent = "inbox"
public-url = "https://tools.example"
api-key-file = "keys.txt"
[upstreams.books]
target = "books.py"
"""
HEADERS = {"authorization": "Bearer key-of-ann"}


@contextmanager
def hold(file: Path) -> Iterator[sqlite3.Connection]:
    """Let nobody else write to a database."""
    with closing(sqlite3.connect(file, isolation_level=None, timeout=10)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


def read_states(ledger: Path) -> list[str]:
    with closing(sqlite3.connect(ledger)) as connection:
        return [state for (state,) in connection.execute("SELECT state FROM long_calls")]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in (("books.py", LONG), ("toolwire.toml", FILE), ("keys.txt", "key-of-ann ann\n")):
        (tmp_path / name).write_text(text)
    return tmp_path / "state"


def stop_while_asking(state: Path, how: signal.Signals) -> tuple[str, str]:
    """End a gateway whose question is in the inbox, and whose call does not wait yet; return both their ids."""
    ledger = state / "calls.sqlite"
    questions_file = state / "approvals.sqlite3"
    with run_gateway() as (process, url), ThreadPoolExecutor(1) as threads, hold(questions_file) as questions:
        wanted = {**HEADERS, "prefer": "respond-async, wait=0"}
        sent = threads.submit(httpx2.post, f"{url}/api/audit", headers=wanted, json={"year": 2026})
        wait_until(lambda: read_states(ledger) == ["running"])
        with hold(ledger):
            questions.execute("COMMIT")
            (asked,) = wait_until(open_approvals(str(state)).list_pending)
            place = sent.result().headers["location"]
            process.send_signal(how)
            process.wait(60)
            assert read_states(ledger) == ["running"]
    return place, asked.id


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize(("decision", "text", "runs"), [("allow", "audited 2026", "run "), ("deny", "denied", "")])
def test_answer_counts_for_a_call_whose_server_ended_before_it_waited(
    state: Path, how: signal.Signals, decision: str, text: str, runs: str
) -> None:
    place, question = stop_while_asking(state, how)
    with background(open_gateway("toolwire.toml")) as url:
        assert main(["approvals", decision, question, "--path", str(state)]) == 0
        wait_until(lambda: text in httpx2.get(url + place, headers=HEADERS).text)
    file = Path("runs.txt")
    assert (file.read_text() if file.exists() else "") == runs


def test_answer_that_was_given_before_the_next_start_counts(state: Path) -> None:
    place, question = stop_while_asking(state, signal.SIGKILL)
    assert main(["approvals", "allow", question, "--path", str(state)]) == 0
    with background(open_gateway("toolwire.toml")) as url:
        wait_until(lambda: "audited 2026" in httpx2.get(url + place, headers=HEADERS).text)
    assert Path("runs.txt").read_text() == "run "
