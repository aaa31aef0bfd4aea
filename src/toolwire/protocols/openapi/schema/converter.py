"""Convert the schemas of a document to JSON Schema 2020-12, each once and shared by all tools that use it.

Rules:
- References are kept, not expanded: the target of a reference is a definition under ``$defs``.
- Requests leave out readOnly properties, responses writeOnly ones, also from ``required``.
- Invalid keywords are left out with a finding, so that the result is always a valid schema.
- In a schema above 8 KB the descriptions of optional properties are shortened.
- A schema has at most 32 KB: the parts that a call needs least are cut, with a finding.
- A cut or repaired schema accepts at least all values that the document accepts.
"""
# CV-18, D-17, CV-21, CV-30, CV-25

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Set
from typing import Literal

from toolwire.core.model import Json
from toolwire.framing import jsontext, text_cleaning
from toolwire.protocols.openapi.document.findings import SHOWN, Note
from toolwire.protocols.openapi.document.references import References, Unusable
from toolwire.validation import PatternBudget
from toolwire.validation.exclusive import are_exclusive
from toolwire.validation.foreign_schema import applies_reference, break_cycles
from toolwire.validation.schema_dialects import Dialect, read_dialect, upgrade_node
from toolwire.validation.schema_keywords import NAMED, ONE, SEVERAL, WORDS, fits, is_type

from .combine import join_branches
from .contradictions import (
    find_forbidden_required,
    has_no_fitting_choice,
    has_no_type_in_common,
    is_closed_to,
)
from .definition_names import DefinitionNames
from .discriminator import mark_branches
from .relaxation import (
    CUT,
    DEFINED,
    EXACT,
    WIDER,
    Looseness,
    is_guarded,
    open_words,
    relax_references,
    relax_words,
    spread,
)
from .schema_closure import Definition, Forms, gather_ranked, gather_whole
from .schema_size import (
    MAX_VALUES,
    Sizes,
    cut_schema,
    has_too_many_values,
    open_references,
    rank_definitions,
    remove_texts,
    shorten_descriptions,
)

_TEXTS = frozenset(("description", "title"))
_NULL: Json = {"type": "null"}
_COMBINED = frozenset(("$ref", "allOf", "anyOf", "oneOf"))
_DATA = frozenset(("const", "default", "enum"))
_HANDLED_KEYWORDS = frozenset(("$ref", "discriminator", "example", "nullable"))
_DROPPED_KEYWORDS = frozenset(
    (
        *("$anchor", "$comment", "$defs", "$dynamicAnchor", "$dynamicRef", "$id", "$schema", "$vocabulary"),
        *("definitions", "externalDocs", "id", "xml"),
    )
)
_DESCRIPTION_CHARACTERS = 1_024
_MAX_NOTES = 1_000
_OUTLINE_BYTES = 1_000
"""The largest size of an outline of a definition, in bytes: its properties, and the nearest subschemas."""
_EXAMPLE_CHARACTERS = 60


class SchemaConverter:
    """Converts the schemas of one document for use in requests or in responses.

    ``hides``: the document has hidden characters, so each text is cleaned. Each change is added to ``notes``.
    ``removes``: it is used in a merge patch, in which null removes a property, so each of them can be null.
    """

    def __init__(
        self,
        references: References,
        *,
        used_in: Literal["request", "response"],
        notes: list[Note],
        hides: bool = True,
        removes: bool = False,
        sizes: Sizes = Sizes(),  # noqa: B008 - a frozen value
    ) -> None:
        self._references = references
        self._old = str(references.document.get("openapi")).startswith("3.0")
        named = references.document.get("jsonSchemaDialect") if isinstance(references.document, dict) else None
        self._dialect = read_dialect({"$schema": named}, Dialect.DRAFT_2020_12)
        self._hidden = "readOnly" if used_in == "request" else "writeOnly"
        self._part = "in its input" if used_in == "request" else "in its output"
        self._notes = notes
        self._hides = hides
        self._removes = removes
        self._sizes = sizes
        self._where = ""
        self._names: dict[str, str] = {}
        self._pointers: dict[str, str] = {}
        self._naming = DefinitionNames(references.document)
        self._known: dict[str, Definition] = {}
        self._forms: dict[str, Forms] = {}
        self._is_hidden: dict[str, bool] = {}
        self._looseness = EXACT  # of what is being converted
        self._stripping: set[str] = set()
        self._patterns = PatternBudget()

    def read(self, node: Json, where: str) -> tuple[dict[str, Json], set[str]]:
        """Return ``node`` converted, and the names of the definitions it refers to. ``where`` is named in findings."""
        self._where = where
        names: set[str] = set()
        return self._convert_bounded(node, names), names

    def add_definitions(
        self, schema: dict[str, Json], names: Iterable[str], where: str, used: Set[str] = frozenset()
    ) -> dict[str, Json]:
        """Return ``schema`` with the definitions that it needs, cut to the size limit.

        Properties with a name in ``used`` (those of an example) and required properties are cut last.
        """
        size, sizes = len(jsontext.write(schema)), self._sizes
        # Most schemas are small enough to be told in full, and need no ranking of their parts.
        gathered = gather_whole(names, size, sizes.telling, self._convert_definition) if size <= sizes.telling else None
        if gathered is None:
            schema = shorten_descriptions(schema)
            size = len(jsontext.write(schema))
            if size > sizes.most * 3 // 4:
                whole = size > sizes.most
                schema, _ = cut_schema(schema, sizes.most * 3 // 4, used) if whole else (schema, EXACT)
                size = len(jsontext.write(schema))
                if whole:
                    self._note(where, f"a schema of it is larger than {sizes.most:,} bytes, and its depths are cut")
            # The schema itself takes at most three quarters of the limit, so that something is left for its
            # definitions.
            gathered = gather_ranked(
                rank_definitions(schema, used), size, sizes.most, lambda name: self._list_forms(name, used)
            )
            if gathered.left_out:
                cut_off = f"{len(gathered.left_out)} definitions are cut"
                self._note(where, f"a schema of it is larger than {sizes.most:,} bytes: {cut_off}")
        left_out = gathered.left_out if gathered.size > sizes.largest else set()
        found = {name: one for name, one in gathered.found.items() if name not in left_out}
        if left_out:  # the stubs of all cut definitions would exceed the limit, so references to them are removed
            schema = open_references(schema, left_out)
            found = {name: one._replace(schema=open_references(one.schema, left_out)) for name, one in found.items()}
        schema, definitions = _relax_definitions(schema, found)
        if not definitions:
            return schema
        full = {**schema, "$defs": dict(sorted(definitions.items()))}
        if not any(map(applies_reference, definitions.values())):
            return full  # the usual case: to look for cycles takes longer than all the rest
        return break_cycles(full, lambda text: self._note(where, text))

    def count_room(self, schema: dict[str, Json]) -> int:
        """Return how many bytes ``schema`` can still grow by; less than 0 for one that is too large."""
        return self._sizes.most - len(jsontext.write(schema))

    def is_hidden(self, node: Json) -> bool:
        """Return whether a property with this schema is left out in this direction (readOnly or writeOnly)."""
        if not isinstance(node, dict):
            return False
        reference = node.get("$ref")
        if not isinstance(reference, str):
            return node.get(self._hidden) is True or ("allOf" in node and self._is_marked_hidden(node))
        known = self._is_hidden.get(reference)
        if known is None:
            # Large documents ask the same of one definition thousands of times.
            known = self._is_hidden[reference] = self._is_marked_hidden({"$ref": reference})
        return known or node.get(self._hidden) is True

    def _is_marked_hidden(self, node: Json) -> bool:
        parts = self._references.iterate_parts(node, ("allOf",), beside=True)
        return any(one is not None and one.get(self._hidden) is True for one in parts)

    def _resolve_target(self, reference: str) -> Json:
        try:
            return self._references.resolve(reference)
        except Unusable:
            return None

    def _convert_definition(self, name: str) -> Definition:
        known = self._known.get(name)
        if known is None:
            # A definition is converted in the middle of another schema; its findings and its looseness are its own.
            before = self._where, self._looseness
            self._where, self._looseness = self._pointers[name], EXACT
            names: set[str] = set()
            schema = self._convert_bounded(self._resolve_target(self._pointers[name]), names)
            size = len(jsontext.write(schema))
            # Found out once: each definition is part of many tools, and shorter forms have no further keywords.
            known = Definition(schema, tuple(sorted(names)), size, self._looseness, is_guarded(schema))
            self._where, self._looseness = before
            self._known[name] = known
        return known

    def _list_forms(self, name: str, used: Set[str]) -> Forms:
        known = self._forms.get(name)
        if known is None:
            whole = self._convert_definition(name)
            # From the longest to the shortest: the ranking takes the longest form that there is room for.
            shortened = shorten_descriptions(whole.schema)
            bare, level = remove_texts(whole.schema)
            outline, deeper = cut_schema(bare, _OUTLINE_BYTES, frozenset())
            known = self._forms[name] = Forms(
                whole._replace(schema=shortened, size=len(jsontext.write(shortened))),
                whole._replace(schema=bare, size=len(jsontext.write(bare)), looseness=max(whole.looseness, level)),
                Definition(
                    outline,
                    tuple(sorted(rank_definitions(outline, ()))),
                    len(jsontext.write(outline)),
                    max(whole.looseness, level, deeper),
                    whole.is_guarded,
                ),
                rank_definitions(whole.schema, ()),
            )
        return known._replace(near=rank_definitions(known.brief.schema, used)) if used else known

    def _convert_bounded(self, node: Json, names: set[str]) -> dict[str, Json]:
        """Return ``node`` converted, or a schema that any value fits if it is too large to work on."""
        if has_too_many_values(node):
            self._note(self._where, f"a schema of it has more than {MAX_VALUES:,} values, and is left out")
            self._looseness = CUT
            return {}
        return self._convert(node, names)

    def _convert(
        self, node: Json, names: set[str], outside: Set[str] = frozenset(), allowed: Set[str] = frozenset()
    ) -> dict[str, Json]:
        """Return ``node`` converted, without properties hidden in it or in a schema around it (``outside``).

        If it is closed, the names in ``allowed`` are allowed in it, because a schema around it requires them.
        """
        if type(node) is not dict:
            if isinstance(node, bool):
                return {} if node else {"not": {}}
            self._approximate("a schema in it is not an object, and anything fits it")
            return {}
        node = upgrade_node(node, read_dialect(node, self._dialect))  # O-34
        reference = node.get("$ref")
        name = None if reference is None else self._name_definition(reference)
        if name is not None:
            names.add(name)
            if self._old:
                # In 3.0 the siblings of a reference do not count, except that people write a description or nullable
                # there and mean it.
                description = node.get("description")
                text: dict[str, Json] = (
                    {"description": self.clean_text(description)} if isinstance(description, str) else {}
                )
                if node.get("nullable") is True:  # O-33
                    self._loosen(WIDER)
                    return {"anyOf": [{"$ref": DEFINED + name}, {"type": "null"}], **text}
                return {"$ref": DEFINED + name, **text}
        if not _COMBINED.isdisjoint(node):
            gone = self._find_hidden_names(node) | outside
            allowed = allowed | find_forbidden_required(self._references, node, gone, beside=not self._old)
        # The shared definition is closed and forbids what a schema around it requires: it becomes a branch, which can
        # be changed here without changing it for others.
        if name is not None and reference not in self._stripping and self._excludes({"$ref": reference}, allowed):
            rest = {key: one for key, one in node.items() if key not in ("$ref", "allOf")}
            branches = node.get("allOf")
            listed = branches if isinstance(branches, list) else []
            return self._convert({**rest, "allOf": [{"$ref": reference}, *listed]}, names, outside, allowed)
        built, inside = self._convert_keywords(node, names, outside, allowed)
        if name is not None:
            built["$ref"] = DEFINED + name
        return self._finish(built, node, inside)

    def _finish(self, built: dict[str, Json], node: dict[str, Json], inside: dict[str, Looseness]) -> dict[str, Json]:
        """Return the converted keywords of ``node`` as one schema: relaxed, merged and repaired."""
        if "discriminator" in node:
            # A discriminator is not part of JSON Schema; each branch gets the value that selects it.
            built = mark_branches(built, node, self._references)
        if isinstance(node.get("oneOf"), list) and "oneOf" in built:
            self._open_choice(node, inside)
        if inside:
            built = relax_words(built, inside)
        if "allOf" in built:
            # Models and SDKs read one object better than an allOf of several.
            built = join_branches(built)
        self._remove_mistakes(built, node)
        if "uniqueItems" in built and "array" not in (built.get("type") or "array"):
            del built["uniqueItems"]  # many documents set it for strings and numbers too
        if "example" in node:
            _add_example(built, node["example"])
        if not self._old:
            return built
        if node.get("nullable") is True:
            self._loosen(WIDER)  # null is accepted where 3.0 leaves that open
        return _upgrade_schema(built, node)

    def _remove_mistakes(self, built: dict[str, Json], node: dict[str, Json]) -> None:
        """Remove contradictions from ``built``, with which no value is valid."""
        if "allOf" in node and has_no_type_in_common(self._references, node, beside=not self._old):
            self._approximate("parts of an allOf in it are of types that exclude each other, and anything fits it")
            # No value fits; a schema that accepts anything lets the server decide, one that accepts nothing would make
            # the tool useless.
            for word in built.keys() - _TEXTS:
                del built[word]
        nullable = self._old and node.get("nullable") is True and None in (built.get("enum") or ())
        if not nullable and has_no_fitting_choice(built):
            self._approximate("an enum in it has no value of its type, and the type is left out")
            del built["type"]

    def _open_choice(self, node: dict[str, Json], inside: dict[str, Looseness]) -> None:
        """Have the oneOf of ``node`` taken as an anyOf, by ``inside``, unless its branches exclude each other.

        Servers take a value that fits several branches, and often every value does. A value that a discriminator
        assigns to one branch is not counted for the others.
        """
        # O-22
        if inside.get("oneOf"):
            return  # it becomes an anyOf because of what is in it
        if are_exclusive(self._mark_originals(node), self._list_parts):
            return
        inside["oneOf"] = WIDER
        self._loosen(WIDER)
        if "discriminator" not in node:
            self._note(self._where, "branches of a oneOf in it overlap, and a value needs to fit at least one of them")

    def _mark_originals(self, node: dict[str, Json]) -> list[Json]:
        """Return the branches of the oneOf of ``node`` as they are in the document, with the values of their tags."""
        branches = node["oneOf"]
        marked = mark_branches({"oneOf": [{"allOf": [one]} for one in branches]}, node, self._references)["oneOf"]
        # Without a required tag the branches are told apart by nothing.
        return marked if isinstance(marked, list) else []

    def _list_parts(self, node: Json) -> Iterable[dict[str, Json] | None]:
        return self._references.iterate_parts(node, ("allOf",), beside=not self._old)

    def _convert_keywords(
        self, node: dict[str, Json], names: set[str], outside: Set[str], allowed: Set[str]
    ) -> tuple[dict[str, Json], dict[str, Looseness]]:
        """Return the keywords of ``node`` converted, and the looseness of the subschemas under each keyword."""
        gone = self._find_hidden_names(node) | outside
        built: dict[str, Json] = {}
        inside: dict[str, Looseness] = {}
        # How exact each keyword is must be known apart: a "not" or a oneOf turns a wider part into a narrower whole.
        most = self._looseness
        for key, value in node.items():
            self._looseness = EXACT
            self._convert_keyword(built, key, value, names, gone, allowed)
            if self._looseness is not EXACT:
                inside[key] = self._looseness
                most = max(most, self._looseness)
        self._looseness = most
        if inside.get("patternProperties") is CUT:
            # A pattern that was left out may have allowed names that additionalProperties now forbids.
            built = open_words(built)
        if "patternProperties" not in built and (allowed or built.get("additionalProperties") is False):
            self._define_required(built, allowed - gone)
        return built, inside

    def _define_required(self, built: dict[str, Json], allowed: Set[str]) -> None:
        """Define the required but undefined properties of the closed ``built``, so that an object can be valid."""
        more = built.get("additionalProperties")
        if more is not False and not isinstance(more, dict):
            return
        properties = built.get("properties", {})
        required = built.get("required", ()) if more is False else ()
        missing = [name for name in (*required, *sorted(allowed)) if name not in properties]
        if missing:
            self._approximate(f"it requires {missing[0][:100]}, does not define it, and allows nothing else")
            built["properties"] = {**properties, **{name: {} for name in missing}}

    def _loosen(self, looseness: Looseness) -> None:
        self._looseness = max(self._looseness, looseness)

    def _approximate(self, text: str) -> None:
        """Add a finding that the converted schema accepts more than the schema of the document."""
        self._loosen(CUT)
        self._note(self._where, text)

    def _convert_keyword(  # noqa: C901, PLR0912 - a sort of word each
        self, built: dict[str, Json], key: str, value: Json, names: set[str], gone: Set[str], allowed: Set[str]
    ) -> None:
        if key in ONE and isinstance(value, dict | bool):
            built[key] = value if isinstance(value, bool) else self._convert(value, names)
            if key in ("additionalProperties", "unevaluatedProperties") and isinstance(value, dict):
                built[key] = self.accept_removal(built[key])
        elif key in SEVERAL and isinstance(value, list):
            if value:
                # Branches describe the same object as the schema around them; items of an array do not.
                apart, inner = (gone, allowed) if key != "prefixItems" else (frozenset[str](), frozenset[str]())
                built[key] = [self._convert_branch(one, names, apart, inner) for one in value]
        elif key in _TEXTS and isinstance(value, str):
            built[key] = self.clean_text(value)
        elif key in NAMED and isinstance(value, dict):
            if key not in _DROPPED_KEYWORDS:
                built[key] = self._convert_named(key, value, names, gone)
        elif key == "required" and isinstance(value, list):
            names_left = self._select_names(value, gone)
            if names_left:
                built[key] = names_left
        elif self._fits(key, value) or (self._old and key.startswith("exclusive") and isinstance(value, bool)):
            if not self._hides or key not in _DATA or next(text_cleaning.find_hidden(value), None) is None:
                built[key] = self._convert_plain(key, value, gone)
            else:
                self._leave_out_hidden(built, key, value)
        elif key == "$dynamicRef":
            self._loosen(CUT)
        elif key == "$ref":
            # A reference without a target accepts anything, which a "not" around it must know.
            if not isinstance(value, str) or not self._names.get(value):
                self._loosen(CUT)
        elif key not in _HANDLED_KEYWORDS and key not in _DROPPED_KEYWORDS and not key.startswith("x-"):
            self._convert_odd(built, key, value)

    def _fits(self, key: str, value: Json) -> bool:
        return fits(key, value) and (key != "pattern" or self._patterns.accepts(value))

    def _select_names(self, value: list[Json], gone: Set[str]) -> list[str]:
        """Return the names in ``value`` that are not hidden, without duplicates."""
        if not gone.isdisjoint(one for one in value if isinstance(one, str)):
            self._loosen(WIDER)
        return list(dict.fromkeys(one for one in value if isinstance(one, str) and one not in gone))

    def _convert_plain(self, key: str, value: Json, gone: Set[str]) -> Json:
        """Return the converted value of ``key``, a keyword without subschemas."""
        if key == "format":
            self._loosen(WIDER)  # a format is an annotation here, not checked
        elif key == "dependentRequired":
            return {name: self._select_names(others, gone) for name, others in value.items() if name not in gone}
        elif key == "enum":
            value = _remove_duplicates(value)
        return text_cleaning.clean_data(value) if self._hides and key == "examples" else value

    def _leave_out_hidden(self, built: dict[str, Json], key: str, value: Json) -> None:
        """Leave out data that cannot be shown as it is, and let every value through: cleaned it would be another."""
        # O-37
        if key == "default":
            self._note(self._where, "a default in it has characters that cannot be shown, and is left out")
            return
        self._approximate(f"a value of its {key} has characters that cannot be shown, and any value is taken")
        values = value if key == "enum" and isinstance(value, list) else []
        if shown := [one for one in values if next(text_cleaning.find_hidden(one), None) is None]:
            built["examples"] = _remove_duplicates(shown)

    def _convert_odd(self, built: dict[str, Json], key: str, value: Json) -> None:
        """Convert a value that is almost valid, and add a finding for any other."""
        if key == "type" and isinstance(value, list):
            types = [one for one in dict.fromkeys(map(str, value)) if is_type(one)]
            if types:
                built[key] = types
                self._loosen(WIDER)
                return
        if key in WORDS and value is not None:  # some libraries write null for each word that is not set
            self._approximate(f'"{key}" of a schema in it is invalid, and is left out')

    def _convert_branch(self, one: Json, names: set[str], gone: Set[str], allowed: Set[str]) -> dict[str, Json]:
        reference = one.get("$ref") if (gone or allowed) and isinstance(one, dict) else None
        if not isinstance(reference, str):
            return self._convert(one, names, gone, allowed)
        # The definition fits this place as it is, or is being copied already (a cycle): a reference is enough.
        if reference in self._stripping or not (self._requires_hidden(one, gone) or self._excludes(one, allowed)):
            return self._convert(one, names)
        self._stripping.add(reference)  # the shared definition does not fit this place, so its target is copied here
        beside = {} if self._old else {key: value for key, value in one.items() if key != "$ref"}
        target = self._resolve_target(reference)
        converted = self._convert({"allOf": [target, beside]} if beside else target, names, gone, allowed)
        self._stripping.discard(reference)
        return converted

    def _excludes(self, node: Json, allowed: Set[str]) -> bool:
        """Return whether a closed part of ``node`` forbids one of the names in ``allowed``."""
        return bool(allowed) and is_closed_to(self._references, node, allowed, beside=not self._old)

    def _requires_hidden(self, node: Json, gone: Set[str]) -> bool:
        """Return whether ``node`` requires one of the hidden names in ``gone``."""
        parts = self._references.iterate_parts(node, ("allOf",), beside=not self._old)
        named = (part.get("required") for part in parts if part is not None)
        return any(isinstance(one, list) and not gone.isdisjoint(filter(_is_text, one)) for one in named)

    def _convert_named(self, key: str, value: dict[str, Json], names: set[str], gone: Set[str]) -> dict[str, Json]:
        built: dict[str, Json] = {}
        for name, one in value.items():
            if name in gone and key in ("properties", "dependentSchemas"):
                self._loosen(WIDER)
                continue
            # A cleaned name would be another name, which the server does not know.
            if self._hides and text_cleaning.clean(name).removed:
                self._approximate("a property of it has a name that hides something, and is left out")
                continue
            if key == "patternProperties" and not self._fits("pattern", name):
                self._approximate("a pattern for names of properties in it cannot be used")
                continue
            schema = self._convert(one, names)
            built[name] = self.accept_removal(schema) if key == "properties" else schema
        return built

    def accept_removal(self, schema: dict[str, Json]) -> dict[str, Json]:
        """Return ``schema``, the converted one of a property, which accepts null too in a merge patch."""
        # RFC 7396, 2
        kinds, choices = schema.get("type"), schema.get("anyOf")
        is_nullable = isinstance(kinds, list) and "null" in kinds and "enum" not in schema
        if not self._removes or not schema.keys() - _TEXTS or is_nullable or _NULL in (choices or ()):
            return schema
        self._loosen(WIDER)
        texts = {key: schema[key] for key in _TEXTS & schema.keys()}
        return {"anyOf": [{key: one for key, one in schema.items() if key not in texts}, _NULL], **texts}

    def _find_hidden_names(self, node: dict[str, Json]) -> Set[str]:
        """Return the hidden properties in ``node``, in branches of its allOf, and in their targets."""
        if len(node) == 1 and "$ref" in node:
            return set()  # the definition lists its own hidden names
        gone: set[str] = set()
        # Most schemas have no further parts; walking them would cost more than all the rest.
        alone = "$ref" not in node and "allOf" not in node
        for part in (node,) if alone else self._references.iterate_parts(node, ("allOf",), beside=True):
            own = None if part is None else part.get("properties")
            if isinstance(own, dict):
                gone.update(name for name, one in own.items() if self.is_hidden(one))
        return gone

    def clean_text(self, text: str) -> str:
        """Return ``text`` without hidden characters, in at most 1,024 characters."""
        text = text if text.isascii() and not self._hides else text_cleaning.clean(text).text
        return text if len(text) <= _DESCRIPTION_CHARACTERS else text_cleaning.cap_text(text, _DESCRIPTION_CHARACTERS)

    def _name_definition(self, reference: Json) -> str | None:
        """Return the name of the definition for ``reference``, or None if it has no target."""
        if not isinstance(reference, str):
            self._approximate("one of its references is not a string, and anything fits it")
            return None
        if reference in self._names:
            return self._names[reference] or None
        try:
            node = self._references.resolve(reference)
            if isinstance(node, dict) and "$ref" in node:
                self._references.follow(node, "schema")  # a chain of references has to end somewhere
        except Unusable as error:
            self._approximate(f"{error}, and anything fits it")
            self._names[reference] = ""
            return None
        name = plain = self._naming.name(reference)
        while name in self._pointers:
            # Two references with the same last part: the digest is the same in every process, so schemas and locks stay
            # equal.
            name = f"{plain}_{hashlib.sha256((name + reference).encode('utf-8', 'replace')).hexdigest()[:8]}"
        self._names[reference] = name
        self._pointers[name] = reference
        return name

    def _note(self, where: str, text: str) -> None:
        note = Note(where[:SHOWN], f"{text} ({self._part})")
        if len(self._notes) < _MAX_NOTES and note not in self._notes:
            self._notes.append(note)


def _remove_duplicates(values: list[Json]) -> list[Json]:
    """Return ``values`` in order, without duplicates: some documents repeat a value a hundred times."""
    if all(type(one) is str for one in values):
        return list(dict.fromkeys(values))
    different: dict[bytes, Json] = {}
    for one in values:
        different.setdefault(jsontext.write_canonical(one), one)
    return list(different.values())


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


def _relax_definitions(
    schema: dict[str, Json], found: dict[str, Definition]
) -> tuple[dict[str, Json], dict[str, dict[str, Json]]]:
    """Return ``schema`` and its definitions, relaxed if they depend on a definition that is not exact."""
    schemas = {name: one.schema for name, one in found.items()}
    direct = {name: one.looseness for name, one in found.items()}
    if not any(direct.values()):
        return schema, schemas
    guarded = [name for name, one in found.items() if one.is_guarded]
    root = is_guarded(schema)
    # Only under "not", "oneOf" and the like does a wider part narrow the whole.
    if not guarded and not root:
        return schema, schemas
    known = spread(direct, {name: one.names for name, one in found.items()})
    changed = {name: relax_references(schemas[name], known) for name in guarded}
    return relax_references(schema, known) if root else schema, {**schemas, **changed}


def _add_example(built: dict[str, Json], example: Json) -> None:
    """Add a short example if the schema has no example or enum; a long one costs more tokens than it helps."""
    plain = isinstance(example, str | int | float) and not isinstance(example, bool)
    if plain and len(str(example)) <= _EXAMPLE_CHARACTERS and not {"enum", "const", "examples"} & built.keys():
        built["examples"] = [text_cleaning.clean_data(example)]


def _upgrade_schema(schema: dict[str, Json], node: dict[str, Json]) -> dict[str, Json]:
    """Upgrade nullable, exclusive bounds and bytes of a converted OpenAPI 3.0 schema to 2020-12."""
    # CV-20
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        flag = schema.get(exclusive)
        if isinstance(flag, bool):
            del schema[exclusive]
            # In 3.0 the flag changes the meaning of the inclusive bound; 2020-12 has a keyword for each.
            if flag and bound in schema:
                schema[exclusive] = schema.pop(bound)
    if schema.get("format") == "byte":
        schema.setdefault("contentEncoding", "base64")
    if schema.get("format") == "int-or-string" and schema.get("type") == "string":
        schema["type"] = ["integer", "string"]  # the format of Kubernetes for two types: 3.0 has no list of types
    if node.get("nullable") is not True:
        return schema
    if (SEVERAL | {"$ref"}) & schema.keys():  # branches and targets do not allow null, whatever stands beside them
        return {"anyOf": [schema, _NULL]}
    kinds = schema.get("type")
    if isinstance(kinds, str | list):
        enum = schema.get("enum")
        schema["type"] = list(dict.fromkeys([*([kinds] if isinstance(kinds, str) else kinds), "null"]))
        # Nullable allows null beside the values of an enum, although 3.0.3 is read both ways.
        if isinstance(enum, list) and None not in enum:
            schema["enum"] = [*enum, None]
    return schema
