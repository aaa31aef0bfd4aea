"""Ask the calls resource of a server about long calls: ``/calls`` and ``/calls/ID`` below its root.

It stands beside the protocols, so that a call that was started over one of them is read in the same way over another.

Rules:
- Everything in a response is another machine's: it is bounded and cleaned.
"""
# LC-02, LC-05

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final
from urllib.parse import quote, urlencode

from toolwire.core.call_status import CallPage, CallStatus, LongCallState
from toolwire.core.codec import CallReading, Flow, Peer, fetch
from toolwire.core.http import JSON_HEADERS, Headers, Request, Response
from toolwire.core.model import Json, Kind, Problem, Result, Tool, Value
from toolwire.core.user_input import InputResponse

from . import jsontext, problem_members
from .call_document import read_status
from .form_schema import FormError
from .input_messages import read_input_request, write_input_response
from .jsontext import get_text
from .rate_headers import read_retry_after_ms

MAX_ANSWERS: Final = 10
"""How many questions of one call are answered."""
MAX_DOCUMENT: Final = 8 * 1024 * 1024
"""The most bytes of a status document that are read, with the result in it."""
_MAX_CURSOR: Final = 1_000
_MAX_LISTED: Final = 1_000
_ACCEPT: Final[Headers] = ((b"accept", b"application/json"),)
_KINDS: Final = {
    401: Kind.UNAUTHORIZED,
    403: Kind.FORBIDDEN,
    404: Kind.NOT_FOUND,
    405: Kind.NOT_FOUND,
    410: Kind.NOT_FOUND,
    429: Kind.RATE_LIMITED,
    502: Kind.OVERLOADED,
    503: Kind.OVERLOADED,
    504: Kind.TIMEOUT,
}


def build_call_url(root: str, call_id: str) -> str:
    """Return the URL of one call; ``root`` is the URL of the server, without a slash at the end."""
    return f"{root}/calls/{quote(call_id, safe='')}"


def build_status_request(url: str, wait_s: float = 0.0) -> Request:
    """Return the request for the status at ``url``, which a server may answer after a change, or after ``wait_s``."""
    # RFC 7240: whole seconds.
    prefer = ((b"prefer", b"wait=%d" % int(wait_s)),) if wait_s >= 1.0 else ()
    return Request("GET", url, (*_ACCEPT, *prefer))


def read_call(
    root: str,
    call_id: str,
    wait_s: float,
    answered: set[str] | None,
    read_value: Callable[[Json], Result] = Value,
) -> Flow[CallReading | Problem]:
    """Return how the call stands; ``read_value`` makes a result of the value in the document.

    What the call asks the user is asked and answered first. ``answered`` has the names of the questions that were, or
    is None if the user cannot be asked.
    """
    url = build_call_url(root, call_id)
    response = yield from fetch(build_status_request(url, wait_s))
    reading = response if isinstance(response, Problem) else read_status_response(response, read_value)
    if isinstance(reading, Problem) or answered is None or reading.status.state is not LongCallState.WAITING:
        return reading
    problem = yield from _answer(url, reading.status, answered)
    return reading if problem is None else problem


def _answer(url: str, status: CallStatus, answered: set[str]) -> Flow[Problem | None]:
    """Ask the user what the call at ``url`` asks, and send the answers; return why that is not possible, or None."""
    # MC-09
    new = {name: asked for name, asked in status.input.items() if name not in answered}
    if len(answered) + len(new) > MAX_ANSWERS:
        text = f"The call was stopped: it asked the user {MAX_ANSWERS} times and still needs input."
        return Problem(kind=Kind.BAD_ANSWER, message=text)
    given: dict[str, Json] = {}
    for name, asked in new.items():
        try:
            question = read_input_request(asked if isinstance(asked, dict) else {})
        except FormError as error:
            return Problem(kind=Kind.BAD_ANSWER, message=f"The call needs input that cannot be requested: {error}.")
        reply: InputResponse = yield question
        given[name] = write_input_response(reply)
    if not given:
        return None
    response = yield from fetch(Request("POST", url, (*JSON_HEADERS, *_ACCEPT), jsontext.write({"input": given})))
    answered.update(given)
    if isinstance(response, Problem):
        return response
    return None if 200 <= response.status < 300 else _read_refusal(response)


def read_beside(
    peer: Peer, _tool: Tool | None, call_id: str, wait_s: float, answered: set[str] | None
) -> Flow[CallReading | Problem]:
    """Return how a call stands at a server that is called over a protocol without words for that."""
    if "/" in call_id:
        return Problem(kind=Kind.NOT_FOUND, message="This is not a valid call ID.", details={"sent": False})
    return (yield from read_call(_find_root(peer), call_id, wait_s, answered))


def cancel_beside(peer: Peer, call_id: str) -> Flow[Problem | None]:
    """Ask such a server to cancel a call."""
    return (yield from cancel_call(_find_root(peer), call_id))


def list_beside(peer: Peer, limit: int, cursor: str) -> Flow[CallPage | Problem]:
    """Return the calls of this caller at such a server, newest first."""
    return (yield from list_calls(_find_root(peer), limit, cursor))


def _find_root(peer: Peer) -> str:
    """Return the URL of the server of ``peer``, without the path of its protocol."""
    return peer.url.rstrip("/").removesuffix("/opentool").removesuffix("/mcp")


def read_status_response(response: Response, read_value: Callable[[Json], Result] = Value) -> CallReading | Problem:
    """Return the status that ``response`` holds, or the Problem that it is, or that it cannot be read."""
    data = _read_body(response)
    if isinstance(data, Problem):
        return data
    status = read_status(data, read_value)
    if status is None:
        return _build_unreadable("it is not a status of a call")
    wait_ms = read_retry_after_ms(response)
    return CallReading(status, None if wait_ms is None else wait_ms / 1_000)


def cancel_call(root: str, call_id: str) -> Flow[Problem | None]:
    """Ask to cancel the call, and return a Problem if the server refuses."""
    response = yield from fetch(Request("DELETE", build_call_url(root, call_id), _ACCEPT))
    if isinstance(response, Problem):
        return response
    return None if 200 <= response.status < 300 else _read_refusal(response)


def list_calls(root: str, limit: int, cursor: str) -> Flow[CallPage | Problem]:
    """Return at most ``limit`` calls of this caller, newest first, from ``cursor`` on."""
    query = {"limit": str(limit), **({"cursor": cursor} if cursor else {})}
    response = yield from fetch(Request("GET", f"{root}/calls?{urlencode(query)}", _ACCEPT))
    data = response if isinstance(response, Problem) else _read_body(response)
    if isinstance(data, Problem):
        return data
    listed = data.get("calls") if isinstance(data, dict) else None
    if not isinstance(listed, list):
        return _build_unreadable("it has no list of calls")
    found = [read_status(one) for one in listed[: min(limit, _MAX_LISTED)]]
    following = get_text(data, "next")
    is_usable = following != cursor and len(following) <= _MAX_CURSOR and following.isprintable()
    return CallPage(tuple(one for one in found if one is not None), following if is_usable else "")


def _read_body(response: Response) -> Json | Problem:
    if not 200 <= response.status < 300:
        return _read_refusal(response)
    if len(response.body) > MAX_DOCUMENT:
        return _build_unreadable(f"it is larger than {MAX_DOCUMENT:,} bytes")
    data = jsontext.read(response.body)
    return _build_unreadable("it is not JSON") if isinstance(data, Problem) else data


def _read_refusal(response: Response) -> Problem:
    data = jsontext.read(response.body) if len(response.body) <= MAX_DOCUMENT else None
    body = data if isinstance(data, dict) else {}
    word, kind = body.get("kind"), _KINDS.get(response.status, Kind.BAD_ANSWER)
    if isinstance(word, str) and word in set(Kind) - {Kind.ACCEPTED}:
        kind = Kind(word)
    text = get_text(body, "detail") or get_text(body, "message")
    if not text:
        text = f"The server answered {response.status} to a request about a long call."
        if kind is Kind.NOT_FOUND:
            text = "The server does not know this call, or does not support long calls."
    problem = problem_members.read(body, kind, text)
    wait_ms = read_retry_after_ms(response)
    if problem.retry_after_ms is not None or wait_ms is None:
        return problem
    return replace(problem, retry_after_ms=wait_ms)


def _build_unreadable(why: str) -> Problem:
    return Problem(kind=Kind.BAD_ANSWER, message=f"Cannot read the answer about a long call: {why}.")
