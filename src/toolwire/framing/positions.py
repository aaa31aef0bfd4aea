"""Find lines and columns in a JSON text: of JSON Pointers, of duplicate names, and of syntax errors.

Rules:
- Lines and columns begin at 1; a column counts characters. Only ``\\n`` ends a line.
- Each search is one pass over the text, without recursion; it builds only the pointers that are wanted.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from toolwire.core.json_pointer import PathStep, build_pointer, parse_pointer
from toolwire.core.model import Problem

from . import jsontext

_TOKEN = re.compile(r'[\[\]{}]|"(?:[^"\\]++|\\.)*+"|[^\s\[\]{},:"]++', re.DOTALL)  # possessive: linear on any text
_LINE_END = re.compile("\n")


class TextPosition(NamedTuple):
    """A place in a text."""

    line: int
    column: int


class ValuePosition(NamedTuple):
    """The position of a value, and of its name; an item of a list and the whole document have no name."""

    value: TextPosition
    name: TextPosition | None = None


class DuplicateName(NamedTuple):
    """A member whose name occurs earlier in its object: its JSON Pointer, and the positions of both names."""

    pointer: str
    spot: TextPosition
    first: TextPosition


class SyntaxFault(NamedTuple):
    """The position where a text stops being JSON, and the reason."""

    spot: TextPosition
    reason: str


class _Node(NamedTuple):
    depth: int
    step: PathStep
    name_at: int | None
    value_at: int


@dataclass(slots=True)
class _PointerTree:
    """The pointers that are looked for, as a tree: what is asked for here, and what is further down."""

    pointers: list[str] = field(default_factory=list)
    below: dict[str, _PointerTree] = field(default_factory=dict)


def locate(text: str, pointers: Iterable[str]) -> dict[str, ValuePosition]:
    """Return the position of each of ``pointers`` in the JSON text ``text``; pointers that lead nowhere are left out.

    If a name occurs twice, the last one counts, as it does for a parser.
    """
    root = _PointerTree()
    for one in pointers:
        wanted = root
        for part in parse_pointer(one):
            wanted = wanted.below.setdefault(part, _PointerTree())
        wanted.pointers.append(one)
    starts = _find_line_starts(text)
    found: dict[str, ValuePosition] = {}
    branch: list[_PointerTree | None] = []
    for depth, step, name_at, value_at in _walk_values(text):
        del branch[depth:]
        above = branch[-1] if branch else None
        here = root if depth == 0 else above.below.get(str(step)) if above else None
        branch.append(here)
        if here is not None and here.pointers:
            name = None if name_at is None else _find_position(starts, name_at)
            found |= dict.fromkeys(here.pointers, ValuePosition(_find_position(starts, value_at), name))
    return found


def has_duplicates(text: str) -> bool:
    """Return whether an object in ``text``, JSON, has two members of one name; faster than ``find_duplicates``."""
    lengths: list[int] = []

    def count(pairs: list[tuple[str, object]]) -> None:
        lengths.append(len(pairs) - len({name for name, _ in pairs}))

    json.loads(text, object_pairs_hook=count, parse_float=len, parse_int=len)
    return any(lengths)


def find_duplicates(text: str, limit: int = 100) -> list[DuplicateName]:
    """Return at most ``limit`` members of the JSON text ``text`` whose name occurs earlier in the same object."""
    # D-16
    starts = _find_line_starts(text)
    found: list[DuplicateName] = []
    path: list[PathStep] = []
    names: list[dict[PathStep, int]] = []
    for depth, step, name_at, _ in _walk_values(text):
        del path[max(depth - 1, 0) :]
        del names[depth:]
        if depth:
            path.append(step)
        names.append({})
        if name_at is None:
            continue
        first = names[depth - 1].setdefault(step, name_at)
        if first != name_at:
            found.append(
                DuplicateName(build_pointer(path), _find_position(starts, name_at), _find_position(starts, first))
            )
            if len(found) == limit:
                break
    return found


def find_syntax_fault(text: bytes) -> SyntaxFault:
    """Return where and why ``text``, which ``jsontext.read`` refuses, is not JSON."""
    try:
        characters = text.decode()
    except UnicodeDecodeError as error:
        good = text[: error.start].decode()
        return SyntaxFault(_find_position(_find_line_starts(good), len(good)), "it is not UTF-8 from here on")
    try:
        json.loads(characters)
    except json.JSONDecodeError as error:
        return SyntaxFault(TextPosition(error.lineno, error.colno), error.msg)
    except (ValueError, RecursionError):
        pass  # a number too long, or too many levels: found below
    return _find_refused_token(characters)


def _find_refused_token(text: str) -> SyntaxFault:
    """Return the first token that is refused although it is where a token may be."""
    starts = _find_line_starts(text)
    depth = 0
    for token in _TOKEN.finditer(text):
        mark = token[0]
        depth += (mark in ("[", "{")) - (mark in ("]", "}"))
        if depth > jsontext.MAX_DEPTH:
            return SyntaxFault(
                _find_position(starts, token.start()), f"it is nested deeper than {jsontext.MAX_DEPTH} levels"
            )
        if mark[0] not in "[]{}" and isinstance(jsontext.read(mark.encode("utf-8", "replace")), Problem):
            shown = mark if len(mark) <= 40 else mark[:40] + "..."
            return SyntaxFault(_find_position(starts, token.start()), f"{shown} is not allowed")
    return SyntaxFault(TextPosition(1, 1), "it cannot be read")


def _walk_values(text: str) -> Iterator[_Node]:
    """Yield every value of ``text`` in its order, each with how deep it stands and the step that leads to it."""
    places: list[int | None] = []  # for each open array the place of the item to come; None for an object
    name: str | None = None
    name_at = 0
    for token in _TOKEN.finditer(text):
        mark, start = token[0], token.start()
        place = places[-1] if places else None
        if mark in ("]", "}"):
            places.pop()
            continue
        if name is not None:
            yield _Node(len(places), name, name_at, start)
            name = None
        elif place is not None:
            yield _Node(len(places), place, None, start)
            places[-1] = place + 1
        elif places:
            name, name_at = (json.loads(mark) if "\\" in mark else mark[1:-1]), start
            continue
        else:
            yield _Node(0, "", None, start)
        if mark in ("[", "{"):
            places.append(0 if mark == "[" else None)


def _find_line_starts(text: str) -> list[int]:
    return [0, *(end.end() for end in _LINE_END.finditer(text))]


def _find_position(starts: Sequence[int], offset: int) -> TextPosition:
    line = bisect_right(starts, offset)
    return TextPosition(line, offset - starts[line - 1] + 1)
