"""Write the answers of the MCP server that every method shares: constant results, pages of lists, and errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from types import MethodType
from typing import Final, NamedTuple, TypeAlias, cast

from toolwire.core.codec import BlockingTask, Reading
from toolwire.core.http import JSON_HEADERS, STATUS_BY_KIND, Request, Response
from toolwire.core.model import Json, Kind, Problem
from toolwire.framing import jsonrpc
from toolwire.framing.jsonrpc import INVALID_PARAMS
from toolwire.framing.jsontext import write as to_json

from .result import write_opening, write_problem
from .revision import INTERNAL_ERROR

PAGE_BYTES = 4_194_304
"""Larger lists are split into pages of about this size."""

_CODES = {**jsonrpc.CODES, Kind.UNKNOWN_TOOL: INVALID_PARAMS}


class AskedMethod(NamedTuple):
    """A request that passed the envelope: its id as JSON, its parameters, and the HTTP status of each error code."""

    id: bytes
    params: dict[str, Json]
    request: Request
    status: Mapping[int, int]


make_asked: Final = cast(
    "Callable[[tuple[bytes, dict[str, Json], Request, Mapping[int, int]]], AskedMethod]",
    MethodType(tuple.__new__, AskedMethod),
)
"""Make an ``AskedMethod`` from a tuple, in half the time of ``AskedMethod(...)``. Each request needs one."""

Method: TypeAlias = Callable[[AskedMethod], Reading | BlockingTask]


def answer_page(pages: Mapping[Json, bytes], asked: AskedMethod) -> Response:
    """Return the page that the cursor of ``asked`` names, or the first page without a cursor."""
    cursor = asked.params.get("cursor")
    page = pages.get(cursor) if cursor is None or isinstance(cursor, str) else None
    if page is None:
        return build_invalid(asked, 'Unknown or outdated "cursor". Request the list again without it.')
    return build_answer(page, asked)


def write_pages(member: str, entries: list[Json], members: Mapping[str, Json], end: bytes) -> Mapping[Json, bytes]:
    """Return a list's pages by cursor. The first one is under None. Each page's ``entries`` are in ``member``.

    A cursor is valid only for exactly this list, and in every process that serves it. After a change, it is unknown.
    """
    # MC-06
    whole = write_static({member: entries, **members}, end)
    if len(whole) <= PAGE_BYTES:
        return {None: whole}
    mark = sha256(whole).hexdigest()[:16]
    starts, size = [0], 0
    for number, entry in enumerate(entries):
        size += len(to_json(entry))
        if size > PAGE_BYTES and number > starts[-1]:
            starts.append(number)
            size = len(to_json(entry))
    pages: dict[Json, bytes] = {}
    for start, stop in zip(starts, [*starts[1:], None], strict=True):
        more: dict[str, Json] = {} if stop is None else {"nextCursor": f"{mark}-{stop}"}
        page = write_static({member: entries[start:stop], **more, **members}, end)
        pages[f"{mark}-{start}" if start else None] = page
    return pages


def write_static(result: Mapping[str, Json], end: bytes) -> bytes:
    """Return the parts of a result that are known in advance: its members and its end."""
    members = to_json(result)[1:-1]
    return members + end if members else end.removeprefix(b",")


def build_answer(fixed: bytes, asked: AskedMethod) -> Response:
    """Return the answer to ``asked`` whose result is ``fixed``."""
    return Response(200, JSON_HEADERS, write_opening(asked.id) + fixed)


def build_invalid(asked: AskedMethod, text: str) -> Response:
    """Return the error that a parameter of ``asked`` is wrong."""
    return build_error(asked.id, INVALID_PARAMS, text, asked.status.get(INVALID_PARAMS, 200))


def build_refusal(id_: bytes, problem: Problem) -> Response:
    """Return ``problem`` as a JSON-RPC error, with its kind's HTTP status."""
    status = STATUS_BY_KIND[problem.kind]
    headers = list(JSON_HEADERS)
    if problem.kind is Kind.OVERLOADED or (problem.retry_after_ms is not None and status != 200):
        seconds = max(1, -(-(problem.retry_after_ms or 1_000) // 1_000))
        headers.append((b"retry-after", str(seconds).encode()))
    body = _write_error(_CODES.get(problem.kind, INTERNAL_ERROR), problem.message, write_problem(problem))
    if problem.kind is Kind.UNAUTHORIZED:
        headers.append((b"www-authenticate", b"Bearer"))
        body += b"," + to_json({"message": problem.message})[1:-1]
    return Response(status, headers, b'{"jsonrpc":"2.0","id":' + id_ + b',"error":' + body + b"}")


def refuse_method(asked: AskedMethod, problem: Problem) -> Response:
    """Return ``problem`` as the answer to a request. Up to 2025-11-25, its status is 200.

    Clients of these revisions treat any other status as the end of the connection, and the Python SDK 1.x ends it.
    Problems about credentials keep their status. So does a busy server (R1), because proxies must see it.
    """
    response = build_refusal(asked.id, problem)
    is_plain = asked.status or problem.kind in (Kind.UNAUTHORIZED, Kind.FORBIDDEN, Kind.OVERLOADED)
    return response if is_plain else response._replace(status=200)


def build_error(id_: bytes, code: int, text: str, status: int, data: Json = None) -> Response:
    """Return a JSON-RPC error."""
    body = _write_error(code, text, data)
    return Response(status, JSON_HEADERS, b'{"jsonrpc":"2.0","id":' + id_ + b',"error":' + body + b"}")


def _write_error(code: int, text: str, data: Json) -> bytes:
    return to_json({"code": code, "message": text} if data is None else {"code": code, "message": text, "data": data})
