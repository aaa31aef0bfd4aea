"""What every test runs under: properties draw the same cases on every run; ``make hunt`` draws new ones, and more."""

import gc
import os
import signal
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from spec.runs import record_run
from tests import canaries
from tests.process import amounts
from tests.requirement_results import RequirementResults, note_requirements
from tests.support import forked_programs

SLOWEST = (
    "tests/acceptance/test_huge_definitions.py",
    "tests/adapters/frameworks/test_frameworks.py",
    "tests/browser/test_chat.py",
    "tests/browser/test_console.py",
    "tests/browser/test_docs_site.py",
    "tests/console/test_events.py",
    "tests/docs/test_blocks.py::test_every_code_block_does_what_its_page_states[docs/how-to/agent-frameworks.md]",
    "tests/docs/test_site.py",
    "tests/examples/test_images.py",
    "tests/interop/test_mcp_conformance.py",
    "tests/oauth/test_installed_sign_in.py",
    "tests/spec/test_mistakes.py",
    "tests/stores/test_ledger_machine.py",
    "tests/stores/test_long_call_machine.py",
)
"""Tests of ten seconds and more, and files whose tests wait for one thing of that length."""

ROOT = os.getcwd()
"""The folder in which the tests run."""

SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)

settings.register_profile("same", deadline=None, print_blob=True, derandomize=True, suppress_health_check=SLOW)
settings.register_profile("hunt", deadline=None, print_blob=True, max_examples=1_000, suppress_health_check=SLOW)
settings.load_profile(os.environ.get("TOOLWIRE_CASES", "same"))

# Decisions that a test makes are not kept among those of whoever runs it.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="toolwire-state-")
# Nor do the settings of whoever runs a test change what it does.
os.environ["XDG_CONFIG_HOME"] = tempfile.mkdtemp(prefix="toolwire-config-")
# Nor does a document that another test has stored.
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="toolwire-cache-")
# Nor does the forward proxy of its network.
for _variable in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
    os.environ.pop(_variable, None)
    os.environ.pop(_variable.upper(), None)

# Programs that tests start take Ctrl-C as they would on a terminal, also where the tests themselves run unattended.
signal.signal(signal.SIGINT, signal.default_int_handler)

canaries.plant()
forked_programs.plant()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep what is collected out of the garbage collection, which would look at a million objects again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    canaries.forget()
    forked_programs.start_really(really=item.get_closest_marker("real_start") is not None)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that leaves the process in another folder: relative paths of the next one would mean other files."""
    result = yield
    if os.getcwd() != ROOT:
        os.chdir(ROOT)
        pytest.fail("This test left the process in another folder. Use monkeypatch.chdir or contextlib.chdir.")
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that let a secret out, and record what a long test measured that passed."""
    # R20
    report = yield
    if report.when == "teardown" and report.passed and item.get_closest_marker("reveals_secrets") is None:
        folder = getattr(item, "funcargs", {}).get("tmp_path")
        if leaks := canaries.find_leaks(report.sections, folder):
            report.outcome = "failed"
            report.longrepr = f"A secret of this test can be read in: {', '.join(leaks)}"
    if not report.passed:
        amounts.forget_measured()
    elif report.when == "teardown":
        amounts.record_measured()
    return report


def pytest_configure(config: pytest.Config) -> None:
    """Keep the results of requirements, in the main process alone: it hears of the tests of all workers."""
    started_by_a_test = "PYTEST_CURRENT_TEST" in os.environ
    if not hasattr(config, "workerinput") and not started_by_a_test:
        config.pluginmanager.register(RequirementResults())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, and let each test report the requirements that it proves."""
    # Of several processes, each would otherwise wait at the end for the one that came upon such a test last.
    items.sort(key=lambda item: not item.nodeid.startswith(SLOWEST))
    for item in items:
        if item.nodeid.startswith("tests/process/"):
            item.add_marker("real_start")
    note_requirements(items)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say once for each reason what did not run. ``make test`` collects this of its runs, and says it at its end."""
    if run := os.environ.get("TOOLWIRE_RUN"):
        counts = {name: len(terminalreporter.stats.get(name, ())) for name in ("passed", "skipped", "failed", "error")}
        record_run(run, f"make {run}", counts, passed=not counts["failed"] and not counts["error"])
    if terminalreporter.stats.get("failed") or terminalreporter.stats.get("error"):
        amounts.mark_failed()
    skipped = [report.longrepr[2] for report in terminalreporter.stats.get("skipped", ())]
    reasons = {reason.removeprefix("Skipped: ") for reason in skipped}
    lines = [f"Not run: {reason}." for reason in sorted(reasons)]
    if collected := os.environ.get("TOOLWIRE_NOT_RUN"):
        with Path(collected).open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
    elif lines:
        terminalreporter.section("NOT RUN", yellow=True)
        for line in lines:
            terminalreporter.line(line)
