"""Show JSON data on a page as people read it: an object as a list of facts, like objects as a table, dates as dates.

Rules:
- Nothing is left out: a long text is folded and its size is shown.
- All text is made visible first, so no character can move or hide another one.
"""
# D-03, D-21

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime

from toolwire.core.model import Json

from .html import NO_HTML, Html, escape_text, join_html, show_lines
from .html_page import build_facts, build_fold, build_table
from .visible_text import make_visible, make_visible_json

_FOLDED_LINES = 6
_FOLDED_CHARS = 600
_MAX_DEPTH = 4
_COLUMNS = 8
_WORDS = {"null": "nothing", '""': "an empty text"}
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})?)?", re.ASCII)


def build_value(value: Json, depth: int = 0) -> Html:
    """Return ``value`` as HTML."""
    if isinstance(value, Mapping | Sequence) and not isinstance(value, str | bytes) and value:
        if depth >= _MAX_DEPTH:
            return Html(f"<pre>{escape_text(make_visible_json(value, indent=1))}</pre>")
        return _build_object(value, depth) if isinstance(value, Mapping) else _build_list(value, depth)
    if isinstance(value, str) and value:
        return _build_text(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return escape_text(make_visible_json(value))
    if isinstance(value, bool):
        return Html("yes" if value else "no")
    words = _WORDS.get(json.dumps(value), "none")
    return Html(f'<span class="muted">{escape_text(words)}</span>')


def _build_object(value: Mapping[str, Json], depth: int) -> Html:
    return build_facts((make_visible(name), build_value(one, depth + 1)) for name, one in value.items())


def _build_list(value: Sequence[Json], depth: int) -> Html:
    columns = _find_columns(value)
    if columns:
        cells = (
            [build_value(row[name], depth + 1) if name in row else NO_HTML for name in columns]
            for row in value
            if isinstance(row, Mapping)
        )
        return build_table([make_visible(name) for name in columns], cells)
    items = join_html(Html(f"<li>{build_value(one, depth + 1)}</li>") for one in value)
    return Html(f'<ul class="value-list">{items}</ul>')


def _find_columns(value: Sequence[Json]) -> list[str]:
    """Return the members of the objects in ``value`` if they are alike and few enough for a table, else nothing."""
    names: dict[str, None] = {}
    for one in value:
        if not isinstance(one, Mapping):
            return []
        names |= dict.fromkeys(one)
    return list(names) if len(names) <= _COLUMNS else []


def _build_text(text: str) -> Html:
    if _DATE.fullmatch(text) and (words := _describe_date(text)):
        return Html(f'<time datetime="{escape_text(text)}" title="{escape_text(text)}">{escape_text(words)}</time>')
    shown = Html(f'<span class="value">{show_lines(text)}</span>')
    if text.count("\n") < _FOLDED_LINES and len(text) <= _FOLDED_CHARS:
        return shown
    return build_fold(f"{len(text):,} characters: show all of it", shown, kind="fold")


def _describe_date(text: str) -> str:
    try:
        if len(text) == len("2027-03-01"):
            day = date.fromisoformat(text)
            return f"{day:%A}, {day.day} {day:%B} {day.year}"
        moment = datetime.fromisoformat(text)
    except ValueError:
        return ""
    zone = moment.tzname() or ""
    return f"{moment.day} {moment:%B} {moment.year}, {moment:%H:%M} {zone}".rstrip()
