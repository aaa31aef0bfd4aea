"""Which values are JSON already, so that nothing has to be converted.

**Rules**

- Only exact types count: a subclass of ``int`` or ``str`` (an enum, say) is not JSON data yet.
- A number is finite and a text can be written as UTF-8, or it is not JSON. [S-16, CV-33]
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from math import isfinite
from types import NoneType
from typing import Any, TypeAlias

Matches: TypeAlias = Callable[[Any], bool]
"""Says whether a value is JSON data of one certain type, exactly."""

MAX_DEPTH = 200

_ALWAYS_PLAIN = {int, bool, NoneType}
_NUMBERS = frozenset({"ge", "gt", "le", "lt", "multiple_of"})
_SIZES = frozenset({"min_length", "max_length"})
_EVERY = frozenset({"type", "metadata", "strict"})
_SAID: Mapping[str, frozenset[str]] = {
    "any": _EVERY,
    "none": _EVERY,
    "bool": _EVERY,
    "int": _EVERY | _NUMBERS,
    "float": _EVERY | _NUMBERS,
    "str": _EVERY | _SIZES | {"pattern"},
    "literal": _EVERY | {"expected"},
    "list": _EVERY | _SIZES | {"items_schema"},
    "dict": _EVERY | _SIZES | {"keys_schema", "values_schema"},
    "nullable": _EVERY | {"schema"},
    "union": _EVERY | {"choices"},
}
"""The JSON types among pydantic's core schemas, each with the settings that its JSON Schema says as well."""


def anything(_: Any) -> bool:
    """Take every value."""
    return True


def plain(value: Any, depth: int = MAX_DEPTH) -> bool:
    """Return whether ``value`` is JSON data through and through, nested no deeper than ``depth``."""
    kind = type(value)
    if kind is list:
        return depth > 0 and _all_plain(value, depth - 1)
    if kind is dict:
        return depth > 0 and all(map(_is_str, value)) and _all_plain(value.values(), depth - 1)
    scalar = _SCALARS.get(kind)
    return scalar is not None and scalar(value)


def matcher(schema: Mapping[str, Any], of_any: Matches) -> Matches | None:
    """Return what recognises JSON data of a pydantic core schema, or None where values need conversion.

    ``of_any`` stands for ``Any``: ``plain`` where data comes from Python, ``anything`` where it was JSON before.
    """
    kind = schema["type"]
    if not schema.keys() <= _SAID.get(kind, frozenset()):
        return None
    match kind:
        case "any":
            return of_any
        case "literal":
            return _one_of(schema["expected"])
        case "list":
            return _list_of(matcher(schema.get("items_schema", _ANY), of_any))
        case "dict":
            keys = matcher(schema.get("keys_schema", _ANY), _is_str)
            return _dict_of(keys, matcher(schema.get("values_schema", _ANY), of_any))
        case "nullable":
            return _either((_is_none, matcher(schema["schema"], of_any)))
        case "union":
            tagged = any(isinstance(choice, tuple) for choice in schema["choices"])
            return None if tagged else _either([matcher(choice, of_any) for choice in schema["choices"]])
        case _:
            return _BY_NAME[kind]


def _all_plain(values: Collection[Any], depth: int) -> bool:
    kinds = set(map(type, values))  # the three short cuts keep long lists out of the Python loop
    if kinds <= _ALWAYS_PLAIN:
        return True
    if kinds == {str}:
        return _is_str("".join(values))
    if kinds == {float}:
        return all(map(isfinite, values))
    return all(plain(value, depth) for value in values)


def _is_str(value: Any) -> bool:
    if type(value) is not str:
        return False
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        return False
    return True


def _is_int(value: Any) -> bool:
    return type(value) is int


def _is_float(value: Any) -> bool:
    return type(value) is float and isfinite(value)


def _is_bool(value: Any) -> bool:
    return type(value) is bool


def _is_none(value: Any) -> bool:
    return value is None


def _one_of(expected: list[Any]) -> Matches | None:
    allowed = frozenset((type(value), value) for value in expected)  # a pair, for True == 1
    kinds = frozenset(kind for kind, _ in allowed)
    if not kinds <= _SCALARS.keys():
        return None
    return lambda value: type(value) in kinds and (type(value), value) in allowed


def _list_of(item: Matches | None) -> Matches | None:
    if item is None:
        return None
    return lambda value: type(value) is list and all(map(item, value))


def _dict_of(key: Matches | None, item: Matches | None) -> Matches | None:
    if key is None or item is None:
        return None
    return lambda value: type(value) is dict and all(map(key, value)) and all(map(item, value.values()))


def _either(choices: Collection[Matches | None]) -> Matches | None:
    known = tuple(choice for choice in choices if choice is not None)
    if len(known) < len(choices):
        return None

    def matches(value: Any) -> bool:
        for choice in known:  # noqa: SIM110 - any() with a generator costs three times as much
            if choice(value):
                return True
        return False

    return matches


_ANY: Mapping[str, Any] = {"type": "any"}
_BY_NAME: Mapping[str, Matches] = {
    "str": _is_str,
    "int": _is_int,
    "float": _is_float,
    "bool": _is_bool,
    "none": _is_none,
}
_SCALARS: Mapping[type, Matches] = {str: _is_str, int: _is_int, float: _is_float, bool: _is_bool, NoneType: _is_none}
