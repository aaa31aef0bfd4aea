"""Find all faults of a JSON text, each with pointer, line and column; the caller says what is a fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from toolwire.core.json_pointer import build_pointer
from toolwire.core.model import Json, Problem

from . import jsontext, positions, yamltext
from .positions import TextPosition, ValuePosition
from .report import PathFault, Severity, list_steps

MAX_BYTES: Final = 4 * 1024 * 1024

_MAX_POINTERS: Final = 10_000_000
_START: Final = ValuePosition(TextPosition(1, 1))


class Fault(NamedTuple):
    """One fault in a document.

    Lines and columns start at 1. ``pointer`` is a JSON Pointer. If something is missing, it points at the object that
    lacks it. ``rule`` is the ID of the requirement.
    """

    pointer: str
    line: int
    column: int
    severity: Severity
    rule: str
    message: str


def find_faults(
    text: str | bytes, examine: Callable[[Json], Sequence[PathFault]], *, not_json: str, most: int = MAX_BYTES
) -> tuple[Fault, ...]:
    """Return all that ``examine`` finds in the data of ``text``, placed, in the order of the text.

    A text that is no JSON has one fault, of the rule ``not_json``; names that repeat are faults too.
    """
    # D-16, D-18
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(raw) > most:
        return (Fault("", 1, 1, "error", "D-16", f"This is larger than {most:,} bytes, so it was not read."),)
    data = jsontext.read(raw)
    if isinstance(data, Problem):
        return (_build_syntax_fault(raw, not_json),)
    characters = raw.decode()
    found = place_faults(examine(data), lambda pointers: positions.locate(characters, pointers))
    return tuple(sorted([*_find_duplicates(characters), *found], key=_make_order_key))


def place_faults(
    found: Sequence[PathFault], locate: Callable[[Sequence[str]], Mapping[str, ValuePosition]]
) -> tuple[Fault, ...]:
    """Return the faults found with the places that ``locate`` gives their pointers, in the order of the text.

    Where pointers fill too much memory, the rest is left out.
    """
    pointers: list[str] = []
    room = _MAX_POINTERS
    for one in found:
        pointers.append(build_pointer(list_steps(one.path)))
        room -= len(pointers[-1])
        if room < 0:
            break
    places = locate(pointers) if pointers else {}
    placed: list[Fault] = []
    for pointer, one in zip(pointers, found, strict=False):
        line, column = places.get(pointer, _START).value
        placed.append(Fault(pointer, line, column, one.severity, one.rule, one.message))
    return tuple(sorted(placed, key=_make_order_key))


def build_yaml_fault(raw: bytes, rule: str) -> Fault:
    """Return the fault of ``raw``, which ``yamltext.read`` refuses, where it stands."""
    (line, column), reason = yamltext.find_fault(raw)
    return Fault("", line, column, "error", rule, f"Cannot read this YAML: {reason}.")


def _build_syntax_fault(raw: bytes, rule: str) -> Fault:
    (line, column), reason = positions.find_syntax_fault(raw)
    return Fault("", line, column, "error", rule, f"This is not valid JSON: {reason}.")


def _find_duplicates(text: str) -> list[Fault]:
    if not positions.has_duplicates(text):
        return []
    return [
        Fault(one.pointer, *one.spot, "error", "D-16", f"This name is already in its object, in line {one.first.line}.")
        for one in positions.find_duplicates(text)
    ]


def _make_order_key(fault: Fault) -> tuple[int, int, str, str]:
    return fault.line, fault.column, fault.rule, fault.message
