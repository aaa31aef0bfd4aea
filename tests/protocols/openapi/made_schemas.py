"""Schemas of every kind that OpenAPI knows, bodies for them, and a judge of our own choice: ``jsonschema``.

The judge reads a schema as the document has it. It applies what OpenAPI adds to JSON Schema: ``nullable`` of 3.0, and
that what is ``readOnly`` is not required of a request.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker

NAMES = ("a", "b", "c", "kind")
DEFINED = ("One", "Two", "Three")
PREFIX = "#/components/schemas/"
_SCALARS = st.sampled_from(["cat", "dog", "", "2020-01-01", 0, 1, 7, 2.5, True, None])
_TYPES = st.sampled_from(["string", "integer", "number", "boolean", "array", "object"])
_FORMATS = st.sampled_from(["date", "ipv4"])
_WORDS = st.sampled_from(["What it is.", "It must be a cat. " * 12])


def _some(old: bool) -> st.SearchStrategy[dict[str, Any]]:
    strings = st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={
            "format": _FORMATS,
            "minLength": st.integers(0, 4),
            "maxLength": st.integers(2, 9),
            "pattern": st.sampled_from(["^c", "[0-9]"]),
            "description": _WORDS,
        },
    )
    numbers = st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number"])},
        optional={"minimum": st.integers(0, 2), "maximum": st.integers(1, 9), "multipleOf": st.just(0.5)},
    )
    few = st.fixed_dictionaries({"enum": st.lists(_SCALARS, min_size=1, max_size=4, unique_by=repr)})
    one = st.fixed_dictionaries({"type": _TYPES})
    if old:
        nulls = st.fixed_dictionaries({"type": _TYPES, "nullable": st.just(True)})
        return st.one_of(strings, numbers, few, one, nulls)
    several = st.fixed_dictionaries({"type": st.lists(_TYPES | st.just("null"), min_size=1, max_size=3, unique=True)})
    constants = st.fixed_dictionaries({"const": _SCALARS})
    broken = st.sampled_from([{"$ref": f"{PREFIX}Nowhere"}, {"type": "date"}, {"minLength": "long"}])
    return st.one_of(strings, numbers, few, one, several, constants, broken)


def _objects(inner: st.SearchStrategy[Any], old: bool) -> st.SearchStrategy[dict[str, Any]]:
    hidden = st.fixed_dictionaries({"type": st.just("string"), "readOnly": st.just(True)})
    names = st.lists(st.sampled_from(NAMES), max_size=3, unique=True)
    optional: dict[str, Any] = {
        "type": st.just("object"),
        "properties": st.dictionaries(st.sampled_from(NAMES), inner | hidden, min_size=1, max_size=3),
        "required": names,
        "additionalProperties": st.booleans() | inner,
        "minProperties": st.integers(0, 2),
        "maxProperties": st.integers(2, 4),
        "description": _WORDS,
    }
    if not old:
        optional |= {
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "[", "d$"]), inner, min_size=1, max_size=2),
            "propertyNames": inner,
            "dependentRequired": st.dictionaries(st.sampled_from(NAMES), names, max_size=2),
            "dependentSchemas": st.dictionaries(st.sampled_from(NAMES), inner, max_size=1),
            "unevaluatedProperties": st.booleans() | inner,
        }
    return st.fixed_dictionaries({}, optional=optional)


def _arrays(inner: st.SearchStrategy[Any], old: bool) -> st.SearchStrategy[dict[str, Any]]:
    optional: dict[str, Any] = {"type": st.just("array"), "items": inner, "uniqueItems": st.just(True)}
    if not old:
        optional |= {
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "contains": inner,
            "minContains": st.integers(0, 1),
            "maxContains": st.integers(1, 2),
            "unevaluatedItems": st.just(False) | inner,
        }
    return st.fixed_dictionaries({}, optional=optional)


def _combined(inner: st.SearchStrategy[Any], old: bool) -> st.SearchStrategy[dict[str, Any]]:
    branches = st.lists(inner, min_size=1, max_size=3)
    told = st.fixed_dictionaries({"propertyName": st.just("kind")}, optional={"mapping": _mappings()})
    optional: dict[str, Any] = {
        "allOf": branches,
        "anyOf": branches,
        "oneOf": branches,
        "not": inner,
        "discriminator": told,
        "properties": st.dictionaries(st.sampled_from(NAMES), inner, max_size=2),
        "required": st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
    }
    if not old:
        optional |= {"if": inner, "then": inner, "else": inner, "unevaluatedProperties": st.just(False)}
    return st.fixed_dictionaries({}, optional=optional)


def _mappings() -> st.SearchStrategy[dict[str, str]]:
    targets = st.sampled_from([*DEFINED, *(PREFIX + name for name in DEFINED)])
    return st.dictionaries(st.sampled_from(["cat", "dog"]), targets, max_size=2)


def schemas(version: str) -> st.SearchStrategy[Any]:
    """Return a strategy of schemas of an OpenAPI ``version``; their references are to those in ``DEFINED``."""
    old = version.startswith("3.0")
    references = st.sampled_from([{"$ref": PREFIX + name} for name in DEFINED])
    leaves = _some(old) | references
    return st.recursive(
        leaves,
        lambda inner: _objects(inner, old) | _arrays(inner, old) | _combined(inner, old) | _combined(inner, old),
        max_leaves=10,
    )


def documents() -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy of documents of one operation with a body."""

    def whole(version: str) -> st.SearchStrategy[dict[str, Any]]:
        inside = schemas(version)
        defined = st.fixed_dictionaries(dict.fromkeys(DEFINED, inside))
        taken_apart = st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(st.sampled_from(NAMES), inside, min_size=1)},
            optional={
                "required": st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
                "additionalProperties": st.booleans(),
                "allOf": st.lists(st.sampled_from([{"$ref": PREFIX + name} for name in DEFINED]), max_size=1),
            },
        )
        return st.builds(_document, st.just(version), inside | taken_apart, defined)

    return st.sampled_from(["3.0.4", "3.1.1", "3.2.0"]).flatmap(whole)


def _document(version: str, body: Any, defined: dict[str, Any]) -> dict[str, Any]:
    taken = {"required": True, "content": {"application/json": {"schema": body}}}
    operation = {"operationId": "a", "requestBody": taken, "responses": {"200": {"description": ""}}}
    return {
        "openapi": version,
        "info": {"title": "T", "version": "1"},
        "servers": [{"url": "https://api.test"}],
        "paths": {"/a": {"post": operation}},
        "components": {"schemas": defined},
    }


VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=6,
)


def judge(document: dict[str, Any], schema: Any) -> Draft202012Validator | None:
    """Return a validator of ``schema`` as ``document`` means it, or None where it means nothing: it goes in circles."""
    if _is_circular({**document, "allOf": [schema]}):
        return None
    old = document["openapi"].startswith("3.0")
    defined: dict[str, Any] = {}
    for name, one in document["components"]["schemas"].items():
        defined[name] = _meant(document, one, old, defined)
    whole = {"components": {"schemas": defined}, "allOf": [_meant(document, schema, old, defined)]}
    return Draft202012Validator(whole, format_checker=FormatChecker())


def _meant(  # noqa: C901 - a sort of word each
    document: dict[str, Any], schema: Any, old: bool, defined: dict[str, Any], outside: frozenset[str] = frozenset()
) -> Any:
    """Return ``schema`` in words of JSON Schema; what is wrong in it, and what it cannot find, says nothing.

    A definition that names of ``outside`` are not required of gets a name of its own in ``defined``.
    """
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        if schema["$ref"].removeprefix(PREFIX) not in DEFINED:
            return True
        if not outside & _required(document, schema):
            return {"$ref": schema["$ref"]}
        name = f"{schema['$ref'].removeprefix(PREFIX)}-{'-'.join(sorted(outside))}"
        if name not in defined:
            defined[name] = True  # while it is made: it may be a part of itself
            defined[name] = _meant(document, _target(document, schema), old, defined, outside)
        return {"$ref": PREFIX + name}
    gone = _hidden(document, schema) | outside
    built: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("allOf", "anyOf", "oneOf"):
            built[key] = [_meant(document, one, old, defined, gone) for one in value]
        elif key == "prefixItems":
            built[key] = [_meant(document, one, old, defined) for one in value]
        elif key == "patternProperties":
            built[key] = {name: _meant(document, one, old, defined) for name, one in value.items() if name != "["}
            if "[" in value:
                built.setdefault("^", True)
        elif key in ("properties", "dependentSchemas"):
            built[key] = {name: _meant(document, one, old, defined) for name, one in value.items()}
        elif key == "required":
            built[key] = [name for name in value if name not in gone]
        elif key == "dependentRequired":
            built[key] = {name: [one for one in others if one not in gone] for name, others in value.items()}
        elif (key, value) in (("type", "date"), ("minLength", "long")) or key in ("discriminator", "nullable"):
            continue
        else:
            built[key] = _meant(document, value, old, defined)
    if built.pop("^", None):
        built = {k: v for k, v in built.items() if k not in ("additionalProperties", "unevaluatedProperties")}
    if old and schema.get("nullable") is True:
        built["type"] = [schema["type"], "null"]
    return built


def _target(document: dict[str, Any], schema: dict[str, Any]) -> Any:
    return document["components"]["schemas"].get(schema["$ref"].removeprefix(PREFIX), True)


def _parts(document: dict[str, Any], schema: Any) -> list[dict[str, Any]]:
    """Return what ``schema`` is put together of, by references and allOf."""
    waiting, found = [schema], list[dict[str, Any]]()
    while waiting:
        one = waiting.pop()
        if not isinstance(one, dict) or any(one is other for other in found):
            continue
        found.append(one)
        if "$ref" in one:
            waiting.append(_target(document, one))
        waiting.extend(one.get("allOf", ()))
    return found


def _hidden(document: dict[str, Any], schema: Any) -> frozenset[str]:
    pairs = (pair for part in _parts(document, schema) for pair in part.get("properties", {}).items())
    return frozenset(name for name, one in pairs if any(part.get("readOnly") is True for part in _parts(document, one)))


def _required(document: dict[str, Any], schema: Any) -> set[str]:
    return {name for part in _parts(document, schema) for name in part.get("required", ())}


def _is_circular(whole: Any) -> bool:
    """Return whether a schema of ``whole`` stands for itself, so that to apply it would never end."""
    defined = whole["components"]["schemas"]

    def leads(schema: Any, seen: tuple[str, ...]) -> bool:
        if not isinstance(schema, dict):
            return False
        name = schema.get("$ref", "").removeprefix(PREFIX)
        if name in seen:
            return True
        inner = [schema[key] for key in ("if", "then", "else", "not") if key in schema]
        inner += [one for key in ("allOf", "anyOf", "oneOf") for one in schema.get(key, ())]
        inner += schema.get("dependentSchemas", {}).values()
        return any(leads(one, seen) for one in inner) or (bool(name) and leads(defined.get(name), (*seen, name)))

    return leads(whole, ()) or any(leads({"$ref": PREFIX + name}, ()) for name in defined)


def is_hidden_in(document: dict[str, Any], schema: Any, value: Any) -> bool:
    """Return whether ``value`` has anything that may be read only: a careful guess, by names alone."""
    names: set[str] = set()
    waiting: list[Any] = [document["components"], schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            names.update(_hidden(document, one) if {"properties", "allOf", "$ref"} & one.keys() else ())
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            if names & one.keys():
                return True
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
    return False
