"""A store that fails is said in the log once, once a minute while it lasts, and once when it is over."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.clock import Clock
from toolwire.server.asking.confirmation import ConfirmationTokens
from toolwire.stores.outage_log import AGAIN_S, QUIET_S, OutageLog

pytestmark = pytest.mark.requirement("ST-05", "R13")


def test_a_store_that_fails_a_thousand_times_is_said_once_a_minute_and_at_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock(100.0)
    log = OutageLog(logging.getLogger("toolwire"), "It works again.", clock=clock)
    log.record_success()
    for _ in range(1_000):
        log.record_failure("It refused %s: %s.", "pay", "disk full")
        log.record_success()  # a full disk has room for some
    clock.now += AGAIN_S
    log.record_failure("It refused %s: %s.", "put", "disk full")
    log.record_failure("It refused %s: %s.", "put", "disk full")
    clock.now += QUIET_S
    for _ in range(3):
        log.record_success()
    log.record_failure("It refused %s: %s.", "pay", "disk full")
    assert [one.getMessage() for one in caplog.records] == [
        "It refused pay: disk full.",
        "It refused put: disk full. This happened 999 more times.",
        "It works again. Failures that were not logged: 1.",
        "It refused pay: disk full.",
    ]


def test_many_threads_say_it_once(caplog: pytest.LogCaptureFixture) -> None:
    log = OutageLog(logging.getLogger("toolwire"), "It works again.", clock=Clock(100.0))
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: log.record_failure("It failed."), range(400)))
    assert [one.getMessage() for one in caplog.records] == ["It failed."]


def test_confirmations_that_cannot_be_written_are_refused_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    words = ConfirmationTokens(tmp_path / "words")
    for file in (tmp_path / "words").iterdir():
        file.unlink()
    (tmp_path / "words").rmdir()
    (tmp_path / "words").write_text("no folder")
    assert [words.redeem(words.issue(b"x"), b"x") for _ in range(50)] == [False] * 50
    assert len([one for one in caplog.records if "A confirmation was refused" in one.getMessage()]) == 1
