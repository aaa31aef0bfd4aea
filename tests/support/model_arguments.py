"""Write the arguments of a tool as a model would, by the schema that was declared to it."""

from __future__ import annotations

from collections.abc import Mapping

from toolwire.adapters.schema import ToolSchema
from toolwire.adapters.schema_texts import rename_keys
from toolwire.adapters.schema_walk import get_type, list_types, resolve
from toolwire.core.model import Json, Schema


def write_arguments(shaped: ToolSchema, arguments: Mapping[str, Json]) -> dict[str, Json]:
    """Return the tool's ``arguments`` by their declared names, in strict with null for what is left out."""
    declared = {original: name for name, original in shaped.original_names.items()}
    data = rename_keys(dict(arguments), declared)
    return dict(_fill_with_nulls(data, shaped.schema, shaped.schema) if shaped.is_strict else data)


def _fill_with_nulls(data: Json, node: Json, root: Schema) -> Json:
    """Return ``data`` with a null for each property of a strict schema that it does not have."""
    chosen = _choose_branch(data, node, root)
    if isinstance(data, list):
        return [_fill_with_nulls(one, chosen.get("items"), root) for one in data]
    if not isinstance(data, dict):
        return data
    properties = chosen.get("properties")
    declared: Mapping[str, Json] = properties if isinstance(properties, Mapping) else {}
    filled = {key: _fill_with_nulls(value, declared.get(key), root) for key, value in data.items()}
    return {**dict.fromkeys(declared), **filled}


def _choose_branch(data: Json, node: Json, root: Schema) -> Schema:
    """Return the branch of ``node`` that ``data`` fits, by its keys and constants."""
    seen: set[int] = set()
    # A schema may be nothing but references to itself: then no branch says anything.
    while isinstance(node, Mapping) and id(node) not in seen:
        seen.add(id(node))
        target = resolve(root, node.get("$ref"))
        if target is not None:
            node = target
            continue
        choices = node.get("anyOf")
        if not isinstance(choices, list):
            return node
        node = next((one for one in choices if _fits(data, one, root)), choices[0])
    return {}


def _fits(data: Json, node: Schema, root: Schema, seen: frozenset[int] = frozenset()) -> bool:
    """Return whether ``data`` fits ``node``; ``seen`` are the choices that lead to it."""
    node = resolve(root, node.get("$ref")) or node
    if isinstance(choices := node.get("anyOf"), list):
        return id(node) not in seen and any(_fits(data, one, root, seen | {id(node)}) for one in choices)
    own = get_type(data)
    kinds = list_types(node)
    if kinds and own not in kinds and not (own == "integer" and "number" in kinds):
        return False
    if isinstance(values := node.get("enum"), list) and data not in values:
        return False
    if not isinstance(data, dict):
        return True
    properties = node.get("properties")
    declared: Mapping[str, Json] = properties if isinstance(properties, Mapping) else {}
    if data.keys() - declared.keys():
        return False
    return all(_fits(data.get(key), one, root) for key, one in declared.items())
