"""Remove what is hidden in the descriptive texts of a tool, so that a user reads what a model reads.

Rules:
- Names of arguments, and values that are compared, stay as they are: a call would else not be the site's.
"""
# D-01: the rules above.

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from toolwire.core.model import Json, Schema, Tool, copy_tool, get_stored_schemas
from toolwire.core.subschemas import change_subschemas

from .text_cleaning import clean, clean_data, find_hidden, is_suspect

_TEXTS: Final = frozenset(("title", "description", "$comment", "examples"))


def make_readable(tool: Tool) -> Tool:
    """Return ``tool`` without what is hidden in its texts: the same object where that is nothing."""
    changes: dict[str, Json] = {}
    for name, text in (("description", tool.description), ("hint", tool.hint), ("output_name", tool.output_name)):
        if is_suspect(text) and (plain := clean(text)).removed:
            changes[name] = plain.text
    for name, schema in get_stored_schemas(tool).items():
        if isinstance(schema, dict) and next(find_hidden(schema), None) is not None:  # any other was read with care
            changes[name] = clean_schema(schema)
    return copy_tool(tool, **changes) if changes else tool


def clean_schema(schema: Schema) -> dict[str, Json]:
    """Return ``schema`` with nothing hidden in its titles, descriptions, comments and examples, at any depth."""
    built = change_subschemas(schema, _clean_subschema)
    return built | {key: clean_data(value) for key, value in schema.items() if key in _TEXTS}


def _clean_subschema(inner: Json, _keyword: str, _name: str) -> Json:
    return clean_schema(inner) if isinstance(inner, Mapping) else inner
