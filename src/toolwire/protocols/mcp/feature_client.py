"""List and read the resources and skills of an MCP server, list and fill in its prompts, and complete arguments.

Rules:
- At most 100 pages and 10,000 entries of each list are read, and no page twice.
- An entry that cannot be used is left out, and a sentence says so. Its texts are cleaned and cut.
- At most 100 values of a completion are read. One that is too long, or has hidden characters, is left out.
- A list or a completion is asked for only where the server declares it. One that is not as it should be is left out.
"""
# MC-08

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from toolwire.core.catalog import build_toolkit_name
from toolwire.core.codec import Flow, Peer
from toolwire.core.content import MAX_PARTS
from toolwire.core.model import Call, Json, Kind, Problem, Result, Tool, Value
from toolwire.core.server_features import (
    PAGE_URIS,
    FeatureKind,
    PromptDefinition,
    ResourceDefinition,
    ServerFeatures,
    SkillDefinition,
    UnlistedResources,
    build_skill,
    name_reader_toolkit,
    unescape,
)
from toolwire.framing.jsontext import get_object
from toolwire.framing.text_cleaning import cap_text, clean

from . import content_blocks, foreign_members, post_message, skill_entries
from .client import renew_session
from .handshake import MAX_PAGES, MAX_TOOLS, SESSION_ENDED
from .post_message import Conversation, McpClientSession, Refused
from .revision import COMPLETE, MAX_VALUES
from .stream_reader import fetch_answer

MAX_NAME: Final = 200
MAX_DESCRIPTION: Final = 4_000
_MAX_ARGUMENTS: Final = 100
_FINDINGS: Final = 20
_PAGE_TYPE: Final = "text/html;profile=mcp-app"
_INPUT: Final = "The server asks the user for input before it answers. That is possible only in tool calls."

_LISTS: Final = (
    ("resources", "resources/list", "resources", "uri"),
    ("resources", "resources/templates/list", "resourceTemplates", "uriTemplate"),
    ("prompts", "prompts/list", "prompts", "name"),
    ("skills", "skills/list", "skills", "uri"),
)
"""The capability, the method, and the member of its result, whose entries have the key."""

_NOT_ANSWERED: Final = frozenset({Kind.UNREACHABLE, Kind.UNAUTHORIZED, Kind.FORBIDDEN, Kind.TIMEOUT, Kind.OVERLOADED})

D = TypeVar("D")
_Answer = dict[str, Json] | Problem


def load(peer: Peer) -> Flow[ServerFeatures | Problem]:
    """Return what the server of ``peer`` offers beside tools."""
    declared = _get_session(peer).server_capabilities
    completes = "completions" in declared
    findings: list[str] = []
    resources: list[ResourceDefinition] = []
    prompts: list[PromptDefinition] = []
    skills: list[SkillDefinition] = []
    toolkit = build_toolkit_name(peer.site)
    for capability, method, member, key in _LISTS:
        if capability not in declared:
            continue
        listed = yield from _list_entries(peer, method, member)
        if isinstance(listed, Problem):
            if listed.kind in _NOT_ANSWERED:
                return listed
            findings.append(f"{method} is left out: {_read_text(listed.message)}")
        elif capability == "prompts":
            prompts += _read_entries(
                listed, key, lambda entry: _read_prompt(entry, toolkit, completes=completes), findings
            )
        elif capability == "skills":
            skills += _read_entries(listed, key, partial(_read_skill, toolkit=toolkit), findings)
        else:
            can_complete = completes and key == "uriTemplate"
            resources += _read_entries(
                listed, key, partial(_read_resource, toolkit=toolkit, completes=can_complete), findings
            )
    if "resources" in declared:
        pages: list[Json] = list(_list_unlisted_pages(peer.catalog.tools, resources))
        read_page = partial(_read_resource, toolkit=toolkit, completes=False)
        resources += {page.uri: page for page in _read_entries(pages, "uri", read_page, [])}.values()
    # Results name resources that no list has.
    unlisted = (UnlistedResources(_build_reader("resource", toolkit, "unlisted_resource", {})),)
    return ServerFeatures(
        tuple(resources),
        tuple(prompts),
        tuple(findings),
        tuple(skills),
        unlisted if "resources" in declared else (),
    )


def read(peer: Peer, call: Call) -> Flow[Result]:
    """Return the content of the resource, or the messages of the prompt, whose reader ``call`` runs.

    That of a completer is an object with ``values``, and with ``total`` and ``hasMore`` if the server says them. That
    of the finder of a skill is its entry.

    The value of a resource is its text, the JSON form of its bytes, or a list where it has several parts. That of a
    prompt is an object with ``description`` and ``messages``, each of which has ``role`` and ``content``.
    """
    completed = get_object(call.tool.hints, "mcp").get("completes")
    if isinstance(completed, dict):
        answer = yield from _ask(peer, COMPLETE, {**call.arguments, "ref": completed})
        return answer if isinstance(answer, Problem) else _read_completion(answer)
    if "skill" in get_object(call.tool.hints, "mcp"):
        return (yield from _get_skill(peer, call.arguments.get("uri")))
    name = get_object(call.tool.hints, "mcp").get("prompt")
    if isinstance(name, str):
        arguments: Json = {key: str(value) for key, value in call.arguments.items()}
        answer = yield from _ask(peer, "prompts/get", {"name": name, "arguments": arguments})
        return answer if isinstance(answer, Problem) else _read_messages(answer)
    uri = call.arguments.get("uri")
    answer = yield from _ask(peer, "resources/read", {"uri": uri})
    if isinstance(answer, Problem) and answer.kind not in _NOT_ANSWERED and isinstance(uri, str):
        # The server may have named it, in a result, with blanks or characters beyond ASCII: callers get it escaped.
        plain = unescape(uri)
        if plain != uri:
            again = yield from _ask(peer, "resources/read", {"uri": plain})
            answer = answer if isinstance(again, Problem) else again
    return answer if isinstance(answer, Problem) else _read_contents(answer)


def _get_skill(peer: Peer, uri: Json) -> Flow[Result]:
    # QF-09
    if "skills" not in _get_session(peer).server_capabilities:
        return Problem(kind=Kind.NOT_FOUND, message="The server does not declare any skills.")
    answer = yield from _ask(peer, "skills/get", {"uri": uri})
    if isinstance(answer, Problem):
        return answer
    entry = skill_entries.read(get_object(answer, "skill"))
    if entry is None or entry["uri"] != uri:
        return Problem(
            kind=Kind.BAD_ANSWER, message=f"The server answered without a valid entry of {str(uri)[:200]!r}."
        )
    return Value(entry)


def _get_session(peer: Peer) -> McpClientSession:
    conversation: Conversation = peer.memo
    return conversation.session


def _list_entries(peer: Peer, method: str, member: str) -> Flow[list[Json] | Problem]:
    entries: list[Json] = []
    seen: set[str] = set()
    params: dict[str, Json] = {}
    for _ in range(MAX_PAGES):
        answer = yield from _ask(peer, method, params)
        if isinstance(answer, Problem):
            return answer
        listed, cursor = answer.get(member), answer.get("nextCursor")
        if not isinstance(listed, list):
            return Problem(kind=Kind.BAD_ANSWER, message=f"The server's answer to {method} contains no list.")
        entries.extend(listed[: MAX_TOOLS - len(entries)])
        if not isinstance(cursor, str) or not cursor or cursor in seen or len(entries) == MAX_TOOLS:
            break
        seen.add(cursor)
        params = {"cursor": cursor}
    return entries


def _ask(peer: Peer, method: str, params: dict[str, Json]) -> Flow[_Answer]:
    """Return the result of ``method``; if the server has ended the session, it is asked once more in a new one."""
    conversation: Conversation = peer.memo
    for attempt in range(2):
        used = conversation.session
        id_ = f"{method}-{attempt}"
        response = yield from fetch_answer(post_message.write(used, method, params, id_), used, id_)
        if isinstance(response, Problem):
            return response
        if response.status == 404 and used.id and not attempt:
            if conversation.session is used:
                problem = yield from renew_session(conversation, used)
                if problem is not None:
                    return problem
            continue
        answer = post_message.read(response, id_)
        if isinstance(answer, Refused):
            return post_message.build_problem(response, answer)
        if isinstance(answer, dict) and answer.get("resultType", "complete") == "input_required":
            return Problem(kind=Kind.MISSING_REQUIREMENTS, message=_INPUT)
        return answer
    return SESSION_ENDED


def _read_entries(
    listed: list[Json], key: str, read_entry: Callable[[dict[str, Any]], D | None], findings: list[str]
) -> Iterator[D]:
    seen: set[str] = set()
    for number, entry in enumerate(listed, 1):
        named = entry.get(key) if isinstance(entry, dict) else None
        found = read_entry(entry) if isinstance(entry, dict) and isinstance(named, str) and named not in seen else None
        if found is not None and isinstance(named, str):
            seen.add(named)
            yield found
        elif len(findings) < _FINDINGS:
            findings.append(f"entry {number} of a list is left out: its {key!r} is not valid, or is there already")


def _read_resource(entry: dict[str, Any], toolkit: str, *, completes: bool) -> ResourceDefinition | None:
    uri: str = entry.get("uri") or entry["uriTemplate"]  # one of them is a text: by it the entry was found
    size, media_type = entry.get("size"), entry.get("mimeType")
    reader = _build_reader("resource", toolkit, _read_text(entry.get("name")) or str(uri)[:MAX_NAME], entry)
    reader = _add_members(reader, foreign_members.read_resource_members(entry))
    try:
        return ResourceDefinition(
            uri=uri,
            reader=reader,
            title=_read_text(entry.get("title")),
            media_type=_read_text(media_type),
            size=size if type(size) is int and size >= 0 else None,
            takes_uri=True,
            completer=_build_completer(reader, {"type": "ref/resource", "uri": uri}) if completes else None,
        )
    except ValueError:
        return None


def _read_skill(entry: dict[str, Any], toolkit: str) -> SkillDefinition | None:
    # QF-09
    read_ = skill_entries.read(entry)
    if read_ is None:
        return None
    frontmatter = get_object(read_, "frontmatter")
    reader = _build_reader("skill", toolkit, _read_text(frontmatter["name"]), frontmatter)
    try:
        return build_skill(read_, reader)
    except ValueError:
        return None


def _read_prompt(entry: dict[str, Any], toolkit: str, *, completes: bool) -> PromptDefinition | None:
    name = entry["name"]
    if not name or len(name) > MAX_NAME or clean(name).text != name:
        return None
    properties: dict[str, Json] = {}
    required: list[Json] = []
    arguments = entry.get("arguments")
    for one in arguments[:_MAX_ARGUMENTS] if isinstance(arguments, list) else ():
        if isinstance(one, dict) and isinstance(one.get("name"), str):
            text = _read_text(one.get("description"), MAX_DESCRIPTION)
            properties[one["name"]] = {"type": "string", **({"description": text} if text else {})}
            required += [one["name"]] if one.get("required") is True else []
    schema: dict[str, Json] = {"type": "object", "properties": properties, "required": required}
    reader = _build_reader("prompt", toolkit, name, entry, schema)
    completer = _build_completer(reader, {"type": "ref/prompt", "name": name}) if completes else None
    reader = _add_members(reader, foreign_members.read_prompt_members(entry))
    return PromptDefinition(reader=reader, title=_read_text(entry.get("title")), completer=completer)


def _build_completer(reader: Tool, reference: dict[str, Json]) -> Tool:
    hints: dict[str, Json] = {"mcp": {"completes": reference}}
    return replace(reader, toolkit=f"{reader.toolkit}:completion", input_schema={"type": "object"}, hints=hints)


def _build_reader(
    kind: FeatureKind, toolkit: str, name: str, entry: Mapping[str, Any], schema: dict[str, Json] | None = None
) -> Tool:
    return Tool(
        name=name,
        toolkit=name_reader_toolkit(toolkit, kind),
        description=_read_text(entry.get("description"), MAX_DESCRIPTION),
        input_schema=schema or {"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]},
        output_schema={},
        safe=True,
        hints={"mcp": {"prompt": name}} if kind == "prompt" else {},
    )


def _add_members(reader: Tool, members: dict[str, Json]) -> Tool:
    """Return ``reader`` with the ``members`` that are passed on with what it reads."""
    known = get_object(reader.hints, "mcp")
    return replace(reader, hints={**reader.hints, "mcp": {**known, "members": members}}) if members else reader


def _list_unlisted_pages(tools: Iterable[Tool], listed: Sequence[ResourceDefinition]) -> Iterator[dict[str, Json]]:
    """Yield an entry for each page that a tool names and the server does not list, as it need not."""
    # I-24
    for tool in tools:
        for uri in tool.hints.get(PAGE_URIS, ()):
            if not any(one.match(uri) is not None for one in listed):
                yield {"uri": uri, "name": tool.name, "mimeType": _PAGE_TYPE}


def _read_text(text: Json, most: int = MAX_NAME) -> str:
    return cap_text(clean(text).text, most) if isinstance(text, str) else ""


def _read_contents(answer: dict[str, Json]) -> Result:
    contents = answer.get("contents")
    if (
        not isinstance(contents, list)
        or len(contents) > MAX_PARTS
        or not all(isinstance(one, dict) for one in contents)
    ):
        text = f'The answer contains no list of "contents" with at most {MAX_PARTS} parts.'
        return Problem(kind=Kind.BAD_ANSWER, message=text)
    parts = [_read_part(one) for one in contents]
    value = Value(parts[0] if len(parts) == 1 else parts)
    return foreign_members.add_contents_members(value, answer, contents)


def _read_part(one: dict[str, Any]) -> Json:
    text = one.get("text")
    return text if isinstance(text, str) else content_blocks.read_block({"type": "resource", "resource": one})


def _read_completion(answer: dict[str, Json]) -> Result:
    completion = get_object(answer, "completion")
    listed, total, more = completion.get("values"), completion.get("total"), completion.get("hasMore")
    if not isinstance(listed, list):
        return Problem(kind=Kind.BAD_ANSWER, message='The server\'s completion contains no list of "values".')
    # What a user chooses goes to the server as it is, so a value is never changed.
    values: list[Json] = [one for one in listed[:MAX_VALUES] if isinstance(one, str) and _read_text(one) == one]
    read_: dict[str, Json] = {"values": values}
    if type(total) is int and total >= len(values):
        read_["total"] = total
    if isinstance(more, bool):
        read_["hasMore"] = more or len(listed) > MAX_VALUES
    return Value(read_)


def _read_messages(answer: dict[str, Json]) -> Result:
    messages = answer.get("messages")
    if not isinstance(messages, list) or len(messages) > MAX_PARTS:
        text = f'The answer contains no list of "messages" with at most {MAX_PARTS} items.'
        return Problem(kind=Kind.BAD_ANSWER, message=text)
    read_: list[Json] = []
    blocks: list[dict[str, Any]] = []
    for one in messages:
        role, block = (one.get("role"), one.get("content")) if isinstance(one, dict) else (None, None)
        if role not in ("user", "assistant") or not isinstance(block, dict):
            return Problem(kind=Kind.BAD_ANSWER, message="A prompt message lacks a role or content.")
        read_.append({"role": role, "content": content_blocks.read_block(block)})
        blocks.append(block)
    value = Value({"description": _read_text(answer.get("description"), MAX_DESCRIPTION), "messages": read_})
    return foreign_members.add_message_members(value, answer, blocks)
