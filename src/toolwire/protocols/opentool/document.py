"""Write a catalog as an OpenTool document that any OpenTool client can load, and read such a document.

Rules:
- What the small schema cannot say stands beside it, exact, under ``x-json-schema``: on a parameter or a return, or on
  the function where only the whole input says it (shared definitions, rules between arguments).
- Reading drops what cannot be a tool, keeps the rest, and notes what it dropped.
- ``server.url`` of a document is never called: calls go where the person pointed.
"""
#

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple, TypeGuard

from toolwire.core.catalog import VERSION, Catalog, build_toolkit_name
from toolwire.core.codec import Describe
from toolwire.core.model import Json, Kind, Problem, Schema, Tool
from toolwire.core.tool_names import assign_names, describe_renamed
from toolwire.framing import jsontext, xllm
from toolwire.framing.call_context import read_requirements, write_requirements
from toolwire.framing.jsontext import get_text
from toolwire.validation.foreign_schema import read_foreign_tool
from toolwire.validation.json_size import MAX_PARTS, TOO_LARGE, is_within_size

from . import schema
from .narrow_schema import Walk

SPECIFICATION = "1.1.0"
EXACT = "x-json-schema"
POLICY = "x-llm"
REQUIREMENTS = "x-requirements"
PROGRESS = "progress"
"""The event of a stream that says how far a function is, and is no part of its result."""
PROGRESS_SCHEMA: dict[str, Json] = {"type": "object", "properties": {}}

_MAX_NODES = 100_000
_NODES_OF_ANY = 2_000
_REPEATS = 16
"""How many nodes any document may have once its references are written out, and how many times its own beyond that."""
_NODES_OF_FUNCTION = 2_000
_NODES_OF_PARAMETER = 20
"""How many nodes the parameters of a function that is written may have, and a parameter where they have as many."""
_MAX_TITLE = 200


class Document(NamedTuple):
    """What a document offers: the catalog, the wire name of each tool whose own is another, and what was odd."""

    catalog: Catalog
    methods: Mapping[str, str]
    notes: tuple[str, ...]


def write(
    catalog: Catalog, version: str = SPECIFICATION, describe: Describe | None = None, server: Json = None
) -> dict[str, Json]:
    """Return ``catalog`` as a document of a version of the specification; ``{}`` without tools.

    ``describe`` gives one function; without it that is ``write_function``. ``server`` says where they are served.
    """
    # OTRPC-014, OT-031
    describe = write_function if describe is None else describe
    if not catalog.tools:
        return {}
    info = {"title": catalog.title, "description": catalog.description, "version": catalog.version}
    return {
        "opentool": version,
        "info": {name: text for name, text in info.items() if text or name != "description"},
        **({} if server is None else {"server": server}),
        "functions": [describe(tool, name) for name, tool in catalog.names.items()],
    }


def read(data: Json) -> Document | Problem:
    """Return what an OpenTool document of any version offers, or a Problem: it is none."""
    # OT-031
    functions = data.get("functions") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(data.get("opentool"), str) or not isinstance(functions, list):
        text = 'This is not an OpenTool document. It needs "opentool", a string, and "functions", an array.'
        return Problem(kind=Kind.BAD_ANSWER, message=text)
    info = jsontext.get_object(data, "info")
    title = get_text(info, "title")[:_MAX_TITLE] or "Tools"
    version = get_text(info, "version")[:_MAX_TITLE] or "1.0.0"
    walk = Walk(data, _count_allowed_nodes(data))
    names = assign_names(filter(None, (get_text(one, "name") for one in functions if isinstance(one, dict))))
    tools: dict[str, Tool] = {}
    methods: dict[str, str] = {}
    notes: list[str] = []
    is_marked = any(isinstance(one, dict) and POLICY in one for one in functions)
    unmarked = xllm.Policy() if is_marked else xllm.SILENT_POLICY  # QF-03
    for number, function in enumerate(functions):
        is_readable = is_within_size(function, MAX_PARTS)  # D-17
        tool = _read_function(function, names, title, version, walk, unmarked) if is_readable else TOO_LARGE
        if isinstance(tool, str):
            notes.append(f"function {number + 1} is left out: {tool}")
        elif tool.id in tools:
            notes.append(f"function {number + 1} is left out: {tool.name!r} is there already")
        else:
            tool = read_foreign_tool(tool, notes)  # O-34
            tools[tool.id] = tool
            if tool.original_name:
                methods[tool.name] = tool.original_name
                notes.append(describe_renamed(tool.original_name, tool.name))
    notes += [f"the reference {reference!r} could not be followed" for reference in sorted(walk.cuts)]
    if walk.numerals:
        notes.append(f"values of an enum of numbers that are strings, and are read as numbers: {walk.numerals}")
    if re.match(r"[12](?!\d)", data["opentool"]) is None:  # A-05, FD-10
        shown_version = data["opentool"][:_MAX_TITLE]
        notes.append(
            f"it is of version {shown_version!r} of OpenTool, which is not known: what is new in it is not read"
        )
    if walk.is_cut:
        notes.append("the schemas are too deep or too large to read whole: some stand for any value")
    catalog = Catalog(
        title=title, version=version, description=get_text(info, "description"), tools=tuple(tools.values())
    )
    return Document(catalog, methods, tuple(notes))


def write_function(tool: Tool, name: str) -> dict[str, Json]:
    """Return ``tool`` as the function ``name`` of a document."""
    required = frozenset(tool.required_parameters)
    parameters: list[dict[str, Json]] = []
    nodes_left = _NODES_OF_FUNCTION
    for one, part in tool.parameters.items():
        allowed = max(nodes_left, _NODES_OF_PARAMETER)
        walk = Walk(tool.input_schema, allowed)
        parameters.append(_write_described({"name": one}, part, walk) | {"required": one in required})
        nodes_left -= allowed - walk.nodes_left
    function: dict[str, Json] = {
        "name": name,
        "description": tool.description or name,
        "parameters": parameters,
    }
    if _read_parameters(parameters, Walk(None)) != tool.input_schema:
        for parameter in parameters:
            parameter.pop(EXACT, None)
        function[EXACT] = dict(tool.input_schema)  # plain data: the schema of a site is made when it is looked into
    if tool.output_schema is not None:
        walk = Walk(tool.output_schema, _NODES_OF_FUNCTION)
        gives = _write_described({"name": tool.output_name}, tool.output_schema, walk)
        function["return"] = gives
        if tool.streams:
            function["stream"] = {"data": _write_piece(tool.output_name, tool.output_schema)}
    if tool.reports:
        progress = {"name": tool.output_name, "schema": PROGRESS_SCHEMA}
        function["stream"] = {**function.get("stream", {}), PROGRESS: progress}
    if tool.requirements:  # I-27
        function[REQUIREMENTS] = write_requirements(tool.requirements)
    policy = xllm.write(tool)
    function[POLICY] = policy | {"readOnly": True} if tool.safe else policy
    return function


def _count_allowed_nodes(data: Json) -> int:
    """Return how many nodes ``data`` may have with its references written out: at most some times what it has."""
    count = 0
    waiting = [data]
    while waiting and _REPEATS * count < _MAX_NODES:
        node = waiting.pop()
        if isinstance(node, dict | list):
            count += 1
            waiting.extend(node.values() if isinstance(node, dict) else node)
    return min(_NODES_OF_ANY + _REPEATS * count, _MAX_NODES)


def write_streamed(gives: Mapping[str, Json]) -> dict[str, Json]:
    """Return what the stream of a function says of its pieces, where its return ``gives`` is the list of them."""
    return _write_piece(get_text(gives, "name") or "result", _read_described(gives, Walk(None)))


def _write_piece(name: str, output: Schema) -> dict[str, Json]:
    walk = Walk(output, _NODES_OF_FUNCTION)
    return _write_described({"name": name}, jsontext.get_object(output, "items"), walk)


def _write_described(member: dict[str, Json], exact: Schema, walk: Walk) -> dict[str, Json]:
    """Return ``member``, a parameter or a return, with its description and schema; ``walk`` has what that refers to."""
    # S-2
    small = schema.write(exact, walk)
    if description := small.pop("description", ""):
        member["description"] = description
    member["schema"] = small
    if _read_described(member, Walk(None)) != exact:
        member[EXACT] = dict(exact)
    return member


def _read_function(
    function: Json, names: Mapping[str, str], title: str, version: str, walk: Walk, unmarked: xllm.Policy
) -> Tool | str:
    """Return the tool, or what keeps it from being one. ``unmarked`` is the policy of one without ``x-llm``."""
    if not isinstance(function, dict):
        return f"it is {jsontext.describe_type(function)}"
    wire_name = function.get("name")
    if not isinstance(wire_name, str) or not wire_name:
        return "it has no name"
    policy = xllm.read(function[POLICY]) if POLICY in function else unmarked
    if not policy.exposed:
        return "it is not for models"
    gives = function.get("return")
    events = jsontext.get_object(function, "stream")
    pieces = [gives for event, gives in events.items() if event != PROGRESS]
    output = _read_described(gives, walk) if isinstance(gives, dict) else None
    if output is None and pieces and isinstance(pieces[0], dict):  # a stream alone: its result is all of its pieces
        output = {"type": "array", "items": _read_described(pieces[0], walk)}
    exact = function.get(EXACT)
    description = get_text(function, "description")
    return Tool(
        name=names[wire_name],
        original_name="" if names[wire_name] == wire_name else wire_name,
        description="" if description == wire_name else description,
        toolkit=build_toolkit_name(title),
        version=version if VERSION.fullmatch(version) else "1.0.0",
        input_schema=exact if _is_arguments(exact) else _read_parameters(function.get("parameters"), walk),
        output_schema=output,
        output_name=(get_text(gives, "name") if isinstance(gives, dict) else "") or "result",
        safe=jsontext.get_object(function, POLICY).get("readOnly") is True,
        streams=bool(pieces),
        reports=PROGRESS in events,
        requirements=read_requirements(function.get(REQUIREMENTS)),
        hints=policy.build_hints(),
        **policy.list_tool_members(),
    )


def _read_parameters(parameters: Json, walk: Walk) -> dict[str, Json]:
    """Return the schema of the whole input, closed: the list names every parameter. The first of one name counts."""
    # A-07, I-28
    properties: dict[str, Json] = {}
    required: list[str] = []
    for parameter in parameters if isinstance(parameters, list) else ():
        name = parameter.get("name") if isinstance(parameter, dict) else None
        if not isinstance(name, str) or not name or name in properties:
            continue
        properties[name] = _read_described(parameter, walk)
        if parameter.get("required") is True:
            required.append(name)
    whole: dict[str, Json] = {"type": "object", "properties": properties}
    whole |= {"required": required} if required else {}
    return {**whole, "additionalProperties": False}


def _read_described(member: Mapping[str, Json], walk: Walk) -> dict[str, Json]:
    exact = member.get(EXACT)
    if _is_schema(exact):
        return dict(exact)
    full = schema.read(member.get("schema"), walk)
    description = get_text(member, "description")
    return full | {"description": description} if description else full


def _is_schema(data: Json) -> TypeGuard[dict[str, Json]]:
    return isinstance(data, dict) and isinstance(data.get("description", ""), str)


def _is_arguments(data: Json) -> TypeGuard[dict[str, Json]]:
    """Return whether ``data`` is a schema that names its arguments the way Tool reads them."""
    if not isinstance(data, dict) or data.get("type", "object") != "object":
        return False
    properties, required = data.get("properties", {}), data.get("required", [])
    return (
        isinstance(properties, dict)
        and all(_is_schema(part) for part in properties.values())
        and isinstance(required, list)
        and all(isinstance(name, str) for name in required)
    )
