"""Read and cancel calls that go on at a server after it answered 202: our own, and those of any API.

Rules:
- A 202 with ``Operation-Location``, or with ``Location`` and a sign of a status there, starts a long call. The status
  must be on the origin of the request; the id of the call is its URL, or the server's own id at ``/calls/ID``.
- While the status is 202, or its body has a word such as ``running``, the call goes on. Anything else is its end.
- Statuses are only read. A call of a foreign API is not cancelled: DELETE could as well delete what it made.
"""
# LC-05

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import urljoin

from toolwire.core.call_status import CallPage, CallStatus, LongCallState
from toolwire.core.codec import CallReading, Flow, Peer, fetch, pause
from toolwire.core.http import JSON_HEADERS, Request, Response, get_header
from toolwire.core.model import Json, Kind, Problem, Result, Tool
from toolwire.core.url_display import show_url
from toolwire.core.url_origin import get_origin, has_same_origin, read_origin
from toolwire.framing import calls_resource, jsontext
from toolwire.framing.call_document import is_call_id, read_message, read_part, read_status
from toolwire.framing.calls_resource import MAX_DOCUMENT, build_call_url, build_status_request
from toolwire.framing.jsontext import get_object
from toolwire.framing.rate_headers import read_retry_after_ms

from . import problems
from .request.plan import Plan
from .response import results
from .response.results import Expected
from .tools.operations import OperationState

_PLACES: Final = (b"operation-location", b"azure-asyncoperation", b"location")
_LETTERS = re.compile("[^a-z]")
_RUNNING = frozenset(
    {"notstarted", "pending", "queued", "accepted", "running", "inprogress", "processing", "working", "started"}
)
_ENDED = frozenset({"succeeded", "success", "successful", "completed", "complete", "done", "finished"})
_FAILED = frozenset({"failed", "failure", "error", "errored", "aborted", "rejected", "expired", "timedout"})
_CANCELLED = frozenset({"canceled", "cancelled"})
_STATES: Final = {"waiting": LongCallState.WAITING, "accepted": LongCallState.ACCEPTED}


def read_accepted(response: Response, request: Request, base: str) -> Problem | None:
    """Return the Problem that the call of ``request`` goes on, or None if ``response`` does not say so.

    ``base`` is the URL of the server of the operation.
    """
    if response.status != 202:
        return None
    url = _find_status_url(response, request.url)
    if not url:
        return None
    call_id, wait_ms = url, read_retry_after_ms(response)
    status = read_status(_read_small(response))
    if status is not None and url == build_call_url(base, status.id):
        call_id = status.id
    state = LongCallState.RUNNING if status is None else status.state
    shown = show_url(call_id) if call_id == url else call_id
    return Problem(
        kind=Kind.ACCEPTED,
        message=f"The server is processing it as call {shown}. Read its result later.",
        can_retry=True,
        retry_after_ms=wait_ms,
        details={"call": {"id": call_id, "state": state.value}},
    )


def find_foreign_status(response: Response, request: Request) -> str:
    """Return the origin at which a 202 says that the status of the call is, if it is another one; else ``""``."""
    place = next((text for name in _PLACES if (text := get_header(response.headers, name))), "")
    url = _join(request.url, place) if response.status == 202 and place else ""
    return "" if not url or has_same_origin(url, request.url) else get_origin(url)


def _find_status_url(response: Response, request_url: str) -> str:
    """Return the URL of the status that a 202 names, or ``""`` if there is none that may be read."""
    place = next((name for name in _PLACES if get_header(response.headers, name)), None)
    if place is None:
        return ""
    has_sign = place != b"location" or bool(get_header(response.headers, b"retry-after"))
    if not has_sign and not get_header(response.headers, b"preference-applied"):
        data = _read_small(response)
        if read_status(data) is None and _find_word(data) not in _RUNNING:
            return ""
    url = _join(request_url, get_header(response.headers, place))
    origin = read_origin(url)
    # The credentials of the call are sent with each reading, so it stays where the call went.
    if origin is None or origin.has_user_info or not has_same_origin(url, request_url) or not is_call_id(url):
        return ""
    return url


def _join(base: str, place: str) -> str:
    try:
        return urljoin(base, place.strip()).partition("#")[0]
    except ValueError:
        return ""


def read(
    peer: Peer, tool: Tool | None, call_id: str, wait_s: float, answered: set[str] | None
) -> Flow[CallReading | Problem]:
    """Return how a call stands; ``call_id`` is the server's id, or the URL of the status of a foreign call."""
    plan = _find_plan(peer, tool)
    expected = _build_expected(peer, plan)

    def read_value(value: Json) -> Result:
        return results.read(Response(200, JSON_HEADERS, jsontext.write(value)), expected)

    if "/" not in call_id:
        root = _find_root(peer, plan)
        return (yield from calls_resource.read_call(root, call_id, wait_s, answered, read_value))
    url = _complete_url(peer, call_id)
    if url is None:
        return _build_no_place(call_id)
    response = yield from fetch(build_status_request(url, wait_s))
    if isinstance(response, Problem):
        return response
    if response.status >= 400:
        problem = problems.read(response)
        return replace(problem, kind=Kind.OVERLOADED) if response.status == 502 else problem
    wait_ms = read_retry_after_ms(response)
    status = yield from _read_foreign(call_id, tool, response, url, expected)
    return CallReading(status, None if wait_ms is None else wait_ms / 1_000)


def cancel(peer: Peer, call_id: str) -> Flow[Problem | None]:
    """Ask our own server to cancel the call; a foreign API is not asked."""
    if "/" in call_id:
        text = "This API does not define how to cancel a call, so nothing was sent. The call continues."
        return Problem(kind=Kind.NOT_FOUND, message=text, details={"sent": False})
    return (yield from calls_resource.cancel_call(_find_root(peer, None), call_id))


def list_calls(peer: Peer, limit: int, cursor: str) -> Flow[CallPage | Problem]:
    """Return at most ``limit`` calls of this caller at our own server, newest first, from ``cursor`` on."""
    return (yield from calls_resource.list_calls(_find_root(peer, None), limit, cursor))


def _read_foreign(
    call_id: str, tool: Tool | None, response: Response, url: str, expected: Expected
) -> Flow[CallStatus]:
    data = _read_small(response)
    word = _find_word(data)
    body: Mapping[str, Json] = data if isinstance(data, dict) else {}
    status = CallStatus(
        id=call_id,
        tool="" if tool is None else tool.id,
        state=LongCallState.RUNNING,
        progress=_read_progress(body),
        message=read_message(body.get("message") or body.get("statusMessage")),
    )
    ours = read_status(data, lambda value: results.read(Response(200, JSON_HEADERS, jsontext.write(value)), expected))
    if ours is not None:
        return replace(ours, id=call_id, tool=ours.tool or status.tool)
    if response.status == 202 or word in _RUNNING:
        return status
    if word in _CANCELLED:
        return replace(status, state=LongCallState.CANCELLED)
    if word in _FAILED:
        return replace(status, state=LongCallState.ENDED, result=_read_failure(body, word))
    result = yield from _read_result(body if word in _ENDED else {}, response, url, expected)
    return replace(status, state=LongCallState.ENDED, result=result)


def _read_result(body: Mapping[str, Json], response: Response, url: str, expected: Expected) -> Flow[Result]:
    """Return the result in the status ``body``, at the address that it names, or the response itself."""
    place = body.get("resourceLocation")
    there = _join(url, place) if isinstance(place, str) else ""
    if there and has_same_origin(there, url) and is_call_id(there):
        yield from pause(0.0, is_poll=True)
        fetched = yield from fetch(build_status_request(there))
        return fetched if isinstance(fetched, Problem) else results.read(fetched, expected)
    for name in ("result", "response", "output"):
        if name in body:
            return results.read(Response(200, JSON_HEADERS, jsontext.write(body[name])), expected)
    return results.read(response, expected)


def _read_failure(body: Mapping[str, Json], word: str) -> Problem:
    error = get_object(body, "error")
    message = error.get("message") or error.get("detail") or body.get("message") or body.get("error")
    text = read_message(message) or f"The call has the status {word}, without a reason."
    return Problem(kind=Kind.TOOL_FAILED, message=text, details={"status": word})


def _read_progress(body: Mapping[str, Json]) -> float | None:
    for name in ("percentComplete", "percent_complete", "percent"):
        percent: Json = body.get(name)
        if type(percent) in (int, float):
            return read_part(min(percent, 100) / 100)
    part: Json = body.get("progress")
    return read_part(min(part, 100) / 100 if type(part) in (int, float) and part > 1 else part)


def _find_word(data: Json) -> str:
    """Return the state that a status says in its own word, in small letters without any other character."""
    if not isinstance(data, dict):
        return ""
    word = data.get("status") if isinstance(data.get("status"), str) else data.get("state")
    return _LETTERS.sub("", word[:40].lower()) if isinstance(word, str) else ""


def _read_small(response: Response) -> Json:
    """Return the JSON of ``response``; None if it is none, or is too large for a status."""
    data = jsontext.read(response.body) if 0 < len(response.body) <= MAX_DOCUMENT else None
    return None if isinstance(data, Problem) else data


def _find_plan(peer: Peer, tool: Tool | None) -> Plan | None:
    memo = peer.memo
    return memo.plans.get(tool.id) if isinstance(memo, OperationState) and tool is not None else None


def _build_expected(peer: Peer, plan: Plan | None) -> Expected:
    origin = get_origin(peer.url if plan is None else plan.base)
    if plan is None:
        return Expected(origin, resources=peer.resources, caps=peer.result_limits)
    return Expected(origin, None, peer.resources, peer.result_limits, plan.write_only, plan.content)


def _find_root(peer: Peer, plan: Plan | None) -> str:
    """Return the URL that the paths of operations begin at: that of ``plan``, or of a tool on the peer's own origin."""
    if plan is not None:
        return plan.base
    tools = peer.catalog.tools
    for tool in sorted(tools, key=lambda one: not one.long):
        found = _find_plan(peer, tool)
        if found is not None and has_same_origin(found.base, peer.url):
            return found.base
    return get_origin(peer.url)


def _complete_url(peer: Peer, call_id: str) -> str | None:
    """Return the URL of the status of a foreign call, or None if it may not be read."""
    url = _join(_find_root(peer, None), call_id) if call_id.startswith("/") else call_id
    origin = read_origin(url)
    if origin is None or origin.has_user_info or not is_call_id(url):
        return None
    return url if has_same_origin(url, peer.url) or str(origin) in peer.origins else None


def _build_no_place(call_id: str) -> Problem:
    text = f"{show_url(call_id)} is not on this connection's server, so it was not read."
    return Problem(kind=Kind.NOT_FOUND, message=text, details={"reason": "origin", "sent": False})
