"""Describe the record of a decision, and check the chain of records for later changes.

Rules:
- A record says who decided, for which caller, about what (as a digest), and where. It contains no arguments, reasons or
  credentials. A receipt in it also contains only digests.
- Each record contains the digest of the previous record, so that a change, a gap or a different order breaks the chain.
- A log begins with record 0, which is written when the log is created and is not a decision. A log without it was
  emptied, or comes from 1.0.0rc1.
- Removing records from the end does not break the chain. To detect that, keep the last digest elsewhere.
"""
# XL-055

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import NamedTuple, Protocol

import orjson

from toolwire.core.model import Json

from .tool_definition import compute_digest

FIRST_DIGEST = "0" * 64
"""The first record contains this instead of the previous record's digest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One decision of ``principal`` about a call of ``caller`` (empty for their own call), made at ``channel``.

    ``site`` is the server's origin, and ``binding`` the digest of what was shown. ``at`` is in seconds since 1970.
    ``receipt`` is a receipt with its binding, as JSON text, or empty.
    """

    at: float
    principal: str
    connection: str
    tool: str
    binding: str
    decision: str
    channel: str = ""
    always: bool = False
    shown_ms: int = 0
    site: str = ""
    receipt: str = ""
    caller: str = ""


class ChainedDecision(NamedTuple):
    """A record with its number, from 1, and its digest in the chain."""

    number: int
    record: Decision
    digest: str


class ChainStart(NamedTuple):
    """The number and the digest of the record before the first available one."""

    number: int = 0
    digest: str = FIRST_DIGEST


FIRST = ChainStart()
"""The start of a chain that is here as a whole, in a log of 1.0.0rc1."""
EMPTIED_DIGEST = "e" * 64
"""The first record contains this if the log lacked a required record 0."""


class Audit(Protocol):
    """Stores and returns records. It never changes or removes one."""

    def append(self, record: Decision) -> None:
        """Add ``record`` at the end of the chain."""
        ...

    def entries(self) -> Iterable[ChainedDecision]:
        """Return all records in order."""
        ...


_MEMBERS = tuple(each.name for each in fields(Decision))


def compute_chain_digest(before: str, number: int, record: Decision) -> str:
    """Return the digest of ``record``, whose previous record has the digest ``before``."""
    members: dict[str, Json] = {name: getattr(record, name) for name in _MEMBERS}  # all are strings and numbers
    for name in ("site", "receipt", "caller"):  # records of earlier versions have none, and keep their digest
        if not members[name]:
            del members[name]
    chained = {"before": before, "number": number, **members}
    # GR-04: the same text as in compute_digest, ten times as fast, because a user can trust thousands of tools at once.
    # Only numbers beyond these would be written in another way.
    if type(record.at) is float and 1.0 <= record.at < 1e15 and type(record.shown_ms) is int:
        with suppress(TypeError):  # half a character, or a number of more than 64 bits
            return sha256(orjson.dumps(chained, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return compute_digest(chained)


def find_chain_fault(entries: Iterable[ChainedDecision], start: ChainStart = FIRST) -> str:
    """Return one sentence about the first missing or changed record after ``start``, or an empty string."""
    before, expected = start.digest, start.number + 1
    for entry in entries:
        if entry.number != expected:
            return f"Record {expected} is missing."
        if compute_chain_digest(before, entry.number, entry.record) != entry.digest:
            return f"Record {entry.number} was changed after it was written."
        before, expected = entry.digest, expected + 1
    return ""


def build_first_record(at: float) -> ChainedDecision:
    """Return record 0 of a log that is created ``at``, in seconds since 1970."""
    # AT-43
    record = Decision(at=at, principal="", connection="", tool="", binding="", decision="log created")
    return ChainedDecision(0, record, compute_chain_digest(FIRST_DIGEST, 0, record))


def find_start_fault(first: ChainedDecision | None, start: ChainStart, *, has_records: bool) -> str:
    """Return one sentence about the beginning of a log, or an empty string if it is complete.

    ``first`` is its record 0, and ``start`` is the state before its record 1.
    """
    if first is not None:
        if compute_chain_digest(FIRST_DIGEST, 0, first.record) != first.digest or start.digest != first.digest:
            return "The record of the log's creation was changed after it was written."
        return ""
    if start.digest != FIRST_DIGEST or not has_records:
        return "The record of the log's creation is missing, so the log was emptied."
    return ""
