"""Define the conversations of an OpenTool client without a network: one flow for each method.

Rules:
- What goes wrong is raised as one of the specification's exceptions, whatever the server calls it.
- The body is read before the status is looked at, except 401: servers put calls that failed under any status.
- The id of an answer is not looked at: servers answer errors with another, or with none.
"""
# OTRPC-022..026, C-2, C-3

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

from toolwire.core.codec import Flow, fetch, listen
from toolwire.core.http import JSON_HEADERS, Request, Response
from toolwire.core.model import Json, Problem, Progress
from toolwire.framing import jsontext
from toolwire.protocols.opentool import error_object, objects, quirks
from toolwire.protocols.opentool.objects import OpenTool
from toolwire.protocols.opentool.quirks import Quirk
from toolwire.protocols.opentool.stream_reader import StreamReader

from .exceptions import (
    ErrorNullException,
    OpenToolServerCallException,
    OpenToolServerNoAccessException,
    OpenToolServerUnauthorizedException,
    ResponseNullException,
)
from .messages import FunctionCall, ToolReturn, Version

_ACCEPT = ((b"accept", b"application/json"),)
_POST = (*JSON_HEADERS, *_ACCEPT)
_STREAM = (*JSON_HEADERS, (b"accept", b"text/event-stream, application/json"))
_NOT_THERE = frozenset({"dns", "refused", "tls", "timeout", "closed"})
_KEY_HINT = (
    "Some servers (Java) answer this way to every call without a key, even if no key is configured. Pass any api_key."
)


def ask_version(base: str) -> Flow[Version]:
    """Return the version of the server at ``base``: any text, under ``version`` or ``versionNumber``."""
    # C-6, A-24
    response = yield from _exchange(Request("GET", f"{base}/version", _ACCEPT))
    match quirks.mend(_read(response), quirks.VERSION):
        case {"version": str(version)}:
            return Version(version)
        case data:
            raise _build_no_answer(response, data, "a version")


def call_function(base: str, call: FunctionCall, mended: Sequence[Quirk]) -> Flow[ToolReturn]:
    """Return what ``call`` gave; it is sent once. ``mended`` are the quirks of servers that are undone."""
    # C-1, C-3
    body = {"jsonrpc": "2.0", "method": call.name, "params": dict(call.arguments), "id": call.id}
    response = yield from _exchange(Request("POST", f"{base}/call", _POST, jsontext.write(body)))
    return _read_return(response, call, mended)


def _read_return(response: Response, call: FunctionCall, mended: Sequence[Quirk]) -> ToolReturn:
    match quirks.mend(_read(response), mended):
        case {"error": dict(error)}:
            problem = error_object.read(error)
            raise OpenToolServerCallException(problem.message, problem)
        case {"result": data} if data is not None and _is_good(response):
            return ToolReturn(call.id, data if isinstance(data, dict) else {"result": data})
        case data:
            raise _build_no_answer(response, data, "a result")


def stream_function(base: str, call: FunctionCall, mended: Sequence[Quirk]) -> Flow[ToolReturn | None]:
    """Give each piece that ``call`` sends as progress, its object as it came; it is sent once.

    A server that answers without a stream gives all at once: that answer is the value.
    """
    #
    body = {"jsonrpc": "2.0", "method": call.name, "params": dict(call.arguments), "id": call.id}
    reader = StreamReader(None)
    response = yield from listen(Request("POST", f"{base}/streamCall", _STREAM, jsontext.write(body)), reader.feed)
    ended = reader.ended
    if ended is None:
        if isinstance(response, Problem):
            raise _build_unreachable(response)
        if response.body or not _is_good(response):
            return _read_return(_check_readable(response), call, mended)
        ended = reader.result(response)
    if isinstance(ended, Problem):
        raise OpenToolServerCallException(ended.message, ended)
    return None


def build_piece(call: FunctionCall, progress: Progress) -> ToolReturn:
    """Return a piece of a stream as an SDK gives it."""
    #
    value = progress.value
    return ToolReturn(call.id, value if isinstance(value, dict) else {"result": value})


def load_document(base: str) -> Flow[OpenTool | None]:
    """Return the document of the server at ``base``, or None where it says that it has none."""
    # C-4, C-5, A-21
    response = yield from _exchange(Request("GET", f"{base}/load", _ACCEPT), missing=(404, 501))
    if response.status in (404, 501):
        return None
    data = quirks.mend(_read(response), quirks.DOCUMENT)
    if not isinstance(data, dict) or not _is_good(response):
        raise _build_no_answer(response, data, "a document")
    if data == {}:
        return None
    document = objects.read(data)
    if isinstance(document, Problem):
        raise OpenToolServerCallException(f"Cannot read the server's document. {document.message}", document)
    return document


def _exchange(request: Request, missing: Sequence[int] = ()) -> Flow[Response]:
    """Return the response to ``request`` where there is one that can be read on."""
    response = yield from fetch(request)
    if isinstance(response, Problem):
        raise _build_unreachable(response)
    return _check_readable(response, missing)


def _check_readable(response: Response, missing: Sequence[int] = ()) -> Response:
    """Return ``response`` where something can be read in it."""
    if response.status == HTTPStatus.UNAUTHORIZED:
        refused = OpenToolServerUnauthorizedException()
        refused.add_note(_KEY_HINT)
        raise refused
    if response.status == HTTPStatus.NOT_FOUND and HTTPStatus.NOT_FOUND not in missing and not _is_answer(response):
        raise OpenToolServerNoAccessException
    return response


def _build_unreachable(problem: Problem) -> OpenToolServerNoAccessException | OpenToolServerCallException:
    """Return NoAccess where no server was there; what was never sent, or may have run, says what happened."""
    #
    details = problem.details
    if details.get("sent") is False and details.get("reason") in _NOT_THERE:
        missing = OpenToolServerNoAccessException()
        missing.add_note(problem.message)
        return missing
    return OpenToolServerCallException(problem.message, problem)


def _build_no_answer(response: Response, data: Json, wanted: str) -> Exception:
    """Return the exception for an answer without what was ``wanted``."""
    # OTRPC-022, OTRPC-023, A-26
    status = response.status
    if not _is_good(response):
        return OpenToolServerCallException(f"HTTP {status}: the server's answer is not {wanted}")
    if isinstance(data, Problem):
        return OpenToolServerCallException(f"Cannot read the server's answer. {data.message}", data)
    return ResponseNullException(status) if data is None else ErrorNullException(status)


def _read(response: Response) -> Json | Problem:
    return jsontext.read(response.body) if response.body.strip() else None


def _is_good(response: Response) -> bool:
    return 200 <= response.status < 300


def _is_answer(response: Response) -> bool:
    """Return whether the body is a JSON-RPC answer, which only an OpenTool server gives."""
    data = _read(response)
    return isinstance(data, dict) and "jsonrpc" in data
