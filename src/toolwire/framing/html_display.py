"""Show a result on a page in the form that its site suggests: a table, a list, a card, a link, an image, a map.

Rules:
- The form is advice of the site. What does not fit the value is not followed: the value is shown as any other.
- Nothing is loaded: an image elsewhere is a link that says where it leads. Only http and https links are made.
- An object with a latitude and a longitude has a link to a map, which opens when the user follows it.
"""
# XL-074, CO-03

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Final

from toolwire.core.json_pointer import parse_pointer
from toolwire.core.model import Json, Tool
from toolwire.core.url_origin import get_authority

from .html import NO_HTML, Html, escape_text, join_html, show_lines, show_text
from .html_page import build_facts, build_fold, build_table
from .html_value import build_value
from .next_steps import ItemList, ResultDisplay, build_display, build_item_display, find_items, has_display
from .visible_text import make_visible

_MAX_ITEMS: Final = 50
_PLACES: Final = (("latitude", "longitude"), ("lat", "lon"), ("lat", "lng"), ("lat", "long"))
_MAP: Final = "https://www.openstreetmap.org/"
_LINES: Final = 12
_SHOWN_CHARS: Final = 1_500


def build_displayed_result(tool: Tool, value: Json) -> Html:
    """Return ``value``, a result of ``tool``, as its site suggests; nothing if it suggests nothing that fits."""
    if not has_display(tool):
        return NO_HTML
    display = build_display(tool, value)
    if display.form in ("table", "list"):
        found = find_items(value)
        return NO_HTML if found is None else _build_items(tool, found, display)
    build = _FORMS.get(display.form)
    return NO_HTML if build is None else build(display, value)


def build_map_link(value: Json) -> Html:
    """Return a link to a map if ``value`` is an object with a latitude and a longitude, else nothing."""
    if not isinstance(value, Mapping):
        return NO_HTML
    for names in _PLACES:
        north, east = (value.get(name) for name in names)
        if _is_degree(north, 90) and _is_degree(east, 180):
            address = f"{_MAP}?mlat={north:.6f}&mlon={east:.6f}#map=15/{north:.6f}/{east:.6f}"
            return build_outside_link(address, "Show on a map")
    for name in ("location", "position", "coordinates", "geo"):
        inner = value.get(name)
        if isinstance(inner, Mapping) and (link := build_map_link({**inner, name: None})):
            return link
    return NO_HTML


def build_outside_link(url: str, words: str) -> Html:
    """Return a link to another site, which names the host that it leads to."""
    host = make_visible(get_authority(url))
    return Html(
        f'<a href="{escape_text(url)}" target="_blank" rel="noopener noreferrer nofollow">{escape_text(words)}'
        f" <small>({escape_text(host)})</small></a>"
    )


def _is_degree(value: Json, most: int) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and abs(value) <= most


def _build_items(tool: Tool, found: ItemList, display: ResultDisplay) -> Html:
    count = min(display.items or _MAX_ITEMS, _MAX_ITEMS, len(found.items))
    if not found.items:
        return Html('<p class="empty">Nothing was found.</p>')
    rows = [_list_cells(found.items[index], build_item_display(tool, found, index)) for index in range(count)]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    if not columns:
        return NO_HTML
    if display.form == "table":
        html = build_table(
            [make_visible(name) for name in columns], [[row.get(name, NO_HTML) for name in columns] for row in rows]
        )
    else:
        html = Html(f'<ul class="results">{join_html(_build_list_item(row) for row in rows)}</ul>')
    more = len(found.items) - count
    return Html(f'{html}<p class="muted">and {more:,} more</p>') if more else html


def _list_cells(item: Json, display: ResultDisplay) -> dict[str, Html]:
    """Return the cells of one item as HTML, by the name of the column: what the site suggests, else every member."""
    cells = {name: _build_part(name, text) for name, text in display.parts.items()}
    cells |= {_name_field(pointer): build_value(found, 1) for pointer, found in display.fields.items()}
    if not cells and isinstance(item, Mapping):
        cells = {str(name): build_value(found, 1) for name, found in item.items()}
    if not cells:
        cells = {"value": build_value(item, 1)}
    if place := build_map_link(item):
        cells["map"] = place
    return cells


def _build_list_item(row: dict[str, Html]) -> Html:
    title = row.get("title", NO_HTML)
    head = Html(f"<b>{title}</b>") if title else NO_HTML
    rest = [
        html
        if name in ("subtitle", "body", "image", "url", "map")
        else Html(f"<small>{show_text(name)}</small> {html}")
        for name, html in row.items()
        if name != "title"
    ]
    return Html(f"<li>{head}{join_html(Html(f'<div>{one}</div>') for one in rest)}</li>")


def _build_part(name: str, text: str) -> Html:
    match name:
        case "image":
            return build_outside_link(text, "Open the image")
        case "url":
            return build_outside_link(text, "Open the page")
        case _:
            return _build_words(text)


def _build_card(display: ResultDisplay, value: Json) -> Html:
    if not isinstance(value, Mapping):
        return NO_HTML
    parts = display.parts
    title = _build_title(parts)
    subtitle = Html(f'<p class="muted">{show_text(parts["subtitle"])}</p>') if "subtitle" in parts else NO_HTML
    body = _build_words(parts["body"]) if "body" in parts else NO_HTML
    fields = {_name_field(pointer): found for pointer, found in display.fields.items()}
    chosen = fields or ({} if parts else dict(value))
    facts = (
        build_facts((make_visible(name), build_value(found, 1)) for name, found in chosen.items())
        if chosen
        else NO_HTML
    )
    links = [_build_part(name, parts[name]) for name in ("image", "url") if name in parts]
    links += [link] if (link := build_map_link(value)) else []
    rest = join_html(Html(f"<p>{one}</p>") for one in links)
    return Html(f'<div class="result">{title}{subtitle}{body}{facts}{rest}</div>')


def _build_title(parts: Mapping[str, str]) -> Html:
    # No heading: a result may stand anywhere on a page.
    return Html(f'<p class="title">{show_text(parts["title"])}</p>') if "title" in parts else NO_HTML


def _build_link_form(display: ResultDisplay, _value: Json) -> Html:
    parts = display.parts
    name = "image" if display.form == "image" else "url"
    if name not in parts:
        return NO_HTML
    title = _build_title(parts)
    return Html(f'<div class="result">{title}<p>{_build_part(name, parts[name])}</p></div>')


def _build_text_form(display: ResultDisplay, value: Json) -> Html:
    parts = display.parts
    text = parts.get("body") or (value if isinstance(value, str) else "")
    if not text and "title" not in parts:
        return NO_HTML
    title = _build_title(parts)
    return Html(f'<div class="result">{title}{_build_words(text) if text else NO_HTML}</div>')


def _build_words(text: str) -> Html:
    text = text.rstrip("\n")
    html = Html(f'<span class="value">{show_lines(text)}</span>')
    if text.count("\n") < _LINES and len(text) <= _SHOWN_CHARS:
        return html
    return build_fold(f"{len(text):,} characters: show all", html, kind="fold")


def _name_field(pointer: str) -> str:
    steps = parse_pointer(pointer)
    after = max((place + 1 for place, step in enumerate(steps) if step.isdigit()), default=0)
    return "/".join(steps[after:]) or "value"


def _build_nothing(_display: ResultDisplay, _value: Json) -> Html:
    return Html('<p class="muted">The site suggests to show nothing of this result.</p>')


_FORMS: Final[Mapping[str, Callable[[ResultDisplay, Json], Html]]] = {
    "card": _build_card,
    "link": _build_link_form,
    "image": _build_link_form,
    "text": _build_text_form,
    "none": _build_nothing,
}
