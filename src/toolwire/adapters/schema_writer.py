"""One JSON Schema written in the words of a dialect: what is not taken moves to the description, and is listed.

Rules:
- A value of the schema stays a value of what is written; where it would not, that is a loss that ``narrows``.
- What is taken out is said in words, and whoever runs the call still enforces it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from toolwire.core.model import Json, Schema

from .conversion_context import ConversionContext, SchemaLoss, WriterPosition
from .dialects import UNROLLED, SchemaDialect
from .full_schema import whole
from .schema_texts import SILENT, anything, noted, readable
from .schema_walk import merged, resolve
from .typed_schema import typed
from .unions import UNIONS, opened, union

_AT_ROOT: Final = (*UNIONS, "not", "if", "then", "else", "enum", "const", "dependentSchemas")
_MOST_THROUGH: Final = 200


class WrittenSchema(NamedTuple):
    """A schema in a provider's words, and what it does not say."""

    schema: dict[str, Json]
    losses: tuple[SchemaLoss, ...]


def write(root: Schema, dialect: SchemaDialect, names: Mapping[str, str]) -> WrittenSchema:
    """Return ``root``, the schema of an object, in the words of ``dialect``; ``names`` are the keys to write anew."""
    work = ConversionContext(root, dialect, names, _node)
    schema = _root(work)
    return WrittenSchema(readable(schema), tuple(dict.fromkeys(work.losses)))


def _root(work: ConversionContext) -> dict[str, Json]:
    """Return the whole schema, with the definitions that it needs."""
    found = merged(work.root, work.root)
    object_ = {**found.schema, "type": "object"}
    if not isinstance(object_.get("properties"), Mapping):
        object_["properties"] = {}
    notes = [work.lost(WriterPosition(), key, value) for key, value in found.unsaid]
    for key in _AT_ROOT:
        if key in object_:
            notes.extend(opened(work, object_, key))
    written = work.inner(noted(object_, notes), WriterPosition())
    definitions: dict[str, Json] = {}
    while work.waiting:
        reference = work.waiting.popleft()
        target = resolve(work.root, reference)
        definitions[work.definitions[reference]] = work.inner(target, WriterPosition(reference[1:]))
    return {**written, "$defs": dict(sorted(definitions.items()))} if definitions else written


def _node(work: ConversionContext, node: Json, place: WriterPosition) -> dict[str, Json]:  # noqa: PLR0911 - one case for each sort
    if work.is_full:
        return anything(work, {}, place, "the rest of a schema that is too large")
    if not isinstance(node, Mapping):
        return anything(work, {}, place, "" if node is not False else "nothing at all")
    node = _plain_reference(node)
    if "$ref" in node and work.dialect.references:
        return _reference(work, node, place)
    if work.dialect.whole:
        return whole(work, node, place)
    if "$ref" in node or "allOf" in node:
        return _taken_in(work, node, place)
    for key in UNIONS:
        if isinstance(node.get(key), list) and node[key]:
            return union(work, node, key, place)
    return typed(work, node, place)


def _reference(work: ConversionContext, node: Schema, place: WriterPosition) -> dict[str, Json]:
    reference = node["$ref"]
    target = resolve(work.root, reference)
    if target is None:
        return anything(work, node, place, f"a reference that leads nowhere: {str(reference)[:100]}")
    if reference in work.recursive and not work.dialect.recursion:
        work.lost(place, "$ref", reference, narrows=True)
    beside = {key: value for key, value in node.items() if key != "$ref" and key not in SILENT}
    if beside and not work.dialect.whole and beside.keys() != {"description"}:
        return _taken_in(work, node, place)
    pointed = {"$ref": work.pointed(reference)}
    if work.dialect.whole:
        return {**whole(work, beside, place), **pointed}
    return {"anyOf": [pointed], **beside} if beside else pointed


def _taken_in(work: ConversionContext, node: Schema, place: WriterPosition) -> dict[str, Json]:
    """Return ``node`` with what it refers to written in its place, as often as a schema may hold itself."""
    found = merged(work.root, node)
    through = place.through + found.references
    for reference in found.references:
        if resolve(work.root, reference) is None:
            return anything(work, node, place, f"a reference that leads nowhere: {reference[:100]}")
        if through.count(reference) > UNROLLED or len(through) > _MOST_THROUGH:
            return anything(work, node, place, f"once more a value like {reference.rpartition('/')[2]}")
    notes = [work.lost(place, key, value) for key, value in found.unsaid]
    return work.inner(noted(found.schema, notes), place._replace(through=through))


def _plain_reference(node: Schema) -> Schema:
    """Return ``node`` with an ``allOf`` of nothing but one reference as that reference."""
    match node.get("allOf"):
        case [{"$ref": str() as reference, **rest}] if not rest and "$ref" not in node:
            return {**{key: value for key, value in node.items() if key != "allOf"}, "$ref": reference}
        case _:
            return node
