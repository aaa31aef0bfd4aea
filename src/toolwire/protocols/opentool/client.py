"""Find an OpenTool server, and call one of its functions.

Rules:
- Only the URL a person gave is ever called, never one that a document names.
- Nothing is sent twice: a call that may have run is not repeated.
- The body is read before the status is looked at, except 401: servers put calls that failed under any status.
"""
# A-08, C-11, C-2

from __future__ import annotations

from typing import NamedTuple

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Finding, Flow, Peer, Probe, fetch, listen
from toolwire.core.http import JSON_HEADERS, Request, Response
from toolwire.core.interpreter import pause_collection
from toolwire.core.model import NO_REQUIREMENTS, Call, Json, Kind, Problem, Result, Value
from toolwire.framing import jsontext
from toolwire.framing.call_context import list_credentials, write_field
from toolwire.framing.rate_headers import read_retry_after_ms

from . import document, error_object, quirks, result
from .document import Document
from .stream_reader import StreamReader

_ACCEPT = ((b"accept", b"application/json"),)
_POST = (*JSON_HEADERS, *_ACCEPT)
_STREAM = (*JSON_HEADERS, (b"accept", b"text/event-stream, application/json"))
_NO_STREAM = (404, 405, 501)
_NO_DOCUMENT = Document(Catalog(), {}, ())
_ID = "1"
"""The id of a call that has none of its own."""
_OWN_PATHS = ("version", "load", "call", "streamCall")
_STATUS_KINDS = {
    403: Kind.FORBIDDEN,
    404: Kind.NOT_FOUND,
    413: Kind.TOO_LARGE,
    429: Kind.RATE_LIMITED,
    503: Kind.OVERLOADED,
}
"""What a status means where the body is no answer; any other is a bad answer. [A-26]"""


class _Seen(NamedTuple):
    """What a probe saw: whether it speaks for OpenTool, and why."""

    good: bool
    text: str


def find(url: str) -> Flow[Finding]:
    """Return the OpenTool server at ``url``, pasted with or without ``/opentool``, if there is one.

    A server without a description is found with an empty catalog; its functions can still be called by name.
    """
    # C-8, C-5
    base = endpoint(url)
    response = yield from fetch(Request("GET", f"{base}/version", _ACCEPT))
    version = _version(response)
    known = Probe("opentool", f"{base}/version", _status(response), version.text, version.good)
    if not version.good:
        return Finding(None, (known,))
    response = yield from fetch(Request("GET", f"{base}/load", _ACCEPT))
    with pause_collection():  # reading a large document makes many objects, and all of them stay
        loaded = _load(response)
    if isinstance(loaded, Problem):
        return Finding(None, (known, Probe("opentool", f"{base}/load", _status(response), loaded.message)))
    probe = Probe("opentool", f"{base}/load", _status(response), _summary(loaded), accepted=True)
    site = loaded.catalog.title if loaded.catalog.tools else ""
    peer = Peer(
        protocol="opentool",
        url=base,
        catalog=loaded.catalog,
        site=site,
        takes_any_name=loaded is _NO_DOCUMENT,
        findings=lambda: loaded.notes,
    )
    return Finding(peer, (known, probe))


def send(peer: Peer, call: Call) -> Flow[Result]:
    """Return what came of ``call``, sent once; a tool that streams is heard while it runs.

    A server that has no ``/streamCall`` has run nothing, and is asked for the whole result instead.
    """
    # C-1, A-11
    tool = call.tool
    body = {
        "jsonrpc": "2.0",
        "method": tool.original_name or tool.name,
        "params": dict(call.arguments),
        "id": call.call_id or _ID,
    }
    text = jsontext.write(body)
    has_needs = tool.requirements is not NO_REQUIREMENTS
    field, credentials = (write_field(call), list_credentials(call)) if has_needs else ((), ())  # I-27
    if _is_streamed(call):
        shape = result.get_item_shape if tool.streams else result.get_shape
        reader = StreamReader(
            tool.output_name,
            shape(tool.output_schema),
            whole=not tool.streams,
            takes_items=call.context.takes_items,
        )
        response: Response | Problem
        request = Request("POST", f"{peer.url}/streamCall", (*_STREAM, *field), text, credentials=credentials)
        response = yield from listen(request, reader.feed)
        if isinstance(response, Problem):
            return response if reader.ended is None else reader.ended
        if response.status not in _NO_STREAM:
            return _answer(response, call) if response.body else reader.result(response)
    response = yield Request("POST", f"{peer.url}/call", (*_POST, *field), text, credentials=credentials)
    if isinstance(response, Problem):
        return response
    return _answer(response, call)


def target(peer: Peer, call: Call) -> str:
    """Return the method and URL of ``call``, to show before it is sent."""
    return f"POST {peer.url}/{'streamCall' if _is_streamed(call) else 'call'}"


def _is_streamed(call: Call) -> bool:
    """Return whether the function gives pieces, or reports progress to a caller that wants it."""
    return call.tool.streams or (call.tool.reports and call.context.report is not None)


def endpoint(url: str) -> str:
    """Return where the paths of OpenTool begin, for a URL as a person pastes it."""
    # A-08, C-8
    base = url.strip().partition("#")[0].partition("?")[0].rstrip("/")
    parent, _, last = base.rpartition("/")
    if last in _OWN_PATHS and parent.endswith("/opentool"):
        return parent
    return base if last == "opentool" and "://" in parent else f"{base}/opentool"


def _version(response: Response | Problem) -> _Seen:
    data = _body(response)
    if isinstance(data, Problem):
        return _Seen(good=False, text=data.message)
    match quirks.mend(data, quirks.VERSION):
        case {"version": str(version)}:
            return _Seen(good=True, text=f"an OpenTool server, version {version[:40]!r}")
        case _:
            return _Seen(good=False, text="not an OpenTool server: the answer contains no version")


def _load(response: Response | Problem) -> Document | Problem:
    """Return the document of a server; an empty one where it says that it has none."""
    # C-5, A-21, OTRPC-017
    if isinstance(response, Response) and response.status in (404, 501):
        return _NO_DOCUMENT
    data = quirks.mend(_body(response), quirks.DOCUMENT)
    if isinstance(data, Problem):
        return data
    return document.read(data) if data != {} else _NO_DOCUMENT


def _body(response: Response | Problem) -> Json | Problem:
    """Return the JSON a probe brought, or a Problem that says in a few words why there is none."""
    if isinstance(response, Problem):
        return response
    if response.status in (401, 403):
        return Problem(kind=Kind.UNAUTHORIZED, message="needs a key")
    if not 200 <= response.status < 300:
        return Problem(kind=Kind.BAD_ANSWER, message=f"answered with status {response.status}")
    return _data(response)


def _summary(loaded: Document) -> str:
    count = len(loaded.catalog.tools)
    returned = [f"{count} {'function' if count == 1 else 'functions'}" if count else "no description"]
    if loaded.notes:
        more = len(loaded.notes) - 3
        returned += [*loaded.notes[:3], *([f"{more} more notes"] if more > 0 else [])]
    return "; ".join(returned)


def _answer(response: Response, call: Call) -> Result:
    """Return what an answer says. An error can have any id: servers answer errors with another, or with none."""
    # C-3
    status = response.status
    if status == 401:
        text = "The server requires an API key, or rejected this one. Check that the key is valid."
        return Problem(kind=Kind.UNAUTHORIZED, message=text)  # [OTRPC-024]
    data = _data(response)
    match data if _is_plain_result(data) else quirks.mend(data, quirks.ANSWER):
        case {"error": dict(error)}:
            return error_object.read({"code": status if status >= 400 else None} | error)
        # A server may write the id as a number, or as an empty text.
        case {"result": returned, "id": str() | int() | float() as id_} if returned is not None and (
            str(id_) not in ("", call.call_id or _ID)
        ):
            text = f"The server answered a different call: its id is {str(id_)[:80]!r}. This call might have run."
            return Problem(kind=Kind.BAD_ANSWER, message=text)  # I-30
        case {"result": returned} if returned is not None and 200 <= status < 300:
            return Value(result.read(returned, result.get_shape(call.tool.output_schema), call.tool.output_name))
        case _:
            return _no_answer(response, data)


def _is_plain_result(data: Json | Problem) -> bool:
    """Return whether no quirk changes what ``data`` says: it has no error, and nothing that looks like one."""
    if not isinstance(data, dict) or data.get("error") is not None:
        return False
    returned = data.get("result")
    return not isinstance(returned, dict) or "code" not in returned


def _no_answer(response: Response, data: Json) -> Problem:
    """Return the Problem of an answer that says neither a result nor an error."""
    # OTRPC-022, OTRPC-023, OTRPC-025
    status = response.status
    if status >= 300:
        kind = _STATUS_KINDS.get(status, Kind.BAD_ANSWER)
        hint = " Check that an OpenTool server is running there." if status == 404 else ""
        text = f"The server answered with status {status} and no OpenTool answer.{hint}"
        return Problem(kind=kind, message=text, retry_after_ms=read_retry_after_ms(response))
    if isinstance(data, Problem):
        return Problem(kind=Kind.BAD_ANSWER, message=f"Cannot read the server's answer. {data.message}")
    reason = "Response is null" if data is None else "Error is null: there is neither a result nor an error in it"
    return Problem(kind=Kind.BAD_ANSWER, message=f"The server's answer is empty or unreadable ({reason}).")


def _data(response: Response) -> Json | Problem:
    """Return the JSON of a body, None for an empty one."""
    return jsontext.read(response.body) if response.body.strip() else None


def _status(response: Response | Problem) -> int | None:
    return response.status if isinstance(response, Response) else None
