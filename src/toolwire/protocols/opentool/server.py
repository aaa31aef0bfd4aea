"""Serve ``/opentool/version``, ``/load``, ``/call`` and ``/streamCall``.

Rules:
- A call that can be read is answered with status 200, whatever came of it: real clients take any other status for a
  server that is not there. Only 401 and 503 are said as such.
- Answers carry both ``result`` and ``error``, as the specification and its SDKs have them; in the strict form, which is
  JSON-RPC's own, the one that says nothing is left out.
- The id of a request only matches its answer. It is no idempotency key: clients begin again at 1.
"""
# A-14, S-3, A-12, A-15

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeAlias

from toolwire.core.call_by_name import CALL, read_named_call
from toolwire.core.catalog import VERSION, Catalog
from toolwire.core.codec import Pending, Reading, Route, Routes, Site, Streaming, build_deferred_reader, make_pending
from toolwire.core.http import EVENT_HEADERS, JSON_HEADERS, STATUS_BY_KIND, Headers, Request, Response, make_response
from toolwire.core.model import LOG_EVENT, Call, Json, Kind, Problem, Progress, Result, Tool, Value, make_call
from toolwire.framing import jsonrpc, jsontext, sse
from toolwire.framing.call_context import read_field
from toolwire.framing.response_fields import HEADERS, list_passed_fields

from . import document, error_object, result
from .document import PROGRESS
from .result import Shape

Id: TypeAlias = str | int | float | None

_NO_VERSION = "1.0.0"


class AnswerForm(NamedTuple):
    """What stands beside a value in an answer, and what beside an error."""

    value: Mapping[str, Json]
    error: Mapping[str, Json]


BOTH = AnswerForm({"error": None}, {"result": {}})
STRICT = AnswerForm({}, {})


class _ServedFunction(NamedTuple):
    name: str
    tool: Tool
    shape: Shape
    form: AnswerForm


class _Functions:
    """The functions of a catalog, each built when it is first called."""

    def __init__(self, catalog: Catalog, site: Site, form: AnswerForm) -> None:
        self.names = catalog.names
        self._catalog, self._site, self._form = catalog, site, form
        self._built: dict[str, _ServedFunction] = {}
        self._whole: _Functions | None = None if catalog.whole is None else _Functions(catalog.whole, site, form)

    def find_meant(self, params: Mapping[str, Json]) -> tuple[_ServedFunction, dict[str, Json]] | Problem:
        """Return the function that a call of ``CALL`` names, and its arguments."""
        meant = read_named_call(self._catalog, params)
        if isinstance(meant, Problem):
            return meant
        whole = self if self._whole is None else self._whole
        name = next((name for name, tool in whole.names.items() if tool is meant.tool), "")
        function = whole.find(name) if name else self.find(meant.tool.name)
        if function is None:
            return _build_not_supported(meant.tool.name, whole.names)
        return function, dict(meant.arguments)

    def find(self, name: str) -> _ServedFunction | None:
        """Return the function ``name``; a renamed tool is also found by the name that its own server has for it."""
        found = self._built.get(name)
        if found is None:
            tool = self.names.get(name) or self._find_renamed(name)
            if tool is None:
                return None if self._whole is None else self._whole.find(name)
            shape = self._site.cache.get(_find_shape, tool, name)
            found = self._built[name] = _ServedFunction(name, tool, shape, self._form)
        return found

    def _find_renamed(self, name: str) -> Tool | None:
        tool = self._catalog.find(name)
        if isinstance(tool, Problem) or tool.original_name != name:
            return None
        return tool if any(tool is newest for newest in self.names.values()) else None


_Accept: TypeAlias = Callable[[_ServedFunction, Call, Id], Reading]
_Decline: TypeAlias = Callable[[Problem, Id, AnswerForm], Response]


def build_routes(catalog: Catalog, site: Site, form: AnswerForm = BOTH) -> Routes:
    """Return the readers of every path of OpenTool. There is no ``/stop``."""
    # OTRPC-001, S-17, A-28
    functions = _Functions(catalog, site, form)
    version = _build_static_response(
        {"version": catalog.version if VERSION.fullmatch(catalog.version) else _NO_VERSION}
    )
    describe = partial(site.cache.get, _serialize_function)
    # SE-02
    server = {"url": site.public_url, "description": catalog.title} if site.public_url else None
    load = site.defer(lambda: _build_static_response(document.write(catalog, describe=describe, server=server)))
    return {
        ("GET", "/opentool/version"): Route(lambda _: version),
        ("GET", "/opentool/load"): Route(build_deferred_reader(load)),
        ("POST", "/opentool/call"): Route(partial(_read, functions, form, _build_pending, _refuse_call)),
        ("POST", "/opentool/streamCall"): Route(partial(_read, functions, form, _build_stream, _refuse_stream)),
    }


def _find_shape(tool: Tool, _name: str) -> Shape:
    return result.get_shape(tool.output_schema)


def _serialize_function(tool: Tool, name: str) -> Json:
    return jsontext.encode_fragment(document.write_function(tool, name))


def refuse(problem: Problem, form: AnswerForm = BOTH) -> Response:
    """Return the answer to a request that no reader saw: the status of its kind, and an envelope with id null."""
    # S-5
    return _build_envelope(problem, None, STATUS_BY_KIND[problem.kind], form)


def _read(functions: _Functions, form: AnswerForm, accept: _Accept, decline: _Decline, request: Request) -> Reading:
    """Return what ``accept`` makes of a call that can run, what ``decline`` says to one for what is not there."""
    data = jsontext.read_object(request)
    if isinstance(data, Problem):
        return _refuse_unreadable(data, request, form)
    message = jsonrpc.read(data)
    if isinstance(message, Problem):
        return _build_envelope(message, jsonrpc.get_id(data), 400, form)
    if message.id is None:  # SE-03: null is the id of a request that could not be read, so it matches no request
        text = 'This is not an OpenTool call. It needs an "id", a string or a number, to match the result.'
        return _build_envelope(Problem(kind=Kind.MALFORMED, message=text), None, 400, form)
    read = _read_call(functions, message)
    if isinstance(read, Problem):
        return decline(read, message.id, form)
    function, params = read
    context = read_field(request, function.tool)
    return (
        decline(context, message.id, form)
        if isinstance(context, Problem)
        else accept(function, make_call((function.tool, params, request.id, context, "")), message.id)
    )


def _read_call(functions: _Functions, message: jsonrpc.Message) -> tuple[_ServedFunction, dict[str, Json]] | Problem:
    """Return the function that ``message`` calls, and its arguments."""
    function = functions.find(message.method)
    if function is None:
        return _build_not_supported(message.method, functions.names)
    params = {} if message.params is None else message.params
    if not isinstance(params, dict):
        text = f'"params" must be an object of arguments by name, not {jsontext.describe_type(params)}.'
        return Problem(kind=Kind.INVALID_ARGUMENTS, message=text)
    # FI-07: a call by name is from here on the call of the tool that is meant.
    return functions.find_meant(params) if function.tool is CALL else (function, params)


def _refuse_unreadable(problem: Problem, request: Request, form: AnswerForm) -> Response:
    """Return the answer to a body that is no JSON object: -32700 if it is no JSON at all, else -32600."""
    # S-5, A-17
    is_json = problem.kind is not Kind.MALFORMED or not isinstance(jsontext.read(request.body), Problem)
    return _build_envelope(problem, None, STATUS_BY_KIND[problem.kind], form, None if is_json else jsonrpc.PARSE_ERROR)


def _build_not_supported(method: str, names: Mapping[str, Tool]) -> Problem:
    known = ", ".join(list(names)[:20]) + (", ..." if len(names) > 20 else "")
    return Problem(
        kind=Kind.UNKNOWN_TOOL,
        message=f"Function Not Supported: {method if len(method) <= 200 else method[:200] + '...'}",
        additional_prompt_content=f"There is: {known or 'no function at all'}.",
    )


def _build_pending(function: _ServedFunction, call: Call, id_: Id) -> Pending:
    beside = function.form.value

    def reply(outcome: Result, _duration_ms: float) -> Response:
        if isinstance(outcome, Value):
            written = result.write(outcome.value, function.shape, function.tool.output_name)
            return make_response(
                (200, JSON_HEADERS, jsontext.write({"jsonrpc": "2.0", "result": written, **beside, "id": id_}))
            )
        return _refuse_call(outcome, id_, function.form)

    return make_pending((call, reply, False))


def _build_stream(function: _ServedFunction, call: Call, id_: Id) -> Streaming:
    """Return the stream of a call, in the frames the Dart SDK reads: start, data..., then done or error.

    The pieces of a tool that streams are its result; the value of any other is the one ``data`` frame. What a tool
    says of how far it is has frames of its own, ``progress``.
    """
    #
    tool, name, form = function.tool, function.tool.output_name, function.form
    item_shape = result.get_item_shape(tool.output_schema)
    sent = 0
    if tool.streams:  # GR-02: the last frame only says that it is done
        call = call._replace(context=replace(call.context, takes_items=True))

    def frame(progress: Progress) -> bytes:
        nonlocal sent
        if progress.event == LOG_EVENT:  # OpenTool has no log
            return b""
        if progress.event == PROGRESS or not tool.streams:
            return write_value(PROGRESS, progress.value, Shape.ANY)
        sent += 1
        return write_value("data", progress.value, item_shape)

    def write_value(event: str, value: Json, shape: Shape) -> bytes:
        return _write_frame(event, {"jsonrpc": "2.0", "result": result.write(value, shape, name), "id": id_})

    def write_closing(outcome: Result, _duration_ms: float) -> bytes:
        if isinstance(outcome, Problem):
            return _write_error_frame(outcome, id_, form)
        done: dict[str, Json] = {"done": function.name}
        if fields := list_passed_fields(outcome):  # CR-04
            done[HEADERS] = fields
        if not tool.streams:
            return write_value("data", outcome.value, function.shape) + _write_frame("done", done)
        # A server behind this one can return items that it did not send before.
        left = outcome.value[sent:] if isinstance(outcome.value, list) else []
        return b"".join([*(write_value("data", item, item_shape) for item in left), _write_frame("done", done)])

    opening = _write_frame("start", {"start": function.name})
    return Streaming(
        call,
        EVENT_HEADERS,
        opening,
        frame,
        write_closing,
        lambda problem: _refuse_stream(problem, id_, form),
        sse.COMMENT,
    )


def _write_frame(event: str, data: Json) -> bytes:
    return sse.write(event, jsontext.write(data))


def _write_error_frame(problem: Problem, id_: Id, form: AnswerForm) -> bytes:
    return _write_frame("error", {"jsonrpc": "2.0", **form.error, "error": error_object.write(problem), "id": id_})


def _refuse_call(problem: Problem, id_: Id, form: AnswerForm) -> Response:
    return _build_envelope(problem, id_, _choose_status(problem), form)


def _refuse_stream(problem: Problem, id_: Id, form: AnswerForm) -> Response:
    """Return ``problem`` as a stream of one frame: the Dart client takes a body without frames for success."""
    headers = (*EVENT_HEADERS, *_build_hint_headers(problem))
    return Response(_choose_status(problem), headers, _write_error_frame(problem, id_, form))


def _choose_status(problem: Problem) -> int:
    if problem.kind is Kind.ACCEPTED and problem.can_retry:  # LC-02: the same call with the same key gets the result
        return 503
    return STATUS_BY_KIND[problem.kind] if problem.kind in (Kind.UNAUTHORIZED, Kind.OVERLOADED) else 200


def _build_envelope(problem: Problem, id_: Id, status: int, form: AnswerForm, code: int | None = None) -> Response:
    error = error_object.write(problem, code)
    body: dict[str, Json] = {"jsonrpc": "2.0", **form.error, "error": error, "id": id_}
    if problem.kind is Kind.UNAUTHORIZED:
        body["message"] = error["message"]  # [S-7]
    return Response(status, (*JSON_HEADERS, *_build_hint_headers(problem)), jsontext.write(body))


def _build_hint_headers(problem: Problem) -> Headers:
    if problem.kind is Kind.UNAUTHORIZED:
        return ((b"www-authenticate", b"Bearer"),)
    if problem.kind in (Kind.OVERLOADED, Kind.ACCEPTED):
        seconds = max(1, -(-(problem.retry_after_ms or 0) // 1000))
        return ((b"retry-after", b"%d" % seconds),)
    return ()


def _build_static_response(data: Json) -> Response:
    body = jsontext.write(data)
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'.encode()
    return Response(200, (*JSON_HEADERS, (b"etag", etag)), body)
