"""Remove from a result what the document declares writeOnly, such as a password that a server returns all the same.

Rules:
- A property is removed if any schema that applies to it is marked, also behind references and in branches.
- Schemas are read where a result has data, and once: what a result does not contain costs nothing.
"""
# CV-21

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from toolwire.core.model import Json
from toolwire.protocols.openapi.document.references import References

_BRANCHES = ("allOf", "anyOf", "oneOf")


class _Shape(NamedTuple):
    """What several schemas of one value say together."""

    hidden: frozenset[str]
    properties: Mapping[str, tuple[Json, ...]]
    others: tuple[Json, ...]
    items: tuple[Json, ...]


class WriteOnlyProperties:
    """Knows the writeOnly properties of one document. Threads may share one."""

    def __init__(self, references: References) -> None:
        self._references = references
        self._shapes: dict[tuple[int, ...], _Shape] = {}

    def remove(self, data: Json, schema: Json) -> bool:
        """Remove the writeOnly properties from ``data``, a result with this schema; return whether there were any."""
        removed = False
        waiting: list[tuple[Json, tuple[Json, ...]]] = [(data, (schema,))]
        while waiting:
            value, schemas = waiting.pop()
            shape = self._read_shape(schemas)
            if isinstance(value, dict):
                for name in shape.hidden & value.keys():
                    del value[name]
                    removed = True
                inside = ((one, shape.properties.get(name, shape.others)) for name, one in value.items())
                waiting.extend((one, known) for one, known in inside if known and isinstance(one, dict | list))
            elif isinstance(value, list) and shape.items:
                waiting.extend((one, shape.items) for one in value if isinstance(one, dict | list))
        return removed

    def _read_shape(self, schemas: tuple[Json, ...]) -> _Shape:
        # Schemas are parts of the document, which lives as long as this object: no id is used again.
        key = tuple(map(id, schemas))
        known = self._shapes.get(key)
        if known is None:
            known = self._shapes[key] = self._merge_parts(schemas)
        return known

    def _merge_parts(self, schemas: tuple[Json, ...]) -> _Shape:
        properties: dict[str, list[Json]] = {}
        others: list[Json] = []
        items: list[Json] = []
        # Several schemas of one value are read like branches: whichever of them applies, its mark counts.
        for part in self._references.iterate_parts({"anyOf": list(schemas)}, _BRANCHES, beside=True):
            if part is None:
                continue
            for name, schema in _get_members(part, "properties").items():
                properties.setdefault(name, []).append(schema)
            others += [part["additionalProperties"]] if isinstance(part.get("additionalProperties"), dict) else []
            others += _get_members(part, "patternProperties").values()
            items += [part["items"]] if isinstance(part.get("items"), dict) else []
            items += part["prefixItems"] if isinstance(part.get("prefixItems"), list) else []
        # One mark is enough: a secret shown is worse than a value left out.
        hidden = frozenset(name for name, found in properties.items() if any(map(self._is_write_only, found)))
        visible = {name: tuple(found) for name, found in properties.items() if name not in hidden}
        return _Shape(hidden, visible, tuple(others), tuple(items))

    def _is_write_only(self, schema: Json) -> bool:
        parts = self._references.iterate_parts(schema, _BRANCHES, beside=True)
        return any(part is not None and part.get("writeOnly") is True for part in parts)


def _get_members(part: Mapping[str, Any], keyword: str) -> Mapping[str, Json]:
    members = part.get(keyword)
    return members if isinstance(members, dict) else {}
