"""Write a JSON Schema in the keywords that a provider accepts.

Rules:
- A value that is valid by the schema is valid by what is written.
- A keyword that the provider does not accept moves to the description. The call is still checked against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from toolwire.core.model import Json, Schema
from toolwire.core.subschemas import LISTED, NAMED, SINGLE

from .conversion_context import ConversionContext, References
from .dialects import MAX_EXPANSIONS, SchemaDialect
from .schema_texts import DATA, SILENT, add_notes, clean_schema, note_original_name, rename_keys, write_any_value
from .schema_walk import list_types, merge_all_of, resolve
from .typed_schema import UNIONS, write_typed_schema, write_union

_AT_ROOT: Final = (*UNIONS, "not", "if", "then", "else", "enum", "const", "dependentSchemas")
_MAX_FOLLOWED: Final = 200


def write_schema(root: Schema, dialect: SchemaDialect, names: Mapping[str, str]) -> dict[str, Json]:
    """Return ``root``, the schema of an object, for ``dialect``. ``names`` maps keys to those that replace them."""
    return clean_schema(_write_root(ConversionContext(root, dialect, names, _write_node)))


def _write_root(context: ConversionContext) -> dict[str, Json]:
    """Return the full schema, with the definitions that it needs."""
    found = merge_all_of(context.root, context.root)
    object_ = {**found.schema, "type": "object"}
    if not isinstance(object_.get("properties"), Mapping):
        object_["properties"] = {}
    notes = [context.describe_limit(key, value) for key, value in found.unmerged]
    notes += [_open_root(context, object_, key) for key in _AT_ROOT if key in object_]
    written = context.write_inner(add_notes(object_, notes), ())
    written.setdefault("properties", {})
    definitions: dict[str, Json] = {}
    while context.pending:
        reference = context.pending.popleft()
        target = resolve(context.root, reference)
        definitions[context.definitions[reference]] = context.write_inner(target, ())
    return {**written, "$defs": dict(sorted(definitions.items()))} if definitions else written


def _write_node(context: ConversionContext, node: Json, followed: References) -> dict[str, Json]:
    if context.is_full:
        return write_any_value(context, {}, "the rest of a schema that is too large")
    if not isinstance(node, Mapping):
        return write_any_value(context, {}, "" if node is not False else "nothing at all")
    node = _unwrap_reference(node)
    if "$ref" in node:
        return _write_reference(context, node, followed)
    if context.dialect.keywords is None:
        return write_full_schema(context, node, followed)
    if "allOf" in node:
        return _write_inlined(context, node, followed)
    for key in UNIONS:
        if isinstance(node.get(key), list) and node[key]:
            return write_union(context, node, key, followed)
    return write_typed_schema(context, node, followed)


def _write_reference(context: ConversionContext, node: Schema, followed: References) -> dict[str, Json]:
    reference = node["$ref"]
    target = resolve(context.root, reference)
    if target is None:
        return write_any_value(context, node, f"a reference that leads nowhere: {str(reference)[:100]}")
    beside = {key: value for key, value in node.items() if key != "$ref" and key not in SILENT}
    if beside and context.dialect.keywords is not None and beside.keys() != {"description"}:
        return _write_inlined(context, node, followed)
    pointed = {"$ref": context.reference_definition(reference)}
    if context.dialect.keywords is None:
        return {**write_full_schema(context, beside, followed), **pointed}
    return {"anyOf": [pointed], **beside} if beside else pointed


def _write_inlined(context: ConversionContext, node: Schema, followed: References) -> dict[str, Json]:
    """Return ``node`` with each reference replaced by its schema, at most ``MAX_EXPANSIONS`` times inside itself."""
    found = merge_all_of(context.root, node)
    followed += found.references
    for reference in found.references:
        if resolve(context.root, reference) is None:
            return write_any_value(context, node, f"a reference that leads nowhere: {reference[:100]}")
        if followed.count(reference) > MAX_EXPANSIONS or len(followed) > _MAX_FOLLOWED:
            return write_any_value(context, node, f"once more a value like {reference.rpartition('/')[2]}")
    notes = [context.describe_limit(key, value) for key, value in found.unmerged]
    return context.write_inner(add_notes(found.schema, notes), followed)


def _open_root(context: ConversionContext, whole: dict[str, Json], key: str) -> str:
    """Remove ``key`` from the root, where no provider accepts it. Return the note about it.

    The properties of each branch of a union are added to the root, so that all arguments can be given.
    """
    taken = whole.pop(key)
    if key in UNIONS and isinstance(taken, list):
        choices = [merge_all_of(context.root, one).schema for one in taken if isinstance(one, Mapping)]
        for choice in choices:
            inner = choice.get("properties")
            if isinstance(inner, Mapping):
                whole["properties"] = {**inner, **whole["properties"]}
    return context.describe_limit(key, taken)


def _unwrap_reference(node: Schema) -> Schema:
    """Return ``node`` with an ``allOf`` of nothing but one reference as that reference."""
    match node.get("allOf"):
        case [{"$ref": str() as reference, **rest}] if not rest and "$ref" not in node:
            return {**{key: value for key, value in node.items() if key != "allOf"}, "$ref": reference}
        case _:
            return node


_KEPT: Final = frozenset(("title", "deprecated", "readOnly", "writeOnly", "$comment"))
_BY_KEY: Final = frozenset(("propertyNames", "patternProperties", "dependentSchemas"))


def write_full_schema(context: ConversionContext, node: Schema, followed: References) -> dict[str, Json]:
    """Return ``node`` with every keyword of 2020-12, its keys renamed, and references to ``$defs`` of its own."""
    built: dict[str, Json] = {}
    notes: list[str] = []
    for key, value in node.items():
        if key in SILENT - _KEPT:
            continue
        if key in _BY_KEY and context.names:
            notes.append(context.describe_limit(key, value))
        else:
            built[key] = _write_keyword(context, key, value, followed)
    # O-24: one array without items makes the provider refuse the whole request.
    if context.dialect.array_items and "items" not in built and "array" in list_types(built):
        built["items"] = {}
    return add_notes(built, notes)


def _write_keyword(context: ConversionContext, key: str, value: Json, followed: References) -> Json:
    if key in SINGLE and isinstance(value, Mapping):
        return context.write_inner(value, followed)
    if key in LISTED and isinstance(value, list):
        return [one if isinstance(one, bool) else context.write_inner(one, followed) for one in value]
    if key in NAMED and isinstance(value, Mapping):
        return {
            context.names.get(name, name): inner if isinstance(inner, bool) else context.write_inner(inner, followed)
            for name, one in value.items()
            for inner in (note_original_name(context, name, one) if key == "properties" else one,)
        }
    if key == "required" and isinstance(value, list):
        return [context.names.get(name, name) for name in value if isinstance(name, str)]
    return rename_keys(value, context.names) if key in DATA or key == "dependentRequired" else value
