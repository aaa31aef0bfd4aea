"""Read and write one tool definition: ``id``, ``name``, ``version``, the schemas and the requirements.

Rules:
- ``Toolkit.Name`` in the id says what a tool is called here; what the server calls it is only kept.
- A definition that cannot be called is no definition; any other odd member is passed over.
"""
# OTC-001, OTC-043

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from toolwire.core.catalog import NAME, VERSION, build_toolkit_name
from toolwire.core.model import Json, Tool
from toolwire.framing import xllm
from toolwire.framing.call_context import read_requirements, write_requirements
from toolwire.framing.jsontext import get_object

from .schema import describe_schema, inline_references

MAX_VERSION = 64


class WireSchemas(NamedTuple):
    """The schemas of a tool as this protocol writes them."""

    input: Json
    output: Json


def write_schemas(tool: Tool) -> WireSchemas:
    """Return the schemas of ``tool``: without references, each parameter with a description."""
    output = tool.output_schema
    return WireSchemas(describe_schema(tool.input_schema), None if output is None else inline_references(output))


def write(tool: Tool, name: str, schemas: WireSchemas | None = None) -> dict[str, Json]:
    """Return OXP's definition of ``tool``, listed as ``name``; with its ``schemas`` if they are written already."""
    # OTC-001..012, OXP-004, OXP-006
    schemas = write_schemas(tool) if schemas is None else schemas
    data: dict[str, Json] = {
        "id": tool.id,
        "name": name,
        "description": tool.description or f"The tool {name}.",
        "version": tool.version,
        "input_schema": schemas.input,
        "output_schema": schemas.output,
    }
    return {**data, "requirements": write_requirements(tool.requirements)} if tool.requirements else data


def write_policy(tool: Tool) -> dict[str, Json]:
    """Return the ``x-llm`` object of ``tool``, and whether it only reads."""
    return {**xllm.write(tool), "readOnly": True} if tool.safe else xllm.write(tool)


def read(entry: Mapping[str, Json], unmarked: xllm.Policy = xllm.SILENT_POLICY) -> tuple[Tool, str] | None:
    """Return the tool that ``entry`` defines and the id its server knows it by; None for what cannot be called.

    ``unmarked`` is the policy of a tool without ``x-llm``.
    """
    name, wire_id = _get_text(entry.get("name")), _get_text(entry.get("id"))
    wire_id = wire_id or name
    declared = xllm.read(entry["x-llm"]) if "x-llm" in entry else unmarked
    if not wire_id or not declared.exposed:
        return None
    id_parts = _Id.read(wire_id)
    toolkit = get_object(entry, "toolkit")
    own_name = _choose_name(id_parts.name, name)
    tool = Tool(
        name=own_name,
        original_name="" if own_name.replace("-", "_") == id_parts.name.replace("-", "_") else id_parts.name,
        toolkit=build_toolkit_name(id_parts.toolkit or _get_text(toolkit.get("name"))),
        version=_choose_version(id_parts.version, entry.get("version"), toolkit.get("version")),
        description=_get_text(entry.get("description")),
        input_schema=_read_input(entry),
        output_schema=_read_output(entry),
        requirements=read_requirements(entry.get("requirements")),
        safe=get_object(entry, "x-llm").get("readOnly") is True,
        hints=declared.build_hints(),
        **declared.list_tool_members(),
    )
    return tool, wire_id


class _Id(NamedTuple):
    """The parts of ``Toolkit.Name@version``; the toolkit and the version may be missing."""

    toolkit: str
    name: str
    version: str

    @classmethod
    def read(cls, text: str) -> _Id:
        full, _, version = text.partition("@")
        toolkit, _, name = full.rpartition(".")
        return cls(toolkit, name, version)


def _choose_name(from_id: str, listed: str) -> str:
    """The id's name, with the dashes that an id cannot have where the listed name has them."""
    #
    if listed.replace("-", "_") == from_id and NAME.fullmatch(listed):
        return listed
    return re.sub(r"[^A-Za-z0-9_-]+", "_", from_id)[:64] or "tool"


def _choose_version(from_id: str, *candidates: Json) -> str:
    """Return the first that is a version; in an id a plain number may stand for one."""
    #
    for text in (f"{from_id}.0.0" if from_id.isdecimal() else from_id, *candidates):
        if isinstance(text, str) and len(text) <= MAX_VERSION and VERSION.fullmatch(text):
            return text
    return "1.0.0"


def _read_input(entry: Mapping[str, Json]) -> Mapping[str, Json]:
    """Plain, under ``parameters``, or under ``input.parameters`` with ``required`` beside it."""
    # A-35, OTC-008
    for given in (entry.get("input_schema"), entry.get("inputSchema"), entry.get("input")):
        if isinstance(given, dict):
            parameters = given.get("parameters")
            if not isinstance(parameters, dict) or "properties" in given:
                return given
            beside = {"required": given["required"]} if isinstance(given.get("required"), list) else {}
            return {**beside, **parameters}
    return {}


def _read_output(entry: Mapping[str, Json]) -> Mapping[str, Json] | None:
    """A schema, ``null`` for no output, or the ``output`` of the RFC's section 5.2, which names its one value."""
    if "output_schema" in entry:
        schema = entry["output_schema"]
        return schema if isinstance(schema, dict | None) else {}
    output = get_object(entry, "output")
    modes = output.get("available_modes")
    if isinstance(modes, list) and "value" not in modes:
        return None
    properties = get_object(get_object(get_object(output, "value"), "parameters"), "properties")
    return (
        get_object(properties, "result")
        if len(properties) == 1
        else get_object(get_object(output, "value"), "parameters")
    )


def _get_text(data: Json) -> str:
    return data if isinstance(data, str) else ""
