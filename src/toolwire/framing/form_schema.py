"""Read the restricted JSON Schema of a form: an object with flat fields, and nothing else.

Rules:
- A nested, unknown or oversized schema is refused whole; no field of it is shown.
- The words of a schema are cleaned and capped: they come from another site.
"""
# MC-09

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import isfinite
from typing import Any, Final

from toolwire.core.model import Json
from toolwire.core.user_input import Choice, FieldKind, InputField

from .text_cleaning import cap_text, clean

MAX_FIELDS: Final = 20
MAX_CHOICES: Final = 200
MAX_WORDS: Final = 500
MAX_NAME: Final = 100

_FORMATS: Final = ("email", "uri", "date", "date-time")
_KINDS: Final = {
    "string": FieldKind.TEXT,
    "integer": FieldKind.INTEGER,
    "number": FieldKind.NUMBER,
    "boolean": FieldKind.BOOLEAN,
}


_TYPES: Final = {kind: name for name, kind in _KINDS.items()} | {
    FieldKind.CHOICE: "string",
    FieldKind.CHOICES: "array",
}


class FormError(ValueError):
    """A schema that is no form. The text is the end of a sentence about it."""


def read_fields(schema: Json) -> tuple[InputField, ...]:
    """Return the fields of the form that ``schema`` describes.

    Raises:
        FormError: it is not an object of at most 20 flat fields.
    """
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        raise FormError("its schema does not describe an object")
    properties = schema.get("properties", {})
    if not isinstance(properties, Mapping):
        raise FormError("its fields are not an object")
    if len(properties) > MAX_FIELDS:
        raise FormError(f"it has more than {MAX_FIELDS} fields")
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) and name in properties for name in required):
        raise FormError("its list of required fields names an unknown field")
    return tuple(_read_field(name, one, is_required=name in required) for name, one in properties.items())


def write_fields(fields: Iterable[InputField]) -> dict[str, Json]:
    """Return the schema of a form with ``fields``, as ``read_fields`` reads it."""
    properties: dict[str, Json] = {}
    required: list[Json] = []
    for one in fields:
        schema: dict[str, Json] = {"type": _TYPES[one.kind]}
        if one.kind is FieldKind.CHOICE:
            schema["oneOf"] = [{"const": choice.value, "title": choice.title} for choice in one.choices]
        elif one.kind is FieldKind.CHOICES:
            titled: list[Json] = [{"const": choice.value, "title": choice.title} for choice in one.choices]
            schema["items"] = {"anyOf": titled}
        low, high = _LIMITS[one.kind]
        more: dict[str, Json] = {"title": one.title, "description": one.description, "format": one.format}
        more |= {name: limit for name, limit in ((low, one.minimum), (high, one.maximum)) if name}
        schema |= {name: value for name, value in more.items() if value not in ("", None)}
        if one.default is not None:
            schema["default"] = one.default
        properties[one.name] = schema
        if one.is_required:
            required.append(one.name)
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _read_field(name: str, schema: Json, *, is_required: bool) -> InputField:
    if not isinstance(schema, Mapping):
        raise FormError("the schema of a field must be an object")
    if not name or len(name) > MAX_NAME or clean(name).text != name or not name.isprintable():
        raise FormError("a field name is empty, is too long or contains hidden characters")
    kind, choices = _read_kind(schema)
    low, high = _LIMITS[kind]
    one = InputField(
        name=name,
        kind=kind,
        title=read_words(schema.get("title")),
        description=read_words(schema.get("description")),
        is_required=is_required,
        choices=choices,
        minimum=_read_number(schema, low),
        maximum=_read_number(schema, high),
        format=str(schema["format"]) if schema.get("format") in _FORMATS and kind is FieldKind.TEXT else "",
    )
    default = schema.get("default")
    # A default that does not fit, or that would look different from what is sent, is none.
    if default is None or one.find_fault(default) or (isinstance(default, str) and clean(default).text != default):
        return one
    return replace(one, default=default)


_LIMITS: Final[Mapping[FieldKind, tuple[str, str]]] = {
    FieldKind.TEXT: ("minLength", "maxLength"),
    FieldKind.INTEGER: ("minimum", "maximum"),
    FieldKind.NUMBER: ("minimum", "maximum"),
    FieldKind.BOOLEAN: ("", ""),
    FieldKind.CHOICE: ("", ""),
    FieldKind.CHOICES: ("minItems", "maxItems"),
}


def _read_kind(schema: Mapping[str, Any]) -> tuple[FieldKind, tuple[Choice, ...]]:
    type_ = schema.get("type")
    if type_ == "string" and ("enum" in schema or "oneOf" in schema):
        return FieldKind.CHOICE, _read_choices(schema, "oneOf")
    if type_ == "array":
        items = schema.get("items")
        if not isinstance(items, Mapping):
            raise FormError("a field is a list of anything")
        return FieldKind.CHOICES, _read_choices(items, "anyOf")
    if not isinstance(type_, str) or type_ not in _KINDS:
        raise FormError("a field is not text, a number, a boolean or a choice")
    return _KINDS[type_], ()


def _read_choices(schema: Mapping[str, Any], titled: str) -> tuple[Choice, ...]:
    """Return the values of a field with choices: a list of texts, perhaps with names, or of titled constants."""
    listed = schema.get("enum", schema.get(titled))
    if not isinstance(listed, list) or not 1 <= len(listed) <= MAX_CHOICES:
        raise FormError(f"a field has no choices, or more than {MAX_CHOICES}")
    names = schema.get("enumNames")
    titles: list[Json] = names if isinstance(names, list) and len(names) == len(listed) else [None] * len(listed)
    choices: list[Choice] = []
    for one, title in zip(listed, titles, strict=True):
        value = one.get("const") if isinstance(one, Mapping) else one
        words = one.get("title") if isinstance(one, Mapping) else title
        if not isinstance(value, str) or len(value) > MAX_WORDS or clean(value).text != value:
            raise FormError("a choice is not text, is too long or contains hidden characters")
        choices.append(Choice(value, read_words(words) or value))
    return tuple(choices)


def read_words(value: Json, limit: int = MAX_WORDS) -> str:
    """Return the words of another site as they can be shown, or ``""`` for what is no text."""
    return cap_text(clean(value[: limit * 4]).text, limit).strip() if isinstance(value, str) else ""


def _read_number(schema: Mapping[str, Any], name: str) -> float | None:
    value = schema.get(name) if name else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if isinstance(value, int) or isfinite(value) else None
