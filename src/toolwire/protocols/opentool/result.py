"""The ``result`` of a call: always an object on the wire, whatever the tool returned. [S-6]

Rules:
- A tool that declares an object, or nothing, returns an object as it is; anything else stands under the name of the
  return. [A-20]
- Nothing returned is ``{}``, and so ``{}`` of a tool that declares nothing is nothing.
- What ``write`` makes, ``read`` undoes, given the same shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from toolwire.core.model import Json, Schema

from .narrow import Walk


class Shape(Enum):
    """What a tool's results can be, as far as writing them asks."""

    NOTHING = auto()
    OBJECT = auto()
    OBJECT_OR_NULL = auto()
    ANY = auto()


def shape(output: Schema | None) -> Shape:
    """Return the shape that ``output`` allows."""
    if output is None:
        return Shape.NOTHING
    said = output.get("type")
    types = {said} if isinstance(said, str) else _types(output, Walk(output), 0)
    if types == {"object"}:
        return Shape.OBJECT
    return Shape.OBJECT_OR_NULL if types == {"object", "null"} else Shape.ANY


def write(value: Json, form: Shape, name: str) -> dict[str, Json]:
    """Return ``value`` as the result object of a tool of shape ``form`` whose return is called ``name``."""
    if isinstance(value, dict) and (len(value) > 1 or form is not Shape.ANY):
        return value
    return {} if value is None else {name: value}


def read(result: Json, form: Shape) -> Json:
    """Return the value in a result; the one member of an object is the value, whatever it is called. [A-20]

    A result that is no object, as the TypeScript SDK passes on, is the value itself.
    """
    if not isinstance(result, dict) or form is Shape.OBJECT:
        return result
    if not result:
        return None
    return next(iter(result.values())) if form is Shape.ANY and len(result) == 1 else result


def _types(schema: Json, walk: Walk, depth: int) -> set[str]:
    """Return the JSON types that ``schema`` allows, ``"any"`` where it does not say."""
    if not isinstance(schema, Mapping) or not walk.may_enter(schema, depth):
        return {"any"}
    match schema:
        case {"type": str(name)}:
            return {name}
        case {"type": [*names]}:
            return {name if isinstance(name, str) else "any" for name in names}
        case {"$ref": reference}:
            return _types(walk.follow(reference), walk, depth + 1)
        case {"anyOf": [*parts]} | {"oneOf": [*parts]}:
            return {name for part in parts for name in _types(part, walk, depth + 1)}
        case _:
            return {"any"}
