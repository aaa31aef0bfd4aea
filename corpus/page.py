"""docs/reference/corpus.md: what the real documents showed, as tables."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from . import bodies, judge, roundtrip

_HEAD = """# Real documents

`make corpus` and `make test-corpus` write this page, from {packages} of npm. Each document is read with
`include="all"`, in a process with a time limit, and its tools are checked. No document may crash or hang the reader, or
lose an operation without a finding. Each tool needs a valid and unique name, each schema must be valid JSON Schema
2020-12, and another process must produce the same bytes from the same document.

A tool must accept each body and each parameter that its document accepts. The tested values are the examples of the
document, values generated from its schemas, and changed values. Another program, `jsonschema`, decides whether the
document accepts a value.
"""


def written(judged: Sequence[dict[str, Any]], called: Sequence[dict[str, Any]], packages: str) -> str:
    """Return the page for what was said of the documents."""
    parts = [_HEAD.format(packages=packages), *_totals(judged), *_refused(judged), *_slowest(judged), *_called(called)]
    faults = [f"- {one.get('document', one.get('path'))}: {one['faults'][0]}" for one in judged if one["faults"]]
    return "\n".join([*parts, *(["", "## Documents with a fault", "", *faults] if faults else [])]) + "\n"


def summarize(judged: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Return the figures of the first table by what they count."""
    read = [one for one in judged if "tools" in one]
    sizes = sorted(size for one in read for size in one["sizes"])
    counts: Counter[str] = Counter()
    for one in read:
        counts.update(one.get("counts", {}))
    return {
        "documents": len(judged),
        "refused documents, each with a reason": sum("refused" in one for one in judged),
        "operations": sum(one["operations"] for one in read),
        "tools": sum(one["tools"] for one in read),
        "operations without a tool, each with a finding": sum(one["skipped"] for one in read),
        "operations without a tool and without a finding": sum(
            one["operations"] - one["tools"] - one["skipped"] for one in read
        ),
        "findings": sum(one["notes"] for one in read),
        "documents that another process read again": sum("again" in one for one in read),
        "with the same bytes as result": sum(one.get("again", False) for one in read),
        "median input schema, bytes": int(statistics.median(sizes or [0])),
        "largest input schema, bytes": max(sizes, default=0),
        "input schemas above 32 KB": sum(size > 32 * 1024 for size in sizes),
        f"schemas in the format of a provider, of at most {judge.SHAPED} tools of a document": counts["shapes"],
        "arguments that were equal after conversion to that format and back": counts["reversed"] - counts["astray"],
        f"generated arguments, for at most {judge.MADE_UP} tools of a document": counts["made"],
        "requests that were built from them": counts["written"],
        "schemas for which no arguments were found": counts["unmade"],
        f"operations tested with accepted values, at most {bodies.OPERATIONS} of a document": counts[
            "operations tried"
        ],
        f"bodies that their document accepts, at most {bodies.BODIES} for an operation": counts["bodies tried"],
        "refused bodies": counts["bodies refused"],
        f"parameter values that their document accepts, at most {bodies.PARAMETERS} for each": counts[
            "parameters tried"
        ],
        "refused values": counts["parameters refused"],
        "bodies and values that no request can contain": counts["bodies not written"]
        + counts["parameters not written"],
        "values without a verdict": counts["values that could not be judged"],
        "tools without known valid arguments": counts["unreachable"],
        "such tools without a finding": counts["unreachable without a finding"],
        "documents with a fault": sum(bool(one["faults"]) for one in judged),
    }


def _totals(judged: Sequence[dict[str, Any]]) -> Iterable[str]:
    yield "| what | number |\n|---|---|"
    yield from (f"| {what} | {figure:,} |" for what, figure in summarize(judged).items())


def _refused(judged: Sequence[dict[str, Any]]) -> Iterable[str]:
    reasons = Counter(re.sub(r"\d+", "N", one["refused"]) for one in judged if "refused" in one)
    if reasons:
        yield "\n| refused, because it ... | documents |\n|---|---|"
        yield from (f"| {reason} | {count} |" for reason, count in reasons.most_common())


def _slowest(judged: Sequence[dict[str, Any]]) -> Iterable[str]:
    yield "\nThe ten slowest documents, in CPU seconds. A schema is built at its first use.\n"
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
## Requests and another reader

{len(called)} of the documents, chosen evenly among those of at most {roundtrip.MAX_BYTES // 1000} KB, are served by a
local server that reads each request with openapi-core. At most {roundtrip.MAX_CALLED} operations of each document are
called, with the required arguments and with all arguments. The arguments that openapi-core reads are compared with the
arguments of the call: {counts["equal"]:,} of {sent:,} calls were equal.
"""
    yield "| outcome | calls |\n|---|---|"
    yield from (f"| {what} | {count:,} |" for what, count in counts.most_common())
    yield """
The other reader refuses values without a deserialiser or formatter, and splits a path differently if two templates
match it. Its messages:
"""
    reasons: Counter[str] = Counter()
    for one in called:
        reasons.update(one.get("reasons", {}))
    yield "| message of the other reader | calls |\n|---|---|"
    yield from (f"| {what} | {count:,} |" for what, count in reasons.most_common(12))
