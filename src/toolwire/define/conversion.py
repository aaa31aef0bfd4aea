"""JSON data to Python arguments and back: ``reader`` and ``writer`` are made once, what they return runs in each call.

**Rules**

- What is JSON of the declared type already passes as it is; pydantic is asked only about the rest.
- Neither direction raises, and nothing is written that JSON cannot say. [S-16]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from toolwire.core.model import Json, Kind, Problem, Result, Value
from toolwire.core.suggestion import nearest

from .function import Read, Write
from .json_form import Form
from .native_values import Matches, anything, exact_type, matcher, plain
from .plain_types import with_numbers
from .schema import Argument

_INPUT_VALUE = re.compile(r"input_value=.*?, (?=input_type=)", re.DOTALL)


_Slot: TypeAlias = tuple[str, bool, type | None, Matches, Callable[[Json], Any]]
"""An argument's name, whether it is required, the type whose values fit as they are, what says so of any other value,
and what converts the rest. (A plain tuple is taken apart at a tenth of the cost of a named one.)"""


def reader(arguments: Sequence[Argument]) -> Read:
    """Return what turns validated arguments into keyword arguments."""
    slots = tuple(_slot(argument) for argument in arguments)
    names = tuple(name for name, *_ in slots)
    known = frozenset(names)
    exact_types = tuple(exact for _, _, exact, _, _ in slots)  # None is no type, so it fits no value

    def read(arguments: Mapping[str, Json]) -> dict[str, Any] | Problem:
        if tuple(arguments) == names and tuple(map(type, arguments.values())) == exact_types:
            return dict(arguments)
        keywords: dict[str, Any] = {}
        errors: dict[str, str] = {}
        for name, required, exact, native, convert in slots:
            if name not in arguments:
                if required:
                    errors[name] = "This argument is required."
                continue
            value = arguments[name]
            if type(value) is exact or native(value):
                keywords[name] = value
                continue
            try:
                keywords[name] = convert(value)
            except Exception as error:  # noqa: BLE001 - a type's own validator may raise anything
                errors[name] = _sentence(error)
        if not arguments.keys() <= known:
            errors |= {name: _undeclared(name, names) for name in arguments if name not in known}
        return _refused(errors) if errors else keywords

    return read


def writer(form: Form, tool: str) -> Write:
    """Return what turns a result into JSON data. Where that cannot be, the Problem names ``tool``, not the value."""
    exact = matcher(form.core, plain)
    native, fits = exact or _never, exact or anything  # what is dumped was read from JSON, and is plain
    kind = exact_type(native)
    dump = _with_numbers(form, native, form.dump, reading=False) if form.plain else form.dump

    def write(value: Any) -> Result:
        if type(value) is kind or native(value):
            return Value(value)
        try:
            data = dump(value)
        except Exception as error:  # noqa: BLE001 - a type's own serializer may raise anything
            return _unwritable(tool, value, _INPUT_VALUE.sub("", str(error)))
        if fits(data):
            return Value(data)
        return _unwritable(tool, value, "it is not what was declared, or JSON cannot say it (NaN, for one)")

    return write


def _slot(argument: Argument) -> _Slot:
    parameter, form, _ = argument
    native = matcher(form.core, anything) or _never
    convert = _with_numbers(form, native, form.load, reading=True) if form.plain else form.load
    return (parameter.name, parameter.required, exact_type(native), native, convert)


def _with_numbers(
    form: Form, native: Matches, otherwise: Callable[[Any], Any], *, reading: bool
) -> Callable[[Any], Any]:
    """Return what asks ``otherwise`` only where more differs than 1 from 1.0, which is no reason to load pydantic."""

    def convert(value: Any) -> Any:
        data = with_numbers(form.core, value, reading=reading)
        return data if native(data) else otherwise(value)

    return convert


def _undeclared(name: str, names: Sequence[str]) -> str:
    near = nearest(name, names)
    return f"There is no such argument: did you mean `{near}`?" if near else "There is no such argument."


def _sentence(error: Exception) -> str:
    from .adapter import reason  # noqa: PLC0415 - brings pydantic, which is there already: it found the error

    return f"{reason(error)}."


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
