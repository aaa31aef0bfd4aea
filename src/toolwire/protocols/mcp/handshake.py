"""Opening a conversation with an MCP server: which revision it speaks, what it is called, what tools it has."""

from __future__ import annotations

from typing import NamedTuple

from toolwire.core.codec import Flow, Probe, fetch
from toolwire.core.http import Response, header
from toolwire.core.model import Json, Problem
from toolwire.framing.jsontext import member

from .exchange import CLIENT, Refused, Session, read, write
from .revision import HANDSHAKE, SERVER_META, SESSION_HEADER, STATELESS

MAX_PAGES = 100
MAX_TOOLS = 10_000
_MAX_SESSION_ID = 1_000


class Opened(NamedTuple):
    """An endpoint ready for calls: how to speak to it, and how it presents itself."""

    session: Session
    server: dict[str, Json]
    instructions: str


def open_session(endpoint: str, probes: list[Probe]) -> Flow[Opened | None]:
    """Return the endpoint opened for calls, or None; each look is added to ``probes``.

    The stateless revision is tried first: a server that speaks it has nothing to remember of us.
    """
    stateless = yield from _discover(endpoint, probes)
    if stateless is not None:
        return stateless
    return (yield from _initialize(endpoint, probes))


def list_tools(session: Session, probes: list[Probe]) -> Flow[list[Json] | None]:
    """Return what every page of ``tools/list`` holds, or None where a page cannot be read.

    At most 100 pages and 10,000 tools are read; a server that repeats a cursor is not asked again.
    """
    entries: list[Json] = []
    cursors: set[str] = set()
    params: dict[str, Json] = {}
    for page in range(MAX_PAGES):
        result = yield from _ask(session, "tools/list", params, 10 + page, probes)
        if not isinstance(result, tuple):
            return None
        listed, cursor = result[0].get("tools"), result[0].get("nextCursor")
        if not isinstance(listed, list):
            _note(probes, session, result[1].status, "its list of tools is not a list")
            return None
        entries.extend(listed[: MAX_TOOLS - len(entries)])
        _note(probes, session, result[1].status, f"MCP tools: {len(entries)}", accepted=True)
        if not isinstance(cursor, str) or not cursor or len(entries) == MAX_TOOLS:
            return entries
        if cursor in cursors:
            _note(probes, session, result[1].status, "the same page came twice: the rest is left out")
            return entries
        cursors.add(cursor)
        params = {"cursor": cursor}
    return entries
