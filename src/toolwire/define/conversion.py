"""Convert JSON data to Python arguments, and results to JSON data.

``build_reader`` and ``build_writer`` run once for each tool; the functions that they return run in each call.

**Rules**

- A value that is already JSON of the declared type passes unchanged; pydantic converts only the rest.
- No direction raises, and everything that is written is JSON.
"""
# S-16: the rules above.

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from toolwire.core.model import Json, Kind, Problem, Result, Value
from toolwire.core.suggestion import find_nearest

from .function import LargeArguments, ReadArguments, WriteResult
from .json_type import JsonForm
from .native_values import Matcher, build_matcher, find_exact_type, is_plain_json, match_anything
from .plain_types import convert_numbers
from .schema import Argument

_INPUT_VALUE = re.compile(r"input_value=.*?, (?=input_type=)", re.DOTALL)


_Slot: TypeAlias = tuple[str, bool, type | None, Matcher, Callable[[Json], Any]]
"""An argument's name, whether it is required, the type whose values fit as they are, what says so of any other value,
and what converts the rest. (A plain tuple is taken apart at a tenth of the cost of a named one.)"""


def build_reader(arguments: Sequence[Argument]) -> ReadArguments:
    """Return a function from validated arguments to keyword arguments."""
    slots = tuple(_build_slot(argument) for argument in arguments)
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
            except LargeArguments:
                raise
            except Exception as error:  # noqa: BLE001 - a type's own validator may raise anything
                errors[name] = _describe_error(error)
        if not arguments.keys() <= known:
            errors |= {name: _describe_undeclared(name, names) for name in arguments if name not in known}
        return _build_refusal(errors) if errors else keywords

    return read


def build_writer(form: JsonForm, tool: str) -> WriteResult:
    """Return a function from a result to a ``Value`` of JSON data; its Problem names ``tool``, but not the value."""
    exact = build_matcher(form.core, is_plain_json)
    native, fits = exact or _match_nothing, exact or match_anything  # what is dumped was read from JSON, and is plain
    kind = find_exact_type(native)
    dump = _convert_numbers_first(form, native, form.dump, reading=False) if form.plain else form.dump

    def write(value: Any) -> Result:
        if type(value) is kind or native(value):
            return Value(value)
        try:
            data = dump(value)
        except Exception as error:  # noqa: BLE001 - a type's own serializer may raise anything
            return _build_unwritable(tool, value, _INPUT_VALUE.sub("", str(error)))
        if fits(data):
            return Value(data)
        return _build_unwritable(tool, value, "it is not what was declared, or JSON cannot say it (NaN, for one)")

    return write


def _build_slot(argument: Argument) -> _Slot:
    parameter, form, _ = argument
    native = build_matcher(form.core, match_anything) or _match_nothing
    convert = _convert_numbers_first(form, native, form.load, reading=True) if form.plain else form.load
    return (parameter.name, parameter.is_required, find_exact_type(native), native, convert)


def _convert_numbers_first(
    form: JsonForm, native: Matcher, otherwise: Callable[[Any], Any], *, reading: bool
) -> Callable[[Any], Any]:
    """Return a converter that calls ``otherwise`` only if more differs than ``1`` and ``1.0``."""

    def convert(value: Any) -> Any:
        data = convert_numbers(form.core, value, reading=reading)
        return data if native(data) else otherwise(value)

    return convert


def _describe_undeclared(name: str, names: Sequence[str]) -> str:
    near = find_nearest(name, names)
    return f"This tool has no such argument. Did you mean `{near}`?" if near else "This tool has no such argument."


def _describe_error(error: Exception) -> str:
    from .adapter import describe_error  # brings pydantic, which is there already: it found the error

    return f"{describe_error(error)}."


def _build_refusal(errors: Mapping[str, str]) -> Problem:
    text = " ".join(f"{name}: {sentence}" for name, sentence in errors.items())
    return Problem(kind=Kind.INVALID_ARGUMENTS, message=f"Invalid arguments. {text}", parameter_errors=errors)


def _build_unwritable(tool: str, value: Any, detail: str) -> Problem:
    return Problem(
        kind=Kind.INTERNAL,
        message=f"{tool} returned a value that does not match its declared return type.",
        developer_message=f"{tool} returned {type(value).__name__}: {' '.join(detail.split())[:500]}",
    )


def _match_nothing(_: Any) -> bool:
    return False
