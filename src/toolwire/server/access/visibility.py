"""Limit what a caller sees to the tools that the caller's scopes and the operator's rules allow.

Rules:
- Lists, documents and error messages name only tools that the caller may call.
- The page at ``/`` lists the tools next to every response, including the result of a call.
- A call of another tool is refused as forbidden, with the scopes that the tool needs. A tool that the operator's rules
  withhold from the caller does not exist for that caller.
- If only known callers may learn which tools exist, a caller without credentials sees none.
- A response that depends on the caller tells caches so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from toolwire.core.catalog import Catalog
from toolwire.core.codec import CallQuery, Reading, SessionStart, Subscription
from toolwire.core.http import Request, Response
from toolwire.core.model import Kind, Problem
from toolwire.server.route_table import PAGE_PATH, RouteEntry, RouteTable
from toolwire.validation import build_insufficient_scopes, filter_visible, permits

from .callers import ANONYMOUS_CALLER, Caller, Callers
from .tool_rights import BoundedTools

_PRIVATE = (b"cache-control", b"private")
# RFC 9110, 12.5.5: Vary names the fields that affect a response. Here, these are all that can contain credentials.
_CREDENTIALS = b"authorization, x-api-key, oxp-api-key"

ReadRequest = Callable[[RouteEntry, Request], Reading]


def filter_reading(
    table: RouteTable,
    caller: Caller,
    path: str,
    request: Request,
    reading: Reading,
    read: ReadRequest,
    *,
    bounded: BoundedTools | None,
) -> Reading | Problem:
    """Return what ``caller`` may see of ``reading``, or a Problem if the caller may not call the tool.

    ``bounded`` are the tools that the caller's rules permit. ``read`` reads the request again with the caller's tools.
    The Problem names the tool's scopes, because a caller who knows its name may request them.
    """
    # OTC-042
    # GW-01: such a caller gets here on open paths alone.
    if caller is ANONYMOUS_CALLER and (ask := table.find_entry(request.method, path).read_for_strangers) is not None:
        reading = read(replace(table.find_entry(request.method, path), read=ask), request)
    # A catalog change counts only if it affects what the caller may see.
    if isinstance(reading, Subscription):
        return reading
    is_limited = caller.scopes is not None or bounded is not None
    # AT-36: the page at / lists all tools next to every response.
    lists_tools = path == PAGE_PATH and is_limited
    # Only the caller's own long calls are listed.
    if isinstance(reading, CallQuery) and not lists_tools:
        return reading
    if isinstance(reading, (Response, SessionStart, CallQuery)):
        if is_limited:
            reading = read(_find_own_entry(table, caller, bounded, request.method, path), request)
    elif is_limited:
        tool = reading.call.tool
        is_there = bounded is None or bounded.permits(tool)
        if lists_tools or not is_there or not permits(caller.scopes, tool):
            visible = read(_find_own_entry(table, caller, bounded, request.method, path), request)
            if isinstance(visible, Response) and is_there and not permits(caller.scopes, tool):
                return build_insufficient_scopes(tool, caller.scopes)
            reading = visible
    if isinstance(reading, SessionStart):
        return reading._replace(stateless=mark_private(reading.stateless), lasting=mark_private(reading.lasting))
    return mark_private(reading) if isinstance(reading, Response) else reading


def _find_own_entry(
    table: RouteTable, caller: Caller, bounded: BoundedTools | None, method: str, path: str
) -> RouteEntry:
    def narrow(catalog: Catalog) -> Catalog:
        return filter_visible(catalog if bounded is None else bounded.narrow(catalog), caller.scopes)

    return table.find_entry_for(narrow, method, path)


def mark_private(response: Response) -> Response:
    """Return ``response`` with header fields that keep caches from sending it to another caller."""
    # D-30
    vary = [value for name, value in response.headers if name == b"vary"]
    fields = [field for field in response.headers if field[0] not in (b"cache-control", b"vary")]
    return response._replace(headers=[*fields, _PRIVATE, (b"vary", b", ".join([*vary, _CREDENTIALS]))])


def name_scopes(problem: Problem, scopes: frozenset[str]) -> Problem:
    """Return ``problem``, for a caller without credentials, with the tools' ``scopes`` for its challenge."""
    # I-22: an MCP host asks its user for the scopes that the first refusal names, and can then call all tools.
    if problem.kind is not Kind.UNAUTHORIZED or not scopes:
        return problem
    return replace(problem, details={**problem.details, "scopes": sorted(scopes)})


def add_challenge(response: Response, problem: Problem, callers: Callers, path: str) -> Response:
    """Return ``response``, a refusal for ``problem``, with the challenge of ``callers``."""
    if problem.kind is not Kind.UNAUTHORIZED and "scopes" not in problem.details:
        return response
    challenge = callers.challenge(problem, path)
    if not challenge:
        return response
    names = {name for name, _ in challenge}
    return response._replace(headers=[*(field for field in response.headers if field[0] not in names), *challenge])
