"""Keep which tests of requirements passed, were skipped or failed, for ``make requirements``.

The results of one session replace those of the same tests in ``.cache/requirements.json``; others stay, so that the
sessions of ``make test``, which run beside each other, add up.
"""

from __future__ import annotations

import fcntl
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from spec.runs import ROOT, read_commit

RESULTS = ROOT / ".cache" / "requirements.json"
_MARKER = "requirements"


class RequirementResults:
    """A plugin of pytest that collects the outcome of each test that is marked with requirements."""

    def __init__(self, path: Path = RESULTS) -> None:
        self._path = path
        self._tests: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Count the outcome of one test; its parameters are one test."""
        ids = dict(report.user_properties).get(_MARKER)
        # A test that passed its call may still fail when it is torn down; a skipped one reports in its set-up.
        if ids is None or (report.outcome == "passed" and report.when != "call"):
            return
        name = report.nodeid.partition("[")[0]
        stored = self._tests.setdefault(name, {"ids": [], "passed": 0, "skipped": 0, "failed": 0, "reason": ""})
        stored["ids"] = sorted({*stored["ids"], *ids})
        stored[report.outcome] += 1
        if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
            stored["reason"] = report.longrepr[2].removeprefix("Skipped: ")

    def pytest_sessionfinish(self) -> None:
        """Write the results of this session over those of the same tests."""
        if not self._tests:
            return
        date, commit = datetime.now(UTC).date().isoformat(), read_commit()
        self._path.parent.mkdir(exist_ok=True)
        with self._path.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            tests = json.loads(file.read() or '{"tests": {}}')["tests"]
            tests |= {name: {**test, "date": date, "commit": commit} for name, test in self._tests.items()}
            file.truncate(0)
            file.write(json.dumps({"tests": tests}) + "\n")


def note_requirements(items: list[Any]) -> None:
    """Write the requirements of each test into what it reports, which a worker process sends to the main one."""
    for item in items:
        ids = [name for marker in item.iter_markers("requirement") for name in marker.args]
        if ids:
            item.user_properties.append((_MARKER, ids))
