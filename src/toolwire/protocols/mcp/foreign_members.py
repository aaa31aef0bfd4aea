"""Keep what another MCP server says that is not read here, so that a gateway passes it on.

Rules:
- Members of our own, and those by which the protocol marks a message, are never passed on: they would be forged.
- What is passed on has limits of size. A member that is too large is left out, and the others stay.
- A page of a tool (MCP Apps) keeps the scheme ``ui`` under the name that a gateway gives its server.
"""
# I-24

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from toolwire.core.model import Json, Problem, Result, Tool, Value
from toolwire.core.server_features import PAGE_SCHEME, URI_PREFIX, add_uri_prefix
from toolwire.framing import jsontext, problem_members
from toolwire.framing.jsontext import get_object
from toolwire.framing.response_fields import HEADERS, list_passed_fields
from toolwire.validation.json_size import is_within_size

from .revision import HEADERS_META

MAX_DEFINITION_PARTS: Final = 2_000
"""Parts of what is passed on of one tool, resource or prompt; a text counts as one for each 64 characters."""

MAX_RESULT_PARTS: Final = 20_000
"""Parts of what is passed on of one result beside its content."""

NOTE: Final = "mcp"
"""The note of a value that holds what is passed on beside it."""

_MAX_URIS: Final = 20
_MAX_NAME_LENGTH: Final = 200
_OWN: Final = "toolwire/"
_MARKS: Final = frozenset(
    {
        *(f"io.modelcontextprotocol/{name}" for name in ("protocolVersion", "clientInfo", "clientCapabilities")),
        *(f"io.modelcontextprotocol/{name}" for name in ("logLevel", "subscriptionId", "serverInfo", "related-task")),
        "progressToken",
    }
)
_TOOL: Final = frozenset({"name", "title", "description", "inputSchema", "outputSchema", "annotations", "execution"})
_ANNOTATIONS: Final = frozenset({"title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"})
_RESOURCE: Final = frozenset({"name", "title", "description", "uri", "uriTemplate", "mimeType", "size"})
_SKILL: Final = frozenset({"uri", "frontmatter", "resources"})
_PROMPT: Final = frozenset({"name", "title", "description", "arguments"})
_RESULT: Final = frozenset(
    {
        *("content", "structuredContent", "isError", "resultType", "contents", "messages", "description"),
        *("ttlMs", "cacheScope", "nextCursor", "inputRequests", "requestState", "task"),
    }
)
_BLOCK: Final = frozenset({"type", "text", "data", "mimeType", "resource"})
_PLAIN_BLOCK: Final = _BLOCK - {"resource"}
_CONTENTS: Final = frozenset({"uri", "text", "blob"})
_EMBEDDED: Final = frozenset({"uri", "text", "blob", "mimeType"})


def read_tool_members(entry: Mapping[str, Json]) -> dict[str, Json]:
    """Return the members of a listed tool that are passed on."""
    return _read_members(entry, _TOOL, MAX_DEFINITION_PARTS)


def read_annotations(annotations: Mapping[str, Json]) -> dict[str, Json]:
    """Return the annotations of a tool that MCP does not define."""
    return _read_members(annotations, _ANNOTATIONS, MAX_DEFINITION_PARTS)


def read_resource_members(entry: Mapping[str, Json]) -> dict[str, Json]:
    """Return the members of a listed resource or template that are passed on."""
    return _read_members(entry, _RESOURCE, MAX_DEFINITION_PARTS)


def read_prompt_members(entry: Mapping[str, Json]) -> dict[str, Json]:
    """Return the members of a listed prompt that are passed on."""
    return _read_members(entry, _PROMPT, MAX_DEFINITION_PARTS)


def read_skill_members(entry: Mapping[str, Json]) -> dict[str, Json]:
    """Return the members of the entry of a skill that are passed on."""
    return _read_members(entry, _SKILL, MAX_DEFINITION_PARTS)


def find_page_uris(members: Mapping[str, Json]) -> tuple[str, ...]:
    """Return the URIs of pages that the ``_meta`` of a tool names, at most 20."""
    found = {one: None for one in _list_texts(members.get("_meta")) if one.startswith(PAGE_SCHEME)}
    return tuple(found)[:_MAX_URIS]


def write_tool_members(tool: Tool) -> dict[str, Json]:
    """Return the members that are passed on with the definition of ``tool``."""
    return _rename_pages(get_object(get_object(tool.hints, "mcp"), "members"), tool)


def write_reader_members(reader: Tool) -> dict[str, Json]:
    """Return the members that are passed on with the resource or prompt behind which ``reader`` stands."""
    return dict(get_object(get_object(reader.hints, "mcp"), "members"))


def add_result_members(value: Value, answer: Mapping[str, Json], blocks: list[dict[str, Any]]) -> Value:
    """Return ``value`` with notes of what ``answer`` and each of its ``blocks`` say beside it.

    Where the value is the structured content, the blocks are content of their own, for the model.
    """
    members = _read_members(answer, _RESULT, MAX_RESULT_PARTS)
    meta = members.get("_meta")
    # How its server wrote the result, which is written here in another form.
    if isinstance(meta, dict) and meta.pop("fastmcp", None) is not None and not meta:
        del members["_meta"]
    if value.value is not answer.get("structuredContent") or not isinstance(value.value, dict):
        more = _read_blocks(blocks)
        return _add_notes(value, {"members": members, "blocks": more}) if members or more else value
    content = [{**block, "_meta": _without_marks(block["_meta"])} if "_meta" in block else block for block in blocks]
    return _add_notes(value, {"members": members, "content": content, "is_structured": True})


def read_failure(answer: Mapping[str, Json], blocks: list[dict[str, Any]]) -> dict[str, Json]:
    """Return what the ``answer`` of a failed call says beside a text that its problem holds whole, for its details."""
    plain = (block.get("text") for block in blocks if block.keys() <= {"type", "text"})
    texts = [text for text in plain if isinstance(text, str)]
    is_text = len(texts) == len(blocks) and sum(map(len, texts), len(texts)) <= problem_members.MAX_TEXT
    return _build_failure(answer, None if is_text else blocks)


def read_error(code: int, data: Json) -> dict[str, Json]:
    """Return what a JSON-RPC error says beside its sentence, for the details of its problem."""
    found = _leave_out_large({"code": code, "data": data}, MAX_RESULT_PARTS)
    return {NOTE: found} if "data" in found else {}


def write_failure_members(
    answer: dict[str, Any], problem: Problem, translate: Callable[[Json], Json], *, has_schema: bool
) -> Problem:
    """Add to the ``answer`` for ``problem`` what another server said beside its text; return what is left of it.

    With ``has_schema`` a schema is listed for what the tool returns. Some clients discard a failure whose structured
    content does not fit it, so that goes as text.
    """
    notes = get_object(problem.details, NOTE)
    content = notes.get("content")
    # The details may be of a server of another protocol, so they are read like an answer.
    members = {**get_object(notes, "members"), "structuredContent": notes.get("structuredContent")}
    found = _build_failure(members, content if isinstance(content, list) else None)
    passed = get_object(found, NOTE)
    if "content" in passed:
        answer["content"] = [translate(block) for block in passed["content"]]
    data = passed.get("structuredContent")
    if data is not None and not has_schema:
        answer["structuredContent"] = data
    elif data is not None:
        answer["content"] = [*answer["content"], {"type": "text", "text": jsontext.write(data).decode()}]
    answer.update(_merge(answer, get_object(passed, "members")))
    details = {**problem.details, NOTE: {name: notes[name] for name in ("code", "data") if name in notes}}
    return replace(problem, details={name: one for name, one in details.items() if one or name != NOTE})


def _build_failure(answer: Mapping[str, Json], blocks: list[Json] | None) -> dict[str, Json]:
    found: dict[str, Json] = {
        "content": blocks or None,
        "structuredContent": answer.get("structuredContent"),
        "members": _read_members(answer, _RESULT, MAX_RESULT_PARTS) or None,
    }
    found = _leave_out_large({name: one for name, one in found.items() if one is not None}, MAX_RESULT_PARTS)
    return {NOTE: found} if found else {}


def add_contents_members(value: Value, answer: Mapping[str, Json], contents: Sequence[Mapping[str, Json]]) -> Value:
    """Return ``value`` with notes of what the answer to a read and each part of a resource say beside it."""
    members = _read_members(answer, _RESULT, MAX_RESULT_PARTS)
    parts = [_read_members(one, _CONTENTS, MAX_RESULT_PARTS) for one in contents]
    for part in parts:
        if not isinstance(part.get("mimeType"), str):
            part.pop("mimeType", None)
    return _add_notes(value, {"members": members, "blocks": parts if any(parts) else []})


def add_message_members(value: Value, answer: Mapping[str, Json], blocks: Sequence[dict[str, Any]]) -> Value:
    """Return ``value`` with notes of what the answer to a prompt and the content of each message say beside it."""
    return _add_notes(
        value, {"members": _read_members(answer, _RESULT, MAX_RESULT_PARTS), "blocks": _read_blocks(blocks)}
    )


def rename_links(value: Value, rename: Callable[[str], str]) -> Value:
    """Return ``value``, of a tool or prompt, with the URIs of its links and embedded resources as ``rename`` says."""
    notes = dict(_get_notes(value))
    data = value.value
    if "content" in notes:
        notes["content"] = [_rename_link(one, rename) for one in notes["content"]]
    elif isinstance(data, list):
        data = [_rename_link(one, rename) for one in data]
    elif isinstance(data, dict) and isinstance(messages := data.get("messages"), list) and "type" not in data:
        data = {**data, "messages": [_rename_message(one, rename) for one in messages]}
    else:
        data = _rename_link(data, rename)
    if "blocks" in notes:
        notes["blocks"] = [_rename_link({"type": "resource", **one}, rename) for one in notes["blocks"]]
        for one in notes["blocks"]:
            del one["type"]
    return Value(data, {**(value.notes or {}), NOTE: notes} if notes else value.notes)


def _rename_message(message: Json, rename: Callable[[str], str]) -> Json:
    if not isinstance(message, dict) or "content" not in message or "role" not in message:
        return message
    return {**message, "content": _rename_link(message["content"], rename)}


def _rename_link(block: Json, rename: Callable[[str], str]) -> Json:
    match block:
        case {"type": "resource_link", "uri": str(uri)}:
            return {**block, "uri": rename(uri)}
        case {"type": "resource", "resource": {"uri": str(uri), **inner}}:
            return {**block, "resource": {**inner, "uri": rename(uri)}}
        case _:
            return block


def write_result_members(message: bytes, result: Result, tool: Tool | None, translate: Callable[[Json], Json]) -> bytes:
    """Return the ``message`` that answers a call of ``tool`` with what is passed on of its ``result``.

    ``translate`` returns a block of content in the words of the client's revision.
    """
    notes, fields = _get_notes(result), list_passed_fields(result)
    data = jsontext.read(message)
    if not (notes or fields) or not isinstance(data, dict) or not isinstance(result, Value):
        return message
    answer: dict[str, Json] = data["result"]
    if answer.get("isError") is not True:
        if notes.get("is_structured") is True and isinstance(result.value, dict):
            answer.setdefault("structuredContent", result.value)
            answer["content"] = [translate(block) for block in notes.get("content", ())]
        answer["content"] = _write_block_members(notes, answer["content"])
    data["result"] = answer = _merge(answer, _rename_pages(get_object(notes, "members"), tool))
    if fields:  # CR-04: standard input has no header fields, and the clients of other makers show none
        answer["_meta"] = {**get_object(answer, "_meta"), HEADERS_META: fields}
    return jsontext.write(data)


def write_contents_members(result: Result, answer: dict[str, Json], member: str) -> dict[str, Json]:
    """Return the ``answer`` to a read, whose ``member`` is a list, with what is passed on of the ``result``."""
    notes = _get_notes(result)
    parts: list[dict[str, Json]] = answer[member]
    more = notes.get("blocks")
    if isinstance(more, list) and len(more) == len(parts):
        both = zip(parts, more, strict=True)
        if member == "messages":
            parts = [
                {**one, "content": _merge(one["content"], members)} if isinstance(one.get("content"), dict) else one
                for one, members in both
            ]
        else:
            parts = [{**one, **members} for one, members in both]
    return _merge({**answer, member: parts}, get_object(notes, "members"))


def _write_block_members(notes: Mapping[str, Json], blocks: list[Any]) -> list[Any]:
    members = notes.get("blocks")
    if not isinstance(members, list) or len(members) != len(blocks):  # none are known, or the value is another one
        return blocks
    return [_merge(one, more) if isinstance(one, dict) else one for one, more in zip(blocks, members, strict=True)]


def has_members(value: Value) -> bool:
    """Return whether there is anything to pass on beside ``value``."""
    return value.notes is not None and (NOTE in value.notes or HEADERS in value.notes)


def _get_notes(result: Result) -> Mapping[str, Json]:
    return get_object(result.notes, NOTE) if isinstance(result, Value) and result.notes else {}


def _add_notes(value: Value, found: dict[str, Json]) -> Value:
    found = {name: one for name, one in found.items() if one}
    return Value(value.value, {**(value.notes or {}), NOTE: found}) if found else value


def _read_blocks(blocks: Sequence[Json]) -> list[Json]:
    """Return what each of ``blocks`` says beside its content; nothing if none says anything."""
    # Most blocks say nothing beside their content, and this is done for each result.
    for block in blocks:
        if not block.keys() <= _PLAIN_BLOCK:
            break
    else:
        return []
    read: list[Json] = []
    for block in blocks:
        members = _read_members(block, _BLOCK, MAX_RESULT_PARTS)
        resource = get_object(block, "resource")
        inner = _read_members(resource, _EMBEDDED, MAX_RESULT_PARTS)
        uri = resource.get("uri")
        if isinstance(uri, str) and (uri.startswith(PAGE_SCHEME) or "blob" in resource):
            inner["uri"] = uri
        read.append({**members, "resource": inner} if inner else members)
    return read if any(read) and is_within_size(read, MAX_RESULT_PARTS) else []


def _read_members(entry: Mapping[str, Json], known: frozenset[str], most: int) -> dict[str, Json]:
    """Return the members of ``entry`` that are not ``known``, and its ``_meta`` without marks."""
    more = entry.keys() - known
    if not more:
        return {}
    meta = _without_marks(entry["_meta"]) if "_meta" in more else {}
    if len(more) == 1 and "_meta" in more and not meta:
        return {}
    # Servers in Java write null for what is not set.
    found = {
        name: one
        for name, one in entry.items()
        if one is not None and name not in known and name != "_meta" and _is_passed(name)
    }
    found = _leave_out_large(found, most)
    if meta := _leave_out_large(meta, most):
        found["_meta"] = meta
    return found


def _leave_out_large(members: dict[str, Json], most: int) -> dict[str, Json]:
    """Return ``members`` with at most ``most`` parts: all, or those that are not larger than their share."""
    if not members or is_within_size(members, most):
        return members
    room_each = most // len(members)
    return {
        name: one for name, one in members.items() if len(name) <= _MAX_NAME_LENGTH and is_within_size(one, room_each)
    }


def _without_marks(meta: Json) -> Json:
    if not isinstance(meta, dict) or meta.keys() <= _MARKS:
        return {}
    return {name: one for name, one in meta.items() if one is not None and _is_passed(name)}


def _is_passed(name: str) -> bool:
    return not name.startswith(_OWN) and name not in _MARKS


def _rename_pages(members: Mapping[str, Json], tool: Tool | None) -> dict[str, Json]:
    prefix = None if tool is None else tool.hints.get(URI_PREFIX)
    if not isinstance(prefix, str):
        return dict(members)
    renamed: Json = _rename(members, {uri: add_uri_prefix(uri, prefix) for uri in find_page_uris(members)})
    return {**renamed}


def _rename(data: Json, names: Mapping[str, str]) -> Json:
    if isinstance(data, str):
        return names.get(data, data)
    if isinstance(data, Mapping):
        return {name: _rename(one, names) for name, one in data.items()}
    return [_rename(one, names) for one in data] if isinstance(data, list) else data


def _list_texts(data: Json) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, Mapping):
        for one in data.values():
            yield from _list_texts(one)
    elif isinstance(data, list):
        for one in data:
            yield from _list_texts(one)


def _merge(block: dict[str, Json], more: Mapping[str, Json]) -> dict[str, Json]:
    """Return ``block`` with ``more``, where it says nothing itself; the URI of what is embedded is its server's."""
    merged = {**more, **block}
    for name in ("_meta", "resource"):
        if isinstance(block.get(name), dict) and isinstance(more.get(name), dict):
            merged[name] = {**more[name], **block[name]}
    if "uri" in (pages := get_object(more, "resource")):
        merged["resource"]["uri"] = pages["uri"]
    return merged
