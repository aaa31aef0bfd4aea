"""Write the decisions of the log that fit its filters as a file: CSV for a spreadsheet, JSON lines for a program.

Rules:
- A file has at most 10,000 decisions, the newest first; a filter by day or by tool gets the others.
- A cell of the CSV is never a formula: what begins like one gets an apostrophe before it, also after what a
  spreadsheet may take for the end of a cell, such as a semicolon in many countries.
"""
# CO-02, CC-07

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Final

from toolwire.consent.decision_record import ChainedDecision

MAX_ROWS: Final = 10_000
_COLUMNS: Final = (
    "number", "at", "principal", "caller", "connection", "site", "tool", "decision", "always", "channel", "shown_ms",
    "binding", "digest",
)  # fmt: skip
# Spreadsheets of East Asia take the wide forms of the signs too.
_FORMULA: Final = re.compile(r"(?:\A|(?<=[;,|\s\"]))(?=[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])")


def write_csv(entries: Iterable[ChainedDecision]) -> bytes:
    """Return the decisions as CSV with a header; times are RFC 3339 in UTC."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(_COLUMNS)
    writer.writerows([_write_cell(facts[name]) for name in _COLUMNS] for facts in _list_facts(entries))
    return out.getvalue().encode("utf-8", "replace")


def write_json_lines(entries: Iterable[ChainedDecision]) -> bytes:
    """Return the decisions as JSON, one on each line, with the members of ``toolwire approvals log --json``."""
    lines: list[str] = []
    for facts in _list_facts(entries):
        number, own, receipt = facts.pop("number"), facts.pop("digest"), facts.pop("receipt")
        members = {**facts, "receipt": json.loads(str(receipt))} if receipt else facts
        lines.append(f"{json.dumps({'number': number, **members, 'digest': own})}\n")
    return "".join(lines).encode()


def _list_facts(entries: Iterable[ChainedDecision]) -> Iterator[dict[str, object]]:
    for entry in entries:
        at = datetime.fromtimestamp(entry.record.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        yield {**asdict(entry.record), "number": entry.number, "at": at, "digest": entry.digest}


def _write_cell(value: object) -> object:
    return _FORMULA.sub("'", value) if isinstance(value, str) else value
