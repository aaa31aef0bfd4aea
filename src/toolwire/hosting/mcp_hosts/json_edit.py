"""Set or remove one member of one object in a JSON text, and leave the rest, comments included, as it is.

Some hosts allow comments and commas before a closing bracket in their files (VS Code, Zed).
"""
# MC-04

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NamedTuple, cast

from toolwire.core.model import Json, Problem
from toolwire.framing import jsontext

# What has no end is a token up to the end of the text, so that these are linear on any text.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.?)*+"?|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_TRAILING_COMMA = re.compile(r",(?=\s*[}\]])")
_SPACE = re.compile(r"\s*")
_NOT_A_BREAK = re.compile(r"[^\n]")
_STRING = re.compile(r'"(?:[^"\\]|\\.?)*+"?', re.DOTALL)
_FIRST_INDENT = re.compile(r"\{[^\S\n]*\n([ \t]+)")
_DECODER = json.JSONDecoder()


class _Member(NamedTuple):
    """A member of an object: its name, and where its name and its value begin, and where the value ends."""

    name: str
    begin: int
    start: int
    end: int


class _Object(NamedTuple):
    """An object in a text: where it begins, its members, and where its closing bracket is."""

    start: int
    members: list[_Member]
    end: int


def read_commented_json(text: str) -> Json | Problem:
    """Return the data of a JSON text that may have comments and commas before closing brackets, or what is wrong."""
    return jsontext.read_without_duplicates(_blank_out(text).encode("utf-8", "surrogatepass"))


def set_member(text: str, section: str, name: str, value: Mapping[str, Json]) -> str:
    """Return ``text`` with the member ``name`` of its object ``section`` set to ``value``. Either is made if missing.

    Raises:
        ValueError: the text or the section is not a JSON object.
    """
    text = text if text.strip() else "{}\n"
    before = _read_section(text, section)
    plain = _blank_out(text)
    whole = _find_object(plain, _skip_space(plain, 0))
    outer = _find_member(whole, section)
    if outer is None:
        edited = _insert(text, whole, section, {name: value})
    else:
        inner = _find_object(plain, outer.start)
        member = _find_member(inner, name)
        if member is None:
            edited = _insert(text, inner, name, value)
        else:
            edited = text[: member.start] + _write(text, value, _find_indent(text, member.start)) + text[member.end :]
    return _check(edited, {**before, section: {**jsontext.get_object(before, section), name: value}})


def remove_member(text: str, section: str, name: str) -> str:
    """Return ``text`` without the member ``name`` of its object ``section``.

    Raises:
        ValueError: the text or the section is not a JSON object.
        KeyError: there is no such member.
    """
    before = _read_section(text, section)
    plain = _blank_out(text)
    outer = _find_member(_find_object(plain, _skip_space(plain, 0)), section)
    if outer is None:
        raise KeyError(section)
    inner = _find_object(plain, outer.start)
    at = [member.name for member in inner.members].index(name)
    member = inner.members[at]
    if at:  # with the comma before it
        edited = text[: inner.members[at - 1].end] + text[member.end :]
    elif len(inner.members) > 1:
        edited = text[: member.begin] + text[inner.members[1].begin :]
    else:
        edited = text[: inner.start + 1] + text[inner.end :]
    rest = {key: value for key, value in jsontext.get_object(before, section).items() if key != name}
    return _check(edited, {**before, section: rest})


def _read_section(text: str, section: str) -> dict[str, Json]:
    data = read_commented_json(text)
    if not isinstance(data, dict) or not isinstance(data.get(section, {}), dict):
        raise ValueError("it is not an object")
    return data


def _check(edited: str, expected: dict[str, Json]) -> str:
    """Return ``edited``, if it says what is ``expected``: a text that is read in two ways is not written."""
    if read_commented_json(edited) != expected:
        raise ValueError("its members are ambiguous")
    return edited


def _blank_out(text: str) -> str:
    """Return ``text`` with spaces for comments and for commas before closing brackets; every place stays the same."""
    plain = _TOKEN.sub(lambda match: match[0] if match[0][0] == '"' else _NOT_A_BREAK.sub(" ", match[0]), text)
    strings = [match.span() for match in _STRING.finditer(plain)]
    outside = list(plain)
    for start, end in strings:
        outside[start:end] = "x" * (end - start)
    commas = [match.start() for match in _TRAILING_COMMA.finditer("".join(outside))]
    letters = list(plain)
    for comma in commas:
        letters[comma] = " "
    return "".join(letters)


def _find_object(plain: str, start: int) -> _Object:
    """Return the object that begins at ``start`` of valid JSON."""
    members: list[_Member] = []
    at = _skip_space(plain, start + 1)
    while plain[at] != "}":
        begin = at
        name, at = cast("tuple[str, int]", _DECODER.raw_decode(plain, begin))
        value = _skip_space(plain, plain.index(":", at) + 1)
        _, end = _DECODER.raw_decode(plain, value)
        members.append(_Member(name, begin, value, end))
        at = _skip_space(plain, end)
        if plain[at] == ",":
            at = _skip_space(plain, at + 1)
    return _Object(start, members, at)


def _find_member(place: _Object, name: str) -> _Member | None:
    found = [member for member in place.members if member.name == name]
    return found[-1] if found else None  # of two with one name, readers take the last


def _insert(text: str, place: _Object, name: str, value: Mapping[str, Json]) -> str:
    """Return ``text`` with one more member at the end of the object at ``place``."""
    indent = _find_indent(text, place.members[-1].start if place.members else place.start)
    if not place.members:
        step = _FIRST_INDENT.search(text)
        outer, indent = indent, indent + (step[1] if step else "  ")
        member = f"\n{indent}{json.dumps(name)}: {_write(text, value, indent)}\n{outer}"
        return text[: place.start + 1] + member + text[place.start + 1 :].lstrip(" \t\n")
    end = place.members[-1].end
    # A comma that is there already stands between the last value and the bracket, outside comments.
    rest = _TOKEN.sub(lambda match: " " * len(match[0]), text[end : place.end])
    comma = rest.find(",")
    member = f"\n{indent}{json.dumps(name, ensure_ascii=False)}: {_write(text, value, indent)}"
    if comma >= 0:
        return f"{text[: end + comma + 1]}{member},{text[end + comma + 1 :]}"
    return f"{text[:end]},{member}{text[end:]}"


def _write(text: str, value: Mapping[str, Json], indent: str) -> str:
    """Return ``value`` as JSON, indented as ``text`` is."""
    step = _FIRST_INDENT.search(text)
    written = json.dumps(value, indent=step[1] if step else 2, ensure_ascii=False)
    return written.replace("\n", f"\n{indent}")


def _find_indent(text: str, at: int) -> str:
    """Return the white space at the beginning of the line of ``at``."""
    line = text[text.rfind("\n", 0, at) + 1 :]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _skip_space(plain: str, at: int) -> int:
    match = _SPACE.match(plain, at)
    return at if match is None else match.end()
