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
from unicodedata import is_normalized

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
WITHIN: Final = "within"
"""The operator of a condition on a path in a folder. Users and operators set it; no tool declares it."""
SUM: Final = "sum"
"""The operator of a condition on what the numbers of all calls that a permission covers add up to. No tool declares
it, and no operator."""
_POINTER: Final = re.compile(r"(?:/(?:[^~/]|~[01])*)+", re.DOTALL)
_MEMBERS: Final = frozenset(("pointer", "op", "value"))


def read_conditions(data: Json, *, can_bound: bool = False) -> tuple[Condition, ...] | None:
    """Return the conditions in ``data``, or None if any part of it cannot be read.

    ``can_bound`` reads those of users and operators, which may name a folder.
    """
    if not isinstance(data, list) or len(data) > MAX_CONDITIONS:
        return None
    if any(find_condition_fault(one, can_bound=can_bound) for one in data):
        return None
    return tuple(Condition(one["pointer"], one["op"], one.get("value", True)) for one in data)


ONLY: Final = "only"
"""The operator of the condition of a grant that names all arguments which a call may have. No tool declares it."""


def read_grant_conditions(data: Json) -> tuple[Condition, ...] | None:
    """Return the conditions of a grant in ``data``, or None if any part of it cannot be read."""
    # AT-49
    last = data[-1] if isinstance(data, list) and data else None
    if not isinstance(last, Mapping) or last.get("op") != ONLY:
        return read_conditions(data, can_bound=True)
    names, others = last.get("value"), read_conditions(data[:-1], can_bound=True)
    if others is None or not isinstance(names, list) or not all(isinstance(one, str) for one in names):
        return None
    return (*others, Condition("", ONLY, names))


def write_conditions(conditions: tuple[Condition, ...]) -> list[Json]:
    """Return ``conditions`` as JSON data."""
    return [{"pointer": one.pointer, "op": one.op, "value": one.value} for one in conditions]


def find_condition_fault(data: Json, *, can_bound: bool = False) -> str:
    """Return why ``data`` is not one condition, as a sentence, or ``""``."""
    if not isinstance(data, Mapping):
        return "A condition must be an object with pointer, op and value."
    odd = next((name for name in data if name not in _MEMBERS and not str(name).startswith("x-")), None)
    if odd is not None:
        return f"Unknown member {str(odd)[:100]} in a condition. It can contain pointer, op and value."
    pointer, op = data.get("pointer"), data.get("op")
    if not isinstance(pointer, str) or len(pointer) > MAX_POINTER or _POINTER.fullmatch(pointer) is None:
        return f'The pointer must be a JSON Pointer into the arguments, such as "/amount", of at most {MAX_POINTER}.'
    known = (*OPERATORS, WITHIN, SUM) if can_bound else OPERATORS
    if not isinstance(op, str) or op not in known:
        return f"The op must be one of {', '.join(known)}."
    if "value" not in data:
        return "" if op == "present" else f"The value is missing: {op} needs one."
    return _find_value_fault(op, data["value"])


def read_ask_when(given: Sequence[Any], where: str, name: str = "ask_when") -> tuple[Condition, ...]:
    """Return the conditions in ``given``: tuples of pointer, op and value, or mappings with these members.

    ``where`` and ``name`` say in an error what has them.

    Raises:
        DefinitionError: one cannot be read, or there are more than 16.
    """
    # CC-01: a client can only ask about every call where it cannot read a condition, so its author is told here.
    can_bound = name != "ask_when"
    listed = [dict(one) if isinstance(one, Mapping) else _name_members(one) for one in given]
    for number, one in enumerate(listed, 1):
        fault = find_condition_fault(one, can_bound=can_bound)
        if not fault and one["op"] == SUM and name != "conditions":
            fault = f"{SUM} is for conditions of GrantBounds."
        try:
            json.dumps(one, allow_nan=False)
        except (TypeError, ValueError):
            fault = fault or "The value must be JSON data."
        if fault:
            raise DefinitionError(f"{where}: condition {number} of {name}: {fault}")
    conditions = read_conditions(listed, can_bound=can_bound)
    if conditions is None:
        raise DefinitionError(f"{where}: {name} lists {len(listed)} conditions, but only {MAX_CONDITIONS} are read.")
    return conditions


def _name_members(given: Any) -> Json:
    if not isinstance(given, tuple | list) or not 2 <= len(given) <= 3:
        return given
    named = dict(zip(("pointer", "op", "value"), given, strict=False))
    return {name: list(value) if isinstance(value, tuple) else value for name, value in named.items()}


def _find_value_fault(op: str, value: Json) -> str:
    if op in (*ORDERING, SUM) and (isinstance(value, bool) or not isinstance(value, int | float)):
        return f"The value of {op} must be a number."
    if op == "in" and not (isinstance(value, list) and 1 <= len(value) <= MAX_CHOICES):
        return f"The value of in must be a list of 1 to {MAX_CHOICES:,} values."
    if op == "matches" and not (isinstance(value, str) and 1 <= len(value) <= MAX_PATTERN):
        return f"The value of matches must be a regular expression of 1 to {MAX_PATTERN:,} characters."
    if op == WITHIN and not (
        isinstance(value, str) and len(value) <= MAX_PATTERN and read_plain_path(value) is not None
    ):
        return "The value of within must be a plain folder path, such as /srv/reports."
    if op == "present" and not isinstance(value, bool):
        return "The value of present must be true or false (default: true)."
    return ""


def read_plain_path(text: Json) -> str | None:
    """Return a path without a slash at its end; None if it may lead elsewhere than it says.

    Plain is a path that every server reads alike: it has no ``..``, ``.``, ``//``, backslash, percent-escape or hidden
    character, and no character that looks like one of these.
    """
    # QF-03
    if not isinstance(text, str) or not text or _PLAIN_PATH.fullmatch(text) is None:
        return None
    return text.removesuffix("/") if text.isprintable() and is_normalized("NFKC", text) else None


# NFKC has no other form for the slashes that are listed. Windows leaves out spaces and dots at the end of a name.
_PLAIN_PATH: Final = re.compile(r"/?(?:(?!\.\.|[ .]+(?:/|\Z))[^/\\%\u2044\u2215\u29f8\u2216\u29f5]+(?:/|\Z))*")
