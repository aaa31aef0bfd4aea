"""An example call that is printed is one that the tool takes."""

from __future__ import annotations

from typing import Any

import pytest

from toolwire.core.model import Tool
from toolwire.validation import compile_schema
from toolwire.validation.example_arguments import build_example_arguments

TEXT = {"type": "string"}
VARIANTS = {
    "type": "object",
    "required": ["options"],
    "properties": {"options": {}, "ids": {}},
    "allOf": [{"type": "object", "properties": {"options": {"type": "integer"}}}],
    "anyOf": [
        {"required": ["ids"], "properties": {"ids": {"type": "array"}}},
        {"required": ["whole"], "properties": {"whole": {"type": "object"}}},
    ],
}


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
        *(
            {"properties": {"v": {"type": "string", **words}}, "required": ["v"]}
            for words in (
                {"pattern": "^arn:((aws)|(aws-cn)):iam::[0-9]{12}:role/.*$", "minLength": 20, "maxLength": 2048},
                {"pattern": r"^(?:subnet|vpc)-([0-9a-f]{8}|[0-9a-f]{17})$", "maxLength": 30},
                {"pattern": "^ssh-(rsa|dss) |^ecdsa-sha2-nistp(256|384) "},
                {"pattern": r"^[^a-z\]]+\\d\.(x|y)?$"},
                {"pattern": r"^[^\p{L}]{3}$"},  # no class that Python's re reads
                {"pattern": "^-{5}BEGIN-{5}\u000d?\u000a([A-Za-z0-9/+]{64})*$"},
            )
        ),
        {"properties": {"v": {"type": "object", "minProperties": 2}}, "required": ["v"]},
        {
            "properties": {"v": {"oneOf": [{"$ref": "#/$defs/Pet", "properties": {"kind": {"enum": ["Cat"]}}}]}},
            "required": ["v"],
            "$defs": {"Pet": {"type": "object", "properties": {"kind": TEXT}, "required": ["kind"]}},
        },
        {"properties": {"v": VARIANTS}, "required": ["v"]},
        {
            "properties": {"v": {"oneOf": [{"type": "null", "const": 1}, {"type": "array", "items": TEXT}]}},
            "required": ["v"],
        },
        {
            "properties": {"v": {"allOf": [{"required": ["n"]}, {"properties": {"n": {"type": "boolean"}}}]}},
            "required": ["v"],
        },
        {
            "properties": {"kind": {"enum": ["x", "y"]}, "size": {"type": "integer"}},
            "required": ["kind"],
            "allOf": [
                {"if": {"properties": {"kind": {"enum": ["x"]}}, "required": ["kind"]}, "then": {"required": ["size"]}}
            ],
        },
        {"properties": {"size": {"type": "string", "examples": [2, "big"]}}, "required": ["size"]},
    ],
)
def test_example_arguments_fit_the_schema_of_the_tool(schema: dict[str, Any]) -> None:
    schema = {"type": "object", **schema}
    tool = Tool(name="t", description="A tool.", input_schema=schema)
    arguments = build_example_arguments(tool)
    assert arguments
    assert compile_schema(schema)(arguments) is None
