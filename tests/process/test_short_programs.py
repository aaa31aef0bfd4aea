"""How programs end that connect, call and are over: without a crash and without a word."""

from __future__ import annotations

import sys

import pytest

from bench.short_programs import find_bad, make_app, run_programs
from toolwire.testing.loopback import background


@pytest.mark.requirement("I-01")
def test_short_programs_end_without_a_crash() -> None:
    """A few of the two thousand of ``make short``."""
    with background(make_app()) as url:
        ends = run_programs(url, sys.executable, 12, at_once=2)
    assert find_bad(ends) == {}
    assert ends.total() == 12
