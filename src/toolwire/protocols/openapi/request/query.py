"""Define how the arguments of a safe tool are written in a query string, and parse such a query.

Rules:
- A value is plain text if its type is clear from the schema, else JSON. A query that follows the published document
  is parsed to the same values.
- ``+`` is a space, as in a form; escapes must be valid UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from toolwire.core.content import takes_file
from toolwire.core.model import Json, Kind, Problem, Schema, Tool
from toolwire.framing import jsontext
from toolwire.protocols.openapi.document.references import Unusable, resolve

_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LITERALS: dict[str, tuple[str, Json]] = {
    "true": ("boolean", True),
    "false": ("boolean", False),
    "null": ("null", None),
}
_TYPE_OF: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
}
_STRING, _ARRAY = frozenset(("string",)), frozenset(("array",))
# The text of a value shows which of these it is. A string could look like each of them.
_DISTINCT_TYPES = frozenset(("integer", "number", "boolean"))
_MAX_STEPS = 32
_MAX_NESTED = 3
_MAX_BRANCHES = 16


class QueryForm(StrEnum):
    """How a field is written: once as text, repeated for each item of an array, or once as JSON."""

    TEXT = "text"
    REPEATED = "repeated"
    JSON = "json"


class QueryField(NamedTuple):
    """One argument in a query. ``types`` are the JSON types that its text, or the text of an item, may have."""

    name: str
    form: QueryForm
    schema: Schema
    required: bool
    types: frozenset[str] = frozenset()


def is_in_query(tool: Tool) -> bool:
    """Return whether the arguments of ``tool`` are in the query of a GET: it only reads, and no file is among them."""
    # MC-07: a file does not fit in a URL, which also stands in logs.
    return tool.safe and not takes_file(tool.input_schema)


def list_fields(tool: Tool) -> tuple[QueryField, ...]:
    """Return the query field of each argument of ``tool``."""
    required = set(tool.required_parameters)
    return tuple(
        _build_field(name, schema, tool.input_schema, required=name in required)
        for name, schema in tool.parameters.items()
    )


def read_query(query: str, known: Mapping[str, QueryField]) -> dict[str, Json] | Problem:
    """Return the arguments in ``query``; those without a field in ``known`` stay text.

    A text that does not have the type of its field stays a string, and validation reports it. A required array that is
    missing is empty.
    """
    texts: dict[str, list[str]] = {}
    for pair in filter(None, query.split("&")):
        name, _, text = pair.partition("=")
        try:
            name, text = _decode(name), _decode(text)
        except ValueError:
            return Problem(kind=Kind.MALFORMED, message="The query has a percent escape that is not UTF-8 text.")
        texts.setdefault(name, []).append(text)
    arguments: dict[str, Json] = {
        name: found[0] if len(found) == 1 else list[Json](found) for name, found in texts.items() if name not in known
    }
    errors: dict[str, str] = {}
    for name, field in known.items():
        if name in texts:
            arguments[name] = _read_value(field, texts[name], errors)
        elif field.form is QueryForm.REPEATED and field.required:
            # A required array without items leaves no trace in a query.
            arguments[name] = []
    if errors:
        sentence = "; ".join(f"{name}: {text}" for name, text in errors.items())
        return Problem(kind=Kind.INVALID_ARGUMENTS, message=f"Invalid arguments: {sentence}.", parameter_errors=errors)
    return arguments


def _decode(text: str) -> str:
    if "%" not in text and "+" not in text:
        return text
    if _BAD_ESCAPE.search(text):
        raise ValueError("a percent sign without two hexadecimal digits")
    return unquote_to_bytes(text.replace("+", " ")).decode()


def _read_value(field: QueryField, texts: list[str], errors: dict[str, str]) -> Json:
    if field.form is QueryForm.REPEATED:
        return [_read_typed(text, field.types) for text in texts]
    if len(texts) > 1:
        errors[field.name] = "is given more than once"
        return None
    if field.form is QueryForm.TEXT:
        return _read_typed(texts[0], field.types)
    value = jsontext.read(texts[0].encode("utf-8", "surrogatepass"))
    if isinstance(value, Problem):
        errors[field.name] = "must be JSON text"
        return None
    return value


def _read_typed(text: str, types: frozenset[str]) -> Json:
    # Where a string is allowed too, "true" is the string: a literal would change what the caller wrote.
    if text in _LITERALS and _LITERALS[text][0] in types and "string" not in types:
        return _LITERALS[text][1]
    if types & {"integer", "number"} and _NUMBER.fullmatch(text):
        number = jsontext.read(text.encode())
        if type(number) is int or ("number" in types and isinstance(number, float)):
            return number
    return text


def _build_field(name: str, schema: Json, root: Schema, *, required: bool) -> QueryField:
    shape: Schema = schema if isinstance(schema, dict) else ({} if schema is not False else {"not": {}})
    types = _list_types(shape, root)
    if _is_plain(types - {"null"}) and ("null" not in types or (not required and shape.get("default") is None)):
        # An optional null without a default is said by leaving the argument out.
        return QueryField(name, QueryForm.TEXT, shape, required, types)
    array = _follow_reference(shape, root)
    # An empty array cannot be repeated: it must be the same as a missing one, so a default rules this form out.
    if types == _ARRAY and "prefixItems" not in array and (required or not shape.get("default")):
        items = _list_types(array.get("items"), root)
        if _is_plain(items):
            return QueryField(name, QueryForm.REPEATED, shape, required, items)
    return QueryField(name, QueryForm.JSON, shape, required)


def _is_plain(types: frozenset[str]) -> bool:
    """Return whether a text shows which of ``types`` it has: strings only, or types without strings."""
    return types == _STRING or (bool(types) and types <= _DISTINCT_TYPES)


def _list_types(schema: Json, root: Schema, seen: frozenset[int] = frozenset()) -> frozenset[str]:
    """Return the JSON types that ``schema`` allows; empty if it does not say, or refers to itself."""
    shape = _follow_reference(schema, root)
    # An empty set means "not clear", and what is not clear is written as JSON.
    if id(shape) in seen or len(seen) == _MAX_NESTED or "$ref" in shape:
        return frozenset()
    if "const" in shape:
        return frozenset((_get_type(shape["const"]),))
    values, declared = shape.get("enum"), shape.get("type")
    if isinstance(values, list):
        return frozenset(map(_get_type, values))
    if isinstance(declared, str | list):
        return frozenset(one for one in ([declared] if isinstance(declared, str) else declared) if isinstance(one, str))
    branches: list[Json] = next((shape[key] for key in ("anyOf", "oneOf") if isinstance(shape.get(key), list)), [])
    each = [_list_types(one, root, seen | {id(shape)}) for one in branches[:_MAX_BRANCHES]]
    return frozenset[str]().union(*each) if all(each) and len(branches) <= _MAX_BRANCHES else frozenset()


def _follow_reference(schema: Json, root: Schema) -> dict[str, Any]:
    """Return the target of ``schema`` inside ``root``; if there is none, a schema that still has its ``$ref``."""
    for _ in range(_MAX_STEPS):
        if not isinstance(schema, dict):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        try:
            schema = resolve(root, reference)
        except Unusable:
            break
    return schema if isinstance(schema, dict) else {}


def _get_type(value: Json) -> str:
    return _TYPE_OF.get(type(value), "object")
