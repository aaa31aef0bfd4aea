"""Write the tools of a catalog as MCP lists them, and read such a list.

Rules:
- What a model is told is clean and cut; where that is not the whole description, the whole is in ``_meta``.
- A foreign server's ``readOnlyHint`` is read as a claim: ``approval="auto"`` of a tool that only reads. A client
  treats such a tool as one that changes something until its user has trusted it.
- A tool that cannot be read is left out; the others stay.
"""
# XL-071

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from toolwire.core.catalog import NAME, VERSION, Catalog, build_toolkit_name
from toolwire.core.codec import Describe
from toolwire.core.content import MEDIA_RANGES, build_content_schema, find_content_kind
from toolwire.core.model import Approval, Json, Schema, Tool
from toolwire.core.server_features import PAGE_URIS
from toolwire.core.subschemas import change_subschemas
from toolwire.core.tool_names import assign_names, describe_renamed
from toolwire.framing import xllm
from toolwire.framing.call_context import read_requirements, write_requirements
from toolwire.framing.jsontext import get_object
from toolwire.framing.jsontext import write as to_json
from toolwire.framing.text_cleaning import cap_text, clean
from toolwire.framing.tool_description import describe_tool, extract_description
from toolwire.validation.foreign_schema import read_foreign_schema
from toolwire.validation.json_size import MAX_PARTS, TOO_LARGE, is_within_size

from . import foreign_members
from .header_arguments import find_mirrored
from .output_schema import FASTMCP_MARK, OutputForm, build_output_form, lists_same, unwrap_schema
from .revision import IDENTITY_META, POLICY_META

_MAX_TITLE_LENGTH = 200
_SCHEMAS = {"inputSchema": "the input schema", "outputSchema": "the output schema"}
_SDK_TITLE = re.compile(r"[a-z_][A-Za-z0-9_]*Output")
_MEANINGFUL_NULLS: Final = frozenset({"const", "default", "example"})
"""The keywords whose null is a value."""
_MAX_NULL_DEPTH: Final = 60


class Identity(NamedTuple):
    """What a tool is called in a catalog; ``original_name`` is its name on the wire where that had to be changed."""

    toolkit: str
    name: str
    version: str = "1.0.0"
    original_name: str = ""


Naming: TypeAlias = Callable[[dict[str, Json], Identity], Identity]


def write(catalog: Catalog, describe: Describe | None = None) -> list[Json]:
    """Return the ``tools`` of a ``tools/list``: the newest version of each, under its unique name.

    ``describe`` gives one definition; without it that is ``write_tool``.
    """
    # XL-070, XL-076
    describe = write_tool if describe is None else describe
    return [describe(tool, name) for name, tool in catalog.names.items()]


class ReadCatalog(NamedTuple):
    """What a server's list comes to: a catalog, and a sentence for each tool that is left out or renamed."""

    catalog: Catalog
    findings: tuple[str, ...]


def read(server: Mapping[str, Json], description: str, entries: Iterable[Json]) -> ReadCatalog:
    """Return the catalog that a server's ``serverInfo`` and listed tools make, and what was changed in it.

    A name that is not legal here becomes ``Tool.original_name``, and ``Tool.name`` is one that is.
    """
    # XL-076
    title = server.get("title") or server.get("name")
    title = title if isinstance(title, str) and title else "Tools"
    version = server.get("version")
    version = version if isinstance(version, str) and version else "1.0.0"
    findings: list[str] = []
    listed = _read_schemas(_mend_nulls(_index_by_name(entries, findings), findings), findings)
    names = assign_names(listed)
    tools = _read_tools(listed, names, build_toolkit_name(title), _read_identity, findings)
    try:
        catalog = Catalog(title=title, version=version, description=description, tools=tools)
    except ValueError:  # declared toolkits can make two names meet; the names on the wire cannot
        tools = _read_tools(listed, names, build_toolkit_name(title), _return_listed, [])
        catalog = Catalog(title=title, version=version, description=description, tools=tools)
    renamed = [describe_renamed(tool.original_name, tool.name) for tool in catalog.tools if tool.original_name]
    return ReadCatalog(catalog, (*findings, *renamed))


def write_tool(tool: Tool, name: str, form: OutputForm | None = None) -> dict[str, Json]:
    """Return the definition of ``tool`` as it is listed under ``name``; ``form`` says what of its results is listed."""
    form = build_output_form(tool) if form is None else form
    policy = xllm.write(tool)
    if tool.safe:
        policy["readOnly"] = True
    identity: dict[str, Json] = {"toolkit": tool.toolkit, "name": tool.name, "version": tool.version}
    if not form.is_untyped:
        identity["wrapped"] = form.has_blocks or form.is_wrapped
    if tool.output_schema is not None and form.schema is None and not (form.is_untyped or form.has_blocks):
        identity["output"] = dict(tool.output_schema)
    if kind := find_content_kind(tool.output_schema):
        identity["content"] = kind
    identity["reports"] = tool.reports or tool.streams
    if tool.streams:  # CR-01: a gateway offers it as a stream over the protocols that have streams
        identity["streams"] = True
    if tool.requirements:
        identity["requirements"] = write_requirements(tool.requirements)  # I-27
    text = describe_tool(tool)
    if extract_description(text, tool.hint, tool.cost, tool.rate_limit) != tool.description:
        identity["description"] = tool.description
    data: dict[str, Json] = {
        "name": name,
        "description": text,
        "inputSchema": {**tool.input_schema, "type": "object"},
        "annotations": _write_annotations(tool),
        "_meta": {POLICY_META: policy, IDENTITY_META: identity},
    }
    passed_on = foreign_members.write_tool_members(tool)  # I-24
    data = {**passed_on, **data, "_meta": {**get_object(passed_on, "_meta"), **data["_meta"]}}
    if form.schema is not None:
        data["outputSchema"] = form.schema
    return data


def _write_annotations(tool: Tool) -> dict[str, Json]:
    """Return the hints about ``tool``; of a tool of another MCP server also what that one says, as it is a hint too.

    That a tool only reads is said where it holds here, and never on the word of another server alone.
    """
    passed_on = get_object(tool.hints, "mcp")
    annotations = get_object(passed_on, "annotations")
    title = passed_on.get("title")
    title = title if isinstance(title, str) and title else tool.description.partition("\n")[0]
    hints: dict[str, Json] = {"title": title} if title else {}
    hints["readOnlyHint"] = tool.safe and not tool.ask_when  # CC-01: a host asks about nothing that only reads
    if tool.destructive or "annotations" not in passed_on or annotations.get("destructiveHint") is False:
        hints["destructiveHint"] = tool.destructive  # else it is not known, which clients take for yes
    hints["idempotentHint"] = tool.idempotent or tool.safe or annotations.get("idempotentHint") is True
    hints["openWorldHint"] = annotations.get("openWorldHint") is not False
    return {**foreign_members.read_annotations(annotations), **hints}


def _read_title(entry: dict[str, Json], annotations: Mapping[str, Json]) -> str:
    """Return the title of a tool without hidden characters, cut where it is long; ``""`` if there is none."""
    for text in (entry.get("title"), annotations.get("title")):
        if isinstance(text, str) and text:
            return cap_text(clean(text).text, _MAX_TITLE_LENGTH)
    return ""


def _index_by_name(entries: Iterable[Json], findings: list[str]) -> dict[str, dict[str, Json]]:
    """Return the entries that have a name, by it; of two that share one, only the first can be called."""
    named: dict[str, dict[str, Json]] = {}
    for number, entry in enumerate(entries, 1):
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not name:
            findings.append(f"tool {number} of the list is left out: it has no name")
        elif name in named:
            findings.append(f"tool {number} of the list is left out: {name[:100]!r} is there already")
        elif not is_within_size(entry, MAX_PARTS):  # D-17
            findings.append(f"the tool {name[:100]!r} is left out: {TOO_LARGE}")
        else:
            named[name] = entry
    return named


def _mend_nulls(listed: Mapping[str, dict[str, Json]], findings: list[str]) -> dict[str, dict[str, Json]]:
    """Return ``listed`` with no null in schemas that says nothing; one sentence tells of all of them."""
    mended = {name: _remove_nulls(entry) for name, entry in listed.items()}
    odd = [name for name, entry in listed.items() if mended[name] is not entry]
    if odd:
        more = f" and {len(odd) - 1} more" if len(odd) > 1 else ""
        findings.append(f"members of schemas are null and are read as if they were not there: {odd[0][:100]!r}{more}")
    return mended


def _read_schemas(listed: Mapping[str, dict[str, Json]], findings: list[str]) -> dict[str, dict[str, Json]]:
    """Return ``listed`` with the schemas in JSON Schema 2020-12, mended; a sentence tells what was wrong in each."""
    # O-34
    read: dict[str, dict[str, Json]] = {}
    for name, entry in listed.items():
        found = {key: read_foreign_schema(one) for key in _SCHEMAS if isinstance(one := entry.get(key), dict)}
        changed = {key: one.schema for key, one in found.items() if one.schema is not entry[key]}
        findings += [
            f"{_SCHEMAS[key]} of the tool {name[:100]!r}: {text}" for key, one in found.items() for text in one.findings
        ]
        read[name] = {**entry, **changed} if changed else entry
    return read


def _read_tools(
    listed: Mapping[str, dict[str, Json]],
    names: Mapping[str, str],
    toolkit: str,
    naming: Naming,
    findings: list[str],
) -> tuple[Tool, ...]:
    tools: list[Tool] = []
    # QF-03: a server that uses x-llm has decided about a tool without it too.
    is_ours = any(POLICY_META in get_object(entry, "_meta") for entry in listed.values())
    unmarked = xllm.Policy() if is_ours else xllm.SILENT_POLICY
    for wire_name, entry in listed.items():
        name = names[wire_name]
        listed_as = Identity(toolkit, name, original_name="" if name == wire_name else wire_name)
        tool = _read_tool(entry, naming(entry, listed_as), unmarked)
        if isinstance(tool, Tool):
            tools.append(tool)
        elif tool:
            findings.append(f"the tool {wire_name[:100]!r} is left out: {tool}")
    return tuple(tools)


def _read_identity(entry: dict[str, Json], listed: Identity) -> Identity:
    match get_object(get_object(entry, "_meta"), IDENTITY_META):
        case {"toolkit": str(toolkit), "name": str(name), "version": str(version)} if (
            (not toolkit or NAME.fullmatch(toolkit)) and NAME.fullmatch(name) and VERSION.fullmatch(version)
        ):
            return Identity(toolkit, name, version)
        case _:
            return listed


def _return_listed(_: dict[str, Json], listed: Identity) -> Identity:
    return listed


def _read_tool(entry: dict[str, Json], identity: Identity, unmarked: xllm.Policy) -> Tool | str:
    """Return the tool, or why there is none: ``""`` where its server says that it is not for models."""
    input_schema = _read_input_schema(entry.get("inputSchema"))
    meta = get_object(entry, "_meta")
    ours = POLICY_META in meta
    policy = xllm.read(meta[POLICY_META]) if ours else unmarked
    if not policy.exposed:
        return ""
    if input_schema is None:
        return '"inputSchema" is not the schema of an object'
    annotations = get_object(entry, "annotations")
    members = policy.list_tool_members()
    members["destructive"] = policy.destructive or (not ours and annotations.get("destructiveHint") is True)
    # I-21: a server that knows MCP alone has no other way to say that a read needs no question. A client still takes it
    # for a claim: it counts after the user has trusted it.
    claims_read = not ours and annotations.get("readOnlyHint") is True and not members["destructive"]
    if claims_read:
        members["approval"], members["blanket_allowed"] = Approval.AUTO, True
    output_schema = _read_output_schema(entry)
    # O-21: what differs from the server's own list is no promise of that server.
    is_hint = bool(output_schema) and not lists_same(output_schema, entry.get("outputSchema"))
    is_hint = is_hint or isinstance(get_object(meta, IDENTITY_META).get("output"), dict)
    passed_on = foreign_members.read_tool_members(entry)
    pages = foreign_members.find_page_uris(passed_on)
    return Tool(
        **identity._asdict(),
        **members,
        description=_read_description(entry, policy),
        input_schema=input_schema,
        output_schema=output_schema,
        reports=get_object(meta, IDENTITY_META).get("reports") is not False,
        streams=get_object(meta, IDENTITY_META).get("streams") is True,
        requirements=read_requirements(get_object(meta, IDENTITY_META).get("requirements")),
        safe=claims_read or (ours and get_object(meta, POLICY_META).get("readOnly") is True),
        hints=policy.build_hints()
        | ({PAGE_URIS: pages} if pages else {})
        | {
            "mcp": {
                "name": entry["name"],
                "annotations": annotations,
                "title": _read_title(entry, annotations),
                "wrapped": _is_wrapping(entry),
                "untyped": _is_untyped(entry),
                "mirror": find_mirrored(input_schema),
                **({"hinted": True} if is_hint else {}),
                **({"members": passed_on} if passed_on else {}),
            }
        },
    )


def _read_description(entry: dict[str, Json], policy: xllm.Policy) -> str:
    whole = get_object(get_object(entry, "_meta"), IDENTITY_META).get("description")
    if isinstance(whole, str):
        return whole
    for text in (entry.get("description"), entry.get("title"), get_object(entry, "annotations").get("title")):
        if isinstance(text, str) and text:
            return extract_description(text, policy.hint, policy.cost, policy.rate_limit)
    return ""


def _read_input_schema(data: Json) -> Schema | None:
    """The schema where others can rely on its shape: an object with properties that are schemas; else None."""
    if not isinstance(data, dict) or data.get("type", "object") != "object":
        return None
    properties = data.get("properties", {})
    required = data.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        return None
    if not all(isinstance(name, str) for name in required):
        return None
    described = {name: {} if inner is True else inner for name, inner in properties.items()}
    if not all(isinstance(inner, dict) for inner in described.values()):
        return None
    return {**data, "properties": described} if described != properties else data


def _is_wrapping(entry: dict[str, Json]) -> bool:
    """Say whether the server puts a result that is no object under ``result``: ours, FastMCP and the Python SDK say so.

    The Python SDK says it by the titles of the schema: those of a class begin with a capital letter.
    """
    identity = get_object(get_object(entry, "_meta"), IDENTITY_META)
    schema = get_object(entry, "outputSchema")
    if identity.get("wrapped") is True or schema.get(FASTMCP_MARK) is True:
        return True
    if "wrapped" in identity or schema.get("required") != ["result"]:
        return False
    title, properties = schema.get("title"), get_object(schema, "properties")
    named = isinstance(title, str) and _SDK_TITLE.fullmatch(title) is not None
    return named and list(properties) == ["result"] and get_object(properties, "result").get("title") == "Result"


def _is_untyped(entry: dict[str, Json]) -> bool:
    if isinstance(entry.get("outputSchema"), dict):
        return _repeats_content(entry)
    return not get_object(get_object(entry, "_meta"), IDENTITY_META).keys() & {"wrapped", "content"}


def _repeats_content(entry: dict[str, Json]) -> bool:
    """Return whether the schema of the result is that of content blocks, under ``content``.

    Such a tool sends its blocks twice, and the schema says no more of them than MCP does: it counts as one without.
    """
    properties = get_object(get_object(entry, "outputSchema"), "properties")
    content = get_object(properties, "content")
    return list(properties) == ["content"] and content.get("type") == "array" and b'"mimeType"' in to_json(content)


def _read_output_schema(entry: dict[str, Json]) -> Schema | None:
    identity = get_object(get_object(entry, "_meta"), IDENTITY_META)
    kind = identity.get("content")
    if isinstance(kind, str) and kind in MEDIA_RANGES and "outputSchema" not in entry:
        return build_content_schema(kind)  # so that a gateway passes on that it is exactly one
    schema = entry.get("outputSchema")
    if isinstance(schema, dict) and not _repeats_content(entry):
        return unwrap_schema(schema) if _is_wrapping(entry) else schema
    if isinstance(identity.get("output"), dict):
        return get_object(identity, "output")
    return None if identity.get("wrapped") is False else {}


def _remove_nulls(entry: dict[str, Json]) -> dict[str, Json]:
    """Return ``entry`` of a list of tools with no null in its schemas that says nothing; itself if there is none."""
    schemas = {name: entry[name] for name in ("inputSchema", "outputSchema") if isinstance(entry.get(name), dict)}
    mended = {name: _remove_nulls_of(schema) for name, schema in schemas.items()}
    if all(mended[name] is schema for name, schema in schemas.items()):
        return entry
    return {**entry, **mended}


def _remove_nulls_of(schema: Json, depth: int = 0) -> Json:
    """Return ``schema`` without such nulls; what is nested very deep stays as it is."""
    if not isinstance(schema, dict) or depth > _MAX_NULL_DEPTH:
        return schema
    changed = change_subschemas(schema, lambda inner, *_: _remove_nulls_of(inner, depth + 1))
    members = {name: value for name, value in changed.items() if value is not None or name in _MEANINGFUL_NULLS}
    return schema if members == schema else members
