"""Which tests reach which lines of a room, measured once by coverage and kept in `.cache` while neither changes."""

from __future__ import annotations

import functools
import gc
import hashlib
import json
import warnings
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import coverage
import pytest


class Reach(NamedTuple):
    """The tests of a room: which of them reach each line of each file, and how many seconds each test took."""

    lines: dict[str, dict[int, list[str]]]
    seconds: dict[str, float]
    failed: list[str]

    def find_tests(self, places: Iterable[tuple[Path, range]], most_s: float) -> list[str]:
        """Return the tests that reach one of these lines, the quickest first, as many as take ``most_s`` together."""
        found = {
            test for file, lines in places for line in lines for test in self.lines.get(str(file), {}).get(line, ())
        }
        found.difference_update(self.failed)
        chosen: list[str] = []
        for test in sorted(found, key=lambda one: (self.seconds[one], one)):
            most_s -= self.seconds[test]
            if chosen and most_s < 0:
                break
            chosen.append(test)
        return chosen


def read_reach(kept: Path, digest: str) -> Reach | None:
    """Return what ``ReachPlugin`` wrote into ``kept`` for the files with this digest; None if they have changed."""
    if not kept.exists() or (data := json.loads(kept.read_text("utf-8")))["digest"] != digest:
        return None
    tests = list(data["seconds"])
    lines = {
        file: {int(line): [tests[number] for number in reached] for line, reached in numbers.items()}
        for file, numbers in data["lines"].items()
    }
    return Reach(lines, data["seconds"], data["failed"])


def digest_files(folders: Iterable[Path]) -> str:
    """Return a digest of all Python files in ``folders``."""
    total = hashlib.sha256()
    for file in sorted(file for one in folders for file in (one.rglob("*.py") if one.is_dir() else [one])):
        total.update(str(file).encode() + b"\0" + file.read_bytes() + b"\0")
    return total.hexdigest()


def find_caches() -> list[Any]:
    """Return the functions of toolwire that keep results: cleared, they do again for a test what they did before."""
    sort = type(functools.cache(len))
    kept = [one for one in gc.get_objects() if isinstance(one, sort)]
    return [one for one in kept if str(one.__module__).startswith("toolwire")]


class ReachPlugin:
    """Measures the tests of a room while pytest runs them, and writes what a `Reach` holds into ``kept``."""

    def __init__(self, room: Path, kept: Path, digest: str) -> None:
        self._kept, self._digest = kept, digest
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()
        self._measured = coverage.Coverage(
            data_file=None, config_file=False, branch=False, include=[f"{room}/*"], messages=False
        )
        self._caches = find_caches()
        self._measured.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._measured.switch_context(item.nodeid)
        for one in self._caches:
            one.cache_clear()
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] = round(self._seconds.get(report.nodeid, 0) + report.duration, 3)
        if report.failed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        with warnings.catch_warnings(action="ignore"):  # it wonders that toolwire was imported before
            self._measured.stop()
        numbers = {test: number for number, test in enumerate(self._seconds)}
        data = self._measured.get_data()
        lines: dict[str, Any] = {}
        for file in data.measured_files():
            by_line = data.contexts_by_lineno(file)
            lines[file] = {line: [numbers[test] for test in tests if test] for line, tests in by_line.items()}
        whole = {"digest": self._digest, "seconds": self._seconds, "failed": sorted(self._failed), "lines": lines}
        self._kept.parent.mkdir(parents=True, exist_ok=True)
        self._kept.write_text(json.dumps(whole), "utf-8")
