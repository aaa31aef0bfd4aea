"""Read and write the result of a call in three formats, and the bodies of refusals.

Rules:
- A tool that was started is answered with 200, whatever became of it; before that with 400, 401, 403, 422, 429,
  503.
- A problem's own ``developer_message`` is read and never written; that of its details, which a server in debug puts
  there, stands where the protocol has it.
- A 429, a 503 and a failure that can be retried can be sent again as they are; every other error says that it cannot.
"""
# OTC-040, OTC-041, OXP-008, OXP-009, A-53, OTC-029, A-41, S-12, SE-04

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from toolwire.core.http import JSON_HEADERS, STATUS_BY_KIND, Headers, Response, get_header, make_response
from toolwire.core.model import Json, Kind, Problem, Result, Value
from toolwire.framing.jsontext import describe_type, get_object, write
from toolwire.framing.jsontext import read as read_json
from toolwire.framing.rate_headers import parse_wait_ms, read_retry_after_ms

MAX_TEXT = 4_000
MAX_WAIT_MS = 86_400_000

FINAL: Headers = (*JSON_HEADERS, (b"x-should-retry", b"false"))

_KINDS = {
    400: Kind.MALFORMED,
    401: Kind.UNAUTHORIZED,
    403: Kind.FORBIDDEN,
    404: Kind.NOT_FOUND,
    405: Kind.WRONG_METHOD,
    408: Kind.TOO_SLOW,
    409: Kind.CONFLICT,
    413: Kind.TOO_LARGE,
    415: Kind.UNSUPPORTED_TYPE,
    421: Kind.MISDIRECTED,
    422: Kind.INVALID_ARGUMENTS,
    428: Kind.UNCONFIRMED,
    429: Kind.RATE_LIMITED,
    503: Kind.OVERLOADED,
}
_WORDS = frozenset(Kind)

Members: TypeAlias = dict[str, Json]
Shape: TypeAlias = Callable[[str, Members, Members], Members]
"""Builds a body from ``$schema``, the facts of the call (id, success, duration), and its value or error."""


def write_in_output(schema: str, facts: Members, end: Members) -> Members:
    """Return the body of the RFC: the value or error under ``output``."""
    # S-11, OTC-038
    return {"$schema": schema, **facts, "output": end}


def write_in_result(schema: str, facts: Members, end: Members) -> Members:
    """Return the body of OXP: all members under ``result``."""
    # OXP-002
    return {"$schema": schema, "result": {**facts, **end}}


def write_flat(schema: str, facts: Members, end: Members) -> Members:
    """Return the body of universal-tool: all members at the top."""
    #
    return {"$schema": schema, **facts, **end}


def write_both(schema: str, facts: Members, end: Members) -> Members:
    """Return the bodies of OXP and of universal-tool in one, for the ``$schema`` values that both use."""
    # S-10
    return {"$schema": schema, **facts, **end, "result": {**facts, **end}}


def respond(shape: Shape, schema: str, call_id: str, result: Result, duration_ms: float) -> Response:
    """Return the response to a call that ended with ``result``.

    Raises:
        TypeError: the value is not JSON data.
        ValueError: the value is not JSON data: NaN, or half a character.
    """
    # OTC-036, OTC-041
    if isinstance(result, Value):
        body = write(shape(schema, _write_facts(call_id, duration_ms, success=True), {"value": result.value}))
        return make_response((200, JSON_HEADERS, body))
    # LC-02: the same call id again gets the result; without one, a client that repeats the call would run it twice.
    if STATUS_BY_KIND[result.kind] != 200 or (result.kind is Kind.ACCEPTED and result.can_retry):
        return refuse(result, schema)
    error = {"message": result.message or "The tool failed.", "can_retry": result.can_retry, **_write_more(result)}
    body = write(shape(schema, _write_facts(call_id, duration_ms, success=False), {"error": error}))
    return Response(200, JSON_HEADERS if result.can_retry else FINAL, body)


def _write_facts(call_id: str, duration_ms: float, *, success: bool) -> Members:
    return {"call_id": call_id, "success": success, "duration": round(duration_ms)}


def refuse(problem: Problem, schema: str) -> Response:
    """Return the response to a call that was not started, or to no call at all."""
    # OTC-040, OTC-044
    status = 503 if problem.kind is Kind.ACCEPTED and problem.can_retry else STATUS_BY_KIND[problem.kind]
    status = 500 if status == 200 else status
    body: Members = {"$schema": schema, "error": problem.kind.value, "message": problem.message}
    if problem.can_retry:
        body["can_retry"] = True
    return Response(status, _choose_headers(problem, status), write({**body, **_write_more(problem)}))


def _choose_headers(problem: Problem, status: int) -> Headers:
    if status in (429, 503):
        wait_ms = 1_000 if problem.retry_after_ms is None else max(problem.retry_after_ms, 0)
        return (*JSON_HEADERS, (b"retry-after", b"%d" % -(-wait_ms // 1_000)), (b"retry-after-ms", b"%d" % wait_ms))
    headers = JSON_HEADERS if problem.can_retry else FINAL
    return (*headers, (b"www-authenticate", b"Bearer")) if status == 401 else headers


def _write_more(problem: Problem) -> Members:
    details = dict(problem.details)
    missing = details.pop("missing_requirements", None)
    developer = details.pop("developer_message", None)
    more: Members = {
        "retry_after_ms": problem.retry_after_ms,
        "additional_prompt_content": problem.additional_prompt_content,
        "parameter_errors": dict(problem.parameter_errors) or None,
        "missing_requirements": missing,
        "developer_message": developer,
        "details": details or None,
    }
    return {name: value for name, value in more.items() if value is not None}


def read(data: Json, call_id: str = "") -> Result:
    """Return what a 200 says, in whichever of the three shapes. No value at all means None.

    A value that the server gives for another call than ``call_id`` is a Problem.
    """
    # I-30
    inner = data.get("result") if isinstance(data, dict) else None
    answer = inner if isinstance(inner, dict) and "success" in inner else data
    if not isinstance(answer, dict):
        return _build_unreadable(f"it is {describe_type(answer)}, not an object")
    success, output = answer.get("success"), answer.get("output")
    if not isinstance(success, bool):
        return _build_unreadable('it has no "success" that is true or false')
    if not isinstance(output, dict | None):
        return _build_unreadable(f'its "output" is {describe_type(output)}, not an object')
    body = answer if output is None else output
    error = body.get("error")
    answered = answer.get("call_id")
    if success and call_id and isinstance(answered, str) and answered not in ("", call_id):
        text = f"The server answered a different call: its call_id is {answered[:80]!r}. This call might have run."
        return Problem(kind=Kind.BAD_ANSWER, message=text)
    if success and error is None:
        return Value(body.get("value"))
    return _read_problem(Kind.TOOL_FAILED, error, "The tool failed without a reason.")


def read_refusal(response: Response, kinds: Mapping[int, Kind]) -> Problem:
    """Return what any other status says. ``kinds`` is what a dialect means by a status of its own."""
    status = response.status
    data = read_json(response.body)
    data = {} if isinstance(data, Problem) else data
    if 300 <= status < 400:
        return _build_unreadable("it sends elsewhere: use the address it names")
    unsaid = f"The server answered with status {status}, without a reason."
    problem = _read_problem(_choose_kind(status, data, kinds), _find_refusal(data), unsaid)
    if status not in (429, 503):
        return problem
    wait_ms = problem.retry_after_ms
    wait_ms = _read_wait_ms(response) if wait_ms is None else wait_ms
    return replace(problem, retry_after_ms=wait_ms, can_retry=problem.can_retry or wait_ms is not None)


def _find_refusal(data: Json) -> Json:
    """Return where a refusal says why: at the top, or in the error of an answer as it would have been."""
    #
    if isinstance(data, dict):
        for body in (data, get_object(data, "output"), get_object(data, "result")):
            if error := get_object(body, "error"):
                return dict(error)
    return data


def _choose_kind(status: int, data: Json, kinds: Mapping[int, Kind]) -> Kind:
    if isinstance(data, dict):
        if status == 400 and isinstance(data.get("missing_requirements"), dict):
            return Kind.MISSING_REQUIREMENTS
        word = data.get("error")
        if word == Kind.ACCEPTED.value and status == 503:  # LC-02: a long call goes on
            return Kind.ACCEPTED
        if isinstance(word, str) and word in _WORDS and STATUS_BY_KIND[Kind(word)] == status:
            return Kind(word)
    return kinds.get(status) or _KINDS.get(status, Kind.BAD_ANSWER)


def _read_problem(kind: Kind, data: Json, unsaid: str) -> Problem:
    """Read an error object: the protocol's own members, and the ``detail`` of a web framework."""
    # OTC-028..032
    body = data if isinstance(data, dict) else {"message": data}
    wait_ms = parse_wait_ms(body.get("retry_after_ms"))
    details = get_object(body, "details")
    if missing := get_object(body, "missing_requirements"):
        details = {**details, "missing_requirements": missing}
    return Problem(
        kind=kind,
        message=_read_message(body) or unsaid,
        developer_message=_read_text(body.get("developer_message")) or None,
        can_retry=body.get("can_retry") is True,
        retry_after_ms=None if wait_ms is None else min(wait_ms, MAX_WAIT_MS),
        additional_prompt_content=_read_text(body.get("additional_prompt_content")) or None,
        parameter_errors=_read_parameter_errors(body),
        details=details,
    )


def _read_message(body: Mapping[str, Json]) -> str:
    for name in ("message", "detail", "error"):
        if text := _read_text(body.get(name)):
            return text
    return "; ".join(f"{name}: {text}" if name else text for name, text in _list_framework_errors(body))[:MAX_TEXT]


def _read_parameter_errors(body: Mapping[str, Json]) -> dict[str, str]:
    given = get_object(body, "parameter_errors")
    return {name: _read_text(text) for name, text in given.items() if _read_text(text)} or dict(
        _list_framework_errors(body)
    )


def _list_framework_errors(body: Mapping[str, Json]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    detail = body.get("detail")
    for entry in detail if isinstance(detail, list) else ():
        match entry:
            case {"msg": str(text), "loc": [*_, str(name)]}:
                found.append((name, text[:MAX_TEXT]))
            case {"msg": str(text)} | str(text):
                found.append(("", text[:MAX_TEXT]))
            case _:
                pass
    return found


def _read_text(data: Json) -> str:
    return data.strip()[:MAX_TEXT] if isinstance(data, str) else ""


def _read_wait_ms(response: Response) -> int | None:
    """Return the wait that the headers ask for, in our own milliseconds or as HTTP has it."""
    text = get_header(response.headers, b"retry-after-ms").strip()
    if text.isascii() and text.isdigit() and len(text) < 10:
        return min(int(text), MAX_WAIT_MS)
    asked = read_retry_after_ms(response)
    return None if asked is None else min(asked, MAX_WAIT_MS)


def _build_unreadable(what: str) -> Problem:
    return Problem(kind=Kind.BAD_ANSWER, message=f"Cannot read the server's answer: {what}.")
