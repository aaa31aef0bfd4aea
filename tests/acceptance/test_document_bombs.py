"""Documents that try to cost more than their size: each command works on them within a bound of processor time."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from toolwire import Problem
from toolwire.validation import compile_schema
from toolwire.validation.cost import SchemaCost

Schema = dict[str, Any]
CPU_S: Final = 60
"""Processor time, which another program on this machine does not use up; without bounds most of these take minutes."""
LARGEST: Final = 16_000_000
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


CHILD: Final = """
import json, sys
from toolwire.cli import main
sys.set_int_max_str_digits(0)
for argv in json.loads(sys.argv[1]):
    try:
        code = main(argv)
    except SystemExit as end:
        code = end.code
    print(f"DONE {code}", flush=True)
"""


@pytest.mark.requirement("D-17", "D-15", "AT-02")
@pytest.mark.parametrize("bomb", BOMBS)
def test_cost_of_a_document_is_proportional_to_its_size(bomb: str, tmp_path: Path) -> None:
    commands: list[list[str]] = []
    written: list[Path] = []
    for wire, kinds in ((openapi, ("opentool",)), (opentool, ("mcp",)), (otc, ("openapi",)), (mcp, ("opentool",))):
        path = tmp_path / f"{wire.__name__}.json"
        path.write_text(json.dumps(wire(BOMBS[bomb])))
        commands.append(["check", str(path)])
        for kind in ALL_KINDS or kinds:
            written.append(tmp_path / f"{wire.__name__}-{kind}.json")
            commands.append(["convert", str(path), "--to", kind, "--output", str(written[-1])])
    limit = (resource.RLIMIT_CPU, (CPU_S, CPU_S))
    done = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps(commands)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(*limit),
    )
    assert (done.stdout.count("DONE "), "Traceback" in done.stderr) == (len(commands), False)
    assert max((path.stat().st_size for path in written if path.exists()), default=0) < LARGEST


@pytest.mark.requirement("D-17")
def test_validation_errors_do_not_copy_large_values() -> None:
    cost = SchemaCost(BOMBS["required"])
    assert cost.allows_errors({})
    assert not cost.allows_errors({"x": [[]] * 1_000})
    problem = compile_schema(BOMBS["required"])({"x": [[]] * 1_000})
    assert isinstance(problem, Problem)
    assert "is required" in problem.message
