"""An example call that is printed is one that the tool takes."""

from __future__ import annotations

from typing import Any

import pytest

from toolwire.cli.targets.example_call import build_example_arguments
from toolwire.core.model import Tool
from toolwire.validation import compile_schema

TEXT = {"type": "string"}


@pytest.mark.requirement("O-29")
@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"to": TEXT, "from": TEXT}, "dependentRequired": {"to": ["from"], "from": ["to"]}},
        {
            "properties": dict.fromkeys(("to", "from", "a", "b", "c"), TEXT),
            "if": {"anyOf": [{"required": [name]} for name in ("to", "from", "a", "b", "c")]},
            "then": {"required": ["to", "from"]},
        },
        {"properties": {"q": TEXT, "a": TEXT}, "if": {"required": ["a"]}, "then": {"required": ["q", "a"]}},
        {"properties": {"id": {"type": "string", "pattern": "^[0-9]+$"}}, "required": ["id"]},
        {"properties": {"id": {"type": "string", "pattern": r"^\d{6}$"}}, "required": ["id"]},
        {"properties": {"size": {"type": "string", "default": 2}}, "required": ["size"]},
        {"properties": {"size": {"type": "string", "examples": [2, "big"]}}, "required": ["size"]},
    ],
)
def test_example_arguments_fit_the_schema_of_the_tool(schema: dict[str, Any]) -> None:
    schema = {"type": "object", **schema}
    tool = Tool(name="t", description="A tool.", input_schema=schema)
    arguments = build_example_arguments(tool)
    assert arguments
    assert compile_schema(schema)(arguments) is None
