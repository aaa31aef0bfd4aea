"""Build the log of decisions: the newest first, by pages, with filters, and the check of its chain of digests.

Rules for the file of the decisions that fit the filters:
- It has at most 10,000 decisions, the newest first; a filter by day or by tool gets the others.
- A cell of the CSV is never a formula: what begins like one gets an apostrophe before it, also after what a
  spreadsheet may take for the end of a cell, such as a semicolon in many countries.
"""
# CO-02, XL-055, CC-07

from __future__ import annotations

import csv
import io
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from toolwire.consent.decision_record import ChainedDecision, Decision, find_chain_fault
from toolwire.consent.origin_display import name_programs
from toolwire.framing.html import NO_HTML, Html, escape_text, join_html, show_text
from toolwire.framing.html_call import build_moment
from toolwire.framing.html_page import (
    build_alert,
    build_badge,
    build_facts,
    build_fold,
    build_notice,
    build_options,
    build_table,
)
from toolwire.framing.visible_text import make_visible

from .page import Download, Page, PageRequest, build_heading, count_words
from .source import ConsoleSource

ROWS = 50
MAX_SCANNED = 50_000
"""How many records one page looks through for those that fit; a link goes on with the older ones."""

_TEXT_CHARS = 120
_SIGNS = {
    "allowed": "safe",
    "agreed": "safe",
    "signed": "safe",
    "denied": "reads",
    "blocked": "costs",
    "throttled": "costs",
    "joined": "costs",
    "timeout": "costs",
    "changed": "destroys",
    "revoked": "safe",
    "cancelled": "reads",
}
_FILTERS = ("tool", "site", "who", "decision", "since")
_HEADER = ("Decision", "Tool", "Site", "Who", "Time", "No.")
_DAY_S = 86_400.0


def build_log(source: ConsoleSource, request: PageRequest) -> Page:
    """Return one page of the log: 50 decisions that fit the filters, and how to see older ones."""
    query = {name: request.query.get(name, "").strip()[:_TEXT_CHARS] for name in _FILTERS}
    before = request.query.get("before", "")
    end = int(before) if before.isascii() and before.isdigit() and len(before) < 18 else None
    since, fault = _read_day(query["since"])
    found, older = _find_rows(source.audit.iterate_back(end), query, since)
    empty = "No decision fits." if any(query.values()) else "No decisions yet."
    table = build_table(_HEADER, [_list_cells(entry) for entry in found], empty)
    links = [request.build_link("/log", "Newest", "button", **query)] if end is not None else []
    links += [request.build_link("/log", "Older", "button", before=str(older), **query)] if older else []
    pages = Html(f'<nav class="actions" aria-label="Pages of the log">{join_html(links)}</nav>') if links else NO_HTML
    csv, lines = (request.link(f"/log/decisions.{kind}", **query) for kind in ("csv", "jsonl"))
    saving = Html(
        f'<p class="muted">Save what fits, at most {MAX_ROWS:,} decisions: '
        f'<a href="{escape_text(csv)}" download>CSV</a>, <a href="{escape_text(lines)}" download>JSON lines</a>.</p>'
    )
    part = Html(' data-part="log"') if end is None else NO_HTML
    heading = build_heading("Log", "Who decided what, and when. Records contain no arguments and no credentials.")
    html = Html(
        f"{heading}{_build_verification(source, request)}{build_alert(fault)}{_build_filters(request, query)}"
        f'<div class="card"{part}>{table}</div>{pages}{saving if found else ""}'
    )
    return Page("Log", html, ("log",) if end is None else (), status=400 if fault else 200)


def export_log(
    source: ConsoleSource,
    request: PageRequest,
    write: Callable[[Iterable[ChainedDecision]], bytes],
    suffix: str,
    media_type: str,
) -> Page | Download:
    """Return the decisions that fit the filters as a file, at most 10,000 of them; the log if a filter is wrong."""
    query = {name: request.query.get(name, "").strip()[:_TEXT_CHARS] for name in _FILTERS}
    since, fault = _read_day(query["since"])
    if fault:
        return build_log(source, request)
    fitting = (entry for entry in source.audit.iterate_back() if _fits(entry.record, query, since))
    return Download(f"decisions.{suffix}", f"{media_type}; charset=utf-8", write(islice(fitting, MAX_ROWS)))


def build_timeline(entries: Iterable[ChainedDecision]) -> Html:
    """Return decisions as a short list."""
    items = join_html(
        Html(
            f"<li>{_build_decision(entry.record)} <span><code>{_show(entry.record.tool)}</code> "
            f"<small>{_show(name_programs(entry.record.site or entry.record.connection))}</small></span>"
            f'<small class="when">{build_moment(entry.record.at)}</small></li>'
        )
        for entry in entries
    )
    return Html(f'<ul class="timeline">{items}</ul>')


def _find_rows(
    entries: Iterable[ChainedDecision], query: dict[str, str], since: float
) -> tuple[list[ChainedDecision], int]:
    """Return the records of a page, and the number before which the next page begins, 0 if there is none."""
    found: list[ChainedDecision] = []
    for scanned, entry in enumerate(entries):
        if len(found) == ROWS or scanned == MAX_SCANNED:
            return found, entry.number + 1
        if _fits(entry.record, query, since):
            found.append(entry)
    return found, 0


def _fits(record: Decision, query: dict[str, str], since: float) -> bool:
    return (
        record.at >= since
        and query["tool"] in record.tool
        and (query["site"] in record.site or query["site"] in record.connection)
        and (query["who"] in record.principal or query["who"] in record.caller)
        and query["decision"] in ("", record.decision)
    )


def _read_day(text: str) -> tuple[float, str]:
    if not text:
        return 0.0, ""
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp(), ""
    except (ValueError, OverflowError):
        return 0.0, "Write the date as year, month and day, such as 2026-11-30."


def _list_cells(entry: ChainedDecision) -> list[Html]:
    record = entry.record
    details = build_facts(
        (label, escape_text(text))
        for label, text in (
            ("shown for", f"{record.shown_ms / 1_000:.1f} s"),
            ("answered", make_visible(record.channel) or "by a permission or a rule"),
            ("for", make_visible(record.caller) or "themselves"),
            ("request", record.binding[:16] or "none"),
            ("digest", entry.digest[:16]),
        )
    )
    site, name = _show(name_programs(record.site)), _show(name_programs(record.connection))
    return [
        _build_decision(record),
        Html(f"<code>{_show(record.tool)}</code>"),
        Html(f"{site} <small>{name}</small>") if name and name != site else site or name,
        _build_who(record),
        build_moment(record.at),
        build_fold(str(entry.number), details, kind="fold"),
    ]


def _build_decision(record: Decision) -> Html:
    words = make_visible(record.decision[:_TEXT_CHARS])
    return build_badge(_SIGNS.get(record.decision, "reads"), f"{words}, also later" if record.always else words)


def _build_who(record: Decision) -> Html:
    """Return who decided, and for whom if that is another one."""
    # FU-60
    who = _show(record.principal)
    is_own = record.caller in ("", record.principal)
    return who if is_own else Html(f"{who} <small>for {_show(record.caller)}</small>")


def _show(text: str) -> Html:
    """Return a text of a record on one line, at most 120 characters of it."""
    return show_text(text if len(text) <= _TEXT_CHARS else f"{text[:_TEXT_CHARS]}…")


def _build_filter(name: str, text: str) -> Html:
    kind = Html("date" if name == "since" else "search")
    field = Html(f'<input name="{escape_text(name)}" value="{escape_text(text)}" type="{kind}" spellcheck="false">')
    return Html(f"<label>{escape_text(name.capitalize())}{field}</label>")


def _build_filters(request: PageRequest, query: dict[str, str]) -> Html:
    options = build_options([("", "any"), *((name, name) for name in _SIGNS)], query["decision"])
    fields = join_html(_build_filter(name, query[name]) for name in ("tool", "site", "who", "since"))
    return Html(
        f'<form class="filters" action="{escape_text(request.link("/log"))}" role="search">{fields}'
        f'<label>Decision<select name="decision">{options}</select></label><button>Filter</button></form>'
    )


def _build_verification(source: ConsoleSource, request: PageRequest) -> Html:
    """Return the button that checks the chain, or what the check found."""
    if request.query.get("verify") != "chain":
        return Html(
            f'<form action="{escape_text(request.link("/log"))}" class="actions">'
            '<button name="verify" value="chain">Verify the chain</button></form>'
        )
    began = time.perf_counter()
    entries, start = source.audit.entries(), source.audit.start()
    fault = source.audit.find_start_fault() or find_chain_fault(entries, start)
    if fault:
        text = f"The log was changed: {fault} Copy the folder before you continue."
        return build_notice(text, "destroys", role="alert")
    missing = f" Records 1 to {start.number:,} are not in this folder." if start.number else ""
    last = f" The last digest is {entries[-1].digest}." if entries else ""
    took = f"{time.perf_counter() - began:.1f} s"
    text = f"{count_words(len(entries), 'record is', 'records are')} as written ({took}).{missing}{last}"
    return build_notice(text, "safe", role="status")


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
