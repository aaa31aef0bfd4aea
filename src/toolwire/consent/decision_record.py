"""The record of a decision, and the chain that shows whether somebody changed one afterwards. [XL-055]

Rules:
- A record says who, what by digest, and how it was decided. No argument, no reason, no credential is in it.
- Each record holds the digest of the one before it: a change, a gap or another order breaks the chain.
- A chain cut off at its end is still a chain: who must know that keeps the last digest elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import NamedTuple, Protocol

from .tool_definition import digest

BEGINNING = "0" * 64
"""What the first record has in place of the digest before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One decision. ``binding`` is the digest of what was shown; ``at`` is in seconds since 1970."""

    at: float
    principal: str
    connection: str
    tool: str
    binding: str
    decision: str
    channel: str = ""
    always: bool = False
    shown_ms: int = 0


class ChainedDecision(NamedTuple):
    """A record in its chain."""

    number: int
    record: Decision
    digest: str


class Audit(Protocol):
    """Takes records and gives them back; nothing is ever changed or removed."""

    def append(self, record: Decision) -> None:
        """Add ``record`` at the end of the chain."""
        ...

    def entries(self) -> Iterable[ChainedDecision]:
        """Return all records in order."""
        ...


def chained(before: str, number: int, record: Decision) -> str:
    """Return the digest of a record that follows the one with the digest ``before``."""
    return digest({"before": before, "number": number, **asdict(record)})


def fault(entries: Iterable[ChainedDecision]) -> str:
    """Return one sentence on the first record that is not as it was written, or nothing."""
    before, expected = BEGINNING, 1
    for entry in entries:
        if entry.number != expected:
            return f"Record {expected} is missing."
        if chained(before, entry.number, entry.record) != entry.digest:
            return f"Record {entry.number} is not as it was written."
        before, expected = entry.digest, expected + 1
    return ""
