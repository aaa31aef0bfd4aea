"""Remove what is hidden in the descriptive texts of a tool, so that a user reads what a model reads.

Rules:
- Names of arguments, and values that are compared, stay as they are: a call would else not be the site's.
"""
# D-01: the rules above.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from toolwire.core.model import Json, Schema, Tool

from .subschemas import LISTED, NAMED, SINGLE
from .text_cleaning import clean, clean_data, find_hidden, is_suspect

_TEXTS: Final = frozenset(("title", "description", "$comment", "examples"))
_BY_NAME: Final = frozenset((*NAMED, "$defs", "definitions"))


def make_readable(tool: Tool) -> Tool:
    """Return ``tool`` without what is hidden in its texts: the same object where that is nothing."""
    changes: dict[str, Json] = {}
    for name, text in (("description", tool.description), ("hint", tool.hint), ("output_name", tool.output_name)):
        if is_suspect(text) and (plain := clean(text)).removed:
            changes[name] = plain.text
    for name, schema in (("input_schema", tool.input_schema), ("output_schema", tool.output_schema)):
        if isinstance(schema, dict) and next(find_hidden(schema), None) is not None:  # any other was read with care
            changes[name] = clean_schema(schema)
    return replace(tool, **changes) if changes else tool


def clean_schema(schema: Schema) -> dict[str, Json]:
    """Return ``schema`` with nothing hidden in its titles, descriptions, comments and examples, at any depth."""
    written: dict[str, Json] = {}
    for key, value in schema.items():
        if key in _TEXTS:
            written[key] = clean_data(value)
        elif key in SINGLE and isinstance(value, Mapping):
            written[key] = clean_schema(value)
        elif key in LISTED and isinstance(value, list):
            written[key] = [clean_schema(one) if isinstance(one, Mapping) else one for one in value]
        elif key in _BY_NAME and isinstance(value, Mapping):
            written[key] = {name: clean_schema(one) if isinstance(one, Mapping) else one for name, one in value.items()}
        else:
            written[key] = value
    return written
