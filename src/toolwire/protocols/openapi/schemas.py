"""JSON Schemas of a document as JSON Schema 2020-12, each converted once and shared by every tool that uses it.

Rules:
- References are kept, never expanded: what a schema refers to stands under ``$defs``. [CV-18, D-17]
- A request has no readOnly property, a response no writeOnly one, and neither is required. [CV-21]
- What no schema may hold is left out with a finding, so that what comes out always is one. [CV-30]
- A schema of more than 2 KB says one sentence for each thing that may be left out. [CV-25]
- A schema is at most 32 KB: what is furthest from its root is cut, with a finding. [CV-25]
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any, Literal

from toolwire.core.model import Json
from toolwire.framing import cleaning, jsontext

from .combining import joined, told_apart
from .cutting import DEFINED, LARGEST, MOST_BYTES, TELLING_BYTES, brief, cut, opened, referred
from .findings import SHOWN, Note
from .gathering import Definition, gathered
from .keywords import NAMED, ONE, SEVERAL, WORDS, fits, is_type
from .modern import exemplify, modern
from .references import References, Unusable, tokens

_TEXTS = frozenset(("description", "title"))
_EXAMPLES = frozenset(("const", "default", "enum", "examples"))
_READ = frozenset(("$ref", "discriminator", "example", "nullable"))
_UNSAID = frozenset(
    (
        *("$anchor", "$comment", "$defs", "$dynamicAnchor", "$dynamicRef", "$id", "$schema", "$vocabulary"),
        *("definitions", "externalDocs", "id", "xml"),
    )
)
_DESCRIPTION_CHARACTERS = 1_024
_MOST_NOTES = 1_000


class Schemas:
    """The schemas of one document as they are used in requests or in responses.

    ``hides`` says that texts of the document hide something, so that all of them are looked through. What could not
    be taken as it was is added to ``notes``.
    """

    def __init__(
        self, references: References, *, used_in: Literal["request", "response"], notes: list[Note], hides: bool = True
    ) -> None:
        self._references = references
        self._old = str(references.document.get("openapi")).startswith("3.0")
        self._hidden = "readOnly" if used_in == "request" else "writeOnly"
        self._notes = notes
        self._hides = hides
        self._where = ""
        self._names: dict[str, str] = {}
        self._pointers: dict[str, str] = {}
        self._known: dict[str, Definition] = {}
        self._brief_ones: dict[str, Definition] = {}
        self._is_hidden: dict[str, bool] = {}

    def read(self, node: Json, where: str) -> tuple[dict[str, Json], set[str]]:
        """Return ``node`` converted, and the names of the definitions it refers to. ``where`` is for findings."""
        self._where = where
        names: set[str] = set()
        return self._convert(node, names), names

    def whole(self, schema: dict[str, Json], names: Iterable[str], where: str) -> dict[str, Json]:
        """Return ``schema`` with the definitions that it needs, those nearest to it first, as far as there is room."""
        found, left_out, size = gathered(names, len(jsontext.write(schema)), TELLING_BYTES, self._definition)
        if size > TELLING_BYTES or left_out:
            schema = brief(schema)
            size = len(jsontext.write(schema))
            if size > MOST_BYTES:
                schema = cut(schema, MOST_BYTES * 3 // 4)
                size, names = len(jsontext.write(schema)), referred(schema)
                self._note(where, f"a schema of it is larger than {MOST_BYTES:,} bytes, and its depths are cut")
            found, left_out, size = gathered(names, size, MOST_BYTES, self._brief)
            if left_out:
                cut_off = f"{len(left_out)} definitions are cut"
                self._note(where, f"a schema of it is larger than {MOST_BYTES:,} bytes: {cut_off}")
            if size > LARGEST:  # so many definitions are cut that saying so for each takes more room than there is
                schema = opened(schema, left_out)
                found = {name: opened(one, left_out) for name, one in found.items() if name not in left_out}
        return {**schema, "$defs": dict(sorted(found.items()))} if found else schema

    def hidden(self, node: Json) -> bool:
        """Return whether a property with this schema has no place in this direction."""
        if not isinstance(node, dict):
            return False
        reference = node.get("$ref")
        if not isinstance(reference, str):
            return node.get(self._hidden) is True or ("allOf" in node and self._says_hidden(node))
        known = self._is_hidden.get(reference)
        if known is None:
            known = self._is_hidden[reference] = self._says_hidden({"$ref": reference})
        return known or node.get(self._hidden) is True

    def _says_hidden(self, node: Json) -> bool:
        parts = self._references.parts(node, ("allOf",), beside=True)
        return any(one is not None and one.get(self._hidden) is True for one in parts)

    def _target(self, reference: str) -> Json:
        try:
            return self._references.resolve(reference)
        except Unusable:
            return None

    def _definition(self, name: str) -> Definition:
        known = self._known.get(name)
        if known is None:
            before, self._where = self._where, self._pointers[name]
            names: set[str] = set()
            schema = self._convert(self._target(self._pointers[name]), names)
            self._where = before
            known = Definition(schema, tuple(sorted(names)), len(jsontext.write(schema)))
            self._known[name] = known
        return known

    def _brief(self, name: str) -> Definition:
        known = self._brief_ones.get(name)
        if known is None:
            whole = self._definition(name)
            schema = brief(whole.schema)
            known = self._brief_ones[name] = Definition(schema, whole.names, len(jsontext.write(schema)))
        return known

    def _convert(self, node: Json, names: set[str]) -> dict[str, Json]:
        if type(node) is not dict:
            if isinstance(node, bool):
                return {} if node else {"not": {}}
            self._note(self._where, "a schema in it is not an object, and anything fits it")
            return {}
        reference = node.get("$ref")
        name = None if reference is None else self._name(reference)
        if name is not None and self._old:
            names.add(name)
            said = node.get("description")
            return {"$ref": DEFINED + name, **({"description": self.text(said)} if isinstance(said, str) else {})}
        gone = self._gone(node)
        built: dict[str, Json] = {}
        for key, value in node.items():
            self._member(built, key, value, names, gone)
        if name is not None:
            names.add(name)
            built["$ref"] = DEFINED + name
        built = joined(told_apart(built, node)) if SEVERAL & built.keys() else built
        if "uniqueItems" in built and "array" not in (built.get("type") or "array"):
            del built["uniqueItems"]  # many a document says so of texts and numbers too
        if "example" in node:
            exemplify(built, node["example"])
        return modern(built, node) if self._old else built

    def _member(  # noqa: C901 - a sort of word each
        self, built: dict[str, Json], key: str, value: Json, names: set[str], gone: set[str]
    ) -> None:
        if key in ONE and isinstance(value, dict | bool):
            built[key] = value if isinstance(value, bool) else self._convert(value, names)
        elif key in SEVERAL and isinstance(value, list):
            if value:
                built[key] = [self._branch(one, names, gone) for one in value]
        elif key in _TEXTS and isinstance(value, str):
            built[key] = self.text(value)
        elif key in NAMED and isinstance(value, dict):
            if key not in _UNSAID:
                built[key] = self._named(key, value, names, gone)
        elif key == "required" and isinstance(value, list):
            kept = list(dict.fromkeys(one for one in value if isinstance(one, str) and one not in gone))
            if kept:
                built[key] = kept
        elif fits(key, value) or (self._old and key.startswith("exclusive") and isinstance(value, bool)):
            if key == "enum" and isinstance(value, list):
                value = _different(value)
            built[key] = cleaning.cleaned(value) if self._hides and key in _EXAMPLES else value
        elif key not in _READ and key not in _UNSAID and not key.startswith("x-"):
            self._odd(built, key, value)

    def _odd(self, built: dict[str, Json], key: str, value: Json) -> None:
        """Take what is almost right, and note the rest."""
        if key == "type" and isinstance(value, list):
            kept = [one for one in dict.fromkeys(map(str, value)) if is_type(one)]
            if kept:
                built[key] = kept
                return
        if key in WORDS:
            self._note(self._where, f"a schema in it has a {key} that is none, and does without")

    def _branch(self, one: Json, names: set[str], gone: set[str]) -> dict[str, Json]:
        if gone and isinstance(one, dict) and "$ref" not in one:
            one = _stripped(one, gone)
        return self._convert(one, names)

    def _named(self, key: str, value: dict[str, Json], names: set[str], gone: set[str]) -> dict[str, Json]:
        built: dict[str, Json] = {}
        for name, one in value.items():
            if name in gone and key == "properties":
                continue
            if self._hides and cleaning.clean(name).removed:
                self._note(self._where, "a property of it has a name that hides something, and is left out")
                continue
            if key == "patternProperties" and not fits("pattern", name):
                self._note(self._where, "a pattern for names of properties in it cannot be used")
                continue
            built[name] = self._convert(one, names)
        return built

    def _gone(self, node: dict[str, Json]) -> set[str]:
        """Return the hidden properties that ``node`` names, a branch of its allOf, or what either refers to."""
        if len(node) == 1 and "$ref" in node:
            return set()  # which speaks for itself where it is defined
        gone: set[str] = set()
        alone = "$ref" not in node and "allOf" not in node
        for part in (node,) if alone else self._references.parts(node, ("allOf",), beside=True):
            own = None if part is None else part.get("properties")
            if isinstance(own, dict):
                gone.update(name for name, one in own.items() if self.hidden(one))
        return gone

    def text(self, text: str) -> str:
        """Return ``text`` for a model: cleaned, and cut where it is long."""
        text = text if text.isascii() and not self._hides else cleaning.clean(text).text
        return text if len(text) <= _DESCRIPTION_CHARACTERS else cleaning.capped(text, _DESCRIPTION_CHARACTERS)

    def _name(self, reference: Json) -> str | None:
        """Return the name of the definition ``reference`` stands for, or None where there is none."""
        if not isinstance(reference, str):
            self._note(self._where, "one of its references is not a string, and anything fits it")
            return None
        if reference in self._names:
            return self._names[reference] or None
        try:
            node = self._references.resolve(reference)
            if isinstance(node, dict) and "$ref" in node:
                self._references.follow(node, "schema")  # a chain of references has to end somewhere
        except Unusable as error:
            self._note(self._where, f"{error}, and anything fits it")
            self._names[reference] = ""
            return None
        name = plain = _sanitised(reference)
        while name in self._pointers:
            name = f"{plain}_{hashlib.sha256((name + reference).encode('utf-8', 'replace')).hexdigest()[:8]}"
        self._names[reference] = name
        self._pointers[name] = reference
        return name

    def _note(self, where: str, text: str) -> None:
        note = Note(where[:SHOWN], text)
        if len(self._notes) < _MOST_NOTES and note not in self._notes:
            self._notes.append(note)


def _sanitised(reference: str) -> str:
    steps = tokens(reference)
    short = steps[2:] if steps[:2] == ["components", "schemas"] else steps
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", ".".join(short))[-64:].lstrip("_.-") or "document"


def _different(values: list[Json]) -> list[Json]:
    """Return ``values`` each once, in their order: some documents repeat one a hundred times."""
    if all(type(one) is str for one in values):
        return list(dict.fromkeys(values))
    different: dict[bytes, Json] = {}
    for one in values:
        different.setdefault(jsontext.canonical(one), one)
    return list(different.values())


def _stripped(schema: dict[str, Json], gone: set[str]) -> dict[str, Json]:
    built: dict[str, Any] = dict(schema)
    if isinstance(built.get("properties"), dict):
        built["properties"] = {name: one for name, one in built["properties"].items() if name not in gone}
    if isinstance(built.get("required"), list):
        built["required"] = [name for name in built["required"] if not isinstance(name, str) or name not in gone]
    return built
