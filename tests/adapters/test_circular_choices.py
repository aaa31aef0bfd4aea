"""Schemas that are nothing but references to themselves, as strict tools of a provider."""

from __future__ import annotations

import pytest

from toolwire.adapters.schema import ToolSchema
from toolwire.core.model import Schema


@pytest.mark.requirement("XL-090")
@pytest.mark.parametrize("circle", [{"$ref": "#/$defs/A"}, {"anyOf": [{"$ref": "#/$defs/A"}]}])
def test_writing_arguments_ends_for_a_schema_that_only_refers_to_itself(circle: Schema) -> None:
    schema: Schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": circle}}
    strict = ToolSchema(schema=schema, is_strict=True, losses=(), original_names={}, source=schema)
    assert strict.write_arguments({"a": "text"}) == {"a": "text"}
