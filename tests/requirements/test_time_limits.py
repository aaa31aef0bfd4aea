"""A test that hangs is a red test with a name."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.waiting import wait_until, wait_until_async

pytest_plugins = ["pytester"]


@pytest.mark.requirement("TE-01")
def test_every_test_has_a_time_limit(pytestconfig: pytest.Config) -> None:
    assert float(pytestconfig.getini("timeout")) > 0
    assert pytestconfig.pluginmanager.hasplugin("timeout")
    assert pytestconfig.pluginmanager.hasplugin("faulthandler")


@pytest.mark.requirement("TE-01")
def test_a_test_that_hangs_fails_with_its_name(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import time\ndef test_that_hangs():\n    while True:\n        time.sleep(0.01)\n")
    result = pytester.runpytest_subprocess("-o", "timeout=1", "-p", "no:randomly")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*test_that_hangs*", "*Timeout*"])


@pytest.mark.requirement("TE-01")
def test_a_condition_that_is_never_met_is_named() -> None:
    with pytest.raises(TimeoutError, match=r"test_time_limits\.py:\d+ was not met within 0 seconds"):
        wait_until(lambda: False, within=0)
    with pytest.raises(TimeoutError, match=r"test_time_limits\.py:\d+ was not met within 0 seconds"):
        asyncio.run(wait_until_async(lambda: False, within=0))
    assert wait_until(lambda: "met", within=0) == "met"
    assert asyncio.run(wait_until_async(lambda: "met", within=0)) == "met"
