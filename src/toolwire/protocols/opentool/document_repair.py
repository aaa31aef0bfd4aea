"""Repair a document of another implementation: remove nulls, add defaults for missing members.

Rules:
- A document without faults comes back as it is, and so does whatever the specification knows nothing of.
- Each thing mended was seen in a real implementation.
"""
# C-4, A-04

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from functools import partial
from typing import Final, TypeAlias

from toolwire.core.model import Json
from toolwire.framing import jsontext
from toolwire.framing.jsontext import get_list
from toolwire.framing.report import Path

from .relations import list_members
from .schema import read_numeral
from .shapes import NULL_NAMES, SHAPES, Member, SchemaForm, shape_of

_NEEDED: Final = frozenset((("object", "properties"), ("array", "items")))
"""What a schema of a type must have."""


def mend(data: Json) -> Json:
    """Return ``data``, a document, mended as far as it can be; what is wrong in other ways stays wrong.

    Java writes null for whatever is not set; a null ``return`` stays, for it may be meant. TypeScript serves arrays
    without ``items``: they hold any object. Numbers of an ``enum`` that are written as strings become numbers.
    """
    return _mend_one("document", data, None, 0)


def _mend_one(name: str, data: Json, path: Path, depth: int) -> Json:
    if not isinstance(data, dict) or depth > jsontext.MAX_DEPTH:
        return data
    mended = dict(data)
    if name == "schema" and mended.get("$ref", "") is None:
        del mended["$ref"]
    shape = shape_of(name, mended)
    for member in list_members(shape, mended):
        value = mended.get(member.name)
        if value is not None:
            mended[member.name] = _change_parts(member, value, path, depth, _mend_one)
        elif member.is_needed and member.mended is not None:
            mended[member.name] = copy(member.mended)
        elif not member.is_needed and member.form is not SchemaForm.ONE_OR_NULL:
            mended.pop(member.name, None)
    return mended | _mend_schema(mended) if shape == "schema" else mended


_Change: TypeAlias = Callable[[str, Json, Path, int], Json]
"""Takes the shape of an object, the object, its path and its depth; returns a new object."""


def _change_parts(member: Member, value: Json, path: Path, depth: int, change: _Change) -> Json:
    """Return the ``value`` of ``member``, at ``path``, in which ``change`` has replaced each object directly inside."""
    match member.form, value:
        case ((SchemaForm.ONE | SchemaForm.ONE_OR_NULL), dict()):
            return change(member.shape, value, path, depth + 1)
        case SchemaForm.LIST, list():
            return [change(member.shape, item, (path, place), depth + 2) for place, item in enumerate(value)]
        case SchemaForm.MAP, dict():
            return {name: change(member.shape, item, (path, name), depth + 2) for name, item in value.items()}
        case _:
            return value


def _mend_schema(data: Mapping[str, Json]) -> dict[str, Json]:
    if data.get("type") == "object" and "properties" not in data:
        return {"properties": {}}
    if data.get("type") == "array" and "items" not in data:
        return {"items": {"type": "object", "properties": {}}}
    if data.get("type") in ("integer", "number") and get_list(data, "enum"):
        return {"enum": [read_numeral(value, data["type"]) for value in get_list(data, "enum")]}
    return {}


def find_nulls(data: Json) -> tuple[Json, list[Path]]:
    """Return ``data`` with each null that only says "not set" taken out, and the paths of those nulls.

    A null of a member that must be there stays, and is wrong.
    """
    nulls: list[Path] = []
    return _without_nulls(nulls, "document", data, None, 0), nulls


def _without_nulls(nulls: list[Path], name: str, data: Json, path: Path, depth: int) -> Json:
    if not isinstance(data, dict) or depth > jsontext.MAX_DEPTH:
        return data
    rest = dict(data)
    kind = rest["type"] if isinstance(rest.get("type"), str) else ""  # a document of others may have any value there
    if name == "schema" and rest.get("$ref", "") is None:
        nulls.append((path, "$ref"))
        del rest["$ref"]
    for member in SHAPES[shape_of(name, rest)].values():
        if member.name not in rest or (member.name in NULL_NAMES and rest[member.name] is None):
            continue
        here: Path = (path, member.name)
        value = rest[member.name]
        if value is not None:
            rest[member.name] = _change_parts(member, value, here, depth, partial(_without_nulls, nulls))
            continue
        if not member.is_needed and (kind, member.name) not in _NEEDED:
            del rest[member.name]
            nulls.append(here)
    return rest
