"""Find the property of an object that tells which branch of a union it is meant for, and its value in each branch."""
# O-22

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from toolwire.core.json_pointer import MISSING, PathStep, resolve_reference, take_steps
from toolwire.core.model import Json, Schema

from .exclusive import list_values, write_key

_UNIONS: Final = ("oneOf", "anyOf")
_MAX_PARTS: Final = 50
_MAX_BRANCHES: Final = 200


class Tag(NamedTuple):
    """A property that tells the branch: its name, and its values in each branch, None where a branch is no object."""

    name: str
    values: tuple[tuple[Json, ...] | None, ...]

    def list_all(self) -> list[Json]:
        """Return every value, each once."""
        return list({write_key(one): one for values in self.values for one in values or ()}.values())

    def list_branches(self, value: Json) -> list[int]:
        """Return the numbers of the branches that ``value`` selects."""
        key = write_key(value)
        return [
            number for number, values in enumerate(self.values) if values is not None and key in map(write_key, values)
        ]


def find_node(schema: Schema, path: Sequence[PathStep]) -> Schema:
    """Return the schema that holds the keyword at the end of ``path``; an empty one if it is not there."""
    node = take_steps(schema, [str(step) for step in path[:-1]])
    return node if isinstance(node, Mapping) else {}


def find_tag(root: Schema, branches: Json) -> Tag | None:
    """Return the property that tells the ``branches`` of a union in ``root`` apart, or None if there is none."""
    if not isinstance(branches, list) or not 1 < len(branches) <= _MAX_BRANCHES:
        return None
    listed = [_list_tags(root, one) for one in branches]
    objects = [one for one in listed if one is not None]
    if len(objects) < 2:
        return None
    for name in objects[0]:
        if all(name in one for one in objects):
            found = Tag(name, tuple(None if one is None else tuple(one[name]) for one in listed))
            if len({tuple(map(write_key, values)) for values in found.values if values is not None}) > 1:
                return found
    return None


def find_tag_values(root: Schema, node: Schema, name: str) -> list[Json]:
    """Return the values that the property ``name`` of ``node`` can have, by its own schema or by that of its unions."""
    for part in _iterate_parts(root, node):
        inner = part.get("properties")
        if isinstance(inner, Mapping) and (values := _list_values(root, inner.get(name))):
            return values
        for key in _UNIONS:
            tag = find_tag(root, part.get(key))
            if tag is not None and tag.name == name:
                return tag.list_all()
    return []


def _list_tags(root: Schema, branch: Json) -> dict[str, list[Json]] | None:
    """Return the values of each property of ``branch`` that has some; None if ``branch`` is no object."""
    found: dict[str, list[Json]] = {}
    is_object = False
    for part in _iterate_parts(root, branch):
        kind = part.get("type")
        if kind is not None and kind != "object" and not (isinstance(kind, list) and "object" in kind):
            return None
        inner = part.get("properties")
        is_object = is_object or kind is not None or isinstance(inner, Mapping)
        for name, one in inner.items() if isinstance(inner, Mapping) else ():
            values = _list_values(root, one)
            if values:
                known = [write_key(value) for value in values]
                found[name] = [value for value in found.get(name, values) if write_key(value) in known]
    return found if is_object else None


def _list_values(root: Schema, schema: Json) -> list[Json]:
    return list_values(schema, lambda node: _iterate_parts(root, node)) or []


def _iterate_parts(root: Schema, node: Json) -> Iterator[Mapping[str, Any]]:
    """Yield ``node`` and all that holds for the same value by references and ``allOf``; at most 50."""
    waiting, seen = [node], set[int]()
    while waiting and len(seen) < _MAX_PARTS:
        one = waiting.pop(0)
        if not isinstance(one, Mapping) or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        target = resolve_reference(root, one.get("$ref")) if "$ref" in one else MISSING
        waiting.append(target)
        branches = one.get("allOf")
        waiting += branches if isinstance(branches, list) else []
