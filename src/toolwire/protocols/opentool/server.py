"""The server half: ``/opentool/version``, ``/load``, ``/call`` and ``/streamCall``.

Rules:
- A call that can be read is answered with status 200, whatever came of it: real clients take any other status for a
  server that is not there. Only 401 and 503 are said as such. [A-14, S-3]
- Answers carry both ``result`` and ``error``, as the specification and its SDKs have them. [A-12]
- The id of a request only matches its answer. It is no idempotency key: clients begin again at 1. [A-15]
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Pending, Reading, Route, Routes, Site, Streaming
from toolwire.core.http import JSON, STATUS, Headers, Request, Response
from toolwire.core.model import Call, Json, Kind, Problem, Progress, Result, Tool, Value
from toolwire.framing import jsonrpc, jsontext, sse

from . import document, failure, result
from .heard import PROGRESS
from .result import Shape

Id: TypeAlias = str | int | float | None
_Refuse: TypeAlias = Callable[[Problem, Id], Response]

_EVENTS: Headers = ((b"content-type", b"text/event-stream"), (b"cache-control", b"no-store"))


class _Function(NamedTuple):
    name: str
    tool: Tool
    shape: Shape


_Accept: TypeAlias = Callable[[_Function, Call, Id], Reading]
_Decline: TypeAlias = Callable[[Problem, Id], Response]


def routes(catalog: Catalog, site: Site) -> Routes:  # noqa: ARG001  a codec's shape; OpenTool says nothing of keys
    """Return the readers of every path of OpenTool. There is no ``/stop``. [OTRPC-001, S-17, A-28]"""
    functions = {name: _Function(name, tool, result.shape(tool.output_schema)) for name, tool in catalog.names.items()}
    version = _fixed({"version": catalog.version})
    load = _fixed(document.write(catalog))
    return {
        ("GET", "/opentool/version"): Route(lambda _: version),
        ("GET", "/opentool/load"): Route(lambda _: load),
        ("POST", "/opentool/call"): Route(lambda request: _read_call(request, functions)),
        ("POST", "/opentool/streamCall"): Route(lambda request: _read_stream(request, functions)),
    }


def refuse(problem: Problem) -> Response:
    """Return the answer to a request that no reader saw: the status of its kind, and an envelope with id null. [S-5]"""
    return _envelope(problem, None, STATUS[problem.kind])


def _read_call(request: Request, functions: Mapping[str, _Function]) -> Reading:
    return _read(request, functions, _pending, _refuse_call)


def _read_stream(request: Request, functions: Mapping[str, _Function]) -> Reading:
    return _read(request, functions, _stream, _refuse_stream)


def _read(request: Request, functions: Mapping[str, _Function], accept: _Accept, decline: _Decline) -> Reading:
    """Return what ``accept`` makes of a call that can run, what ``decline`` says to one for what is not there."""
    data = jsontext.read_object(request)
    if isinstance(data, Problem):
        return _unreadable(data, request)
    message = jsonrpc.read(data)
    if isinstance(message, Problem):
        return _envelope(message, jsonrpc.id_of(data), 400)
    if not message.expects_answer:
        text = 'This is not an OpenTool call: it needs an "id", so that its outcome can be answered.'
        return _envelope(Problem(kind=Kind.MALFORMED, message=text), None, 400)
    function = functions.get(message.method)
    if function is None:
        return decline(_not_supported(message.method, functions), message.id)
    params = {} if message.params is None else message.params
    if not isinstance(params, dict):
        text = f'"params" must be an object with an argument under each name, not {jsontext.kind_of(params)}.'
        return decline(Problem(kind=Kind.INVALID_ARGUMENTS, message=text), message.id)
    return accept(function, Call(function.tool, params, request.id), message.id)


def _unreadable(problem: Problem, request: Request) -> Response:
    """Return the answer to a body that is no JSON object: -32700 if it is no JSON at all, else -32600. [S-5, A-17]"""
    is_json = problem.kind is not Kind.MALFORMED or not isinstance(jsontext.read(request.body), Problem)
    return _envelope(problem, None, STATUS[problem.kind], None if is_json else jsonrpc.PARSE_ERROR)


def _not_supported(method: str, functions: Mapping[str, _Function]) -> Problem:
    known = ", ".join(list(functions)[:20]) + (", ..." if len(functions) > 20 else "")
    return Problem(
        kind=Kind.UNKNOWN_TOOL,
        message=f"Function Not Supported: {method if len(method) <= 200 else method[:200] + '...'}",
        additional_prompt_content=f"There is: {known or 'no function at all'}.",
    )


def _pending(function: _Function, call: Call, id_: Id) -> Pending:
    def reply(outcome: Result, _duration_ms: float) -> Response:
        if isinstance(outcome, Value):
            said = result.write(outcome.value, function.shape, function.tool.output_name)
            return Response(200, JSON, jsontext.write({"jsonrpc": "2.0", "result": said, "error": None, "id": id_}))
        return _refuse_call(outcome, id_)

    return Pending(call, reply)


def _stream(function: _Function, call: Call, id_: Id) -> Streaming:
    """Return the stream of a call, in the frames the Dart SDK reads: start, data..., then done or error. [A-28]

    The pieces of a tool that streams are its result; the value of any other is the one ``data`` frame. What a tool
    says of how far it is has frames of its own, ``progress``.
    """
    tool, name = function.tool, function.tool.output_name

    def frame(progress: Progress) -> bytes:
        piece = progress.value if isinstance(progress.value, dict) else {name: progress.value}
        event = PROGRESS if progress.event == PROGRESS else "data"
        return _frame(event, {"jsonrpc": "2.0", "result": piece, "id": id_})

    def closing(outcome: Result, _duration_ms: float) -> bytes:
        if isinstance(outcome, Problem):
            return _error_frame(outcome, id_)
        if tool.streams:
            return _frame("done", {"done": function.name})
        said = result.write(outcome.value, function.shape, name)
        return _frame("data", {"jsonrpc": "2.0", "result": said, "id": id_}) + _frame("done", {"done": function.name})

    opening = _frame("start", {"start": function.name})
    return Streaming(call, _EVENTS, opening, frame, closing, lambda problem: _refuse_stream(problem, id_))


def _frame(event: str, data: Json) -> bytes:
    return sse.write(event, jsontext.write(data))


def _error_frame(problem: Problem, id_: Id) -> bytes:
    return _frame("error", {"jsonrpc": "2.0", "result": {}, "error": failure.write(problem), "id": id_})


def _refuse_call(problem: Problem, id_: Id) -> Response:
    return _envelope(problem, id_, _status(problem))


def _refuse_stream(problem: Problem, id_: Id) -> Response:
    """Return ``problem`` as a stream of one frame: the Dart client takes a body without frames for success."""
    headers = (*_EVENTS, *_hints(problem))
    return Response(_status(problem), headers, _error_frame(problem, id_))


def _status(problem: Problem) -> int:
    return STATUS[problem.kind] if problem.kind in (Kind.UNAUTHORIZED, Kind.OVERLOADED) else 200


def _envelope(problem: Problem, id_: Id, status: int, code: int | None = None) -> Response:
    error = failure.write(problem, code)
    body: dict[str, Json] = {"jsonrpc": "2.0", "result": {}, "error": error, "id": id_}
    if problem.kind is Kind.UNAUTHORIZED:
        body["message"] = error["message"]  # [S-7]
    return Response(status, (*JSON, *_hints(problem)), jsontext.write(body))


def _hints(problem: Problem) -> Headers:
    if problem.kind is Kind.UNAUTHORIZED:
        return ((b"www-authenticate", b"Bearer"),)
    if problem.kind is Kind.OVERLOADED:
        seconds = max(1, -(-(problem.retry_after_ms or 0) // 1000))
        return ((b"retry-after", b"%d" % seconds),)
    return ()


def _fixed(data: Json) -> Response:
    body = jsontext.write(data)
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'.encode()
    return Response(200, (*JSON, (b"etag", etag)), body)
