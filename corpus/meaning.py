"""What a schema of a document means, in JSON Schema 2020-12: read with ``jsonschema`` and nothing of toolwire.

OpenAPI adds to JSON Schema, and this applies what it adds: ``nullable`` and the boolean bounds of 3.0, that 3.0 reads
nothing beside a reference, that what is ``readOnly`` is not required of a request, and that a tag selects the branch
of a union. What is wrong in a schema, and a reference to nothing, says nothing. What a pattern means that Python has no
words for is not decided. Schemas that extend one with a discriminator are made its branches by ``inheritance``, also
in Swagger 2.0. A value of the tag that names one branch is accepted by no other: a payload with ``petType: Cat``, as
OpenAPI 3 says, "will indicate that the Cat schema be used in conjunction with this payload".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend

from toolwire.protocols.openapi.document.inheritance import expand_inheritance

from . import patterns

_ONE = frozenset(
    (
        *("additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then"),
        *("unevaluatedItems", "unevaluatedProperties"),
    )
)
_SEVERAL = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_NAMED = frozenset(("dependentSchemas", "patternProperties", "properties"))
_COUNTS = frozenset(
    ("maxContains", "maxItems", "maxLength", "maxProperties", "minContains", "minItems", "minLength", "minProperties")
)
_NUMBERS = frozenset(("exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"))
_TYPES = frozenset(("array", "boolean", "integer", "null", "number", "object", "string"))
_VALUES = frozenset(("const", "default", "enum", "example", "examples"))
_BESIDE = ("allOf", "anyOf", "oneOf", "if", "then", "else", "not")
_MAX_PARTS = 1_000


class UndecidedPatternError(Exception):
    """Whether a value is valid cannot be said: a pattern of its schema is of another dialect."""


class Meaning:
    """The schemas of one document, as a request means them."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = expand_inheritance(_write_tags_as_objects(document), [])
        version = str(document.get("openapi", ""))
        self.is_old = version.startswith("3.0") or "swagger" in document
        self._found: dict[str, Any] = {}
        self._outlines: dict[str, tuple[set[str], set[str]]] = {}
        self._names: dict[tuple[str, frozenset[str]], str] = {}
        self._defined: dict[str, Any] = {}
        self._needs: dict[str, set[str]] = {}
        self._waiting: list[tuple[str, Any, frozenset[str]]] = []

    def schema(self, node: Any) -> dict[str, Any]:
        """Return ``node`` as one JSON Schema, with all that it refers to."""
        meant = self._meant(node, frozenset())
        while self._waiting:
            name, target, gone = self._waiting.pop()
            self._defined[name] = self._meant(target, gone)
            self._needs[name] = set(_names_in(self._defined[name]))
        needed, found = set(_names_in(meant)), set[str]()
        while needed:
            name = needed.pop()
            found.add(name)
            needed |= self._needs[name] - found
        return {"$defs": {name: self._defined[name] for name in sorted(found)}, "allOf": [meant]}

    def validator(self, node: Any, *, formats: bool = True) -> Any:
        """Return a judge of values by ``node``, one of ``jsonschema``, for which a format is a rule or only a word."""
        return _Validator(self.schema(node), format_checker=_Validator.FORMAT_CHECKER if formats else None)

    def follow(self, node: Any) -> Any:
        """Return what ``node`` stands for where it is a reference; an empty object where it stands for nothing."""
        for _ in range(32):
            if not isinstance(node, dict) or not isinstance(node.get("$ref"), str):
                return node
            node = self.target(node["$ref"])
        return {}

    def target(self, reference: str) -> Any:
        """Return what stands at ``reference``, True where nothing does."""
        if reference not in self._found:
            self._found[reference] = self._at(reference)
        return self._found[reference]

    def hidden_names(self, *nodes: Any) -> frozenset[str]:
        """Return the names of every property that is ``readOnly`` in anything that ``nodes`` hold or refer to."""
        hidden, waiting = self._outline(list(nodes))
        seen = set(waiting)
        while waiting:
            reference = waiting.pop()
            if reference not in self._outlines:
                self._outlines[reference] = self._outline(self.target(reference))
            names, references = self._outlines[reference]
            hidden = hidden | names
            waiting |= references - seen
            seen |= references
        return frozenset(hidden)

    def _outline(self, node: Any) -> tuple[set[str], set[str]]:
        """Return the names of the properties that ``node`` hides, and what it refers to."""
        names: set[str] = set()
        references: set[str] = set()
        for one in _objects(node):
            names |= self._gone(one) if {"properties", "allOf", "$ref"} & one.keys() else frozenset()
            references |= {one["$ref"]} if isinstance(one.get("$ref"), str) else set()
        return names, references

    def stands_for_itself(self, node: Any) -> bool:
        """Return whether to apply ``node`` would never end."""

        def leads(schema: Any, above: frozenset[str]) -> bool:
            if not isinstance(schema, dict):
                return False
            name = schema.get("$ref")
            if isinstance(name, str):
                if name in above:
                    return True
                if name in ended:
                    return False
                if leads(self.target(name), above | {name}):
                    return True
                ended.add(name)
                if self.is_old:
                    return False
            inner = [one for key in _BESIDE if key in schema for one in _listed(schema[key])]
            dependent = schema.get("dependentSchemas")
            inner += dependent.values() if isinstance(dependent, dict) else ()
            return any(leads(one, above) for one in inner)

        ended: set[str] = set()
        return leads(node, frozenset())

    def _at(self, reference: str) -> Any:
        node: Any = self.document
        if reference == "#":
            return node
        if not reference.startswith("#/"):
            return True
        for step in unquote(reference.removeprefix("#/")).split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and name in node:
                node = node[name]
            elif isinstance(node, list) and name.isdecimal() and int(name) < len(node):
                node = node[int(name)]
            else:
                return True
        return node

    def _meant(self, node: Any, outside: frozenset[str]) -> Any:
        """Return ``node`` in words of JSON Schema; the names in ``outside`` are not required by it."""
        if not isinstance(node, dict):
            return node if isinstance(node, bool) else True
        reference = node.get("$ref")
        if isinstance(reference, str):
            aside = {} if self.is_old else {key: one for key, one in node.items() if key != "$ref"}
            gone = outside | (self._gone(node) if aside else frozenset())
            referred = self._referred(reference, gone)
            return {"allOf": [referred, self._meant(aside, gone)]} if aside else referred
        gone = outside | self._gone(node)
        built = {key: one for key, value in node.items() if (one := self._word(key, value, gone)) is not None}
        built |= {"const": node["const"]} if "const" in node else {}  # it may be null
        self._select_by_tag(node, built)
        examples = [node[key] for key in ("example", "default") if key in node] + _own_list(node.get("examples"))
        built |= {"examples": examples} if examples else {}
        if _has_unreadable_pattern(node):  # which names it means is not known, so nothing is closed
            built.pop("additionalProperties", None)
            built.pop("unevaluatedProperties", None)
        if self.is_old:
            _apply_old_words(node, built)
        return built

    def _select_by_tag(self, node: dict[str, Any], built: dict[str, Any]) -> None:
        """Have each branch of the unions in ``built`` accept the values of the tag that are its own."""
        said = node.get("discriminator")
        tag = said.get("propertyName") if isinstance(said, dict) else None
        if not isinstance(said, dict) or not isinstance(tag, str):
            return
        for key in ("oneOf", "anyOf"):
            branches = node.get(key)
            if key not in built or not isinstance(branches, list):
                continue
            mapping = said.get("mapping")
            values = [self._tag_values(one, tag, mapping) for one in branches]
            named = [self._named_values(one, mapping) for one in branches]
            built[key] = [
                {"allOf": [meant, {"properties": {tag: {"enum": own}}}]}
                if own is not None
                else _without_tags(meant, tag, {value for other in named for value in other} - set(names))
                for meant, own, names in zip(built[key], values, named, strict=True)
            ]

    def _tag_values(self, branch: Any, tag: str, mapping: Any) -> list[Any] | None:
        """Return the values of the tag that select ``branch``, or None where its own schema says them, or nothing."""
        reference = branch.get("$ref") if isinstance(branch, dict) else None
        own = [
            self.follow(part["properties"][tag])
            for part in self._parts(branch)
            if tag in dict(_members(part.get("properties")))
        ]
        limits = {"allOf", "anyOf", "const", "enum", "oneOf"}
        if not isinstance(reference, str) or not all(
            isinstance(one, dict) and one.get("type", "string") == "string" and not limits & one.keys() for one in own
        ):
            return None
        return self._named_values(branch, mapping)

    def _named_values(self, branch: Any, mapping: Any) -> list[Any]:
        """Return the values by which a document names ``branch``: of the mapping, of an extension, or its own name."""
        reference = branch.get("$ref") if isinstance(branch, dict) else None
        if not isinstance(reference, str):
            return []
        targets = {value: target if set("#/") & set(target) else f"#/components/schemas/{target}"
                   for value, target in _members(mapping) if isinstance(target, str)}  # fmt: skip
        mapped = [value for value, target in targets.items() if target == reference]
        said = [part["x-ms-discriminator-value"] for part in self._parts(branch) if "x-ms-discriminator-value" in part]
        return mapped or said[:1] or [reference.rpartition("/")[2]]

    def _referred(self, reference: str, gone: frozenset[str]) -> dict[str, Any]:
        target = self.target(reference)
        key = reference, gone & self._required(target)
        if key not in self._names:
            self._names[key] = name = f"d{len(self._names)}"
            self._defined[name] = True
            self._waiting.append((name, target, key[1]))
        return {"$ref": f"#/$defs/{self._names[key]}"}

    def _word(self, key: str, value: Any, gone: frozenset[str]) -> Any:  # noqa: C901 - a sort of word each
        """Return the value of one keyword, or None where it says nothing."""
        if key in _ONE:
            return self._meant(value, frozenset()) if isinstance(value, dict | bool) else None
        if key in _SEVERAL and isinstance(value, list) and value:
            return [self._meant(one, frozenset() if key == "prefixItems" else gone) for one in value]
        if key in _NAMED and isinstance(value, dict):
            names = patterns.translate if key == "patternProperties" else str
            pairs = ((names(name), one) for name, one in value.items())
            return {name: self._meant(one, frozenset()) for name, one in pairs if name is not None}
        if key == "required" and isinstance(value, list):
            return [name for name in value if isinstance(name, str) and name not in gone]
        if key == "dependentRequired" and isinstance(value, dict):
            return {name: self._word("required", others, gone) or [] for name, others in value.items()}
        if key == "type":
            kinds = value if isinstance(value, list) else [value]
            return value if kinds and all(isinstance(one, str) and one in _TYPES for one in kinds) else None
        if key == "enum":
            return value if isinstance(value, list) and value else None
        if key == "pattern":
            return value if isinstance(value, str) else None
        if key in _COUNTS:
            return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
        if key in _NUMBERS:
            if not isinstance(value, int | float) or isinstance(value, bool):
                return None
            return value if key != "multipleOf" or value > 0 else None
        if key == "uniqueItems":
            return value if isinstance(value, bool) else None
        return value if key == "format" and isinstance(value, str) else None

    def _parts(self, node: Any) -> Iterator[dict[str, Any]]:
        """Yield what ``node`` is put together of, by references and allOf."""
        waiting, seen = [node], set[int]()
        while waiting and len(seen) < _MAX_PARTS:
            one = waiting.pop()
            if not isinstance(one, dict) or id(one) in seen:
                continue
            seen.add(id(one))
            reference = one.get("$ref")
            if isinstance(reference, str):
                waiting.append(self.target(reference))
                if self.is_old:
                    continue
            yield one
            waiting.extend(_listed(one.get("allOf", [])))

    def _gone(self, node: dict[str, Any]) -> frozenset[str]:
        pairs = (pair for part in self._parts(node) for pair in _members(part.get("properties")))
        return frozenset(name for name, one in pairs if any(part.get("readOnly") is True for part in self._parts(one)))

    def _required(self, node: Any) -> frozenset[str]:
        said = (one for part in self._parts(node) for one in _listed(part.get("required", [])))
        return frozenset(one for one in said if isinstance(one, str))


def _pattern(validator: Any, pattern: str, value: Any, schema: Any) -> Iterator[ValidationError]:
    """Yield an error where ``value`` does not match."""
    if isinstance(value, str) and not (matched := patterns.matches(pattern, value)):
        if matched is None:
            raise UndecidedPatternError(pattern)
        yield ValidationError(f"{value!r} does not match {pattern!r}")


_Validator: Any = extend(Draft202012Validator, {"pattern": _pattern})


def _apply_old_words(node: dict[str, Any], built: dict[str, Any]) -> None:
    """Put the words that OpenAPI 3.0 and Swagger 2.0 have in another form into ``built``."""
    for word, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if node.get(word) is True and bound in built:
            built[word] = built.pop(bound)
    if node.get("nullable") is True and isinstance(built.get("type"), str):
        built["type"] = [built["type"], "null"]


def _without_tags(meant: Any, tag: str, values: set[Any]) -> Any:
    """Return ``meant``, but for objects whose tag is one of ``values``."""
    if not values:
        return meant
    other = {"type": "object", "properties": {tag: {"enum": sorted(map(str, values))}}, "required": [tag]}
    return {"allOf": [meant, {"not": other}]}


def _write_tags_as_objects(document: dict[str, Any]) -> dict[str, Any]:
    """Return ``document`` with each discriminator of Swagger 2.0, a text, in the form of OpenAPI 3."""
    definitions = document.get("definitions")
    if not isinstance(definitions, dict) or "swagger" not in document:
        return document
    written = {
        name: {**node, "discriminator": {"propertyName": node["discriminator"]}}
        if isinstance(node, dict) and isinstance(node.get("discriminator"), str)
        else node
        for name, node in definitions.items()
    }
    return {**document, "definitions": written}


def _names_in(meant: Any) -> Iterator[str]:
    """Yield the names of the definitions that a schema of ours refers to."""
    for one in _objects(meant):
        if isinstance(one.get("$ref"), str):
            yield one["$ref"].removeprefix("#/$defs/")


def _objects(node: Any) -> Iterator[dict[str, Any]]:
    """Yield each object in ``node``, but for those that are values and no schemas."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting.extend(one)
        elif isinstance(one, dict):
            yield one
            waiting.extend(inner for key, inner in one.items() if key not in _VALUES)


def _has_unreadable_pattern(node: dict[str, Any]) -> bool:
    return not all(map(_is_pattern, dict(_members(node.get("patternProperties")))))


def _is_pattern(value: Any) -> bool:
    return isinstance(value, str) and patterns.translate(value) is not None


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _own_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    return iter(value.items() if isinstance(value, dict) else ())


def without_names(value: Any, names: frozenset[str]) -> Any:
    """Return ``value`` without any member that has one of ``names``, at any depth."""
    if isinstance(value, dict):
        return {name: without_names(one, names) for name, one in value.items() if name not in names}
    return [without_names(one, names) for one in value] if isinstance(value, list) else value
