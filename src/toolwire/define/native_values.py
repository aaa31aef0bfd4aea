"""Recognise values that are JSON data already and need no conversion.

**Rules**

- Only exact types count: a subclass of ``int`` or ``str`` (an enum, say) is not JSON data yet.
- Long lists are checked level by level, by functions that run in C: a loop in Python takes ten times as long.
- A number must be finite, and a text must be valid UTF-8.
"""
# S-16, CV-33: the rules above.

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import chain, compress, repeat
from math import isfinite
from operator import is_
from types import NoneType
from typing import Any, TypeAlias

Matcher: TypeAlias = Callable[[Any], bool]
"""Says whether a value is JSON data of one certain type, exactly."""

MAX_DEPTH = 200

_All: TypeAlias = Callable[[Collection[Any]], bool]
"""Says whether all values of a collection are."""

_Pair: TypeAlias = tuple[Matcher, _All]
BuildPair: TypeAlias = Callable[[Mapping[str, Any], Matcher], _Pair | None]

_ALWAYS_PLAIN = {int, bool, NoneType}
_PLAIN = {*_ALWAYS_PLAIN, float, str, list, dict}
_LONG = 32
PIECE = 16_000
"""The most values that are checked at once: a longer pass in C would make all other threads wait."""


def match_anything(_: Any) -> bool:
    """Return ``True`` for every value."""
    return True


def is_plain_json(value: Any, depth: int = MAX_DEPTH) -> bool:
    """Return whether ``value`` is JSON data at every level, nested at most ``depth`` deep."""
    kind = type(value)
    if kind is str:
        return value.isascii() or _is_text(value)
    if kind is float:
        return isfinite(value)
    if kind is list:
        return depth > 0 and _are_plain(value, depth - 1)
    if kind is dict:
        return depth > 0 and _are_texts(value) and _are_plain(value.values(), depth - 1)
    return kind in _ALWAYS_PLAIN


def build_matcher(schema: Mapping[str, Any], of_any: Matcher) -> Matcher | None:
    """Return a function that recognises JSON data of a core schema, or ``None`` if its values need conversion.

    ``of_any`` checks values of the type ``Any``: ``is_plain_json`` for data from Python, ``match_anything`` for what
    was read from JSON.
    """
    pair = _build_pair(schema, of_any)
    return None if pair is None else pair[0]


def _build_pair(schema: Mapping[str, Any], of_any: Matcher) -> _Pair | None:
    settings, build = _NATIVE.get(schema["type"], _FOREIGN)
    return build(schema, of_any) if schema.keys() <= _EVERY | settings else None


def _are_plain(values: Collection[Any], depth: int) -> bool:
    if len(values) > PIECE and type(values) is list:
        return all(_are_many_plain(values[at : at + PIECE], depth) for at in range(0, len(values), PIECE))
    if len(values) > _LONG:
        return _are_many_plain(values, depth)
    for value in values:
        if type(value) not in _ALWAYS_PLAIN and not is_plain_json(value, depth):
            return False
    return True


def _are_many_plain(values: Collection[Any], depth: int) -> bool:
    """Return whether all ``values`` are JSON data, with one pass for each type on each level."""
    while values:
        types = list(map(type, values))
        kinds = set(types)
        if not kinds <= _PLAIN or not _are_scalars_plain(values, types, kinds):
            return False
        dicts, lists = (_select_type(kind, values, types, kinds) for kind in (dict, list))
        if not dicts and not lists:
            return True
        if depth <= 0 or not _are_texts(list(chain.from_iterable(dicts))):
            return False
        values = [*chain.from_iterable(map(dict.values, dicts)), *chain.from_iterable(lists)]
        depth -= 1
    return True


def _are_scalars_plain(values: Collection[Any], types: Collection[type], kinds: Collection[type]) -> bool:
    """Return whether the numbers among ``values`` are finite and its texts can be written."""
    if float in kinds and not all(map(isfinite, _select_type(float, values, types, kinds))):
        return False
    return str not in kinds or _is_text("".join(_select_type(str, values, types, kinds)))


def _select_type(
    wanted: type, values: Collection[Any], types: Collection[type], kinds: Collection[type]
) -> Collection[Any]:
    if wanted not in kinds:
        return ()
    return values if len(kinds) == 1 else list(compress(values, map(is_, types, repeat(wanted))))


def _are_texts(keys: Collection[Any]) -> bool:
    if len(keys) > _LONG:
        return set(map(type, keys)) == {str} and _is_text("".join(set(keys)))
    for key in keys:
        if type(key) is not str or not (key.isascii() or _is_text(key)):
            return False
    return True


def _is_text(value: str) -> bool:
    if value.isascii():
        return True
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


def find_exact_type(matches: Matcher) -> type | None:
    """Return the type whose exact instances ``matches`` accepts, or ``None`` if it checks more than the type."""
    return _EXACT.get(matches)


def _build_scalar(one: Matcher) -> BuildPair:
    pair = one, _match_kinds([one])
    return lambda *_: pair


def _match_kinds(choices: Collection[Matcher]) -> _All:
    """Return what says whether each value is what one of ``choices`` takes, all of which are in ``_SCALARS``."""
    allowed = {kind for kind, one in _SCALARS.items() if one in choices}

    def every(values: Collection[Any]) -> bool:
        types = list(map(type, values))
        kinds = set(types)
        return kinds <= allowed and _are_scalars_plain(values, types, kinds)

    return every


def _build_any(_: Mapping[str, Any], of_any: Matcher) -> _Pair:
    if of_any is match_anything:
        return match_anything, match_anything
    return of_any, (_match_all_plain if of_any is is_plain_json else _match_each(of_any))


def _match_all_plain(values: Collection[Any]) -> bool:
    return _are_plain(values, MAX_DEPTH)


def _match_each(one: Matcher) -> _All:
    return lambda values: all(map(one, values))


def _build_literal(schema: Mapping[str, Any], _: Matcher) -> _Pair | None:
    allowed = frozenset((type(value), value) for value in schema["expected"])  # a pair, for True == 1
    kinds = frozenset(kind for kind, _ in allowed)
    if not kinds <= _SCALARS.keys():
        return None

    def matches(value: Any) -> bool:
        return type(value) in kinds and (type(value), value) in allowed

    return matches, _match_each(matches)


def _build_list(schema: Mapping[str, Any], of_any: Matcher) -> _Pair | None:
    item = _build_pair(schema.get("items_schema", _ANY), of_any)
    if item is None:
        return None
    every = item[1]

    def all_match(values: Collection[Any]) -> bool:
        return set(map(type, values)) <= {list} and every(list(chain.from_iterable(values)))

    def matches(value: Any) -> bool:
        if type(value) is not list:
            return False
        if len(value) <= PIECE:
            return every(value)
        return all(every(value[at : at + PIECE]) for at in range(0, len(value), PIECE))

    return matches, all_match


def _build_dict(schema: Mapping[str, Any], of_any: Matcher) -> _Pair | None:
    key = build_matcher(schema.get("keys_schema", _ANY), _is_str)
    item = _build_pair(schema.get("values_schema", _ANY), of_any)
    if key is not _is_str or item is None:  # keys of any other type are texts in JSON
        return None
    every = item[1]

    def all_match(values: Collection[Any]) -> bool:
        if not set(map(type, values)) <= {dict} or not _are_texts(list(chain.from_iterable(values))):
            return False
        return every(list(chain.from_iterable(map(dict.values, values))))

    return (lambda value: type(value) is dict and _are_texts(value) and every(value.values())), all_match


def _build_nullable(schema: Mapping[str, Any], of_any: Matcher) -> _Pair | None:
    inner = _build_pair(schema["schema"], of_any)
    if inner is None:
        return None
    one, every = inner
    if one in _SCALARS.values():
        return (lambda value: value is None or one(value)), _match_kinds([one, _is_none])
    return (
        (lambda value: value is None or one(value)),
        lambda values: every([value for value in values if value is not None]),
    )


def _build_union(schema: Mapping[str, Any], of_any: Matcher) -> _Pair | None:
    choices = [build_matcher(choice, of_any) for choice in schema["choices"] if isinstance(choice, dict)]
    known = tuple(choice for choice in choices if choice is not None)
    if len(known) < len(schema["choices"]):  # one needs conversion, or has a tag
        return None

    def matches(value: Any) -> bool:
        for choice in known:
            if choice(value):
                return True
        return False

    return matches, (_match_kinds(known) if set(known) <= set(_SCALARS.values()) else _match_each(matches))


_ANY: Mapping[str, Any] = {"type": "any"}
_EXACT: Mapping[Matcher, type] = {_is_int: int, _is_bool: bool}
_SCALARS: Mapping[type, Matcher] = {str: _is_str, int: _is_int, float: _is_float, bool: _is_bool, NoneType: _is_none}

_EVERY = frozenset({"type", "metadata", "strict"})
_NUMBERS = frozenset({"ge", "gt", "le", "lt", "multiple_of"})
_SIZES = frozenset({"min_length", "max_length"})
_FOREIGN: tuple[frozenset[str], BuildPair] = (frozenset(), lambda *_: None)
_NATIVE: Mapping[str, tuple[frozenset[str], BuildPair]] = {
    "any": (frozenset(), _build_any),
    "none": (frozenset(), _build_scalar(_is_none)),
    "bool": (frozenset(), _build_scalar(_is_bool)),
    "int": (_NUMBERS, _build_scalar(_is_int)),
    "float": (_NUMBERS, _build_scalar(_is_float)),
    "str": (_SIZES | {"pattern"}, _build_scalar(_is_str)),
    "literal": (frozenset({"expected"}), _build_literal),
    "list": (_SIZES | {"items_schema"}, _build_list),
    "dict": (_SIZES | {"keys_schema", "values_schema"}, _build_dict),
    "nullable": (frozenset({"schema"}), _build_nullable),
    "union": (frozenset({"choices"}), _build_union),
}
"""The JSON types among pydantic's core schemas, each with the settings that its JSON Schema says as well."""
