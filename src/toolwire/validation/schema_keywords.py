"""List the keywords of JSON Schema 2020-12: which contain schemas, and the valid values of the others."""

from __future__ import annotations

import re
from collections.abc import Callable

from toolwire.core import subschemas
from toolwire.core.content import FILE_KEYWORD
from toolwire.core.model import Json

_FOREIGN = re.compile(r"\A/.+/[a-z]*\Z|\[\[:\^?[a-z]+:\]|&&\[|\[[^\[\]]{1,200}-\[[^\[\]]{1,200}\]\]", re.DOTALL)
"""Marks of a pattern in another language: slashes around it, a POSIX class, a Java intersection, a .NET subtraction.

Read as ECMA-262, the first matches nothing, and the others not what their author meant.
"""

ONE = frozenset((*subschemas.SINGLE, "contentSchema"))
"""Keywords that contain one schema."""

SEVERAL = frozenset(subschemas.LISTED)
"""Keywords that contain a list of schemas."""

NAMED = frozenset((*subschemas.NAMED, *subschemas.DEFINITIONS))
"""Keywords that contain schemas by name."""

TYPES = frozenset(("array", "boolean", "integer", "null", "number", "object", "string"))


def fits(key: str, value: Json) -> bool:
    """Return whether ``value`` is valid for ``key``, a keyword without subschemas; False for unknown keywords."""
    check = _PLAIN.get(key)
    return check is not None and check(value)


def is_keyword(key: str) -> bool:
    """Return whether ``key`` is a keyword of JSON Schema whose value has a form."""
    return key in WORDS


def is_type(value: Json) -> bool:
    """Return whether ``value`` is a type of JSON Schema, or a list of different types."""
    if isinstance(value, str):
        return value in TYPES
    return _are_names(value) and bool(value) and TYPES.issuperset(value)


def _is_object(value: Json) -> bool:
    return isinstance(value, dict)


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


def _is_truth(value: Json) -> bool:
    return isinstance(value, bool)


def _is_list(value: Json) -> bool:
    return isinstance(value, list)


def _is_anything(_: Json) -> bool:
    return True


def _is_number(value: Json) -> bool:
    # bool is an int in Python, but true is no number in JSON.
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_positive(value: Json) -> bool:
    return _is_number(value) and value > 0


def _is_count(value: Json) -> bool:
    # JSON does not tell 2.0 from 2, so both are counts.
    return _is_number(value) and value >= 0 and value == int(value)


def _are_names(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value) and len(set(value)) == len(value)


def _are_lists_of_names(value: Json) -> bool:
    return isinstance(value, dict) and all(_are_names(one) for one in value.values())


def _is_readable_pattern(value: Json) -> bool:
    return isinstance(value, str) and not _FOREIGN.search(value)


def _is_choice(value: Json) -> bool:
    return isinstance(value, list) and bool(value)


_PLAIN: dict[str, Callable[[Json], bool]] = {
    "type": is_type,
    "const": _is_anything,
    "default": _is_anything,
    "enum": _is_choice,
    "examples": _is_list,
    "required": _are_names,
    "dependentRequired": _are_lists_of_names,
    "multipleOf": _is_positive,
    "pattern": _is_readable_pattern,
    FILE_KEYWORD: _is_object,
    **dict.fromkeys(("title", "description", "format", "contentEncoding", "contentMediaType"), _is_text),
    **dict.fromkeys(("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum"), _is_number),
    **dict.fromkeys(
        (
            *("maxContains", "maxItems", "maxLength", "maxProperties"),
            *("minContains", "minItems", "minLength", "minProperties"),
        ),
        _is_count,
    ),
    **dict.fromkeys(("deprecated", "readOnly", "uniqueItems", "writeOnly"), _is_truth),
}

WORDS = ONE | SEVERAL | NAMED | _PLAIN.keys()
"""Every keyword that is converted."""
