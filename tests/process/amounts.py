"""How much the tests of a real process ask of it: little in every run, all that is promised in ``make long``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from spec.runs import ROOT, record_run

LONG = os.environ.get("TOOLWIRE_LONG") == "1"
REQUESTS = 1_000_000 if LONG else 20_000
"""Mutated requests. [R5]"""
SLOW = 2_000 if LONG else 400
"""Connections that send a head or a body a byte at a time. [R9]"""
SILENT = 2_000 if LONG else 200
"""Connections that say nothing. [R9]"""
SOAK = 5_000_000 if LONG else 100_000
"""Calls of one process. [R16]"""
WAIT_S = 300.0 if LONG else 30.0
"""How long all of them together may take before a server that hangs is believed to, in seconds."""


def quantile(figures: Iterable[float], share: float) -> float:
    """Return the figure below which ``share`` of ``figures`` are."""
    ordered = sorted(figures)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


_measured: list[tuple[str, dict[str, float]]] = []
_recorded: set[tuple[str, Path]] = set()


def report(requirement: str, run: str = "long", **figures: float) -> None:
    """Print what a test measured; a long run records it once the test has passed."""
    print(f"\n{requirement}: " + ", ".join(f"{name} {figure:,.5g}" for name, figure in figures.items()))
    _measured.append((run, {f"{requirement} {name}": round(figure, 3) for name, figure in figures.items()}))


def forget_measured() -> None:
    """Forget what a test reported that failed."""
    _measured.clear()


def record_measured(root: Path = ROOT) -> None:
    """Record what a test reported that has passed, and forget it."""
    for run, figures in _measured:
        record_run(run, f"make {run}", figures, root)
        _recorded.add((run, root))
    _measured.clear()


def mark_failed() -> None:
    """Let the records of this process say that their run did not pass, because another of its tests failed."""
    for run, root in _recorded:
        record_run(run, f"make {run}", {}, root, passed=False)
