"""Define a check: a requirement on a server, and the function that tests it.

Rules:
- A check sends requests only and assumes nothing about the implementation of a server.
- A check that may run a tool sets ``needs_call``. It runs only if the caller names a tool and its arguments.
- A check that sets ``needs_key`` runs only with a key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from .probe import ServerProbe


class Skip(NamedTuple):
    """The reason why a check does not apply to a server."""

    reason: str


CheckFunction: TypeAlias = Callable[[ServerProbe], str | Skip | None]
"""Tests a server. Returns None if it conforms, a sentence if it does not, or a ``Skip`` if the check does not apply."""


class CheckStatus(StrEnum):
    """The result of a check."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Check(NamedTuple):
    """A requirement on a server: its id, one sentence that states it, and the function that tests it."""

    requirement: str
    sentence: str
    run: CheckFunction
    needs_call: bool = False
    needs_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A check and its result.

    ``number`` consists of the protocol and the check's position in the list. ``why`` is empty if the check passed.
    """

    number: str
    requirement: str
    sentence: str
    standing: CheckStatus
    why: str = ""


def run_check(check: Check, number: str, probe: ServerProbe) -> Outcome:
    """Run ``check`` on the server of ``probe`` and return its outcome."""
    if check.needs_call and probe.call is None:
        verdict: str | Skip | None = Skip("this check calls a tool, and no tool was named")
    elif check.needs_key and not probe.has_key:
        verdict = Skip("this run has no key")
    else:
        verdict = check.run(probe)
    standing = (
        CheckStatus.PASSED
        if verdict is None
        else CheckStatus.SKIPPED
        if isinstance(verdict, Skip)
        else CheckStatus.FAILED
    )
    why = verdict.reason if isinstance(verdict, Skip) else verdict or ""
    return Outcome(number=number, requirement=check.requirement, sentence=check.sentence, standing=standing, why=why)
