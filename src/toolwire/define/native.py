"""Which values are JSON already, so that nothing has to be converted.

**Rules**

- Only exact types count: a subclass of ``int`` or ``str`` (an enum, say) is not JSON data yet.
- A number is finite and a text can be written as UTF-8, or it is not JSON. [S-16, CV-33]
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from math import isfinite
from types import NoneType
from typing import Any, TypeAlias

Matches: TypeAlias = Callable[[Any], bool]
"""Says whether a value is JSON data of one certain type, exactly."""

MAX_DEPTH = 200

Build: TypeAlias = Callable[[Mapping[str, Any], Matches], Matches | None]

_ALWAYS_PLAIN = {int, bool, NoneType}
_LONG = 32


def anything(_: Any) -> bool:
    """Take every value."""
    return True


def plain(value: Any, depth: int = MAX_DEPTH) -> bool:
    """Return whether ``value`` is JSON data through and through, nested no deeper than ``depth``."""
    kind = type(value)
    if kind is str:
        return value.isascii() or _is_text(value)
    if kind is float:
        return isfinite(value)
    if kind is list:
        return depth > 0 and _all_plain(value, depth - 1)
    if kind is dict:
        return depth > 0 and _all_text(value) and _all_plain(value.values(), depth - 1)
    return kind in _ALWAYS_PLAIN


def matcher(schema: Mapping[str, Any], of_any: Matches) -> Matches | None:
    """Return what recognises JSON data of a pydantic core schema, or None where values need conversion.

    ``of_any`` stands for ``Any``: ``plain`` where data comes from Python, ``anything`` where it was JSON before.
    """
    settings, build = _NATIVE.get(schema["type"], _FOREIGN)
    return build(schema, of_any) if schema.keys() <= _EVERY | settings else None


def _all_plain(values: Collection[Any], depth: int) -> bool:
    if len(values) > _LONG:  # a long list is mostly of one type, and then needs no loop in Python
        kinds = set(map(type, values))
        if kinds == {str}:
            return _is_text("".join(values))
        if kinds == {float}:
            return all(map(isfinite, values))
        if kinds <= _ALWAYS_PLAIN:
            return True
    for value in values:  # noqa: SIM110 - all() with a generator costs twice as much
        if type(value) not in _ALWAYS_PLAIN and not plain(value, depth):
            return False
    return True


def _all_text(keys: Iterable[Any]) -> bool:
    for key in keys:  # noqa: SIM110 - all() with a generator costs twice as much
        if type(key) is not str or not (key.isascii() or _is_text(key)):
            return False
    return True


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        return False
    return True


def _is_str(value: Any) -> bool:
    return type(value) is str and (value.isascii() or _is_text(value))


def _is_int(value: Any) -> bool:
    return type(value) is int


def _is_float(value: Any) -> bool:
    return type(value) is float and isfinite(value)


def _is_bool(value: Any) -> bool:
    return type(value) is bool


def _is_none(value: Any) -> bool:
    return value is None


def exact_type(matches: Matches) -> type | None:
    """Return the type whose very instances are all that ``matches`` takes, or None where it looks further."""
    return _EXACT.get(matches)


def _one_of(schema: Mapping[str, Any], _: Matches) -> Matches | None:
    allowed = frozenset((type(value), value) for value in schema["expected"])  # a pair, for True == 1
    kinds = frozenset(kind for kind, _ in allowed)
    if not kinds <= _SCALARS.keys():
        return None
    return lambda value: type(value) in kinds and (type(value), value) in allowed


def _list_of(schema: Mapping[str, Any], of_any: Matches) -> Matches | None:
    item = matcher(schema.get("items_schema", _ANY), of_any)
    if item is None:
        return None
    return lambda value: type(value) is list and all(map(item, value))


def _dict_of(schema: Mapping[str, Any], of_any: Matches) -> Matches | None:
    key = matcher(schema.get("keys_schema", _ANY), _is_str)
    item = matcher(schema.get("values_schema", _ANY), of_any)
    if key is not _is_str or item is None:  # keys of any other type are texts in JSON
        return None
    return lambda value: type(value) is dict and _all_text(value) and all(map(item, value.values()))


def _nullable(schema: Mapping[str, Any], of_any: Matches) -> Matches | None:
    inner = matcher(schema["schema"], of_any)
    return None if inner is None else lambda value: value is None or inner(value)


def _union(schema: Mapping[str, Any], of_any: Matches) -> Matches | None:
    choices = [matcher(choice, of_any) for choice in schema["choices"] if isinstance(choice, dict)]
    known = tuple(choice for choice in choices if choice is not None)
    if len(known) < len(schema["choices"]):  # one needs conversion, or has a tag
        return None

    def matches(value: Any) -> bool:
        for choice in known:  # noqa: SIM110 - any() with a generator costs three times as much
            if choice(value):
                return True
        return False

    return matches


_ANY: Mapping[str, Any] = {"type": "any"}
_EXACT: Mapping[Matches, type] = {_is_int: int, _is_bool: bool}
_SCALARS: Mapping[type, Matches] = {str: _is_str, int: _is_int, float: _is_float, bool: _is_bool, NoneType: _is_none}

_EVERY = frozenset({"type", "metadata", "strict"})
_NUMBERS = frozenset({"ge", "gt", "le", "lt", "multiple_of"})
_SIZES = frozenset({"min_length", "max_length"})
_FOREIGN: tuple[frozenset[str], Build] = (frozenset(), lambda *_: None)
_NATIVE: Mapping[str, tuple[frozenset[str], Build]] = {
    "any": (frozenset(), lambda _, of_any: of_any),
    "none": (frozenset(), lambda *_: _is_none),
    "bool": (frozenset(), lambda *_: _is_bool),
    "int": (_NUMBERS, lambda *_: _is_int),
    "float": (_NUMBERS, lambda *_: _is_float),
    "str": (_SIZES | {"pattern"}, lambda *_: _is_str),
    "literal": (frozenset({"expected"}), _one_of),
    "list": (_SIZES | {"items_schema"}, _list_of),
    "dict": (_SIZES | {"keys_schema", "values_schema"}, _dict_of),
    "nullable": (frozenset({"schema"}), _nullable),
    "union": (frozenset({"choices"}), _union),
}
"""The JSON types among pydantic's core schemas, each with the settings that its JSON Schema says as well."""
