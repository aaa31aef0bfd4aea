"""Serve ``/calls`` and ``/calls/ID``: a caller's long calls, over whichever protocol they were started.

Rules:
- Callers see only their own calls. Another caller's ID gets the same response as an unknown ID.
- Unnamed callers cannot be told apart, so they get no list. Each one knows the IDs of their own calls, which cannot be
  guessed.
"""
# LC-02

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Final
from urllib.parse import parse_qsl

from toolwire.core.call_status import CallPage, CallStatus
from toolwire.core.codec import CallAction, CallQuery, Reading
from toolwire.core.http import JSON_HEADERS, Headers, Request, Response, get_header
from toolwire.core.model import Json, Kind, Problem
from toolwire.framing import jsontext, problem_members, sse
from toolwire.framing.call_document import is_call_id, write_status
from toolwire.framing.jsontext import get_object
from toolwire.protocols.openapi import problems

PATH: Final = "/calls"
MAX_LIMIT: Final = 200
_USUAL_LIMIT: Final = 50
_MAX_QUERY: Final = 1_000
_RETRY_AFTER: Final = (b"retry-after", b"1")
_NO_STORE: Final = (b"cache-control", b"no-store")
_VARY: Final = (b"vary", b"accept")
"""The same URL has a page for users: ``page/call_page.py``."""

_WAIT: Final = re.compile(r"(?:^|[,;\s])wait\s*=\s*\"?([0-9]{1,6})(?![0-9.])", re.IGNORECASE)
_ASYNC: Final = re.compile(r"(?:^|[,;\s])respond-async(?:$|[,;\s])", re.IGNORECASE)


def refuse(problem: Problem) -> Response:
    """Return the response for a Problem that occurs before a reader gets the request."""
    response = problems.write(problem)
    return response._replace(headers=(*response.headers, _VARY))


def read_preference(headers: Headers) -> tuple[float, bytes] | None:
    """Return how long a request prefers to wait, in seconds, and what the response says about that, or None."""
    # RFC 7240. With both, the client waits that long and then wants to be told that the call continues.
    text = ", ".join(value.decode("latin-1") for name, value in headers if name == b"prefer")[:_MAX_QUERY]
    if waits := _WAIT.search(text):
        return float(waits[1]), b"wait=" + waits[1].encode()
    return (0.0, b"respond-async") if _ASYNC.search(text) else None


def read_list(request: Request) -> Reading:
    """Return the query for the calls of a caller: ``limit``, at most 200, and ``cursor``."""
    given = dict(parse_qsl(request.url.partition("?")[2][:_MAX_QUERY]))
    limit = given.get("limit", str(_USUAL_LIMIT))
    if not (limit.isascii() and limit.isdigit() and len(limit) < 7 and 1 <= int(limit) <= MAX_LIMIT):
        return refuse(Problem(kind=Kind.INVALID_ARGUMENTS, message=f"`limit` must be a number from 1 to {MAX_LIMIT}."))
    cursor = given.get("cursor", "")
    return CallQuery(CallAction.LIST, _reply_page, limit=int(limit), cursor=cursor[:100])


def read_one(call_id: str, request: Request) -> Reading:
    """Return the query for the status of ``call_id``, as a stream if the request accepts events."""
    preference = read_preference(request.headers)
    wait_s, applied = preference or (0.0, b"")
    frame = _write_event if "text/event-stream" in get_header(request.headers, b"accept").lower() else None
    return CallQuery(CallAction.READ, partial(_reply_status, applied), call_id, wait_s, frame=frame)


def read_cancellation(call_id: str, _request: Request) -> Reading:
    """Return the query that cancels the call ``call_id``."""
    return CallQuery(CallAction.CANCEL, _reply_cancelled, call_id)


def read_answer(call_id: str, request: Request) -> Reading:
    """Return the query with the answers to a call's questions: ``{"input": {NAME: answer}}``."""
    data = jsontext.read_object(request)
    if isinstance(data, Problem):
        return refuse(data)
    answers = get_object(data, "input")
    if not answers or not all(_is_answer(answer) for answer in answers.values()):
        text = (
            '"input" must contain an answer for each name: {"action": "accept", "content": {...}}, '
            'or "decline" or "cancel".'
        )
        return refuse(Problem(kind=Kind.INVALID_ARGUMENTS, message=text))
    return CallQuery(CallAction.ANSWER, partial(_reply_status, b""), call_id, answers=answers)


def find_call_id(path: str) -> str:
    """Return the ID in a path ``/calls/ID``, or an empty string for other paths."""
    call_id = path.removeprefix(f"{PATH}/")
    return call_id if call_id != path and is_call_id(call_id) and "/" not in call_id else ""


def add_location(response: Response, problem: Problem, root: str, headers: Headers) -> Response:
    """Return ``response``, which says that a long call continues, with the call's URL."""
    call = get_object(problem.details, "call")
    call_id = call.get("id")
    if not isinstance(call_id, str):
        return response
    added = [(b"location", f"{root}{PATH}/{call_id}".encode())]
    if not get_header(response.headers, b"retry-after"):
        added.append(_RETRY_AFTER)
    if (preference := read_preference(headers)) is not None:
        added.append((b"preference-applied", preference[1]))
    return response._replace(headers=(*response.headers, *added))


def add_applied_wait(response: Response, headers: Headers) -> Response:
    """Return ``response``, of a long call that ended while it was waited for, with the preference that it meets."""
    preference = read_preference(headers)
    if preference is None or not preference[1].startswith(b"wait="):
        return response
    return response._replace(headers=(*response.headers, (b"preference-applied", preference[1])))


def _is_answer(answer: Json) -> bool:
    return isinstance(answer, dict) and answer.get("action") in ("accept", "decline", "cancel")


def _reply_status(applied: bytes, outcome: CallStatus | CallPage | Problem) -> Response:
    if not isinstance(outcome, CallStatus):
        return _refuse_outcome(outcome)
    headers = [*JSON_HEADERS, _NO_STORE, _VARY]
    if not outcome.is_over:
        headers.append(_RETRY_AFTER)
    if applied:
        headers.append((b"preference-applied", applied))
    return Response(200, headers, jsontext.write(write_status(outcome)))


def _reply_cancelled(outcome: CallStatus | CallPage | Problem) -> Response:
    if not isinstance(outcome, CallStatus):
        return _refuse_outcome(outcome)
    response = _reply_status(b"", outcome)
    return response if outcome.is_over else response._replace(status=202)


def _reply_page(outcome: CallStatus | CallPage | Problem) -> Response:
    if not isinstance(outcome, CallPage):
        return _refuse_outcome(outcome)
    data: Mapping[str, Json] = {
        "calls": [write_status(status) for status in outcome.calls],
        "next": outcome.next or None,
    }
    return Response(200, (*JSON_HEADERS, _NO_STORE, _VARY), jsontext.write(data))


def _refuse_outcome(outcome: CallStatus | CallPage | Problem) -> Response:
    problem = outcome if isinstance(outcome, Problem) else Problem(kind=Kind.INTERNAL, message="The server failed.")
    return refuse(problem)


def _write_event(outcome: CallStatus | Problem) -> bytes:
    if isinstance(outcome, CallStatus):
        return sse.write("status", jsontext.write(write_status(outcome)))
    return sse.write("error", jsontext.write({"message": outcome.message, **problem_members.write(outcome)}))
