"""Read and write conditions: for which arguments a call of a tool is asked about.

Rules:
- A list that has one condition that cannot be read cannot be read at all: its reader must then ask about every call.
- A member that is not known here may change what a condition means, so it makes the condition unreadable.
"""
# CC-01

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from .errors import DefinitionError
from .model import Condition, Json

MAX_CONDITIONS: Final = 16
MAX_POINTER: Final = 500
MAX_CHOICES: Final = 1_000
MAX_PATTERN: Final = 2_000
MAX_QUESTION: Final = 500
"""How many characters the template of a tool's question has at most."""
ORDERING: Final = ("lt", "le", "gt", "ge")
OPERATORS: Final = ("eq", "ne", *ORDERING, "in", "matches", "present")
_POINTER: Final = re.compile(r"(?:/(?:[^~/]|~[01])*)+", re.DOTALL)
_MEMBERS: Final = frozenset(("pointer", "op", "value"))


def read_conditions(data: Json) -> tuple[Condition, ...] | None:
    """Return the conditions in ``data``, or None if any part of it cannot be read."""
    if not isinstance(data, list) or len(data) > MAX_CONDITIONS or any(map(find_condition_fault, data)):
        return None
    return tuple(Condition(one["pointer"], one["op"], one.get("value", True)) for one in data)


ONLY: Final = "only"
"""The operator of the condition of a grant that names all arguments which a call may have. No tool declares it."""


def read_grant_conditions(data: Json) -> tuple[Condition, ...] | None:
    """Return the conditions of a grant in ``data``, or None if any part of it cannot be read."""
    # AT-49
    last = data[-1] if isinstance(data, list) and data else None
    if not isinstance(last, Mapping) or last.get("op") != ONLY:
        return read_conditions(data)
    names, others = last.get("value"), read_conditions(data[:-1])
    if others is None or not isinstance(names, list) or not all(isinstance(one, str) for one in names):
        return None
    return (*others, Condition("", ONLY, names))


def write_conditions(conditions: tuple[Condition, ...]) -> list[Json]:
    """Return ``conditions`` as JSON data."""
    return [{"pointer": one.pointer, "op": one.op, "value": one.value} for one in conditions]


def find_condition_fault(data: Json) -> str:
    """Return why ``data`` is not one condition, as a sentence, or ``""``."""
    if not isinstance(data, Mapping):
        return "A condition is an object with pointer, op and value."
    odd = next((name for name in data if name not in _MEMBERS and not str(name).startswith("x-")), None)
    if odd is not None:
        return f"{str(odd)[:100]} is no member of a condition; there are pointer, op and value."
    pointer, op = data.get("pointer"), data.get("op")
    if not isinstance(pointer, str) or len(pointer) > MAX_POINTER or _POINTER.fullmatch(pointer) is None:
        return f'The pointer must be a JSON Pointer into the arguments, such as "/amount", of at most {MAX_POINTER}.'
    if not isinstance(op, str) or op not in OPERATORS:
        return f"The op is none of {', '.join(OPERATORS)}."
    if "value" not in data:
        return "" if op == "present" else f"The value is missing: {op} compares with one."
    return _find_value_fault(op, data["value"])


def read_ask_when(given: Sequence[Any], where: str, name: str = "ask_when") -> tuple[Condition, ...]:
    """Return the conditions in ``given``: tuples of pointer, op and value, or mappings with these members.

    ``where`` and ``name`` say in an error what has them.

    Raises:
        DefinitionError: one cannot be read, or there are more than 16.
    """
    # CC-01: a client can only ask about every call where it cannot read a condition, so its author is told here.
    listed = [dict(one) if isinstance(one, Mapping) else _name_members(one) for one in given]
    for number, one in enumerate(listed, 1):
        fault = find_condition_fault(one)
        try:
            json.dumps(one, allow_nan=False)
        except (TypeError, ValueError):
            fault = fault or "Its value is no JSON data."
        if fault:
            raise DefinitionError(f"{where}: condition {number} of {name}: {fault}")
    conditions = read_conditions(listed)
    if conditions is None:
        raise DefinitionError(f"{where}: {name} has {len(listed)} conditions; at most {MAX_CONDITIONS} are read.")
    return conditions


def _name_members(given: Any) -> Json:
    if not isinstance(given, tuple | list) or not 2 <= len(given) <= 3:
        return given
    named = dict(zip(("pointer", "op", "value"), given, strict=False))
    return {name: list(value) if isinstance(value, tuple) else value for name, value in named.items()}


def _find_value_fault(op: str, value: Json) -> str:
    if op in ORDERING and (isinstance(value, bool) or not isinstance(value, int | float)):
        return f"The value of {op} must be a number."
    if op == "in" and not (isinstance(value, list) and 1 <= len(value) <= MAX_CHOICES):
        return f"The value of in must be a list of 1 to {MAX_CHOICES:,} values."
    if op == "matches" and not (isinstance(value, str) and 1 <= len(value) <= MAX_PATTERN):
        return f"The value of matches must be a regular expression of 1 to {MAX_PATTERN:,} characters."
    if op == "present" and not isinstance(value, bool):
        return "The value of present must be true or false; left out, it is true."
    return ""
