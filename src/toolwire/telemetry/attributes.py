"""What a span says of a call. Whatever is text of a stranger's is cut, and what could be used by another is a digest.

Rules:
- No arguments and no result, unless whoever runs the process asked for them; and then nothing secret in them.
"""
# R20

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from toolwire.core.http import Request, Response, get_header
from toolwire.core.ledger import is_replayed
from toolwire.core.model import ANONYMOUS, Call, Json, Kind, Problem, Result, Tool
from toolwire.framing import jsonrpc, jsontext, traceparent
from toolwire.protocols.mcp.envelope import version
from toolwire.protocols.mcp.result import TOLD
from toolwire.protocols.mcp.revision import INTERNAL_ERROR, SESSION_HEADER

from . import names
from .arrival import Arrival
from .redaction import redacted, redacted_data

Said = dict[str, str | int]

_LONGEST_ID = 128
_LONGEST_TEXT = 8_192
_TOOLS = 10_000
_PORTS = {"https": 443, "http": 80}
_RPC = ("mcp", "opentool")


class Content(NamedTuple):
    """What may be said besides: what a tool says of itself; the arguments and results of calls."""

    descriptions: bool = False
    calls: bool = False


NO_CONTENT = Content()


class Attributes:
    """What is said of calls before they run; what is the same for each call of a tool is put together once."""

    def __init__(self, content: Content = NO_CONTENT) -> None:
        self.content = content
        self._known: dict[tuple[int, str], tuple[Tool, Said]] = {}

    def of_call(self, call: Call, protocol: str) -> Said:
        """Return what is known of ``call`` before it runs; the caller is a digest."""
        known = self._known.get((id(call.tool), protocol))
        if known is None or known[0] is not call.tool:
            if len(self._known) >= _TOOLS:
                self._known.clear()
            known = self._known[id(call.tool), protocol] = (call.tool, _of_tool(call.tool, protocol, self.content))
        said, context = {**known[1], names.CALL_ID: call.call_id}, call.context
        if context.principal != ANONYMOUS.principal:
            said[names.USER_ID] = names.user_hash(context.principal)
        if context.trace_id and not traceparent.parse_trace_id(context.trace_id):
            said[names.CLIENT_TRACE_ID] = context.trace_id[:_LONGEST_ID]
        if self.content.calls:
            said[names.ARGUMENTS] = _shown(dict(call.arguments))
        return said


def _of_tool(tool: Tool, protocol: str, content: Content) -> Said:
    said: Said = {
        names.OPERATION: names.SPAN,
        names.TOOL_NAME: tool.name,
        names.TOOL_TYPE: "function",
        names.PROTOCOL: protocol,
        names.TOOL_ID: tool.id,
        names.TOOL_VERSION: tool.version,
        names.TOOLKIT: tool.toolkit,
        names.EXECUTION: "inline",
    }
    if protocol == "mcp":
        said[names.MCP_METHOD] = names.MCP_CALL
    if content.descriptions:
        said[names.TOOL_DESCRIPTION] = redacted(tool.description)[:_LONGEST_TEXT]
    return said


def of_arrival(arrival: Arrival, protocol: str) -> Said:
    """Return what the message and its transport say of a call that came."""
    said = of_message(arrival.request, protocol)
    if arrival.http_version:
        said[names.WIRE_VERSION] = arrival.http_version[:_LONGEST_ID]
    return said


def of_message(request: Request, protocol: str) -> Said:
    """Return how a message goes, and what one of JSON-RPC says of itself. A session's id is a digest."""
    said: Said = {names.TRANSPORT: "tcp", names.WIRE: "http"}
    data = jsontext.read(request.body) if protocol in _RPC else None
    if not isinstance(data, dict):
        return said
    id_ = jsonrpc.get_id(data)
    if id_ is not None:
        said[names.RPC_ID] = str(id_)[:_LONGEST_ID]
    if protocol == "mcp":
        if spoken := version(request, jsontext.get_object(data, "params")):
            said[names.MCP_VERSION] = spoken[:_LONGEST_ID]
        if session := get_header(request.headers, SESSION_HEADER):
            said[names.MCP_SESSION] = names.user_hash(session)
    return said


def of_place(url: str) -> Said:
    """Return whom a request goes to."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme)
    except ValueError:  # it is refused before it is sent anywhere
        return {}
    return {names.SERVER_ADDRESS: host} if port is None else {names.SERVER_ADDRESS: host, names.SERVER_PORT: port}


def of_ending(call: Call, protocol: str, result: Result, content: Content) -> Said:
    """Return what is known once ``call`` ended with ``result``."""
    said: Said = {}
    problem = result if isinstance(result, Problem) else None
    if call.tool.rate_limit is not None and not is_replayed(result):
        limited = problem is not None and problem.kind is Kind.RATE_LIMITED
        said[names.RATE_LIMIT] = "limited" if limited else "allowed"
    if problem is not None and (code := rpc_code(protocol, problem.kind)) is not None:
        said[names.RPC_STATUS] = str(code)
    if content.calls:
        said[names.RESULT] = _shown(result.message if isinstance(result, Problem) else result.value)
    return said


def rpc_code(protocol: str, kind: Kind) -> int | None:
    """Return the code of JSON-RPC that our servers answer a problem with, None where it is no error to JSON-RPC."""
    if protocol == "opentool":
        return jsonrpc.CODES.get(kind, jsonrpc.TOOL_FAILURE)
    if protocol != "mcp" or kind in TOLD:
        return None
    return jsonrpc.INVALID_PARAMS if kind is Kind.UNKNOWN_TOOL else jsonrpc.CODES.get(kind, INTERNAL_ERROR)


def answered_code(response: Response) -> int | None:
    """Return the code of the JSON-RPC error in somebody's answer, if it is one."""
    data = jsontext.read(response.body)
    error = jsontext.get_object(data, "error") if isinstance(data, dict) else {}
    code = error.get("code")
    return code if type(code) is int else None


def approval(call: Call, result: Result | None) -> str:
    """Return what consent a server saw: none asked for, given with the call, or refused."""
    if isinstance(result, Problem) and result.kind in (Kind.DENIED, Kind.UNCONFIRMED):
        return "denied"
    return "per_call" if call.context.confirmation else "auto"


def _shown(value: Json) -> str:
    """Return JSON text of ``value`` without what is secret, cut where it is long."""
    try:
        return jsontext.write(redacted_data("", value)).decode()[:_LONGEST_TEXT]
    except (TypeError, ValueError, RecursionError):
        return "not JSON"
