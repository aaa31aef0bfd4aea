"""Open a session with an MCP server: negotiate the version, read its name, list its tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from toolwire.core.codec import Flow, Probe, fetch
from toolwire.core.http import Response, get_header
from toolwire.core.model import Json, Kind, Problem
from toolwire.core.url_display import show_url
from toolwire.framing.jsontext import get_object

from .header_arguments import find_fault
from .post_message import CLIENT, McpClientSession, Refused, get_capabilities, read, write
from .revision import DISCOVER, HANDSHAKE, SERVER_META, SESSION_HEADER, SKILLS, STATELESS, TASKS, UNSUPPORTED_VERSION
from .stream_reader import fetch_answer

MAX_PAGES = 100
MAX_TOOLS = 10_000
MAX_REPORTED_FAULTS = 20
_MAX_SESSION_ID = 1_000
REQUIRED_TASKS: Final = "tasks of 2025-11-25"
SESSION_ENDED: Final = Problem(
    kind=Kind.UNREACHABLE,
    message="The server has ended this session and opens no other. Connect to it again.",
    can_retry=True,
)
_NEEDS_KEY = (401, 403)


class OpenedEndpoint(NamedTuple):
    """An endpoint ready for calls: how to speak to it, and how it presents itself."""

    session: McpClientSession
    server: dict[str, Json]
    instructions: str


class AnsweredRequest(NamedTuple):
    """A request that got its result, and the response that carried it."""

    result: dict[str, Json]
    response: Response


def open_session(endpoint: str, probes: list[Probe], *, can_ask: bool = False) -> Flow[OpenedEndpoint | None]:
    """Return the endpoint opened for calls, or None; each look is added to ``probes``.

    The stateless revision is tried first: a server that speaks it has nothing to remember of us. One that refuses it
    and says what it speaks is taken at its word. With ``can_ask``, it is told that our user can be asked for input.
    """
    stateless = McpClientSession(endpoint=endpoint, version=STATELESS, can_ask=can_ask)
    opened = yield from _discover(stateless, probes)
    if isinstance(opened, Refused) and STATELESS in _list_revisions(opened):
        opened = yield from _discover(stateless, probes)
    if isinstance(opened, OpenedEndpoint):
        return opened
    if probes[-1].status is None or probes[-1].status in _NEEDS_KEY:
        return None
    spoken = _list_revisions(opened) if isinstance(opened, Refused) else ()
    version = next((known for known in HANDSHAKE if known in spoken), HANDSHAKE[0])
    begun = yield from _initialize(McpClientSession(endpoint=endpoint, can_ask=can_ask), version, probes)
    if isinstance(begun, Refused) and STATELESS in _list_revisions(begun):
        # A program that was slow to start, as one that is downloaded first: it began with our first question.
        begun = yield from _discover(stateless, probes)
    return begun if isinstance(begun, OpenedEndpoint) else None


def reopen_session(ended: McpClientSession) -> Flow[McpClientSession | Problem]:
    """Return a new session in place of one that the server has ended, or why there is none."""
    opened = yield from _initialize(McpClientSession(endpoint=ended.endpoint, can_ask=ended.can_ask), ended.version, [])
    if isinstance(opened, OpenedEndpoint):
        return opened.session
    # Whatever was sent to open it, the call was not.
    problem = opened if isinstance(opened, Problem) else SESSION_ENDED
    return replace(problem, details={**problem.details, "sent": False})


def list_tools(session: McpClientSession, probes: list[Probe], findings: list[str]) -> Flow[list[Json] | None]:
    """Return what every page of ``tools/list`` holds, or None where a page cannot be read.

    At most 100 pages and 10,000 tools are read, and no page twice. Tools that this client may not call are left out:
    since 2026-07-28 those whose schema marks arguments for headers wrongly, in 2025-11-25 those that run as tasks only.
    A sentence about each is added to ``findings``.
    """
    entries: list[Json] = []
    seen: set[str] = set()
    params: dict[str, Json] = {}
    for page in range(MAX_PAGES):
        answered = yield from _ask(session, "tools/list", params, 10 + page, probes)
        if not isinstance(answered, AnsweredRequest):
            return None
        listed, cursor = answered.result.get("tools"), answered.result.get("nextCursor")
        if not isinstance(listed, list):
            probes.append(_build_probe(session, answered.response.status, "its list of tools is not a list"))
            return None
        entries.extend(listed[: MAX_TOOLS - len(entries)])
        if not isinstance(cursor, str) or not cursor or cursor in seen or len(entries) == MAX_TOOLS:
            break
        seen.add(cursor)
        params = {"cursor": cursor}
        probes.append(_build_probe(session, answered.response.status, f"a page of tools, {len(entries)} so far"))
    if session.version in _FAULTS:
        entries = _remove_faulty(session, entries, probes, findings)
    probes.append(Probe("mcp", show_url(session.endpoint), 200, f"MCP {session.version}, tools: {len(entries)}", True))
    return entries


def _remove_faulty(
    session: McpClientSession, entries: list[Json], probes: list[Probe], findings: list[str]
) -> list[Json]:
    """Return ``entries`` without the tools that may not be called; the first of them are told of."""
    find_why = _FAULTS[session.version]
    sound: list[Json] = []
    reported = 0
    for entry in entries:
        why = find_why(session, entry) if isinstance(entry, dict) else ""
        if not why:
            sound.append(entry)
        elif reported < MAX_REPORTED_FAULTS:
            reported += 1
            name = entry["name"] if isinstance(entry, dict) and isinstance(entry.get("name"), str) else ""
            probes.append(_build_probe(session, 200, f"leaves out the tool {str(name)[:100]!r}: {why}"))
            findings.append(f"the tool {str(name)[:100]!r} is left out: {why}")
    return sound


def _find_header_fault(_: McpClientSession, entry: Mapping[str, Json]) -> str:
    """Return why a proxy could be misled about a call of the tool, or an empty string."""
    return find_fault(entry.get("inputSchema"))


def _find_required_task(session: McpClientSession, entry: Mapping[str, Json]) -> str:
    """Return why the tool cannot be called, if it runs only as a task as 2025-11-25 has them; else an empty string."""
    is_required = get_object(entry, "execution").get("taskSupport") == "required"
    return (
        "it runs only as a task of 2025-11-25" if is_required and REQUIRED_TASKS in session.server_capabilities else ""
    )


_FAULTS: Final[Mapping[str, Callable[[McpClientSession, Mapping[str, Json]], str]]] = {
    STATELESS: _find_header_fault,
    HANDSHAKE[0]: _find_required_task,
}
"""What is wrong with a tool, for each revision that has rules about it."""


def _list_revisions(refused: Refused) -> Sequence[Json]:
    """Return the revisions that a server says it speaks where it refuses ours; none where it says nothing of that."""
    data = refused.data if isinstance(refused.data, dict) else {}
    supported = data.get("supported")
    return supported if refused.code == UNSUPPORTED_VERSION and isinstance(supported, list) else ()


def _discover(session: McpClientSession, probes: list[Probe]) -> Flow[OpenedEndpoint | Refused | Problem | None]:
    answered = yield from _ask(session, DISCOVER, {}, 1, probes)
    if not isinstance(answered, AnsweredRequest):
        return answered
    versions = answered.result.get("supportedVersions")
    if not isinstance(versions, list) or STATELESS not in versions:
        probes.append(_build_probe(session, answered.response.status, f"does not speak MCP {STATELESS}"))
        return None
    probes.append(_build_probe(session, answered.response.status, f"speaks MCP {STATELESS}"))
    server = get_object(get_object(answered.result, "_meta"), SERVER_META)
    session = replace(session, server_capabilities=_read_offers(answered.result))
    return OpenedEndpoint(session, dict(server), _read_instructions(answered.result))


def _initialize(
    session: McpClientSession, wanted: str, probes: list[Probe]
) -> Flow[OpenedEndpoint | Refused | Problem | None]:
    params: dict[str, Json] = {
        "protocolVersion": wanted,
        "capabilities": get_capabilities(session, can_ask=session.can_ask),
        "clientInfo": CLIENT,
    }
    answered = yield from _ask(session, "initialize", params, 2, probes)
    if not isinstance(answered, AnsweredRequest):
        return answered
    version = answered.result.get("protocolVersion")
    if version not in HANDSHAKE:
        probes.append(_build_probe(session, answered.response.status, "wants a revision of MCP that we do not speak"))
        return None
    probes.append(_build_probe(session, answered.response.status, f"speaks MCP {version}"))
    id_, server_capabilities = _read_session_id(answered.response), _read_offers(answered.result)
    session = replace(session, version=version, id=id_, server_capabilities=server_capabilities)
    answered_notice = yield from fetch(write(session, "notifications/initialized", {}, None))
    status = None if isinstance(answered_notice, Problem) else answered_notice.status
    probes.append(_build_probe(session, status, "was told that the handshake is done"))
    return OpenedEndpoint(session, dict(get_object(answered.result, "serverInfo")), _read_instructions(answered.result))


def _ask(
    session: McpClientSession, method: str, params: dict[str, Json], id_: int, probes: list[Probe]
) -> Flow[AnsweredRequest | Refused | Problem | None]:
    response = yield from fetch_answer(write(session, method, params, id_), session, id_)
    if isinstance(response, Problem):
        probes.append(_build_probe(session, None, response.message))
        return response
    result = read(response, id_)
    if isinstance(result, dict):
        return AnsweredRequest(result, response)
    if response.status in _NEEDS_KEY:
        meaning = "needs a key"
    elif isinstance(result, Refused):
        meaning = f"answered {method} with error {result.code}"
    else:
        meaning = f"did not answer {method}: {result.message}"
    probes.append(_build_probe(session, response.status, meaning))
    return result if isinstance(result, Refused) else None


def _build_probe(session: McpClientSession, status: int | None, meaning: str) -> Probe:
    return Probe("mcp", show_url(session.endpoint), status, meaning)


def _read_session_id(response: Response) -> bytes:
    text = get_header(response.headers, SESSION_HEADER)
    return text.encode() if len(text) <= _MAX_SESSION_ID and text.isascii() and text.isprintable() else b""


def _read_offers(result: dict[str, Json]) -> frozenset[str]:
    """Return the capabilities that a server declares, of those that a client of ours uses.

    ``listChanged`` is among them if the server tells of changes in any list, ``tasks`` if calls can go on as tasks,
    ``skills`` if it has those, and ``REQUIRED_TASKS`` if a tool may insist on one of 2025-11-25.
    """
    declared = get_object(result, "capabilities")
    server_capabilities = {
        name for name in ("resources", "prompts", "completions") if isinstance(declared.get(name), dict)
    }
    if any(get_object(declared, name).get("listChanged") is True for name in ("tools", "resources", "prompts")):
        server_capabilities.add("listChanged")
    for name, extension in (("tasks", TASKS), ("skills", SKILLS)):
        if isinstance(get_object(declared, "extensions").get(extension), dict):
            server_capabilities.add(name)
    if isinstance(get_object(get_object(get_object(declared, "tasks"), "requests"), "tools").get("call"), dict):
        server_capabilities.add(REQUIRED_TASKS)
    return frozenset(server_capabilities)


def _read_instructions(result: dict[str, Json]) -> str:
    text = result.get("instructions")
    return text if isinstance(text, str) else ""
