"""Copy the arguments of a call as JSON data, so that what is checked and shown is what is sent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from toolwire.core.model import Call, Json, Kind, Problem, make_call

MAX_DEPTH = 200
_MAX_DIGITS = 4_300
_PLAIN_INTEGER = 2**63
_MAX_BITS = 14_284  # as many decimal digits


def copy_arguments(call: Call) -> Call | Problem:
    """Return ``call`` with its own copy of its arguments, or the Problem that they are not JSON data.

    A calling program can pass NaN, half a surrogate pair, keys that are no text, or Python objects. It can also change
    a list while a user reads the question about the call.
    """
    # D-20, S-16
    try:
        given = call.arguments
        arguments = _copy_members(given, 0) if type(given) is dict else _copy_value(given, 0)
        if not isinstance(arguments, dict):
            raise ValueError("they must be an object with a value for each name")
        tool, _, call_id, context, key = call
        return make_call((tool, arguments, call_id, context, key))
    except ValueError as error:
        name = _find_unfit(call.arguments)
        what = "its arguments are" if name is None else f"{name} is"
        text = f"{call.tool.name} was not called: {what} not JSON data ({error})."
        return Problem(
            kind=Kind.INVALID_ARGUMENTS,
            message=text,
            parameter_errors={} if name is None else {name: f"is not JSON data ({error})"},
        )


def _find_unfit(arguments: Any) -> str | None:
    """Return the name of the argument that is not JSON data, or None if it is not one argument alone."""
    if not isinstance(arguments, Mapping):
        return None
    for name, value in arguments.items():
        try:
            _copy_name(name)
        except ValueError:
            return None
        try:
            _copy_value(value, 1)
        except ValueError:
            return str(name)
    return None


def _copy_value(data: Any, depth: int) -> Json:  # noqa: PLR0911 - a case of JSON each
    kind = type(data)
    if kind is bool or data is None:
        return data
    if kind is int:
        return _check_integer(data)
    if kind is str:
        return _check_text(data)
    if kind is float:
        if not math.isfinite(data):
            raise ValueError(f"{data} is not a valid JSON number")
        return data
    if depth > MAX_DEPTH:
        raise ValueError(f"they are nested deeper than {MAX_DEPTH} levels")
    if kind is list or kind is tuple:
        return [_copy_value(item, depth + 1) for item in data]
    if kind is dict:
        return _copy_members(data, depth)
    return _copy_subclass(data, depth)


def _copy_members(data: dict[Any, Any], depth: int) -> dict[str, Json]:
    copied: dict[str, Json] = {}
    for name, value in data.items():
        # The usual members need no call each: a call of a tool is copied in one.
        kind = type(value)
        is_plain = value.isascii() if kind is str else kind is int and -_PLAIN_INTEGER < value < _PLAIN_INTEGER
        plain_name = name if type(name) is str and name.isascii() else _copy_name(name)
        copied[plain_name] = value if is_plain else _copy_value(value, depth + 1)
    return copied


def _copy_subclass(data: Any, depth: int) -> Json:
    """Return the copy of what is no plain type but a kind of one, such as a member of a text enumeration."""
    if isinstance(data, str):
        return _check_text(str.__str__(data))
    if isinstance(data, int):
        return _check_integer(int(data))
    if isinstance(data, float):
        return _copy_value(float(data), depth)
    if isinstance(data, list | tuple):
        return _copy_value(list(data), depth)
    if isinstance(data, Mapping):
        return _copy_value(dict(data), depth)
    if type(data).__name__ == "Decimal":  # its module is slow to load, and most programs do without it
        return _copy_decimal(data)
    files = (
        "; a file is given as a Path or a File" if isinstance(data, bytes | bytearray) or hasattr(data, "read") else ""
    )
    raise ValueError(f"{type(data).__name__} is not a JSON type{files}")


def _copy_decimal(data: Any) -> Json:
    """Return a ``Decimal`` as a number of JSON with the same value; one that would be rounded is a ValueError."""
    # CV-33
    if not data.is_finite():
        raise ValueError(f"{data} is not a valid JSON number")
    if data.adjusted() < _MAX_DIGITS and data == data.to_integral_value():
        return _check_integer(int(data))
    number = float(data)
    if type(data)(repr(number)) != data:
        raise ValueError(f"{data} has more digits than a JSON number can hold. Round it, or pass it as a string")
    return number


def _check_integer(number: int) -> int:
    if number.bit_length() > _MAX_BITS:
        raise ValueError("an integer has more than 4,300 digits")
    return number


def _copy_name(name: Any) -> str:
    if not isinstance(name, str):
        raise ValueError(f"the name {name!r} is not text")
    return _check_text(str.__str__(name))


def _check_text(text: str) -> str:
    if not text.isascii():
        text.encode()  # half a surrogate pair is a ValueError
    return text
