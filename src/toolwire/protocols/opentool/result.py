"""Write the ``result`` of a call, which is always an object, and read the value in it.

Rules:
- An object goes as it is, and anything else under the name of the return. Where any value may come, or no object
  should, an object is put under that name too if it would not be told from one.
- Nothing returned is ``{}``, and so ``{}`` of a tool that declares nothing is nothing.
- What ``write`` makes, ``read`` undoes, given the same shape.
"""
# S-6, A-20

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from toolwire.core.model import Json, Schema

from .narrow_schema import Walk


class Shape(Enum):
    """What a tool's results can be, as far as writing them asks. ``SIMPLE`` is any value but an object."""

    NOTHING = auto()
    OBJECT = auto()
    OBJECT_OR_NULL = auto()
    SIMPLE = auto()
    ANY = auto()


def get_shape(output: Schema | None) -> Shape:
    """Return the shape that ``output`` allows."""
    if output is None:
        return Shape.NOTHING
    declared = output.get("type")
    types = {declared} if isinstance(declared, str) else _list_types(output, Walk(output), 0)
    if types == {"object"}:
        return Shape.OBJECT
    if not types & {"object", "any"}:
        return Shape.SIMPLE
    return Shape.OBJECT_OR_NULL if types == {"object", "null"} else Shape.ANY


def get_item_shape(output: Schema | None) -> Shape:
    """Return the shape of each piece of a stream whose whole result is the list that ``output`` describes."""
    items = (output or {}).get("items")
    definitions = (output or {}).get("$defs")
    if not isinstance(items, Mapping):
        return Shape.ANY
    return get_shape({**items, "$defs": definitions} if definitions else items)


def write(value: Json, form: Shape, name: str) -> dict[str, Json]:
    """Return ``value`` as the result object of a tool of shape ``form`` whose return is called ``name``."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        return {name: value}
    if form is Shape.ANY:
        return {name: value} if not value or _is_named(value, name) else value
    # O-21: another server may send an object where it promised none; its one member would be read as the value.
    return {name: value} if form is Shape.SIMPLE and len(value) <= 1 else value


def read(result: Json, form: Shape, name: str) -> Json:
    """Return the value in a result whose return is called ``name``.

    Where the value is no object, it is the one member, whatever that is called; where it may be any value, it is the
    one member of that name, in any case. A result that is no object, as the TypeScript SDK passes on, is the value
    itself.
    """
    # A-20
    if not isinstance(result, dict) or form is Shape.OBJECT:
        return result
    if not result:
        return None
    is_wrapped = (form is Shape.SIMPLE and len(result) == 1) or (form is Shape.ANY and _is_named(result, name))
    return next(iter(result.values())) if is_wrapped else result


def _is_named(data: dict[str, Json], name: str) -> bool:
    """Return whether the only member of ``data`` is called ``name``, in any case."""
    return len(data) == 1 and next(iter(data)).casefold() == name.casefold()


def _list_types(schema: Json, walk: Walk, depth: int) -> set[str]:
    """Return the JSON types that ``schema`` allows, ``"any"`` where it does not say."""
    if not isinstance(schema, Mapping) or not walk.may_enter(schema, depth):
        return {"any"}
    match schema:
        case {"type": str(name)}:
            return {name}
        case {"type": [*names]}:
            return {name if isinstance(name, str) else "any" for name in names}
        case {"$ref": reference}:
            return _list_types(walk.follow(reference), walk, depth + 1)
        case {"anyOf": [*parts]} | {"oneOf": [*parts]}:
            return {name for part in parts for name in _list_types(part, walk, depth + 1)}
        case _:
            return {"any"}
