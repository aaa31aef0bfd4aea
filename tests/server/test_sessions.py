"""Sessions of applications that other programs start with several processes."""

from __future__ import annotations

import multiprocessing

import pytest

from toolwire.server.build import choose_session_use
from toolwire.server.options import SessionUse


def choose(given: SessionUse | None, place: str = "") -> SessionUse:
    return choose_session_use(given, place)


@pytest.mark.requirement("MC-10")
def test_a_process_that_another_has_started_keeps_no_sessions_unless_told_to() -> None:
    assert [choose(None), choose("all"), choose("none")] == ["all", "all", "none"]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(choose, [None, "needed", "all"]) == ["none", "needed", "all"]
        # ST-01: in a state that processes share, another process finds the session.
        assert pool.starmap(choose, [(None, "/state"), ("none", "/state")]) == ["all", "none"]


@pytest.mark.requirement("MC-10")
def test_a_worker_of_gunicorn_keeps_no_sessions_unless_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_SOFTWARE", "gunicorn/23.0")
    assert [choose(None), choose("needed")] == ["none", "needed"]
