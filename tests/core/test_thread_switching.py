"""During long work in a thread, threads take turns more often, and afterwards as often as before."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from toolwire.core.interpreter import INTERVAL_S, switch_threads_often


@pytest.fixture(autouse=True)
def restore_interval() -> Iterator[None]:
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)


def test_threads_switch_often_until_the_last_block_ends() -> None:
    sys.setswitchinterval(0.005)
    first, second = switch_threads_often(), switch_threads_often()
    with first:
        assert sys.getswitchinterval() == pytest.approx(INTERVAL_S)
        second.__enter__()
    assert sys.getswitchinterval() == pytest.approx(INTERVAL_S)
    second.__exit__(None, None, None)
    assert sys.getswitchinterval() == pytest.approx(0.005)


def test_a_failure_in_the_block_restores_the_interval() -> None:
    sys.setswitchinterval(0.005)
    with pytest.raises(ValueError, match="broken"), switch_threads_often():
        raise ValueError("broken")
    assert sys.getswitchinterval() == pytest.approx(0.005)


def test_shorter_switch_interval_of_the_program_is_kept() -> None:
    sys.setswitchinterval(INTERVAL_S / 2)
    with switch_threads_often():
        assert sys.getswitchinterval() == pytest.approx(INTERVAL_S / 2)
    assert sys.getswitchinterval() == pytest.approx(INTERVAL_S / 2)
