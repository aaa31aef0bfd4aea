"""Read large arguments so that others run meanwhile: in a thread, which lets go of the interpreter between two items.

Pydantic holds the lock of the interpreter until a whole value is read, in whichever thread. A function of Python that
is called for each item of a list or dict gives the lock to those who wait for it.
"""
# AT-38

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

from pydantic_core import CoreConfig, SchemaError, SchemaValidator, core_schema

_T = TypeVar("_T")
_ITEMS: Final = {
    "list": "items_schema",
    "set": "items_schema",
    "frozenset": "items_schema",
    "generator": "items_schema",
    "dict": "values_schema",
}
_PLAIN: Final = frozenset({"any", "none", "bool", "int", "float", "str", "bytes"})
_NO_SCHEMAS: Final = frozenset({"cls", "config", "default", "expected", "metadata", "serialization"})


def is_on_loop() -> bool:
    """Return whether an event loop runs in this thread now."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def build_patient_validator(schema: Any, config: CoreConfig) -> Callable[[bytes], Any] | None:
    """Return a function that reads JSON as ``schema`` says, and lets other threads run; None where it cannot.

    Its values and its errors are those of ``schema``.
    """
    try:
        return SchemaValidator(_add_stops(schema, config, schema.get("definitions", [])), config).validate_json
    except (SchemaError, RecursionError):
        return None


def _add_stops(node: Any, config: CoreConfig, definitions: list[Any]) -> Any:
    """Return a copy of a core schema whose lists and dicts call a function of Python after each item.

    ``config`` is that of the closest model around it.
    """
    if isinstance(node, list | tuple):
        return type(node)(_add_stops(inner, config, definitions) for inner in node)
    if type(node) is not dict:
        return node
    kind = node.get("type")
    if not isinstance(kind, str):  # the fields of a model, by their names
        return {name: _add_stops(inner, config, definitions) for name, inner in node.items()}
    config = node.get("config", config)
    copied = {
        name: inner if name in _NO_SCHEMAS else _add_stops(inner, config, definitions) for name, inner in node.items()
    }
    if kind == "union":
        # An error names a choice by its validator, which has another name with stops in it.
        copied["choices"] = [
            new if isinstance(old, tuple) else (new, _name_choice(old, config, definitions))
            for old, new in zip(node["choices"], copied["choices"], strict=True)
        ]
    member = _ITEMS.get(kind)
    if member in copied and copied[member].get("type") not in _PLAIN:
        copied[member] = core_schema.no_info_after_validator_function(_stop, copied[member])
    return copied


def _name_choice(choice: Any, config: CoreConfig, definitions: list[Any]) -> str:
    return SchemaValidator(core_schema.definitions_schema(choice, definitions), config).title


def _stop(value: _T) -> _T:
    """Return ``value``; the interpreter looks at each call whether another thread waits."""
    return value
