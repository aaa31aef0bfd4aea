"""Documents that cost much more to read than to write, of every kind."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any, Final

Schema = dict[str, Any]

CPU_S: Final = 60
"""Processor time, which another program on this machine does not use up; without bounds most of these take minutes."""

ALL_KINDS: Final = ("openapi", "opentool", "mcp") if os.environ.get("TOOLWIRE_LONG") else ()
"""The long form converts each document to every kind; else each kind is read once and written at least once."""


def levels(level: Callable[[Schema], Schema], count: int = 41) -> Schema:
    made = {f"a{number}": level({"$ref": f"#/$defs/a{number + 1}"}) for number in range(count)}
    return wrap_schema({"$ref": "#/$defs/a0"}, **{"$defs": {**made, f"a{count}": {"type": "string"}}})


def wrap_schema(inner: Schema, **more: Any) -> Schema:
    return {"type": "object", "properties": {"x": inner}, **more}


def nest_schema(count: int) -> Schema:
    schema: Schema = {"type": "string"}
    for _ in range(count):
        schema = wrap_schema(schema)
    return schema


NAMES: Final = [f"r{number}" for number in range(10_000)]

BOMBS: Final[dict[str, Schema]] = {
    "doubling allOf": levels(lambda after: {"allOf": [after, after]}),
    "doubling anyOf": levels(lambda after: {"anyOf": [after, after]}),
    "doubling oneOf": levels(lambda after: {"oneOf": [after, after]}),
    "doubling properties": levels(lambda after: {"type": "object", "properties": {"l": after, "r": after}}),
    "depth": nest_schema(60),
    "wide allOf": {
        "type": "object",
        "allOf": [{"properties": {name: {}}, "required": [name]} for name in NAMES[:3_000]],
    },
    "wide anyOf": wrap_schema({"anyOf": [{"type": "object", "properties": {name: {}}} for name in NAMES[:3_000]]}),
    "wide oneOf": wrap_schema({"oneOf": [{"const": name} for name in NAMES[:5_000]]}),
    "backtracking": wrap_schema({"type": "string", "pattern": "(a+)+$"}, patternProperties={"(a+)+$": {}}),
    "large patterns": wrap_schema({}, patternProperties={f"^(a{{1,{one}}}){{1,99}}$": {} for one in range(1, 900)}),
    "enumeration": wrap_schema({"enum": NAMES}),
    "large numbers": wrap_schema({"type": "number", "minimum": 10**4000, "multipleOf": 10**4000}),
    "circles": {
        "type": "object",
        "$dynamicAnchor": "n",
        "properties": {"x": {"$dynamicRef": "#n"}, "y": {"$ref": "#/$defs/m"}},
        "$defs": {"m": {"$dynamicAnchor": "m", "allOf": [{"$dynamicRef": "#n"}, {"$ref": "#/$defs/m"}]}},
    },
    "required": {"type": "object", "properties": {name: {"type": "string"} for name in NAMES}, "required": NAMES},
    "patterns of names": {"type": "object", "patternProperties": {f"^{name}": {} for name in NAMES}},
}


def move_definitions(schema: Schema, to: str) -> tuple[Schema, Schema]:
    """Return ``schema`` with its definitions taken out, to where a document keeps them, and these."""
    schema = json.loads(json.dumps(schema).replace("#/$defs/", to))
    return schema, schema.pop("$defs", {})


def openapi(schema: Schema) -> Schema:
    schema, definitions = move_definitions(schema, "#/components/schemas/")
    content = {"content": {"application/json": {"schema": schema}}}
    operation = {"operationId": "op", "requestBody": content, "responses": {"200": {"description": "", **content}}}
    paths = {"/a": {"post": {**operation, "x-llm": {"enabled": True}}}}
    info = {"title": "T", "version": "1"}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": definitions}}


def opentool(schema: Schema) -> Schema:
    schema, definitions = move_definitions(schema, "#/schemas/")
    function = {"name": "op", "description": "d", "parameters": [{"name": "arg", "required": False, "schema": schema}]}
    function["return"] = {"name": "r", "schema": schema}
    info = {"title": "T", "version": "1.0.0"}
    return {"opentool": "1.0.0", "info": info, "functions": [function], "schemas": definitions}


def otc(schema: Schema) -> Schema:
    tool = {"id": "T.op@1.0.0", "name": "op", "description": "d", "version": "1.0.0"}
    return {"items": [{**tool, "input_schema": schema, "output_schema": schema}]}


def mcp(schema: Schema) -> Schema:
    return {"tools": [{"name": "op", "description": "d", "inputSchema": schema, "outputSchema": schema}]}
