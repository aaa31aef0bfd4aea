"""Run JSON-Schema-Test-Suite through MCP and OpenAPI, in each dialect: no valid instance may be refused.

The suite is part of the source distribution of ``jsonschema``, which ``make schema-suite`` fetches. Cases whose schema
refers to a document on the network are left out, and so are the optional cases about formats.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spec.runs import record_run
from toolwire.core.check import ALLOW
from toolwire.core.model import Call, Tool
from toolwire.core.selection import Selection
from toolwire.protocols.mcp import document as mcp
from toolwire.protocols.openapi.tools.operations import read_operations
from toolwire.validation import build_arguments_check

SUITE = Path(".cache/json-schema/tests")
DIALECTS = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}
_REFERENCES = ("$dynamicRef", "$recursiveRef", "$ref")
_PROTOCOLS = ("MCP", "OpenAPI")


def main() -> None:
    """Print how many instances were tried and refused, and exit with 1 where a valid one was."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for draft in DIALECTS:
        for group, tests in iterate_groups(draft):
            for protocol in _PROTOCOLS:
                tool = read_tool(protocol, group, draft)
                for one in tests:
                    taken = tool is not None and build_arguments_check()(Call(tool, {"v": one["data"]})) is ALLOW
                    word = "valid" if one["valid"] else "invalid"
                    counts[draft, protocol, word] += 1
                    counts[draft, protocol, f"{word} refused"] += not taken
                    if one["valid"] and not taken:
                        print(f"{draft}, {protocol}: {group['description']}: {one['description']} is refused")
        for protocol in _PROTOCOLS:
            words = ("valid", "valid refused", "invalid", "invalid refused")
            print(f"{draft}, {protocol}: " + ", ".join(f"{counts[draft, protocol, word]} {word}" for word in words))
    refused = sum(count for (_, _, word), count in counts.items() if word == "valid refused")
    figures = {
        f"{draft}, {protocol}, valid": counts[draft, protocol, "valid"] for draft in DIALECTS for protocol in _PROTOCOLS
    }
    record_run("schema-suite", "make schema-suite", {**figures, "valid refused": refused}, passed=not refused)
    if refused:
        raise SystemExit(1)


def iterate_groups(draft: str) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield each group of cases of ``draft``, with its cases."""
    for file in sorted((SUITE / draft).rglob("*.json")):
        if file.parent.name == "format":
            continue
        for group in json.loads(file.read_text()):
            # The last one compares values that are references, which have to be moved here.
            if "localhost:1234" not in json.dumps(group["schema"]) and "naive" not in group["description"]:
                yield group, group["tests"]


def read_tool(protocol: str, group: dict[str, Any], draft: str) -> Tool | None:
    """Return a tool whose argument ``v`` has the schema of ``group``, as ``protocol`` reads it."""
    schema = group["schema"] if isinstance(group["schema"], dict) else {} if group["schema"] else {"not": {}}
    if protocol == "MCP":
        inner = place(schema, "#/properties/v")
        whole = {"$schema": DIALECTS[draft], "type": "object", "properties": {"v": inner}, "required": ["v"]}
        tools = mcp.read({}, "", [{"name": "t", "inputSchema": whole}]).catalog.tools
        return tools[0] if tools else None
    pointer = "#/components/schemas/Case"
    body = {"type": "object", "properties": {"v": {"$ref": pointer}}, "required": ["v"]}
    content = {"application/json": {"schema": body}}
    operation = {"operationId": "t", "requestBody": {"required": True, "content": content}, "responses": {}}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Suite", "version": "1"},
        "servers": [{"url": "https://suite.test"}],
        "jsonSchemaDialect": DIALECTS[draft],
        "paths": {"/t": {"post": operation}},
        "components": {"schemas": {"Case": place(schema, pointer)}},
    }
    offer = read_operations(document, "https://suite.test/openapi.json", Selection(include="all"))
    return offer.catalog.tools[0] if offer.catalog.tools else None


def place(schema: dict[str, Any], pointer: str) -> dict[str, Any]:
    """Return ``schema`` with its references to itself moved to ``pointer``, unless it has an address of its own."""
    text = json.dumps(schema)
    if '"$id"' in text or '"id"' in text:
        return schema
    if '"$recursiveRef"' in text:
        return {"$id": "https://suite.test/case", **schema}
    moved: dict[str, Any] = _move(schema, pointer)
    return moved


def _move(node: Any, pointer: str) -> Any:
    if isinstance(node, list):
        return [_move(one, pointer) for one in node]
    if not isinstance(node, dict):
        return node
    return {
        key: pointer + one[1:]
        if key in _REFERENCES and isinstance(one, str) and (one == "#" or one.startswith("#/"))
        else _move(one, pointer)
        for key, one in node.items()
    }


if __name__ == "__main__":
    main()
