"""One check of the kit: what a server must do, and the function that looks whether it does.

Rules:
- A check looks from outside and assumes nothing about how a server is made.
- What may run a tool stands behind ``needs_call``, and runs only where the caller names the tool and its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from .probe import ServerProbe


class Skip(NamedTuple):
    """Why a check does not apply to a server."""

    reason: str


CheckFunction: TypeAlias = Callable[[ServerProbe], str | Skip | None]
"""Looks at a server: None where all is well, else what is not, or why there is nothing to look at."""


class CheckStatus(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Check(NamedTuple):
    """One thing a server must do: the requirement it comes from, in one sentence, and the look."""

    requirement: str
    sentence: str
    run: CheckFunction
    needs_call: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a check ended; ``number`` is its place in the protocol's table, ``why`` is empty where it passed."""

    number: str
    requirement: str
    sentence: str
    standing: CheckStatus
    why: str = ""


def run_check(check: Check, number: str, asking: ServerProbe) -> Outcome:
    """Return how ``check`` ends on the server that is asked."""
    if check.needs_call and asking.call is None:
        said: str | Skip | None = Skip("it calls a tool: name one, with its arguments")
    else:
        said = check.run(asking)
    standing = (
        CheckStatus.PASSED if said is None else CheckStatus.SKIPPED if isinstance(said, Skip) else CheckStatus.FAILED
    )
    why = said.reason if isinstance(said, Skip) else said or ""
    return Outcome(number=number, requirement=check.requirement, sentence=check.sentence, standing=standing, why=why)
