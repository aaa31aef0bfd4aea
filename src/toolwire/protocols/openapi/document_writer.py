"""Write a catalog as an OpenAPI 3.1 document with ``x-llm``: one operation for each tool, at a path without variables.

Rules:
- The same catalog gives the same document, byte for byte.
- Every reference resolves inside the document: the definitions of a tool's schema become its components.
- A tool's own approval replaces the default: ``auto`` for tools that only read, ``per-call`` for others.
"""
# XL-087, XL-123

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Site
from toolwire.core.content import MEDIA_RANGES, find_content_kind
from toolwire.core.json_pointer import parse_fragment
from toolwire.core.model import Approval, Json, Kind, Schema, Tool
from toolwire.core.subschemas import change_subschemas
from toolwire.framing import xllm

from . import long_calls
from .document import identity
from .document.descriptions import describe_own
from .document.references import Unusable, resolve
from .request import query
from .request.query import QueryField, QueryForm

OAUTH: Final = "oauth"
KEY: Final = "key"
"""The names of the security schemes."""

_ILLEGAL = re.compile(r"[^A-Za-z0-9._-]")
_SCHEMAS = "#/components/schemas/"
_PROBLEM: dict[str, Json] = {
    "type": "object",
    "description": "A problem detail (RFC 9457). `kind` is a code for the reason.",
    "required": ["type", "title", "status", "detail", "kind"],
    "properties": {
        "type": {"type": "string", "const": "about:blank"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "One sentence: what went wrong and what to do."},
        "kind": {"type": "string", "enum": [kind.value for kind in Kind]},
        "can_retry": {"type": "boolean"},
        "retry_after_ms": {"type": "integer", "minimum": 0},
        "additional_prompt_content": {"type": "string"},
        "parameter_errors": {"type": "object", "additionalProperties": {"type": "string"}},
        "details": {"type": "object"},
    },
}
_RESPONSES = {
    "Refused": (
        "The call was refused: 400 malformed, 401 or 403 not allowed, 404 unknown tool, 413 or 415 body not "
        "accepted, 422 invalid arguments, 429 too many calls."
    ),
    "Failed": "The call failed: 500 in the tool, 502 behind it, 503 server busy (see Retry-After), 504 timeout.",
}


class PublishedTool(NamedTuple):
    """One tool of a catalog, its path and its operationId."""

    tool: Tool
    path: str
    operation_id: str


def list_published(catalog: Catalog) -> Iterator[PublishedTool]:
    """Yield every tool of ``catalog``: the newest of a name at ``/api/NAME``, older ones at ``/api/NAME@VERSION``."""
    unique = {(tool.toolkit, tool.name): name for name, tool in catalog.names.items()}
    taken = set(catalog.names)
    for name, tool in catalog.names.items():
        yield PublishedTool(tool, f"/api/{name}", name)
    for tool in catalog.tools:
        name = unique[tool.toolkit, tool.name]
        if catalog.names[name] is not tool:
            operation_id = f"{name}_{tool.version.replace('.', '_')}"
            # Operation identifiers are unique in a document, and another tool may be named like this one with its
            # version.
            while operation_id in taken:
                operation_id += "_"
            taken.add(operation_id)
            yield PublishedTool(tool, f"/api/{name}@{tool.version}", operation_id)


class Parts(NamedTuple):
    """The parts of a document that belong to one tool: its path item, and its schemas by component name."""

    path_item: Json
    schemas: Mapping[str, Json]


def write(catalog: Catalog, site: Site) -> dict[str, Json]:
    """Return the OpenAPI document of ``catalog``."""
    # XL-120, XL-124
    return assemble(catalog, write_outline(catalog, site), write_parts)


def assemble(catalog: Catalog, outline: dict[str, Json], describe: Callable[[Tool, str], Parts]) -> dict[str, Json]:
    """Return ``outline`` completed with the parts of every tool; ``describe`` makes those of one tool."""
    paths: dict[str, Json] = {**outline["paths"]}
    # Later parts win; their names begin with a unique operationId, so none replaces a common component.
    schemas: dict[str, Json] = {**outline["components"]["schemas"]}
    for tool, path, operation_id in list_published(catalog):
        parts = describe(tool, operation_id)
        paths[path] = parts.path_item
        schemas.update(parts.schemas)
    components = {**outline["components"], "schemas": schemas}
    return {**outline, "paths": dict(sorted(paths.items())), "components": components}


def write_outline(catalog: Catalog, site: Site) -> dict[str, Json]:
    """Return the document of ``catalog`` without its tools: title, servers, security and common components."""
    components: dict[str, Json] = {"schemas": {"Problem": _PROBLEM}, "responses": _write_responses()}
    info = {"title": catalog.title, "version": catalog.version}
    document: dict[str, Json] = {
        "openapi": "3.1.0",
        "info": {**info, "description": catalog.description} if catalog.description else info,
        "x-llm": {
            "version": "0.1",
            "name": catalog.title,
            "description": catalog.description,
            "defaultApproval": "per-call",
        },
        "servers": [{"url": site.root or "/"}],
        "paths": {},
        "components": components,
    }
    if any(tool.long for tool in catalog.tools):
        long_calls.describe(document)
    if site.keys:
        # One scheme for a key and for a token of unknown origin: both are sent as Bearer.
        schemes = {OAUTH: site.sign_in, KEY: {"type": "http", "scheme": "bearer"}}
        names = list_schemes(site)
        components["securitySchemes"] = {name: schemes[name] for name in names}
        document["security"] = [{name: []} for name in names]
    return document


def list_schemes(site: Site) -> tuple[str, ...]:
    """Return the names of the security schemes of ``site``; none if it needs no credentials."""
    # I-31
    if not site.keys:
        return ()
    signs_in = site.sign_in is not None
    return (OAUTH,) * signs_in + (KEY,) * (site.takes_keys or not signs_in)


def write_parts(tool: Tool, operation_id: str, schemes: Sequence[str] = ()) -> Parts:
    """Return the path item and the schemas of ``tool``, with ``operation_id``.

    With ``schemes``, the names of the security schemes, it says which scopes the tool needs.
    """
    schemas: dict[str, Json] = {}
    operation: dict[str, Json] = {"operationId": operation_id}
    description = describe_own(tool)
    if description:
        operation["summary"] = description
    if tool.toolkit:
        operation["tags"] = [tool.toolkit]
    if tool.deprecated:
        operation["deprecated"] = True
    if tool.scopes and OAUTH in schemes:
        operation["security"] = [{name: list(tool.scopes) if name == OAUTH else []} for name in schemes]
    operation["x-llm"] = _write_policy(tool)
    operation[identity.MEMBER] = identity.write(tool)
    arguments = _hoist_definitions(tool.input_schema, f"{operation_id}.input", schemas)
    if query.is_in_query(tool):
        operation["parameters"] = [
            _write_parameter(field, arguments["properties"][field.name]) for field in query.list_fields(tool)
        ]
    # A tool without arguments takes no body, so that a plain POST is enough to call it.
    elif tool.parameters:
        operation["requestBody"] = {
            "required": bool(tool.required_parameters),
            "content": {"application/json": {"schema": arguments}},
        }
    operation["responses"] = {
        "200": {"description": "What the tool returned.", "content": _write_content(tool, operation_id, schemas)},
        "4XX": {"$ref": "#/components/responses/Refused"},
        "5XX": {"$ref": "#/components/responses/Failed"},
    }
    if tool.long:
        # `Prefer` is in its text: as a parameter, it would be an argument of the tool.
        operation["responses"]["202"] = {"$ref": "#/components/responses/Accepted"}
    return Parts({"get" if query.is_in_query(tool) else "post": operation}, schemas)


def _write_content(tool: Tool, operation_id: str, schemas: dict[str, Json]) -> dict[str, Json]:
    """Return the ``content`` of a success; definitions of its schema are added to ``schemas``."""
    # MC-07: OpenAPI 3.1 describes bytes by their media type alone.
    if kind := find_content_kind(tool.output_schema):
        return {MEDIA_RANGES[kind]: {}}
    # A tool that returns nothing says so: an empty schema would promise any value.
    value = {"type": "null"} if tool.output_schema is None else tool.output_schema
    return {"application/json": {"schema": _hoist_definitions(value, f"{operation_id}.output", schemas)}}


def _write_policy(tool: Tool) -> dict[str, Json]:
    policy = xllm.write(tool)
    if tool.approval is None:
        # Written out for each tool: a reader that does not know the default of the root must not guess.
        policy["approval"] = (Approval.AUTO if tool.safe else Approval.PER_CALL).value
    return {**policy, "readOnly": True} if tool.safe else policy


def _write_parameter(field: QueryField, schema: dict[str, Json]) -> dict[str, Json]:
    parameter: dict[str, Json] = {"name": field.name, "in": "query"}
    if field.required:
        parameter["required"] = True
    if isinstance(schema.get("description"), str):
        parameter["description"] = schema["description"]
    if field.form is QueryForm.JSON:
        return {**parameter, "content": {"application/json": {"schema": schema}}}
    return {**parameter, "schema": schema}


def _write_responses() -> dict[str, Json]:
    content = {"application/problem+json": {"schema": {"$ref": f"{_SCHEMAS}Problem"}}}
    return {name: {"description": text, "content": content} for name, text in _RESPONSES.items()}


def _hoist_definitions(schema: Schema, owner: str, schemas: dict[str, Json]) -> dict[str, Json]:
    """Move the definitions of ``schema`` into ``schemas``, named after ``owner``, and return it with new references.

    A reference to another part of the schema leads to a copy of the complete schema. One without a target is dropped.
    """
    whole_is_needed = False

    def change_inner(node: Json, key: str, _: str) -> Json:
        # A closed object says so in every version of OpenAPI.
        return node if key == "additionalProperties" and isinstance(node, bool) else change(node)

    def change(node: Json) -> dict[str, Json]:
        nonlocal whole_is_needed
        if not isinstance(node, dict):
            return {} if node is not False else {"not": {}}
        built = change_subschemas(node, change_inner)
        # Names of the tool's own schema mean nothing inside a document, and an $id would change what references mean.
        for key in ("$schema", "$id", "$ref"):
            built.pop(key, None)
        reference = node.get("$ref")
        if isinstance(reference, str) and _resolves(schema, reference):
            moved = _move_reference(reference, owner)
            whole_is_needed = whole_is_needed or not reference.startswith("#/$defs/")
            built["$ref"] = moved
        return built

    built = change(dict(schema))
    definitions = built.pop("$defs", {})
    if isinstance(definitions, dict):
        schemas.update({f"{owner}.{_write_component_name(name)}": one for name, one in definitions.items()})
    if whole_is_needed:
        schemas[owner] = built
    return built


def _move_reference(reference: str, owner: str) -> str:
    if not reference.startswith("#/$defs/"):
        return f"{_SCHEMAS}{owner}{reference[1:]}"
    _, _, name, *rest = reference.split("/")
    return "/".join([f"{_SCHEMAS}{owner}.{_write_component_name(parse_fragment('/' + name)[0])}", *rest])


def _write_component_name(name: str) -> str:
    """Return ``name`` as the key of a component, where only letters, digits, ``.``, ``-`` and ``_`` are legal."""
    return _ILLEGAL.sub(lambda found: f"-{ord(found[0]):x}-", name)


def _resolves(schema: Schema, reference: str) -> bool:
    try:
        return isinstance(resolve(dict(schema), reference), dict | bool)
    except Unusable:
        return False
