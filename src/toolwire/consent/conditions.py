"""Decide whether a call needs consent because of its arguments.

Rules:
- A condition can only make a client ask. If it cannot be decided, the client asks. Examples are a missing value without
  a default, a value of a type that the operator cannot compare, a regular expression that is invalid or too expensive,
  and an integer that most JSON readers round to a value with a different result.
- true is not 1, and a text is never a number. But a server can accept one for the other, or a list with one item for
  the item, so whether they are equal cannot be decided.
"""
# CC-01

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from math import inf, isnan
from typing import Final

import jsonschema_rs

from toolwire.core.condition import SUM, WITHIN, find_condition_fault, read_plain_path
from toolwire.core.json_pointer import MISSING, parse_pointer, resolve_pointer, take_step
from toolwire.core.model import Call, Condition, Json, Tool
from toolwire.framing.visible_text import make_visible, make_visible_json
from toolwire.validation.patterns import is_linear_pattern
from toolwire.validation.regex_size import measure_regex

_MAX_STEPS: Final = 10_000_000
_MAX_SHOWN: Final = 200
_MAX_READABLE: Final = 10_000
_readable: Final = dict[int, Condition]()
_WORDS: Final = {
    "eq": "is",
    "ne": "is not",
    "lt": "is less than",
    "le": "is at most",
    "gt": "is more than",
    "ge": "is at least",
    "in": "is one of",
    "matches": "matches",
    "present": "is given:",
    WITHIN: "is inside",
    SUM: "of all these calls is together at most",
}


def find_condition_reasons(call: Call) -> tuple[str, ...]:
    """Return a sentence for the tool's first condition that requires consent to ``call``, or nothing."""
    for condition in call.tool.ask_when:
        found = is_met(condition, call.tool, call.arguments)
        if found is not False:
            text = f"The site wants you to be asked where {describe_condition(condition)}"
            return (f"{text}." if found else f"{text}. toolwire cannot decide whether that applies here.",)
    return ()


def describe_condition(condition: Condition) -> str:
    """Return ``condition`` in words, fit to show."""
    pointer, value = make_visible(condition.pointer), make_visible_json(condition.value)
    value = value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]}..."
    return f"{pointer[:_MAX_SHOWN]} {_WORDS.get(condition.op, 'is as declared:')} {value}"


def is_met(condition: Condition, tool: Tool | None, arguments: Mapping[str, Json]) -> bool | None:
    """Return whether ``condition`` holds for ``arguments``, or None if that cannot be decided.

    If ``tool`` is given, its defaults replace missing arguments.
    """
    pointer, op, value = condition
    if not _is_readable(condition):
        return None
    found = resolve_pointer(arguments, pointer)
    if op == "present":
        return (found is not MISSING) is value
    if found is MISSING and tool is not None:
        found = _find_default(tool, pointer)
    return None if found is MISSING else _COMPARISONS[op](found, value)


def _is_readable(condition: Condition) -> bool:
    # The identity is a safe key, because the entry keeps the condition alive. Its value might not be hashable.
    if _readable.get(id(condition)) is condition:
        return True
    if find_condition_fault(condition._asdict(), can_bound=True):
        return False
    if len(_readable) >= _MAX_READABLE:
        _readable.clear()
    _readable[id(condition)] = condition
    return True


def is_equal(first: Json, second: Json, *, rounded: bool = False) -> bool:
    """Return whether two JSON values are equal: 1 equals 1.0 but not true, and the order of members does not count.

    ``rounded`` compares numbers as most readers of JSON know them, as floating-point numbers of 64 bits.
    """
    if isinstance(first, bool) is not isinstance(second, bool):
        return False
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return first.keys() == second.keys() and all(
            is_equal(first[one], second[one], rounded=rounded) for one in first
        )
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        pairs = zip(first, second, strict=False)
        return len(first) == len(second) and all(is_equal(one, other, rounded=rounded) for one, other in pairs)
    if rounded and isinstance(first, int | float) and isinstance(second, int | float):
        return _round(first) == _round(second)
    return bool(first == second)


def _is_one_of(found: Json, values: Json) -> bool | None:
    try:
        if any(is_equal(found, one) for one in values):
            return True
        return None if any(_may_mean(found, one) for one in values) else False
    except RecursionError:
        return None


def _may_mean(found: Json, value: Json) -> bool:
    """Return whether a server can mistake ``found`` for ``value``. In a URL, "50" and [50] are written like 50."""
    if is_equal(found, value, rounded=True):
        return True
    if isinstance(found, _CONTAINERS):
        items = [*(found.values() if isinstance(found, Mapping) else found)][: _MAX_ITEMS + 1]
        is_plain = len(items) <= _MAX_ITEMS and not any(isinstance(one, _CONTAINERS) for one in items)
        return not isinstance(value, _CONTAINERS) and not (is_plain and not any(_may_mean(one, value) for one in items))
    text, other = (found, value) if isinstance(found, str) else (value, found)
    if isinstance(text, str) and not isinstance(other, str):
        plain = text.strip().casefold()
        return plain in _SPELLINGS[other] if isinstance(other, bool) else _is_number(other) and _reads_as(plain, other)
    return isinstance(found, bool) is not isinstance(value, bool) and found in (0, 1) and bool(found == value)


_CONTAINERS: Final = (Mapping, list, tuple)
_MAX_ITEMS: Final = 100
_SPELLINGS: Final = {True: ("true", "t", "1", "yes", "y", "on"), False: ("false", "f", "0", "no", "n", "off", "")}


def _reads_as(text: str, number: float) -> bool:
    try:
        return float(text) == _round(number)
    except ValueError:
        return False


def _is_other(found: Json, value: Json) -> bool | None:
    equal = _is_one_of(found, (value,))
    return None if equal is None else not equal


def _build_ordering(compare: Callable[[float, float], bool]) -> Callable[[Json, Json], bool | None]:
    def order(found: Json, value: Json) -> bool | None:
        if not (_is_number(found) and _is_number(value)):
            return None
        exact = compare(found, value)
        return exact if compare(_round(found), _round(value)) is exact else None

    return order


def _round(number: float) -> float:
    """Return ``number`` as a floating-point number, infinite if it is too large."""
    try:
        return float(number)
    except OverflowError:
        return inf if number > 0 else -inf


def _is_number(value: Json) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and not isnan(value))


def _matches(found: Json, pattern: str) -> bool | None:
    if not isinstance(found, str) or not is_linear_pattern(pattern):
        return None
    if measure_regex(pattern).steps * (len(found) + 1) > _MAX_STEPS:
        return None
    return _compile(pattern).is_valid(found)


def _is_within(found: Json, folder: str) -> bool | None:
    """Return whether a path, or each path of a list, is ``folder`` or inside it. Links are up to the server."""
    if isinstance(found, list | tuple):
        each = [_is_within(one, folder) for one in found] or [None]
        return None if None in each else all(each)
    path, parent = read_plain_path(found), folder.removesuffix("/")
    return None if path is None else path == parent or path.startswith(f"{parent}/")


@lru_cache(maxsize=256)
def _compile(pattern: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator({"pattern": pattern}, validate_formats=False)


def _find_default(tool: Tool, pointer: str) -> Json:
    """Return the tool's declared default for a missing argument at ``pointer``, or ``MISSING``."""
    schema: Json = tool.input_schema
    for step in parse_pointer(pointer):
        properties = schema.get("properties") if isinstance(schema, Mapping) else None
        schema = take_step(properties, step)
    return schema.get("default", MISSING) if isinstance(schema, Mapping) else MISSING


_COMPARISONS: Final[Mapping[str, Callable[[Json, Json], bool | None]]] = {
    "eq": lambda found, value: _is_one_of(found, (value,)),
    "ne": _is_other,
    "lt": _build_ordering(operator.lt),
    "le": _build_ordering(operator.le),
    "gt": _build_ordering(operator.gt),
    "ge": _build_ordering(operator.ge),
    "in": _is_one_of,
    "matches": _matches,
    WITHIN: _is_within,
}
