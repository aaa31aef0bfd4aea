"""What one caller sees of a server whose tools are not for everybody.

Rules:
- A list, a document and a mistake name only tools that the caller may call.
- A call of any other tool is refused as forbidden, with the scopes that the tool needs. [OTC-042]
- What differs by caller says so to every cache. [D-30]
"""

from __future__ import annotations

from collections.abc import Callable

from toolwire.core.codec import Reading
from toolwire.core.http import Request, Response
from toolwire.core.model import Kind, Problem
from toolwire.server.route_table import RouteEntry, RouteTable
from toolwire.validation import build_insufficient_scopes, permits

from .callers import Caller, Callers

_PRIVATE = (b"cache-control", b"private")
_CREDENTIALS = b"authorization, x-api-key, oxp-api-key"

ReadRequest = Callable[[RouteEntry, Request], Reading]


def filter_reading(
    table: RouteTable, caller: Caller, path: str, request: Request, reading: Reading, read: ReadRequest
) -> Reading | Problem:
    """Return ``reading``, which is that of ``table``, as ``caller`` sees it, or why they may not call that.

    Whoever knows a tool's name learns from that which scopes it needs.
    """
    if caller.scopes is not None and (isinstance(reading, Response) or not permits(caller.scopes, reading.call.tool)):
        seen = read(table.find_entry_for_scopes(caller.scopes, request.method, path), request)
        if isinstance(seen, Response) and not isinstance(reading, Response):
            return build_insufficient_scopes(reading.call.tool)
        reading = seen
    return mark_private(reading) if isinstance(reading, Response) else reading


def mark_private(response: Response) -> Response:
    """Return ``response`` as one that no cache gives to another caller."""
    vary = [value for name, value in response.headers if name == b"vary"]
    kept = [field for field in response.headers if field[0] not in (b"cache-control", b"vary")]
    return response._replace(headers=[*kept, _PRIVATE, (b"vary", b", ".join([*vary, _CREDENTIALS]))])


def add_challenge(response: Response, problem: Problem, callers: Callers, path: str) -> Response:
    """Return ``response``, which refuses for ``problem``, with what ``callers`` want instead."""
    if problem.kind is not Kind.UNAUTHORIZED and "scopes" not in problem.details:
        return response
    challenge = callers.challenge(problem, path)
    if not challenge:
        return response
    taken = {name for name, _ in challenge}
    return response._replace(headers=[*(field for field in response.headers if field[0] not in taken), *challenge])
