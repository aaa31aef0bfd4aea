"""Read a schema that someone else wrote: one reader for every protocol.

Rules:
- The dialect that ``$schema`` names is read, and the result is JSON Schema 2020-12.
- A keyword with a value that it cannot have is left out, and so is a reference that leads nowhere, with a finding.
- A ``oneOf`` whose branches overlap is taken as an ``anyOf``: the other side takes what fits several of them.
- A schema that refers to itself for the same value is cut where it does.
- The result accepts at least what the schema accepts. A schema without faults comes back as it is.
"""
# O-34, O-22, O-26, O-35

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

import jsonschema_rs

from toolwire.core.json_pointer import MISSING, resolve_pointer
from toolwire.core.model import Json, Tool
from toolwire.core.subschemas import DEFINITIONS, NAMED, change_subschemas, iterate_schemas, list_subschemas

from .exclusive import are_exclusive
from .patterns import PatternBudget
from .schema_dialects import META_SCHEMA, RECURSIVE_ANCHOR, Dialect, read_dialect, upgrade_node
from .schema_keywords import fits, is_keyword, is_type

_HELD: Final = frozenset(("$anchor", "$comment", "$dynamicAnchor", "$dynamicRef", "$id", "$ref", "$schema"))
_MEANT: Final = frozenset(("const", "default", "enum", "example", "examples"))
_REFERENCES: Final = ("$ref", "$dynamicRef")
_UNEVALUATED: Final = ("unevaluatedItems", "unevaluatedProperties")
_PUBLISHED: Final = ("https://json-schema.org/", "http://json-schema.org/")
_SAME_VALUE: Final = frozenset(("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"))
_CHOICES: Final = ("anyOf", "oneOf")
_MAX_DEPTH: Final = 190
_MAX_PARTS: Final = 100
_MAX_FINDINGS: Final = 20
_SHOWN: Final = 100


class ForeignSchema(NamedTuple):
    """A schema as it is used here, and a phrase for each thing that was changed in it."""

    schema: dict[str, Json]
    findings: tuple[str, ...]


def read_foreign_schema(schema: dict[str, Json]) -> ForeignSchema:
    """Return ``schema`` in JSON Schema 2020-12, mended. One that names no dialect is of that one too."""
    reader = _Reader()
    built = reader.read(schema, read_dialect(schema, Dialect.DRAFT_2020_12), 0)
    built = _add_published(built, reader)
    built = _remove_dead_references(built, reader.note)
    built = break_cycles(built, reader.note)
    built = _open_choices(built, reader.note)
    if "$schema" in schema and "$schema" not in built:
        built = {"$schema": META_SCHEMA, **built} if isinstance(schema["$schema"], str) else built
    return ForeignSchema(schema if built == schema else built, tuple(reader.findings))


def read_foreign_tool(tool: Tool, findings: list[str]) -> Tool:
    """Return ``tool`` with its schemas as ``read_foreign_schema`` reads them, and add a sentence for each change."""
    read = read_foreign_schema(dict(tool.input_schema)) if tool.input_schema else ForeignSchema({}, ())
    given = read_foreign_schema(dict(tool.output_schema)) if tool.output_schema else ForeignSchema({}, ())
    findings += [f"the input schema of the tool {tool.name!r}: {text}" for text in read.findings]
    findings += [f"the output schema of the tool {tool.name!r}: {text}" for text in given.findings]
    if tool.input_schema and read.schema != tool.input_schema:
        tool = replace(tool, input_schema=read.schema)
    return (
        replace(tool, output_schema=given.schema) if tool.output_schema and given.schema != tool.output_schema else tool
    )


class _Reader:
    """Upgrades and mends the schemas in one schema, each where it stands."""

    def __init__(self) -> None:
        self.findings: dict[str, None] = {}
        self._loosened = 0
        self._patterns = PatternBudget()

    def note(self, text: str) -> None:
        """Add a finding about something that was left out."""
        self._loosened += 1
        if len(self.findings) < _MAX_FINDINGS:
            self.findings[text] = None

    def read(  # noqa: C901 - a keyword of one dialect each
        self, node: dict[str, Json], outer: Dialect, depth: int, *, recurses: bool = False
    ) -> dict[str, Json]:
        """Return ``node`` with all schemas in it; ``recurses``: the resource around it has a ``$recursiveAnchor``."""
        if depth > _MAX_DEPTH:
            return node
        dialect = read_dialect(node, outer)
        upgraded = upgrade_node(node, dialect)
        if "$id" in upgraded or not depth:
            recurses = upgraded.get("$recursiveAnchor") is True
        members: dict[str, Json] = {}
        for key, value in upgraded.items():
            if key == "$schema":
                if value == META_SCHEMA and not depth:
                    members[key] = value
            elif key == "$recursiveAnchor":
                if value is True:
                    members["$dynamicAnchor"] = RECURSIVE_ANCHOR
            elif key == "$recursiveRef":
                members |= {"$dynamicRef": f"#{RECURSIVE_ANCHOR}"} if recurses else {"$ref": "#"}
            elif (mended := self._mend(key, value)) is not MISSING:
                members[key] = mended
        _accept_null(members)
        looser: set[str] = set()

        def change(one: Json, key: str, _: str) -> Json:
            before = self._loosened
            built = self._read_inner(one, dialect, depth, recurses=recurses)
            if self._loosened > before:
                looser.add(key)
            return built

        return _relax_around(change_subschemas(members, change), looser)

    def _read_inner(self, node: Json, dialect: Dialect, depth: int, *, recurses: bool) -> Json:
        if isinstance(node, dict):
            return self.read(node, dialect, depth + 1, recurses=recurses)
        if isinstance(node, bool):
            return node
        self.note("a schema in it is not an object, and anything fits it")
        return {}

    def _mend(self, key: str, value: Json) -> Json:  # noqa: C901, PLR0911 - a sort of keyword each
        """Return the value of ``key`` where it can have it, mended where that is clear, or ``MISSING``."""
        if key in _HELD:
            return value if isinstance(value, str) else self._leave_out(key, value)
        if key in _MEANT and key != "enum":
            return value
        if not is_keyword(key):
            return value
        if key in (*NAMED, *DEFINITIONS) and isinstance(value, dict):
            if key != "patternProperties":
                return value
            names = {name: one for name, one in value.items() if self._fits_pattern(name)}
            if len(names) < len(value):
                self.note("a pattern for names of properties in it cannot be used")
            return names
        if isinstance(value, list | dict | bool) and _holds_schemas(key, value):
            return value
        if key == "type" and isinstance(value, list):
            types = list(dict.fromkeys(one for one in value if isinstance(one, str) and is_type(one)))
            if types and types != value:
                self.note("a type in it is not known")
            return types if types else self._leave_out(key, value)
        if key == "required" and isinstance(value, list):
            return list(dict.fromkeys(one for one in value if isinstance(one, str)))
        if fits(key, value) and (key != "pattern" or (isinstance(value, str) and self._fits_pattern(value))):
            return value
        return self._leave_out(key, value)

    def _fits_pattern(self, text: str) -> bool:
        return fits("pattern", text) and self._patterns.accepts(text)

    def _leave_out(self, key: str, value: Json) -> Json:
        if value is not None:  # servers in Java write null for what is not set
            self.note(f"its {key} has a value that cannot be used, and is left out")
        return MISSING


def _relax_around(node: dict[str, Json], looser: Collection[str]) -> dict[str, Json]:
    """Return ``node`` without keywords that refuse more because the schemas under ``looser`` accept more."""
    gone: set[str] = set()
    if "not" in looser:
        gone.add("not")
    if "if" in looser:
        gone.update(("if", "then", "else"))
    if "contains" in looser:
        gone.add("maxContains")
    return {key: one for key, one in node.items() if key not in gone} if gone else node


def _change_all(node: Json, change: Callable[[dict[str, Json]], dict[str, Json]]) -> Json:
    """Return ``node`` with ``change``, which only loosens, made to each schema in it; itself if nothing changes."""
    if not isinstance(node, dict):
        return node
    looser: set[str] = set()

    def change_inner(one: Json, key: str, _: str) -> Json:
        built = _change_all(one, change)
        if built is not one:
            looser.add(key)
        return built

    changed = change(node)
    built = change_subschemas(changed, change_inner)
    return _relax_around(built, looser) if looser else changed


def _holds_schemas(key: str, value: Json) -> bool:
    """Return whether ``value`` holds one schema or a list of schemas, as ``key`` wants it."""
    subschemas = [one for name, _, one in list_subschemas({key: value}) if name == key]
    if not subschemas:
        return False
    return all(isinstance(one, dict | bool) for one in subschemas) if isinstance(value, list) else subschemas == [value]


def _accept_null(node: dict[str, Json]) -> None:
    """Have ``node`` accept null where it is ``nullable``, the word of OpenAPI 3.0."""
    if node.get("nullable") is not True:
        return
    del node["nullable"]
    inner = {key: node.pop(key) for key in list(node) if key not in _TEXTS and key not in _HOLDERS}
    kinds = inner.get("type")
    if isinstance(kinds, str) and inner.keys().isdisjoint(("enum", "const", "allOf", "anyOf", "oneOf", "$ref", "not")):
        node.update({**inner, "type": [kinds, "null"] if kinds != "null" else kinds})
    elif inner:
        node["anyOf"] = [inner, {"type": "null"}]


_TEXTS: Final = frozenset(("$anchor", "$id", "default", "description", "title"))
_HOLDERS: Final = frozenset(("$defs", "definitions"))


def _add_published(schema: dict[str, Json], reader: _Reader) -> dict[str, Json]:
    """Return ``schema`` with the published schemas of older drafts that it refers to among its definitions.

    The validator has only that of 2020-12. That of 2019-09 refers to itself dynamically: any schema fits in its place.
    """
    index = _Index(schema)
    added: dict[str, Json] = {}
    opened: set[int] = set()
    for node, base in index.nodes:
        reference = node.get("$ref")
        address = _split(base, reference)[0] if isinstance(reference, str) else ""
        if not address.startswith(_PUBLISHED) or index.has_resource(address) or not _is_published(address):
            continue
        dialect = read_dialect({"$schema": address}, Dialect.DRAFT_2020_12)
        if dialect is Dialect.DRAFT_2019_09:
            opened.add(id(node))
            reader.note("it refers to the schema of draft 2019-09, and any object or boolean fits that")
        elif dialect < Dialect.DRAFT_2019_09 and address not in added:
            found = _load_published(address)
            if found is not None:
                added[address] = {"$id": address, **reader.read(found, dialect, 1)}
    if opened:

        def change(node: dict[str, Json]) -> dict[str, Json]:
            if id(node) not in opened:
                return node
            return {**{key: one for key, one in node.items() if key != "$ref"}, "type": ["object", "boolean"]}

        schema = _as_object(_change_all(schema, change), schema)
    if not added:
        return schema
    own = schema.get("$defs")
    return {**schema, "$defs": {**(own if isinstance(own, dict) else {}), **added}}


def _load_published(address: str) -> dict[str, Json] | None:
    """Return the published schema at ``address``, which the validator has for the drafts that it reads."""
    bundled: Any = jsonschema_rs.bundle({"$schema": address, "$ref": address})
    definitions = bundled.get("$defs") or bundled.get("definitions") or {}
    return next((one for one in definitions.values() if isinstance(one, dict)), None)


def _remove_dead_references(schema: dict[str, Json], note: Callable[[str], None]) -> dict[str, Json]:
    """Return ``schema`` without references that lead nowhere or to another document."""
    index = _Index(schema)
    dead = {
        id(node)
        for node, base in index.nodes
        for key in _REFERENCES
        if isinstance(reference := node.get(key), str) and not index.can_resolve(base, reference)
    }
    if not dead:
        return schema

    def change(node: dict[str, Json]) -> dict[str, Json]:
        if id(node) in dead:
            dead_reference = next(one for key in _REFERENCES if isinstance(one := node.get(key), str))
            note(f"it refers to {dead_reference[:_SHOWN]!r}, which does not exist, so any value is valid there")
        # What the lost schemas define would be refused as undefined.
        gone = (*_REFERENCES, *_UNEVALUATED) if id(node) in dead else _UNEVALUATED
        return {key: one for key, one in node.items() if key not in gone} if any(key in node for key in gone) else node

    return _as_object(_change_all(schema, change), schema)


def _as_object(built: Json, otherwise: dict[str, Json]) -> dict[str, Json]:
    return built if isinstance(built, dict) else otherwise


class _Index:
    """Every schema object in a schema with its base address, and what references can lead to."""

    def __init__(self, schema: dict[str, Json]) -> None:
        self.nodes: list[tuple[dict[str, Json], str]] = []
        self._resources: dict[str, Json] = {"": schema}
        self._anchors: dict[tuple[str, str], Json] = {}
        waiting: list[tuple[Json, str]] = [(schema, "")]
        while waiting:
            node, base = waiting.pop()
            if not isinstance(node, dict):
                continue
            identifier = node.get("$id")
            if isinstance(identifier, str):
                base = urldefrag(_join(base, identifier))[0]
                self._resources.setdefault(base, node)
            self.nodes.append((node, base))
            for key in ("$anchor", "$dynamicAnchor"):
                if isinstance(anchor := node.get(key), str):
                    self._anchors.setdefault((base, anchor), node)
            waiting.extend((one, base) for _, _, one in list_subschemas(node))

    def has_resource(self, address: str) -> bool:
        """Return whether a schema with this address is inside."""
        return address in self._resources

    def can_resolve(self, base: str, reference: str) -> bool:
        """Return whether ``reference``, in a schema with the address ``base``, leads to a schema."""
        address, _ = _split(base, reference)
        if address not in self._resources and address.startswith(_PUBLISHED):
            return _is_published(address)
        return isinstance(self.resolve(base, reference), dict | bool)

    def resolve(self, base: str, reference: str) -> Json:
        """Return what ``reference`` leads to in this schema, or ``MISSING``."""
        address, fragment = _split(base, reference)
        if address not in self._resources:
            return MISSING
        if fragment and not fragment.startswith("/"):
            return self._anchors.get((address, fragment), MISSING)
        return resolve_pointer(self._resources[address], fragment)


def _split(base: str, reference: str) -> tuple[str, str]:
    """Return the address of the resource that ``reference`` leads to, and its fragment, decoded."""
    address, fragment = urldefrag(reference if reference.startswith("#") else _join(base, reference))
    return base if reference.startswith("#") else address, unquote(fragment)


def _is_published(address: str) -> bool:
    return read_dialect({"$schema": address}, Dialect.OPENAPI_30) is not Dialect.OPENAPI_30


def _join(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference)
    except ValueError:  # no address at all
        return reference


def break_cycles(schema: dict[str, Json], note: Callable[[str], None]) -> dict[str, Json]:
    """Return ``schema`` without references by which a schema leads back to itself for the same value.

    A branch of a union that is nothing but such a reference is left out: it allows nothing that the others do not.
    """
    # O-26
    if not any("$ref" in one for one in iterate_schemas(schema)):
        return schema
    cut = _find_cycles(schema)
    if not cut:
        return schema
    note("a schema in it refers to itself for the same value, and that reference is left out")

    def change(node: dict[str, Json]) -> dict[str, Json]:
        members = {key: one for key, one in node.items() if key != "$ref"} if id(node) in cut else node
        for key in _CHOICES:
            branches = members.get(key)
            if not isinstance(branches, list) or not any(id(one) in cut for one in branches):
                continue
            left = [
                one for one in branches if not (isinstance(one, dict) and id(one) in cut and one.keys() == {"$ref"})
            ]
            members = {name: one for name, one in members.items() if name != key} | ({key: left} if left else {})
        return members

    return _as_object(_change_all(schema, change), schema)


def applies_reference(schema: Json) -> bool:
    """Return whether ``schema`` applies a ``$ref`` to the same value, by itself or in a branch.

    Where all references lead to definitions, none of which does, no schema leads back to itself.
    """
    if not isinstance(schema, dict):
        return False
    branches = (one for key in _SAME_VALUE & schema.keys() for _, _, one in list_subschemas({key: schema[key]}))
    return "$ref" in schema or any(map(applies_reference, branches))


def _find_cycles(schema: dict[str, Json]) -> set[int]:
    """Return the ids of the schema objects whose reference leads back to a schema that is being applied already."""
    index = _Index(schema)
    bases = {id(node): base for node, base in index.nodes}
    done: set[int] = set()
    cut: set[int] = set()
    for start, _ in index.nodes:
        if id(start) in done:
            continue
        path: dict[int, Iterator[tuple[dict[str, Json], int]]] = {
            id(start): _iterate_same_value(start, index, bases),
        }
        while path:
            current = next(reversed(path))
            for target, referring in path[current]:
                if id(target) in path:
                    if referring:
                        cut.add(referring)
                elif id(target) not in done:
                    path[id(target)] = _iterate_same_value(target, index, bases)
                    break
            else:
                done.add(current)
                del path[current]
    return cut


def _iterate_same_value(
    node: dict[str, Json], index: _Index, bases: Mapping[int, str]
) -> Iterator[tuple[dict[str, Json], int]]:
    """Yield each schema that ``node`` applies to the same value, and the id of ``node`` where that is by reference."""
    reference = node.get("$ref")
    if isinstance(reference, str):
        target = index.resolve(bases.get(id(node), ""), reference)
        if isinstance(target, dict):
            yield target, id(node)
    for key, _, one in list_subschemas(node):
        if key in _SAME_VALUE and isinstance(one, dict):
            yield one, 0


def _open_choices(schema: dict[str, Json], note: Callable[[str], None]) -> dict[str, Json]:
    """Return ``schema`` with each ``oneOf`` whose branches overlap as an ``anyOf``."""
    # O-22
    if not any("oneOf" in one for one in iterate_schemas(schema)):
        return schema
    index = _Index(schema)
    bases = {id(node): base for node, base in index.nodes}

    def list_parts(node: Json) -> Iterator[Mapping[str, Any] | None]:
        waiting, seen = [node], dict[int, Json]()
        while waiting:
            one = waiting.pop(0)
            if id(one) in seen:
                continue
            seen[id(one)] = one
            if not isinstance(one, dict) or len(seen) > _MAX_PARTS:
                yield None
                continue
            yield one
            if isinstance(reference := one.get("$ref"), str):
                waiting.append(index.resolve(bases.get(id(one), ""), reference))
            branches = one.get("allOf")
            waiting += branches if isinstance(branches, list) else []

    def change(node: dict[str, Json]) -> dict[str, Json]:
        branches = node.get("oneOf")
        if not isinstance(branches, list) or are_exclusive(branches, list_parts):
            return node
        note("branches of a oneOf in it overlap, and a value needs to fit at least one of them")
        members = {key: one for key, one in node.items() if key != "oneOf"}
        if "anyOf" not in members:
            return {**members, "anyOf": branches}
        parts = members.get("allOf")
        return {**members, "allOf": [*(parts if isinstance(parts, list) else ()), {"anyOf": branches}]}

    return _as_object(_change_all(schema, change), schema)
