"""JSON data to Python arguments and back: ``reader`` and ``writer`` are made once, what they return runs in each call.

**Rules**

- What is JSON of the declared type already passes as it is; pydantic is asked only about the rest.
- Neither direction raises, and nothing is written that JSON cannot say. [S-16]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import TypeAdapter
from pydantic_core import to_json

from toolwire.core.model import Json, Kind, Problem, Result, Value

from .function import Read, Write
from .native import Matches, anything, matcher, plain
from .schema import Argument, reason

_INPUT_VALUE = re.compile(r"input_value=.*?, (?=input_type=)", re.DOTALL)


class _Slot(NamedTuple):
    name: str
    required: bool
    native: Matches
    convert: Callable[[Json], Any]


def reader(arguments: Sequence[Argument]) -> Read:
    """Return what turns validated arguments into keyword arguments. [A-49, S-15]"""
    slots = tuple(
        _Slot(parameter.name, parameter.required, matcher(adapter.core_schema, anything) or _never, _converter(adapter))
        for parameter, adapter in arguments
    )

    def read(arguments: Mapping[str, Json]) -> dict[str, Any] | Problem:
        keywords: dict[str, Any] = {}
        errors: dict[str, str] = {}
        for name, required, native, convert in slots:
            if name not in arguments:
                if required:
                    errors[name] = "This argument is required."
                continue
            value = arguments[name]
            if native(value):
                keywords[name] = value
                continue
            try:
                keywords[name] = convert(value)
            except Exception as error:  # noqa: BLE001 - a type's own validator may raise anything
                errors[name] = f"{reason(error)}."
        return _refused(errors) if errors else keywords

    return read


def writer(adapter: TypeAdapter[Any], tool: str) -> Write:
    """Return what turns a result into JSON data. Where that cannot be, the Problem names ``tool``, not the value."""
    dump = adapter.dump_python
    exact = matcher(adapter.core_schema, plain)
    native, fits = exact or _never, exact or plain

    def write(value: Any) -> Result:
        if native(value):
            return Value(value)
        try:
            data = dump(value, mode="json", by_alias=True, warnings="error")
        except Exception as error:  # noqa: BLE001 - a type's own serializer may raise anything
            return _unwritable(tool, value, _INPUT_VALUE.sub("", str(error)))
        if fits(data):
            return Value(data)
        return _unwritable(tool, value, "it is not what was declared, or JSON cannot say it (NaN, for one)")

    return write


def _converter(adapter: TypeAdapter[Any]) -> Callable[[Json], Any]:
    def convert(value: Json) -> Any:
        return adapter.validate_json(to_json(value))  # as JSON, so that strict types take their JSON forms too

    return convert


def _refused(errors: Mapping[str, str]) -> Problem:
    text = " ".join(f"{name}: {sentence}" for name, sentence in errors.items())
    return Problem(kind=Kind.INVALID_ARGUMENTS, message=f"The arguments do not fit. {text}", parameter_errors=errors)


def _unwritable(tool: str, value: Any, detail: str) -> Problem:
    return Problem(
        kind=Kind.INTERNAL,
        message=f"{tool} returned a value that does not fit what it declares.",
        developer_message=f"{tool} returned {type(value).__name__}: {' '.join(detail.split())[:500]}",
    )


def _never(_: Any) -> bool:
    return False
