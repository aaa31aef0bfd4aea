"""One JSON Schema written in the words of a dialect: what is not taken moves to the description, and is listed.

Rules:
- A value of the schema stays a value of what is written; where it would not, that is a loss that ``narrows``.
- What is taken out is said in words, and whoever runs the call still enforces it.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from toolwire.core.model import Json, Schema

from .dialects import UNROLLED, Dialect
from .walking import is_type, merged, recursive, references, resolve, split, takes_null, type_of, types

_ROOM: Final = 20_000
_WORD_CHARACTERS: Final = 300
_SILENT: Final = frozenset(
    (
        "$anchor",
        "$comment",
        "$defs",
        "$dynamicAnchor",
        "$dynamicRef",
        "$id",
        "$schema",
        "$vocabulary",
        "definitions",
        "deprecated",
        "readOnly",
        "title",
        "writeOnly",
    )
)
_BUILT: Final = frozenset(
    ("type", "properties", "required", "additionalProperties", "items", "enum", "const", "description")
)
_UNIONS: Final = ("anyOf", "oneOf")
_AT_ROOT: Final = ("anyOf", "oneOf", "not", "if", "then", "else", "enum", "const", "dependentSchemas")
_LOOKAROUND: Final = re.compile(r"\(\?(?:[=!]|<[=!])")
_ONE: Final = frozenset(
    (
        "additionalProperties",
        "contains",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    )
)
_SEVERAL: Final = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_NAMED: Final = frozenset(("dependentSchemas", "patternProperties", "properties"))
_DATA: Final = frozenset(("const", "default", "enum", "examples"))


class Loss(NamedTuple):
    """What a provider's schema does not say: where it stood, and what it was, as ``keyword: value``.

    ``narrows`` marks what would have kept somebody from saying a value that is legal; the rest is only unsaid.
    """

    pointer: str
    what: str
    narrows: bool = False


class Written(NamedTuple):
    """A schema in a provider's words, and what it does not say."""

    schema: dict[str, Json]
    losses: tuple[Loss, ...]


def write(root: Schema, dialect: Dialect, names: Mapping[str, str]) -> Written:
    """Return ``root``, the schema of an object, in the words of ``dialect``; ``names`` are the keys to write anew."""
    writer = _Writer(root, dialect, names)
    schema = writer.write()
    return Written(schema, tuple(dict.fromkeys(writer.losses)))


def renamed(data: Json, names: Mapping[str, str]) -> Json:
    """Return ``data`` with the keys of its objects written as ``names`` says."""
    if isinstance(data, Mapping):
        return {names.get(key, key): renamed(value, names) for key, value in data.items()}
    return [renamed(one, names) for one in data] if isinstance(data, list | tuple) else data


class _Place(NamedTuple):
    """Where the writer is: the pointer to it, and the references it came through where they are not taken."""

    pointer: str = ""
    through: tuple[str, ...] = ()

    def at(self, *steps: str | int) -> _Place:
        """Return the place that ``steps`` lead to."""
        said = "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)
        return self._replace(pointer=self.pointer + said)


class _Writer:
    def __init__(self, root: Schema, dialect: Dialect, names: Mapping[str, str]) -> None:
        self._root = root
        self._dialect = dialect
        self._names = names
        self._recursive = recursive(root)
        self._room = _ROOM
        self._definitions: dict[str, str] = {}
        self._waiting: deque[str] = deque()
        self.losses: list[Loss] = []

    def write(self) -> dict[str, Json]:
        """Return the whole schema, with the definitions that it needs."""
        found = merged(self._root, self._root)
        whole = {**found.schema, "type": "object"}
        if not isinstance(whole.get("properties"), Mapping):
            whole["properties"] = {}
        notes = [self._lost(_Place(), key, value) for key, value in found.unsaid]
        for key in _AT_ROOT:
            if key in whole:
                notes.extend(self._opened(whole, key))
        written = self.node(_noted(whole, notes), _Place())
        definitions: dict[str, Json] = {}
        while self._waiting:
            reference = self._waiting.popleft()
            target = resolve(self._root, reference)
            definitions[self._definitions[reference]] = self.node(target, _Place(reference[1:]))
        return {**written, "$defs": dict(sorted(definitions.items()))} if definitions else written

    def node(self, node: Json, place: _Place) -> dict[str, Json]:  # noqa: PLR0911 - one case for each sort
        """Return one schema."""
        self._room -= 1
        if self._room < 0:
            return self._anything({}, place, "the rest of a schema that is too large")
        if not isinstance(node, Mapping):
            return self._anything({}, place, "" if node is not False else "nothing at all")
        node = _plain_reference(node)
        if "$ref" in node and self._dialect.references:
            return self._reference(node, place)
        if self._dialect.whole:
            return self._whole(node, place)
        if "$ref" in node or "allOf" in node:
            return self._taken_in(node, place)
        for key in _UNIONS:
            if isinstance(node.get(key), list) and node[key]:
                return self._union(node, key, place)
        return self._plain(node, place)

    # References

    def _reference(self, node: Schema, place: _Place) -> dict[str, Json]:
        reference = node["$ref"]
        target = resolve(self._root, reference)
        if target is None:
            return self._anything(node, place, f"a reference that leads nowhere: {str(reference)[:100]}")
        if reference in self._recursive and not self._dialect.recursion:
            self._lost(place, "$ref", reference, narrows=True)
        beside = {key: value for key, value in node.items() if key != "$ref" and key not in _SILENT}
        if beside and not self._dialect.whole and beside.keys() != {"description"}:
            return self._taken_in(node, place)
        pointed = {"$ref": self._pointed(reference)}
        if self._dialect.whole:
            return {**self._whole(beside, place), **pointed}
        return {"anyOf": [pointed], **beside} if beside else pointed

    def _pointed(self, reference: str) -> str:
        if reference == "#":
            return reference
        if reference not in self._definitions:
            name = plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", reference.rpartition("/")[2])[:64] or "definition"
            number = 2
            while name in self._definitions.values():
                name, number = f"{plain}_{number}", number + 1
            self._definitions[reference] = name
            self._waiting.append(reference)
        return f"#/$defs/{self._definitions[reference]}"

    def _taken_in(self, node: Schema, place: _Place) -> dict[str, Json]:
        found = merged(self._root, node)
        through = place.through + found.references
        for reference in found.references:
            if resolve(self._root, reference) is None:
                return self._anything(node, place, f"a reference that leads nowhere: {reference[:100]}")
            if through.count(reference) > UNROLLED:
                return self._anything(node, place, f"once more a value like {reference.rpartition('/')[2]}")
        notes = [self._lost(place, key, value) for key, value in found.unsaid]
        return self.node(_noted(found.schema, notes), place._replace(through=through))

    # Several schemas for one value

    def _union(self, node: Schema, key: str, place: _Place) -> dict[str, Json]:
        shared = {name: value for name, value in node.items() if name not in (key, "description", "default", "title")}
        words = {name: node[name] for name in ("description", "default") if name in node}
        choices = [one for one in node[key] if isinstance(one, Mapping | bool)]
        notes = (
            [self._lost(place, "oneOf", "exactly one of the choices")] if key == "oneOf" and len(choices) > 1 else []
        )
        if shared.keys() - _SILENT:
            choices = [{"allOf": [shared, one]} if isinstance(one, Mapping) else shared for one in choices]
        has_null = False
        if self._dialect.nullable:
            rest = [one for one in choices if not (isinstance(one, Mapping) and types(one) == ("null",))]
            has_null, choices = len(rest) < len(choices), rest
        if not choices:
            return self._anything(words, place, "null only")
        written = [self.node(one, place.at(key, number)) for number, one in enumerate(choices)]
        if len(written) == 1:
            united = {**written[0], **self._words(_noted(words, notes), place)}
        else:
            united = {"anyOf": written, **self._words(_noted(words, notes), place)}
        return {**united, "nullable": True} if has_null else united

    def _opened(self, whole: dict[str, Json], key: str) -> list[str]:
        """Take from the root what no provider takes there; the arguments of every choice can then be given."""
        taken = whole.pop(key)
        if key in _UNIONS and isinstance(taken, list):
            choices = [merged(self._root, one).schema for one in taken if isinstance(one, Mapping)]
            for choice in choices:
                inner = choice.get("properties")
                if isinstance(inner, Mapping):
                    whole["properties"] = {**inner, **whole["properties"]}
        return [self._lost(_Place(), key, taken, narrows=self._dialect.strict)]

    # One schema

    def _plain(self, node: Schema, place: _Place) -> dict[str, Json]:
        kinds = types(node)
        several = [kind for kind in kinds if kind != "null"]
        if not kinds:
            return self._anything(node, place, "")
        if len(several) > 1 or (len(kinds) > 1 and not self._dialect.type_lists and not self._dialect.nullable):
            return self._parts(node, place)
        if self._dialect.nullable and not several:
            return self._anything(node, place, "null only")
        first, *rest = kinds
        written: dict[str, Json] = {"type": [first, *rest] if rest else first}
        if self._dialect.nullable and rest:
            written = {"type": several[0], "nullable": True}
        written |= self._choices(node, several[0] if several else "null")
        if "object" in kinds:
            written |= self._object(node, place)
        if "array" in kinds:
            written |= self._array(node, place)
        return {**written, **self._words(node, place)}

    def _parts(self, node: Schema, place: _Place) -> dict[str, Json]:
        inner = {key: value for key, value in node.items() if key not in ("description", "default", "title")}
        words = {key: node[key] for key in ("description", "default") if key in node}
        return self._union({"anyOf": split(inner), **words}, "anyOf", place)

    def _choices(self, node: Schema, kind: str) -> dict[str, Json]:
        values = [node["const"]] if "const" in node else node.get("enum")
        if not isinstance(values, list):
            return {}
        values = [one for one in values if "type" not in node or any(is_type(one, each) for each in types(node))]
        allowed = self._dialect.enum
        sorts = {"number" if (one := type_of(value)) == "integer" else one for value in values}
        if self._dialect.nullable:
            values, sorts = [value for value in values if value is not None], sorts - {"null"}
        if values and sorts <= allowed and not (kind not in ("string", "null") and "number" not in allowed):
            return {"enum": renamed(values, self._names)}
        return {}

    def _object(self, node: Schema, place: _Place) -> dict[str, Json]:
        inner = node.get("properties")
        properties = inner if isinstance(inner, Mapping) else {}
        said = node.get("required")
        required = [name for name in said if name in properties] if isinstance(said, list) else []
        written = {
            self._names.get(name, name): self.node(one, place.at("properties", name))
            for name, one in properties.items()
        }
        if self._dialect.strict:
            return self._closed(node, place, written)
        if self._dialect.references and not self._dialect.whole:
            required = [name for name in required if not self._goes_round(properties[name], place, name)]
        built: dict[str, Json] = {"properties": written} if written or not place.pointer else {}
        if required:
            built["required"] = [self._names.get(name, name) for name in required]
        rest = node.get("additionalProperties")
        if rest is not None and self._dialect.maps:
            built["additionalProperties"] = (
                rest if isinstance(rest, bool) else self.node(rest, place.at("additionalProperties"))
            )
        return built

    def _closed(self, node: Schema, place: _Place, written: dict[str, Json]) -> dict[str, Json]:
        properties = node.get("properties", {})
        said = node.get("required")
        required = set(said) if isinstance(said, list) and all(isinstance(one, str) for one in said) else set()
        rest = node.get("additionalProperties", not properties and place.pointer != "")
        if rest is not False:
            self._lost(place, "additionalProperties", rest, narrows=True)
        if "patternProperties" in node:
            self._lost(place, "patternProperties", node["patternProperties"], narrows=True)
        for name in properties:
            if name in required:
                continue
            own = self._names.get(name, name)
            inner = properties[name]
            if takes_null(self._root, inner) and not (
                isinstance(inner, Mapping) and inner.get("default", True) is None
            ):
                self._lost(place.at("properties", name), "null", "told from leaving it out", narrows=True)
            written[own] = _or_null(written[own], self._dialect)
        return {"properties": written, "required": list(written), "additionalProperties": False}

    def _goes_round(self, inner: Json, place: _Place, name: str) -> bool:
        if not references(inner) & self._recursive:
            return False
        self._lost(place.at("required"), "required", name)
        return True

    def _array(self, node: Schema, place: _Place) -> dict[str, Json]:
        items = node.get("items")
        if isinstance(items, Mapping):
            return {"items": self.node(items, place.at("items"))}
        if self._dialect.strict:
            self._lost(place, "items", "of any kind", narrows=True)
        if "prefixItems" in node:
            self._lost(place, "prefixItems", node["prefixItems"])
        return {"items": {}}

    def _anything(self, node: Schema, place: _Place, note: str) -> dict[str, Json]:
        """Return the schema of any value; ``note`` says what it should have been."""
        if self._dialect.strict:
            self._lost(place, note or "any value", True, narrows=True)
        elif note:
            self._lost(place, "instead", note)
        words = {key: value for key, value in node.items() if key not in ("$ref", "type")}
        return self._words(_noted(words, [note] if note else []), place)

    def _words(self, node: Schema, place: _Place) -> dict[str, Json]:
        """Return the limits and texts of a schema that the dialect takes; the others go to the description."""
        written: dict[str, Json] = {}
        notes: list[str] = []
        for key, value in node.items():
            if key == "title" and "title" in self._dialect.keywords and isinstance(value, str):
                written[key] = value
            elif key in _SILENT or key.startswith("x-"):
                continue
            elif key in ("enum", "const"):
                notes.extend(self._unlisted(node, key, place))
            elif key in _BUILT and not (key == "additionalProperties" and self._is_unsaid(value)):
                continue
            elif key in self._dialect.keywords and self._takes(key, value):
                written[key] = renamed(value, self._names) if key in _DATA else value
            else:
                notes.append(self._lost(place, key, value))
        description = node.get("description")
        text = _joined(description if isinstance(description, str) else "", notes)
        return {**written, "description": text} if text else written

    def _unlisted(self, node: Schema, key: str, place: _Place) -> list[str]:
        several = [kind for kind in types(node) if kind != "null"]
        if self._choices(node, several[0] if several else "null"):
            return []
        return [self._lost(place, key, node[key])]

    def _is_unsaid(self, rest: Json) -> bool:
        return not self._dialect.maps and not self._dialect.strict and rest is not True

    def _takes(self, key: str, value: Json) -> bool:
        if key == "format":
            return isinstance(value, str) and (self._dialect.formats is None or value in self._dialect.formats)
        if key == "pattern":
            return isinstance(value, str) and not (self._dialect.strict and _LOOKAROUND.search(value))
        if key == "minItems" and self._dialect.strict and not self._dialect.recursion:
            return value in (0, 1)
        return True

    def _whole(self, node: Schema, place: _Place) -> dict[str, Json]:
        """Return ``node`` with every keyword of 2020-12, its keys renamed and its references kept inside."""
        built: dict[str, Json] = {}
        notes: list[str] = []
        for key, value in node.items():
            if key in _SILENT and key not in ("title", "deprecated", "readOnly", "writeOnly", "$comment"):
                continue
            if key in ("propertyNames", "patternProperties", "dependentSchemas") and self._names:
                notes.append(self._lost(place, key, value))
            elif key in _ONE and isinstance(value, Mapping):
                built[key] = self.node(value, place.at(key))
            elif key in _SEVERAL and isinstance(value, list):
                built[key] = [one if isinstance(one, bool) else self.node(one, place.at(key)) for one in value]
            elif key in _NAMED and isinstance(value, Mapping):
                built[key] = {
                    self._names.get(name, name): one if isinstance(one, bool) else self.node(one, place.at(key, name))
                    for name, one in value.items()
                }
            elif key == "required" and isinstance(value, list):
                built[key] = [self._names.get(name, name) for name in value if isinstance(name, str)]
            else:
                built[key] = renamed(value, self._names) if key in (*_DATA, "dependentRequired") else value
        return _noted(built, notes)

    def _lost(self, place: _Place, key: str, value: Json, *, narrows: bool = False) -> str:
        text = f"{key}: {_short(value)}"
        if key not in ("default", "examples"):
            self.losses.append(Loss(place.pointer, text, narrows))
        return text


def _plain_reference(node: Schema) -> Schema:
    """Return ``node`` with an ``allOf`` of nothing but one reference as that reference."""
    match node.get("allOf"):
        case [{"$ref": str() as reference, **rest}] if not rest and "$ref" not in node:
            return {**{key: value for key, value in node.items() if key != "allOf"}, "$ref": reference}
        case _:
            return node


def _or_null(written: dict[str, Json], dialect: Dialect) -> dict[str, Json]:
    kind = written.get("type")
    if "null" in (kind if isinstance(kind, list) else [kind]):
        return written
    choices = written.get("anyOf")
    if isinstance(choices, list):
        if any(one.get("type") == "null" for one in choices):
            return written
        return {**written, "anyOf": [*choices, {"type": "null"}]}
    if isinstance(kind, str) and dialect.type_lists and "enum" not in written:
        return {**written, "type": [kind, "null"]}
    inner = {key: value for key, value in written.items() if key != "description"}
    words = {"description": written["description"]} if "description" in written else {}
    return {"anyOf": [inner, {"type": "null"}], **words}


def _noted(node: Schema, notes: list[str]) -> dict[str, Json]:
    description = node.get("description")
    text = _joined(description if isinstance(description, str) else "", notes)
    return {**node, "description": text} if text else dict(node)


def _joined(text: str, notes: list[str]) -> str:
    said = "; ".join(notes)
    if not said:
        return text
    return f"{text} ({said})" if text else f"({said})"


def _short(value: Json) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _WORD_CHARACTERS else text[:_WORD_CHARACTERS] + "..."
