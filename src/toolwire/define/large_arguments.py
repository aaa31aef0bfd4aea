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
_UNIONS: Final = frozenset({"union", "tagged-union"})
_PLAIN: Final = frozenset({"any", "none", "bool", "int", "float", "str", "bytes"})
_NO_SCHEMAS: Final = frozenset({"cls", "config", "default", "expected", "metadata", "serialization"})


class _HasUnion(Exception):
    """Pydantic names the choices of a union by their validators, so these must stay as they are."""


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
        return SchemaValidator(_add_stops(schema), config).validate_json
    except (_HasUnion, SchemaError, RecursionError):
        return None


def _add_stops(node: Any) -> Any:
    """Return a copy of a core schema whose lists and dicts call a function of Python after each item."""
    if isinstance(node, list | tuple):
        return type(node)(map(_add_stops, node))
    if type(node) is not dict:
        return node
    kind = node.get("type")
    if not isinstance(kind, str):  # the fields of a model, by their names
        return {name: _add_stops(inner) for name, inner in node.items()}
    if kind in _UNIONS:
        raise _HasUnion
    copied = {name: inner if name in _NO_SCHEMAS else _add_stops(inner) for name, inner in node.items()}
    member = _ITEMS.get(kind)
    if member in copied and copied[member].get("type") not in _PLAIN:
        copied[member] = core_schema.no_info_after_validator_function(_stop, copied[member])
    return copied


def _stop(value: _T) -> _T:
    """Return ``value``; the interpreter looks at each call whether another thread waits."""
    return value
