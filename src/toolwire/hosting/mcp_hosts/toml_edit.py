"""Set or remove one table of a TOML text, such as ``[mcp_servers.shop]``, and leave the rest, comments included."""
# QF-07

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from toolwire.core.model import Json

_NOT_CONTENT: Final = ("", "#")


def read_toml(text: str) -> dict[str, Any] | None:
    """Return the data of ``text``, or None if it is not TOML."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return None


def write_table(section: str, name: str, value: Mapping[str, Json]) -> str:
    """Return the table ``name`` of ``section`` as TOML. Its values are texts and lists of texts."""
    members = [f"{key} = {json.dumps(one, ensure_ascii=False)}\n" for key, one in value.items()]
    return f"[{section}.{json.dumps(name) if '.' in name else name}]\n{''.join(members)}"


def set_table(text: str, section: str, name: str, value: Mapping[str, Json]) -> str:
    """Return ``text`` with the table ``name`` of ``section`` set to ``value``: in its place, or at the end.

    Raises:
        ValueError: the text cannot be changed without a risk for the rest of it.
    """
    before = read_toml(text)
    others = _list_others(before, section, name)
    lines = text.splitlines(keepends=True)
    lines_left, at = _cut_table(lines, section, name)
    table = write_table(section, name, value)
    if at is None:
        above = "".join(lines)
        gap = "" if not above else "\n" if above.endswith("\n") else "\n\n"
        edited = f"{above}{gap}{table}"
    else:
        edited = "".join([*lines_left[:at], table, *lines_left[at:]])
    return _check(edited, before, section, {**others, name: dict(value)})


def remove_table(text: str, section: str, name: str) -> str:
    """Return ``text`` without the table ``name`` of ``section``, and without the tables below it.

    Raises:
        ValueError: the text cannot be changed without a risk for the rest of it.
    """
    before = read_toml(text)
    others = _list_others(before, section, name)
    lines_left, at = _cut_table(text.splitlines(keepends=True), section, name)
    if at and not lines_left[at - 1].strip():  # the empty line above it
        del lines_left[at - 1]
    return _check("".join(lines_left), before, section, others)


def _list_others(data: Mapping[str, Any] | None, section: str, name: str) -> dict[str, Any]:
    if data is None or not isinstance(data.get(section, {}), dict):
        raise ValueError("it is not a TOML file with server tables")
    return {key: one for key, one in data.get(section, {}).items() if key != name}


def _cut_table(lines: Sequence[str], section: str, name: str) -> tuple[list[str], int | None]:
    """Return the lines without the table and those below it, and where it was; None if there is no such line."""
    lines_left: list[str] = []
    pending_lines: list[str] = []  # empty lines and comments, which belong to what follows them
    at: int | None = None
    is_inside = False
    for line in lines:
        path = _read_header(line)
        if path:
            is_inside = path[:2] == [section, name]
        if line.strip()[:1] in _NOT_CONTENT:
            pending_lines.append(line)
            continue
        if is_inside:
            if at is None:
                lines_left += pending_lines
                at = len(lines_left)
        else:
            lines_left += [*pending_lines, line]
        pending_lines = []
    return lines_left + pending_lines, at


def _read_header(line: str) -> list[str]:
    """Return the names in the header of a table, or an empty list if ``line`` is none."""
    data: Any = read_toml(line) if line.lstrip().startswith("[") else None
    path: list[str] = []
    while isinstance(data, list | dict) and data:
        if isinstance(data, list):
            data = data[0]
            continue
        key, data = next(iter(data.items()))
        path.append(key)
    return path


def _check(edited: str, before: Mapping[str, Any] | None, section: str, servers: Mapping[str, Any]) -> str:
    """Return ``edited``, if it says what is expected: a text that is read in two ways is not written."""
    after = read_toml(edited)
    expected = {key: one for key, one in (before or {}).items() if key != section}
    if after is None or after.pop(section, {}) != servers or after != expected:
        raise ValueError("its tables are ambiguous")
    return edited
