"""Print a result at a terminal in the form that its site suggests: a card, a list, a table, a link.

Rules:
- The form is advice of the site. A suggestion that does not fit the value is not followed: the value is printed as
  JSON, as without any.
- Every text is escaped: it cannot move, hide or recolour other text. Nothing is fetched, and no markup is read.
"""
# XL-074: the rules above.

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from textwrap import wrap
from typing import Final

from toolwire.core.json_pointer import parse_pointer
from toolwire.core.model import Json, Tool
from toolwire.framing.next_steps import (
    ItemList,
    ResultDisplay,
    build_display,
    build_item_display,
    find_items,
    has_display,
)

from .screen import apply_style, escape_lines, escaped, json_text, shorten
from .table import print_table

_MAX_ITEMS: Final = 50
_CELL_CHARACTERS: Final = 200
_URLS: Final = ("image", "url")


def print_result(tool: Tool, value: Json) -> bool:
    """Print ``value``, a result of ``tool``, as its site suggests. Return False if it suggests nothing that fits."""
    if not has_display(tool):
        return False
    display = build_display(tool, value)
    if display.form in ("table", "list"):
        found = find_items(value)
        return found is not None and _print_items(tool, found, display)
    if display.form == "card":
        return isinstance(value, dict) and _print_card(display, value)
    if display.form in ("link", "image"):
        return _print_link(display)
    return display.form == "none" or (display.form == "text" and _print_text(display, value))


def _print_items(tool: Tool, found: ItemList, display: ResultDisplay) -> bool:
    shown = found.items[: min(display.items or _MAX_ITEMS, _MAX_ITEMS)]
    displays = [build_item_display(tool, found, index) for index in range(len(shown))]
    rows = [_list_cells(item, one) for item, one in zip(shown, displays, strict=True)]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    if not columns and shown:
        return False
    if not shown:
        print("(nothing)")
    elif display.form == "table":
        cells = [tuple(escaped(row.get(name, "")) for name in columns) for row in rows]
        print_table([escaped(name) for name in columns], cells, sys.stdout)
    else:
        for item, one in zip(shown, displays, strict=True):
            _print_list_item(item, one)
    if more := len(found.items) - len(shown):
        print(apply_style(f"... and {more:,} more.", "dim", sys.stdout))
    return True


def _list_cells(item: Json, display: ResultDisplay) -> dict[str, str]:
    """Return the cells of one row, by the name of the column: what the site suggests, else every member."""
    cells = {name: shorten(text, _CELL_CHARACTERS) for name, text in display.parts.items()}
    cells |= {_name_field(pointer): _write_cell(found) for pointer, found in display.fields.items()}
    if cells:
        return cells
    if isinstance(item, Mapping):
        return {str(name): _write_cell(found) for name, found in item.items()}
    return {"value": _write_cell(item)}


def _print_list_item(item: Json, display: ResultDisplay) -> None:
    title = display.parts.get("title")
    details = [text for name, text in display.parts.items() if name != "title"]
    details += [f"{_name_field(pointer)}: {_write_cell(found)}" for pointer, found in display.fields.items()]
    if title is None and not details:
        title = _write_cell(item)
    _print_wrapped(" - ".join(text for text in (title, *details) if text), first="- ", rest="  ")


def _print_card(display: ResultDisplay, value: Mapping[str, Json]) -> bool:
    parts = display.parts
    if title := parts.get("title"):
        print(apply_style(escaped(title), "bold", sys.stdout))
    if subtitle := parts.get("subtitle"):
        print(apply_style(escaped(subtitle), "dim", sys.stdout))
    if body := parts.get("body"):
        _print_lines(body)
    fields = {_name_field(pointer): found for pointer, found in display.fields.items()}
    for name, found in (fields or ({} if parts else value)).items():
        _print_wrapped(f"{name}: {_write_cell(found)}", rest="  ")
    for name in _URLS:
        if name in parts:
            print(escaped(parts[name]))
    return True


def _print_link(display: ResultDisplay) -> bool:
    parts = display.parts
    url = parts.get("image" if display.form == "image" else "url")
    if url is None:
        return False
    if title := parts.get("title"):
        print(apply_style(escaped(title), "bold", sys.stdout))
    print(escaped(url))
    return True


def _print_text(display: ResultDisplay, value: Json) -> bool:
    text = display.parts.get("body") or (value if isinstance(value, str) else None)
    if text is None and "title" not in display.parts:
        return False
    if title := display.parts.get("title"):
        print(apply_style(escaped(title), "bold", sys.stdout))
    if text:
        _print_lines(text)
    return True


def _print_lines(text: str) -> None:
    for line in escape_lines(text.rstrip("\n")).split("\n"):
        _print_wrapped(line)


def _print_wrapped(text: str, first: str = "", rest: str = "") -> None:
    """Print ``text`` in lines that fit the terminal, which begin with ``first`` and then ``rest``."""
    width = max(shutil.get_terminal_size().columns, 20)
    lines = wrap(escaped(text), width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
    print("\n".join(lines) or first.rstrip())


def _write_cell(value: Json) -> str:
    return shorten(value if isinstance(value, str) else "" if value is None else json_text(value), _CELL_CHARACTERS)


def _name_field(pointer: str) -> str:
    steps = parse_pointer(pointer)
    after = max((place + 1 for place, step in enumerate(steps) if step.isdigit()), default=0)
    return "/".join(steps[after:]) or "value"
