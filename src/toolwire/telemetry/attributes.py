"""What a span says of a call. Whatever is text of a stranger's is cut, and what could be used by another is a digest.

Rules:
- No arguments and no result, unless whoever runs the process asked for them; and then nothing secret in them.
"""
# R20

from __future__ import annotations

from typing import NamedTuple

from toolwire.core.http import Request, Response, get_header
from toolwire.core.ledger import is_replayed
from toolwire.core.model import ANONYMOUS, Call, Json, Kind, Problem, Result, Tool
from toolwire.core.url_origin import get_host, read_origin
from toolwire.framing import jsonrpc, jsontext, traceparent
from toolwire.protocols.mcp.envelope import version
from toolwire.protocols.mcp.result import TOLD
from toolwire.protocols.mcp.revision import INTERNAL_ERROR, SESSION_HEADER

from . import names
from .arrival import Arrival
from .redaction import redact_data, redact_text

AttributeValues = dict[str, str | int]

_MAX_ID = 128
_MAX_TEXT = 8_192
_MAX_TOOLS = 10_000
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
        self._cache: dict[tuple[int, str], tuple[Tool, AttributeValues]] = {}

    def describe_call(self, call: Call, protocol: str) -> AttributeValues:
        """Return what is known of ``call`` before it runs; the caller is a digest."""
        known = self._cache.get((id(call.tool), protocol))
        if known is None or known[0] is not call.tool:
            if len(self._cache) >= _MAX_TOOLS:
                self._cache.clear()
            known = self._cache[id(call.tool), protocol] = (
                call.tool,
                _describe_tool(call.tool, protocol, self.content),
            )
        said, context = {**known[1], names.CALL_ID: call.call_id}, call.context
        if context.principal != ANONYMOUS.principal:
            said[names.USER_ID] = names.user_hash(context.principal)
        if context.trace_id and not traceparent.parse_trace_id(context.trace_id):
            said[names.CLIENT_TRACE_ID] = context.trace_id[:_MAX_ID]
        if self.content.calls:
            said[names.ARGUMENTS] = _write_redacted(dict(call.arguments))
        return said


def _describe_tool(tool: Tool, protocol: str, content: Content) -> AttributeValues:
    said: AttributeValues = {
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
        said[names.TOOL_DESCRIPTION] = redact_text(tool.description)[:_MAX_TEXT]
    return said


def describe_arrival(arrival: Arrival, protocol: str) -> AttributeValues:
    """Return what the message and its transport say of a call that came."""
    said = describe_message(arrival.request, protocol)
    if arrival.http_version:
        said[names.WIRE_VERSION] = arrival.http_version[:_MAX_ID]
    return said


def describe_message(request: Request, protocol: str) -> AttributeValues:
    """Return how a message goes, and what one of JSON-RPC says of itself. A session's id is a digest."""
    said: AttributeValues = {names.TRANSPORT: "tcp", names.WIRE: "http"}
    data = jsontext.read(request.body) if protocol in _RPC else None
    if not isinstance(data, dict):
        return said
    id_ = jsonrpc.get_id(data)
    if id_ is not None:
        said[names.RPC_ID] = str(id_)[:_MAX_ID]
    if protocol == "mcp":
        if spoken := version(request, jsontext.get_object(data, "params")):
            said[names.MCP_VERSION] = spoken[:_MAX_ID]
        if session := get_header(request.headers, SESSION_HEADER):
            said[names.MCP_SESSION] = names.user_hash(session)
    return said


def describe_address(url: str) -> AttributeValues:
    """Return whom a request goes to."""
    origin = read_origin(url)
    if origin is None:  # the client refuses it before it connects
        return {}
    return {names.SERVER_ADDRESS: get_host(url), names.SERVER_PORT: origin.port}


def describe_ending(call: Call, protocol: str, result: Result, content: Content) -> AttributeValues:
    """Return what is known once ``call`` ended with ``result``."""
    said: AttributeValues = {}
    problem = result if isinstance(result, Problem) else None
    if call.tool.rate_limit is not None and not is_replayed(result):
        limited = problem is not None and problem.kind is Kind.RATE_LIMITED
        said[names.RATE_LIMIT] = "limited" if limited else "allowed"
    if problem is not None and (code := rpc_code(protocol, problem.kind)) is not None:
        said[names.RPC_STATUS] = str(code)
    if content.calls:
        said[names.RESULT] = _write_redacted(result.message if isinstance(result, Problem) else result.value)
    return said


def rpc_code(protocol: str, kind: Kind) -> int | None:
    """Return the code of JSON-RPC that our servers answer a problem with, None where it is no error to JSON-RPC."""
    if protocol == "opentool":
        return jsonrpc.CODES.get(kind, jsonrpc.TOOL_FAILURE)
    if protocol != "mcp" or kind in TOLD:
        return None
    return jsonrpc.INVALID_PARAMS if kind is Kind.UNKNOWN_TOOL else jsonrpc.CODES.get(kind, INTERNAL_ERROR)


def read_error_code(response: Response) -> int | None:
    """Return the code of the JSON-RPC error in somebody's answer, if it is one."""
    data = jsontext.read(response.body)
    error = jsontext.get_object(data, "error") if isinstance(data, dict) else {}
    code = error.get("code")
    return code if type(code) is int else None


def describe_approval(call: Call, result: Result | None) -> str:
    """Return what consent a server saw: none asked for, given with the call, or refused."""
    if isinstance(result, Problem) and result.kind in (Kind.DENIED, Kind.UNCONFIRMED):
        return "denied"
    return "per_call" if call.context.confirmation else "auto"


def _write_redacted(value: Json) -> str:
    """Return JSON text of ``value`` without what is secret, cut where it is long."""
    try:
        return jsontext.write(redact_data("", value)).decode()[:_MAX_TEXT]
    except (TypeError, ValueError, RecursionError):
        return "not JSON"
