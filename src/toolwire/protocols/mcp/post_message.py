"""Send one JSON-RPC message to an MCP endpoint, and find its answer in the response."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from toolwire.core.http import Headers, Request, Response, get_header
from toolwire.core.model import Json, Kind, Problem, Tool
from toolwire.core.no_user_input import REQUIRED_CAPABILITIES
from toolwire.core.version import __version__
from toolwire.framing import jsontext, sse
from toolwire.framing.jsonrpc import INVALID_PARAMS
from toolwire.framing.rate_headers import read_retry_after_ms

from . import foreign_members
from . import headers as fields
from .elicitation import CAPABILITIES
from .result import read_problem
from .revision import (
    CAPABILITIES_META,
    CLIENT_META,
    METHOD_HEADER,
    MISSING_CAPABILITY,
    NAME_HEADER,
    NAMED_BY,
    RESOURCE_NOT_FOUND,
    SESSION_HEADER,
    STATELESS,
    TASKS,
    VERSION_HEADER,
    VERSION_META,
)

CLIENT: dict[str, Json] = {"name": "toolwire", "version": __version__}

_HEADERS: Headers = (
    (b"accept", b"application/json, text/event-stream"),
    (b"content-type", b"application/json"),
)
_KINDS = {
    401: Kind.UNAUTHORIZED,
    403: Kind.FORBIDDEN,
    404: Kind.NOT_FOUND,
    408: Kind.TOO_SLOW,
    413: Kind.TOO_LARGE,
    429: Kind.RATE_LIMITED,
    503: Kind.OVERLOADED,
}
_CODES = {INVALID_PARAMS: Kind.INVALID_ARGUMENTS, RESOURCE_NOT_FOUND: Kind.NOT_FOUND}
_TASKS: dict[str, Json] = {"extensions": {TASKS: {}}}
_OPENING = ("initialize", "notifications/initialized")
_SHOWN = 2_000

MAX_EVENT_BYTES: Final = 16 * 1024 * 1024
"""The most bytes of one message in a stream: as many as an answer without a stream may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpClientSession:
    """How to speak to one endpoint: the revision agreed on, "" before that, and the server's session, if it has one.

    ``can_ask`` means that the server may ask our user for input, and is told so. ``server_capabilities`` are the names
    of the capabilities that the server declares.
    """

    endpoint: str
    version: str = ""
    id: bytes = field(default=b"", repr=False)
    can_ask: bool = False
    server_capabilities: frozenset[str] = frozenset()


@dataclass(slots=True)
class Conversation:
    """The session that calls to one endpoint use now. A server may end it; a call then opens the next.

    ``has_listener``: the client listens on the stream of this session, on which its server asks and tells of changes.
    ``asking`` is a session of 2025-11-25 beside a stateless one, for ``asking_tools``, which ask while a call runs.
    """

    session: McpClientSession
    has_listener: bool = False
    asking: McpClientSession | None = None
    asking_tools: set[str] = field(default_factory=set)

    def find_session(self, tool: Tool) -> McpClientSession:
        """Return the session in which ``tool`` is called."""
        return self.asking if self.asking is not None and tool.id in self.asking_tools else self.session


class Refused(NamedTuple):
    """A JSON-RPC error: its code, its sentence, and whatever else the server said."""

    code: int
    message: str
    data: Json


def write(
    session: McpClientSession,
    method: str,
    params: dict[str, Json],
    id_: str | int | None,
    extra: Headers = (),
    *,
    can_ask: bool | None = None,
) -> Request:
    """Return the POST that says ``method``; a notification where ``id_`` is None.

    ``can_ask`` says whether the user of this one request can be asked, where that is not as in the whole session.
    """
    headers = [*_HEADERS, *extra]
    if session.version:
        headers.append((VERSION_HEADER, session.version.encode()))
    if session.id:
        headers.append((SESSION_HEADER, session.id))
    if session.version == STATELESS:
        capabilities = get_capabilities(session, can_ask=session.can_ask if can_ask is None else can_ask)
        meta = {VERSION_META: STATELESS, CLIENT_META: CLIENT, CAPABILITIES_META: capabilities}
        params = {**params, "_meta": {**jsontext.get_object(params, "_meta"), **meta}}
        headers.append((METHOD_HEADER, method.encode()))
        if method in NAMED_BY:
            headers.append((NAME_HEADER, fields.write(str(params[NAMED_BY[method]]))))
    message: dict[str, Json] = {"jsonrpc": "2.0", "method": method, "params": params}
    if id_ is not None:
        message["id"] = id_
    return Request("POST", session.endpoint, headers, jsontext.write(message), opens_session=method in _OPENING)


def get_capabilities(session: McpClientSession, *, can_ask: bool) -> dict[str, Json]:
    """Return what this client declares to the server of ``session``."""
    capabilities = CAPABILITIES if can_ask else {}
    return (
        {**capabilities, **_TASKS}
        if "tasks" in session.server_capabilities and session.version == STATELESS
        else capabilities
    )


def write_end(session: McpClientSession) -> Request | None:
    """Return the DELETE that ends ``session``, or None where the server keeps none."""
    if not session.id:
        return None
    headers = ((VERSION_HEADER, session.version.encode()), (SESSION_HEADER, session.id))
    return Request("DELETE", session.endpoint, headers)


def write_reply(
    session: McpClientSession, id_: Json, error: dict[str, Json] | None, result: dict[str, Json] | None = None
) -> Request:
    """Return the POST that answers the server's own request ``id_``: with ``result``, or with ``error``."""
    outcome: dict[str, Json] = {"result": result or {}} if error is None else {"error": error}
    headers = [*_HEADERS]
    if session.version:
        headers.append((VERSION_HEADER, session.version.encode()))
    if session.id:
        headers.append((SESSION_HEADER, session.id))
    return Request("POST", session.endpoint, headers, jsontext.write({"jsonrpc": "2.0", "id": id_, **outcome}))


def read(response: Response, id_: str | int) -> dict[str, Json] | Refused | Problem:
    """Return the result of the request ``id_``, the error it was answered with, or why there is neither."""
    for message in iterate_messages(response):
        error = message.get("error")
        if isinstance(error, dict) and message.get("id") in (id_, None):
            code, text = error.get("code"), error.get("message")
            text = text[:_SHOWN] if isinstance(text, str) and text else "The server gave no reason."
            return Refused(code if type(code) is int else 0, text, error.get("data"))
        if "result" in message and message.get("id") == id_:
            result = message["result"]
            return result if isinstance(result, dict) else {"content": result}  # a call has run all the same
    if response.status >= 400:
        kind = _KINDS.get(response.status, Kind.BAD_ANSWER)
        return Problem(kind=kind, message=f"The server answered {response.status} without saying why.")
    return _build_bad_answer("it holds no answer to the request")


def is_answer(message: dict[str, Json], id_: str | int) -> bool:
    """Return whether ``message`` is the answer to the request ``id_``, as ``read`` looks for it."""
    if isinstance(message.get("error"), dict) and message.get("id") in (id_, None):
        return True
    return "result" in message and message.get("id") == id_


def build_problem(response: Response, refused: Refused) -> Problem:
    """Return the Problem that a JSON-RPC error means, by what it says, then by its HTTP status, then by its code."""
    kind = _KINDS.get(response.status)
    if kind is None or kind is Kind.NOT_FOUND:
        kind = _CODES.get(refused.code, Kind.BAD_ANSWER)
    data = refused.data if isinstance(refused.data, dict) else {}
    if refused.code == MISSING_CAPABILITY:  # I-29: a gateway tells it to its caller, whose client may have it
        details = {REQUIRED_CAPABILITIES: dict(jsontext.get_object(data, "requiredCapabilities"))}
        return Problem(kind=Kind.MISSING_REQUIREMENTS, message=refused.message, details=details)
    if refused.data is not None and "kind" not in data:
        data = {**data, "details": foreign_members.read_error(refused.code, refused.data)}
    return read_problem(
        {**data, "retryAfterMs": data.get("retryAfterMs", read_retry_after_ms(response))}, kind, refused.message
    )


def is_message(response: Response) -> bool:
    """Say whether ``response`` holds something of JSON-RPC's shape."""
    return any(message.get("jsonrpc") == "2.0" for message in iterate_messages(response))


def iterate_messages(response: Response) -> Iterable[dict[str, Json]]:
    """Return what of JSON's objects ``response`` holds, one after the other, whether as events or as its body."""
    if not is_stream(response):
        return list_messages(response.body)
    return (message for text in _iterate_events(response.body) for message in list_messages(text))


def list_messages(text: bytes) -> list[dict[str, Json]]:
    """Return the messages of one JSON text: one, or those of a batch."""
    data = jsontext.read(text)
    if isinstance(data, list):
        return [message for message in data if isinstance(message, dict)]
    return [data] if isinstance(data, dict) else []


def is_stream(response: Response) -> bool:
    """Return whether ``response`` holds server-sent events."""
    return get_header(response.headers, b"content-type").partition(";")[0].strip().lower() == "text/event-stream"


def _iterate_events(body: bytes) -> Iterator[bytes]:
    try:
        for event in sse.Decoder(MAX_EVENT_BYTES).feed(body + b"\n\n"):
            yield event.data.encode("utf-8", "replace")
    except ValueError:
        return  # an event beyond the limit: what came before it stands


def _build_bad_answer(what: str) -> Problem:
    return Problem(kind=Kind.BAD_ANSWER, message=f"Cannot read the server's answer: {what}.")
