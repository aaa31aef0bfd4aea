"""Record what a long run found, so that the ledger of requirements can name it.

A run that takes minutes or hours is no part of ``make test``. It writes ``spec/runs/NAME.json`` itself when
``TOOLWIRE_RECORD=1`` is set: when it ran, on which commit, by which command, its figures, and whether they are as
good as they must be. A row of ``spec/requirements.toml`` names such runs in ``runs``. Nobody writes these files by
hand.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
COVERED: Mapping[str, Sequence[str]] = {
    "console": ("src/toolwire/console",),
    "corpus": ("src/toolwire/protocols/openapi", "src/toolwire/framing", "src/toolwire/validation"),
    "fuzz": ("src/toolwire/protocols", "src/toolwire/framing", "src/toolwire/validation", "fuzz"),
    "kills": ("src/toolwire/server", "src/toolwire/stores"),
    "machines": ("src/toolwire/server", "src/toolwire/stores", "src/toolwire/engines"),
    "mcp-results": ("src/toolwire/protocols", "src/toolwire/validation"),
    "overload": ("src/toolwire/server",),
    "scale": ("src/toolwire/server", "src/toolwire/stores/ledger"),
    "schema-suite": ("src/toolwire/protocols", "src/toolwire/validation"),
    "schemathesis": ("src/toolwire/server", "src/toolwire/protocols"),
    "states": ("src/toolwire/stores/ledger",),
    "vendor-documents": (
        "src/toolwire/protocols/openapi",
        "src/toolwire/framing",
        "src/toolwire/validation",
        "src/toolwire/cli/targets",
    ),
}
"""The folders that each recorded run is about; see ``list_covered`` for others."""


def list_covered(name: str) -> Sequence[str]:
    """Return the folders that a recorded run is about: the rooms that ``mutants-`` names, or all of the source."""
    if name.startswith("mutants-"):
        return [f"src/toolwire/{room}" for room in name.split("-")[1:]]
    return COVERED.get(name, ("src",))


def read_commit(root: Path = ROOT) -> str:
    """Return the short name of the commit that is checked out, with ``+`` where files differ from it."""
    try:
        words = ("git", "-C", str(root))
        commit = subprocess.run([*words, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
        changed = subprocess.run([*words, "status", "--porcelain", "-uno"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    changes = [line for line in changed.stdout.splitlines() if not line[3:].startswith("spec/runs/")]
    return commit.stdout.strip() + ("+" if changes else "")


def describe_run(command: str, figures: Mapping[str, Any], root: Path = ROOT, *, passed: bool = True) -> dict[str, Any]:
    """Return the record of a run that ends now."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": read_commit(root),
        "command": command,
        "machine": f"{os.cpu_count()} cores, CPython {platform.python_version()}",
        "passed": passed,
        "figures": dict(figures),
    }


def record_run(
    name: str, command: str, figures: Mapping[str, Any], root: Path = ROOT, *, passed: bool = True
) -> Path | None:
    """Write the record of a run and return its path; without ``TOOLWIRE_RECORD=1``, write nothing and return None.

    The figures of an earlier part of the same run on the same commit are kept, so that several tests of one run each
    add theirs. The record of a run that did not pass says so, and proves nothing.
    """
    if os.environ.get("TOOLWIRE_RECORD") != "1":
        return None
    path = root / "spec" / "runs" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    record = describe_run(command, figures, root, passed=passed)
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        if (before["commit"], before["command"]) == (record["commit"], command):
            record["figures"] = before["figures"] | record["figures"]
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return path


def describe_age(name: str, run: Mapping[str, Any], root: Path = ROOT) -> str:
    """Return the date and the commit of a recorded run, and whether what it is about has changed since."""
    # FU-63
    commit = str(run["commit"])
    where = f"{run['date']} on commit {commit}"
    if commit.endswith("+"):
        return f"{where}: stale, because files differed from the commit"
    words = ("git", "-C", str(root), "diff", "--name-only", commit, "--", *list_covered(name))
    try:
        changed = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split("\n")
    except (OSError, subprocess.CalledProcessError):
        return f"{where}: stale, because this repository does not have the commit"
    number = sum(map(bool, changed))
    return f"{where}: stale, {number:,} of the files that it is about have changed since" if number else where
