"""A validator of OpenTool documents: all faults of a text at once, each with its pointer, line and column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from toolwire.core.model import Problem
from toolwire.framing import jsontext, positions
from toolwire.framing.positions import Place, Spot

from .report import Found, Severity, steps
from .rules import examine

MAX_BYTES: Final = 4 * 1024 * 1024

_MAX_POINTERS: Final = 10_000_000
_START: Final = Place(Spot(1, 1))


class Fault(NamedTuple):
    """One fault. Lines and columns begin at 1; ``pointer`` is a JSON Pointer; ``rule`` is a requirement's id.

    What is missing is pointed at by the object that lacks it.
    """

    pointer: str
    line: int
    column: int
    severity: Severity
    rule: str
    message: str


def check(text: str | bytes) -> tuple[Fault, ...]:
    """Return everything that is wrong with ``text`` as an OpenTool document, in the order of the text.

    An error is what the specification does not allow; a warning is what will surprise somebody. After 1,000 faults
    the rest is not looked for. Nothing that the document refers to is fetched or opened. [OT-001..027, OT-029, D-18]
    """
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(raw) > MAX_BYTES:
        return (Fault("", 1, 1, "error", "D-16", f"This is larger than {MAX_BYTES:,} bytes, and is not read."),)
    data = jsontext.read(raw)
    if isinstance(data, Problem):
        return (_not_json(raw),)
    characters = raw.decode()
    return tuple(sorted([*_repeats(characters), *_placed(examine(data).found, characters)], key=_order))


def _not_json(raw: bytes) -> Fault:
    (line, column), reason = positions.broken(raw)
    return Fault("", line, column, "error", "OT-029", f"This is not JSON: {reason}.")


def _repeats(text: str) -> list[Fault]:
    if not positions.repeats(text):
        return []
    return [
        Fault(one.pointer, *one.spot, "error", "D-16", f"This name is in its object already, in line {one.first.line}.")
        for one in positions.repeated(text)
    ]


def _placed(found: Sequence[Found], text: str) -> list[Fault]:
    """Return the faults found with their places; where pointers fill too much memory, the rest is left out."""
    pointers: list[str] = []
    room = _MAX_POINTERS
    for one in found:
        pointers.append(positions.pointer(steps(one.path)))
        room -= len(pointers[-1])
        if room < 0:
            break
    places = positions.locate(text, pointers) if pointers else {}
    return [
        Fault(pointer, *places.get(pointer, _START).value, one.severity, one.rule, one.message)
        for pointer, one in zip(pointers, found, strict=False)
    ]


def _order(fault: Fault) -> tuple[int, int, str, str]:
    return fault.line, fault.column, fault.rule, fault.message
