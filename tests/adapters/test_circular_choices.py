"""Schemas that are nothing but references to themselves, as strict tools of a provider."""

from __future__ import annotations

import pytest

from toolwire.adapters.schema import ToolSchema


@pytest.mark.requirement("XL-090")
def test_writing_arguments_ends_for_a_schema_that_only_refers_to_itself() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"$ref": "#/$defs/A"}}}
    strict = ToolSchema(schema=schema, is_strict=True, losses=(), original_names={}, source=schema)
    assert strict.write_arguments({"a": "text"}) == {"a": "text"}
