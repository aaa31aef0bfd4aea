"""The published schemas of x-llm: ``python spec/xllm.py`` writes them, and the tables of their documentation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent / "x-llm" / "0.1"
PAGE: Final = Path(__file__).parents[1] / "docs" / "spec" / "x-llm.md"
BASE: Final = "urn:toolwire:x-llm/0.1/"
DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
END: Final = r"(?![\s\S])"  # "$" lets a line break follow in some engines

Node = dict[str, Any]

POINTER: Final[Node] = {"type": "string", "pattern": rf"^(?:/(?:[^~/]|~[01])*)*{END}"}
WINDOW: Final = (
    r"^(?:[1-9][0-9]{2,5}ms|[1-9][0-9]{0,5}s|(?:[1-9][0-9]{0,3}|[1-3][0-9]{4}|4[0-2][0-9]{3}|43[01][0-9]{2}|43200)m"
    rf"|(?:[1-9][0-9]?|[1-6][0-9]{{2}}|7[01][0-9]|720)h|(?:[1-9]|[12][0-9]|30)d){END}"
)
COUNT: Final[Node] = {"type": "integer", "minimum": 1, "maximum": 1_000_000}
APPROVAL: Final[Node] = {"enum": ["auto", "per-call"]}


def said(about: str, node: Node) -> Node:
    """Return ``node`` with what it means."""
    return {"description": about, **node}


RATE: Final[Node] = {
    "type": "object",
    "required": ["max", "window"],
    "properties": {
        "max": said("The number of calls.", COUNT),
        "window": said(
            'The period, from "100ms" to "30d": a number and ms, s, m, h or d.', {"type": "string", "pattern": WINDOW}
        ),
    },
}
RESULT: Final[Node] = {
    "type": "object",
    "properties": {
        "render": said(
            "How to show a result; a client shows an unknown form as text.",
            {"enum": ["text", "card", "list", "table", "json", "image", "link", "none"]},
        ),
        "title": said("The title, as a JSON Pointer into the result.", POINTER),
        "subtitle": said("The line below the title, as a JSON Pointer.", POINTER),
        "body": said("The text, as a JSON Pointer.", POINTER),
        "image": said("The URL of an image, as a JSON Pointer; http and https only.", POINTER),
        "url": said("The URL to open, as a JSON Pointer; http and https only.", POINTER),
        "fields": said("Further values to show, as JSON Pointers.", {"type": "array", "items": POINTER}),
        "maxItems": said("The number of items to show of a list.", {"type": "integer", "minimum": 1}),
    },
}
NEXT: Final[Node] = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["operationId"],
        "properties": {
            "operationId": said("The operation that follows.", {"type": "string", "minLength": 1}),
            "when": said("The condition, in words.", {"type": "string"}),
            "args": said(
                "Its arguments, as OpenAPI runtime expressions.",
                {"type": "object", "additionalProperties": {"type": "string"}},
            ),
        },
    },
}
TOKEN: Final = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+" + END


def said_of(ops: list[str], value: Node) -> Node:
    """Return that the value of a condition with one of ``ops`` is needed, and like ``value``."""
    return {
        "if": {"properties": {"op": {"enum": ops}}},
        "then": {"required": ["value"], "properties": {"value": value}},
    }


CONDITION: Final[Node] = {
    "type": "object",
    "required": ["pointer", "op"],
    "properties": {
        "pointer": said(
            "The argument, as a JSON Pointer into the arguments.",
            {"type": "string", "maxLength": 500, "pattern": rf"^(?:/(?:[^~/]|~[01])*)+{END}"},
        ),
        "op": said(
            "How the argument is compared.", {"enum": ["eq", "ne", "lt", "le", "gt", "ge", "in", "matches", "present"]}
        ),
        "value": {
            "description": "What it is compared with: a number for lt, le, gt and ge, a list for in, a regular "
            "expression for matches, true or false for present (default: true), any value for eq and ne.",
        },
    },
    "patternProperties": {"^x-": True},
    "additionalProperties": False,
    "allOf": [
        said_of(["eq", "ne"], {}),
        said_of(["lt", "le", "gt", "ge"], {"type": "number"}),
        said_of(["in"], {"type": "array", "minItems": 1, "maxItems": 1_000}),
        said_of(["matches"], {"type": "string", "minLength": 1, "maxLength": 2_000}),
        {"if": {"properties": {"op": {"const": "present"}}}, "then": {"properties": {"value": {"type": "boolean"}}}},
    ],
}

OPERATION: Final[Node] = {
    "title": "x-llm of an operation",
    "type": ["object", "boolean"],
    "properties": {
        "enabled": said("Whether models may call the operation. Default: true.", {"type": "boolean"}),
        "approval": said("The least consent a call needs. Default: the root's `defaultApproval`.", APPROVAL),
        "approvalWhen": said(
            "For which arguments a call is asked about whatever `approval` says. One that holds is enough.",
            {"type": "array", "maxItems": 16, "items": CONDITION},
        ),
        "question": said(
            "What the user is asked, with arguments as `{/name}`.", {"type": "string", "minLength": 1, "maxLength": 500}
        ),
        "blanketApprovalAllowed": said(
            "Whether a user may approve later calls too. Default: false.", {"type": "boolean"}
        ),
        "destructive": said("Whether a call destroys something. Default: false.", {"type": "boolean"}),
        "rateLimit": said("The rate limit for one user. A plain number is per minute.", {"anyOf": [RATE, COUNT]}),
        "hint": said("When to use the operation, for the model.", {"type": "string"}),
        "costIndicator": said(
            "The cost of a call for the user. Default: unknown.", {"enum": ["free", "credits", "paid"]}
        ),
        "result": said("How to show a result.", RESULT),
        "next": said("Operations that usually follow.", NEXT),
        "idempotent": said(
            "Whether a second equal call changes nothing more. Default: by the method.", {"type": "boolean"}
        ),
        "idempotencyKey": said("The header for an idempotency key.", {"type": "string", "pattern": TOKEN}),
        "long": said("Whether a call may go on when its caller leaves. Default: false.", {"type": "boolean"}),
        "readOnly": said("Whether a call only reads. Default: by the method.", {"type": "boolean"}),
    },
}
ROOT: Final[Node] = {
    "title": "x-llm at the root of an OpenAPI document",
    "type": "object",
    "properties": {
        "version": said(
            'The version of this specification, MAJOR.MINOR. Default: "0.1".',
            {"anyOf": [{"type": "string", "pattern": rf"^0{{1,6}}\.[0-9]{{1,6}}{END}"}, {"const": 0.1}]},
        ),
        "name": said("The name of the site, for people. Default: `info.title`.", {"type": "string", "minLength": 1}),
        "description": said("The purpose of the site, for people.", {"type": "string"}),
        "defaultApproval": said("The approval of operations without one. Default: per-call.", APPROVAL),
    },
}
LLM: Final[Node] = {
    "title": "/.well-known/llm.json",
    "type": "object",
    "required": ["openapi"],
    "properties": {
        "openapi": said("The URL of the OpenAPI document, relative to this file.", {"type": "string", "minLength": 1}),
        "auth": said(
            'How a user signs in, as a hint: "oauth2", "api-key", "none", or an object. The document decides.',
            {
                "anyOf": [
                    {"type": "string", "minLength": 1},
                    {
                        "type": "object",
                        "required": ["type"],
                        "properties": {
                            "type": said("The same values as the string form.", {"type": "string", "minLength": 1}),
                            "authorization_server": said("The issuer.", {"type": "string", "minLength": 1}),
                            "resource_metadata": said(
                                "The URL of the metadata of RFC 9728.", {"type": "string", "minLength": 1}
                            ),
                        },
                    },
                ]
            },
        ),
    },
}


def schemas() -> dict[str, Node]:
    """Return every published schema by its file."""
    parts = {"llm": LLM, "root": ROOT, "operation": OPERATION}
    found: dict[str, Node] = {}
    for name, node in parts.items():
        found[f"{name}.schema.json"] = _published(name, node)
        found[f"strict/{name}.schema.json"] = _published(f"strict/{name}", _strict(name, node))
    found["openapi.schema.json"] = _published("openapi", _document(ROOT, OPERATION, strict=False))
    strict = _document(_strict("root", ROOT), _strict("operation", OPERATION), strict=True)
    found["strict/openapi.schema.json"] = _published("strict/openapi", strict)
    return found


def tables() -> dict[str, str]:
    """Return the table of each object's members, as the page has it."""
    objects = {"llm.json": LLM, "root": ROOT, "operation": OPERATION, "condition": CONDITION}
    objects |= {"result": RESULT, "next": NEXT["items"]}
    return {name: "\n".join(_rows(node)) for name, node in objects.items()}


def page(text: str) -> str:
    """Return ``text`` with its tables written anew."""
    for name, table in tables().items():
        mark = f"<!-- members of {name} -->\n\n"
        text = re.sub(re.escape(mark) + r"(?:\|.*\n)*", lambda _, new=mark + table + "\n": new, text)
    return text


def _rows(node: Node) -> Iterator[str]:
    yield "| member | is | says |"
    yield "|---|---|---|"
    for name, one in node["properties"].items():
        needed = " (required)" if name in node.get("required", ()) else ""
        yield f"| `{name}` | {_sort(one)}{needed} | {one['description']} |"


def _sort(node: Node) -> str:
    match node:
        case {"const": value}:
            return f"`{json.dumps(value)}`"
        case {"enum": values}:
            return ", ".join(f'`"{value}"`' for value in values)
        case {"anyOf": choices}:
            return " or ".join(_sort(choice) for choice in choices)
        case {"type": "array", "items": inner}:
            return f"list of {_sort(inner)}s"
        case {"type": "object", "required": [*_]}:
            return "{" + ", ".join(f"`{name}`" for name in node["properties"]) + "}"
        case _:
            return str(node.get("type", "any"))


def _published(name: str, node: Node) -> Node:
    return {"$schema": DRAFT, "$id": f"{BASE}{name}.schema.json", **node}


def _strict(name: str, node: Node) -> Node:
    strict: Node = _closed(deepcopy(node))
    if name == "root":
        strict["required"] = ["version", "name"]
        strict["properties"]["version"] |= {"const": "0.1"}
    if name == "operation":
        strict["properties"]["rateLimit"]["anyOf"].pop()
        strict["properties"]["hint"] |= {"minLength": 1, "maxLength": 1024}
    return strict


def _closed(node: Node) -> Node:
    """Close every object with named members; members that begin with x- stay open."""
    for inner in node.get("properties", {}).values():
        _closed(inner)
    for inner in node.get("anyOf", ()):
        _closed(inner)
    if isinstance(node.get("items"), dict):
        _closed(node["items"])
    if "properties" in node:
        node |= {"patternProperties": {"^x-": True}, "additionalProperties": False}
    return node


def _document(root: Node, operation: Node, *, strict: bool) -> Node:
    nowhere: Node = {"properties": {"x-llm": False}} if strict else {}
    offered = {"type": "object", "properties": {"x-llm": {"$ref": "#/$defs/operation"}}}
    if strict:
        offered |= {"if": {"required": ["x-llm"]}, "then": {"required": ["operationId", "summary"]}}
    return {
        "title": "An OpenAPI document with x-llm",
        "type": "object",
        "required": ["openapi"],
        "properties": {
            "openapi": {"type": "string", "pattern": r"^3\."},
            "x-llm": {"$ref": "#/$defs/root"},
            "tags": {"type": "array", "items": nowhere},
            "paths": {"type": "object", "patternProperties": {"^/": {"$ref": "#/$defs/pathItem"}}},
            "components": {
                "type": "object",
                "properties": {
                    "pathItems": {"type": "object", "additionalProperties": {"$ref": "#/$defs/pathItem"}},
                    "schemas": {"type": "object", "additionalProperties": nowhere},
                },
            },
        },
        "$defs": {
            "root": root,
            "operation": operation,
            "offered": offered,
            "pathItem": {
                "type": "object",
                **nowhere,
                "properties": {
                    **nowhere.get("properties", {}),
                    **{method: {"$ref": "#/$defs/offered"} for method in METHODS},
                    "additionalOperations": {"type": "object", "additionalProperties": {"$ref": "#/$defs/offered"}},
                },
            },
        },
    }


def main() -> None:
    """Write the schemas, and the tables of the page."""
    for file, schema in schemas().items():
        (HERE / file).write_text(written(schema), encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def written(schema: Mapping[str, Any]) -> str:
    """Return ``schema`` as the text of its file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()
