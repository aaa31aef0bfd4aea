"""Describe a call in the attributes of its span.

Rules:
- Texts from other parties are shortened. An id that another client could use is replaced by a digest.
- Arguments and results are left out unless the operator of the process asks for them. Secrets in them are hidden then.
"""
# R20

from __future__ import annotations

from typing import NamedTuple

from toolwire.core.http import Request, Response, get_header
from toolwire.core.ledger import is_replayed
from toolwire.core.model import ANONYMOUS, Call, Json, Kind, Problem, Result, Tool
from toolwire.core.url_origin import get_host, read_origin
from toolwire.framing import jsonrpc, jsontext, traceparent
from toolwire.protocols.mcp.envelope import index_fields, read_version
from toolwire.protocols.mcp.result import is_tool_error
from toolwire.protocols.mcp.revision import INTERNAL_ERROR, SESSION_HEADER

from . import names
from .current_call import Arrival
from .redaction import redact_data, redact_text

AttributeValues = dict[str, str | int]

_MAX_ID = 128
_MAX_TEXT = 8_192
_MAX_TOOLS = 10_000
_RPC = ("mcp", "opentool")


class Content(NamedTuple):
    """What spans contain besides: the descriptions of tools; the arguments and results of calls."""

    descriptions: bool = False
    calls: bool = False


NO_CONTENT = Content()


class Attributes:
    """Computes the attributes of calls. Those that are the same for each call of a tool are computed once."""

    def __init__(self, content: Content = NO_CONTENT) -> None:
        self._content = content
        self._cache: dict[tuple[int, str], tuple[Tool, AttributeValues]] = {}

    @property
    def has_contents(self) -> bool:
        """Whether the arguments and results of calls are among the attributes."""
        return self._content.calls

    def describe_call(self, call: Call, protocol: str) -> AttributeValues:
        """Return what is known of ``call`` before it runs."""
        # The identity is a safe key, since the entry keeps the tool alive.
        cached = self._cache.get((id(call.tool), protocol))
        if cached is None or cached[0] is not call.tool:
            if len(self._cache) >= _MAX_TOOLS:
                self._cache.clear()
            cached = (call.tool, self._describe_tool(call.tool, protocol))
            self._cache[id(call.tool), protocol] = cached
        values, context = {**cached[1], names.CALL_ID: call.call_id}, call.context
        if context.principal != ANONYMOUS.principal:
            values[names.USER_ID] = names.user_hash(context.principal)
        if context.trace_id and not traceparent.parse_trace_id(context.trace_id):
            values[names.CLIENT_TRACE_ID] = context.trace_id[:_MAX_ID]
        if self._content.calls:
            values[names.ARGUMENTS] = _write_redacted(dict(call.arguments))
        return values

    def describe_arrival(self, arrival: Arrival, protocol: str) -> AttributeValues:
        """Return what the message of an incoming call and its transport say."""
        values = self.describe_message(arrival.request, protocol)
        if arrival.http_version:
            values[names.WIRE_VERSION] = arrival.http_version[:_MAX_ID]
        return values

    @staticmethod
    def describe_message(request: Request, protocol: str) -> AttributeValues:
        """Return the transport of a message, and the ids and versions in a JSON-RPC message."""
        values: AttributeValues = {names.TRANSPORT: "tcp", names.WIRE: "http"}
        data = jsontext.read(request.body) if protocol in _RPC else None
        if not isinstance(data, dict):
            return values
        id_ = jsonrpc.get_id(data)
        if id_ is not None:
            values[names.RPC_ID] = str(id_)[:_MAX_ID]
        if protocol == "mcp":
            if revision := read_version(index_fields(request), jsontext.get_object(data, "params")):
                values[names.MCP_VERSION] = revision[:_MAX_ID]
            if session := get_header(request.headers, SESSION_HEADER):
                values[names.MCP_SESSION] = names.user_hash(session)
        return values

    @staticmethod
    def describe_address(url: str) -> AttributeValues:
        """Return the host and port that a request goes to."""
        origin = read_origin(url)
        if origin is None:  # the client refuses it before it connects
            return {}
        return {names.SERVER_ADDRESS: get_host(url), names.SERVER_PORT: origin.port}

    def describe_ending(self, call: Call, protocol: str, result: Result) -> AttributeValues:
        """Return what is known after ``call`` ended with ``result``."""
        values: AttributeValues = {}
        problem = result if isinstance(result, Problem) else None
        if call.tool.rate_limit is not None and not is_replayed(result):
            limited = problem is not None and problem.kind is Kind.RATE_LIMITED
            values[names.RATE_LIMIT] = "limited" if limited else "allowed"
        if problem is not None and (code := rpc_code(protocol, problem)) is not None:
            values[names.RPC_STATUS] = str(code)
        if self._content.calls:
            values[names.RESULT] = _write_redacted(result.message if isinstance(result, Problem) else result.value)
        return values

    @staticmethod
    def read_error_code(response: Response) -> int | None:
        """Return the code of the JSON-RPC error in ``response``, or None."""
        data = jsontext.read(response.body)
        error = jsontext.get_object(data, "error") if isinstance(data, dict) else {}
        code = error.get("code")
        return code if type(code) is int else None

    @staticmethod
    def describe_approval(call: Call, result: Result | None) -> str:
        """Return the consent that a server saw: ``auto``, ``per_call``, ``asked`` (no decision yet) or ``denied``."""
        if isinstance(result, Problem) and result.kind in (Kind.DENIED, Kind.UNCONFIRMED):
            return "denied" if result.kind is Kind.DENIED else "asked"
        return "per_call" if call.context.confirmation else "auto"

    def _describe_tool(self, tool: Tool, protocol: str) -> AttributeValues:
        values: AttributeValues = {
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
            values[names.MCP_METHOD] = names.MCP_CALL
        if self._content.descriptions:
            values[names.TOOL_DESCRIPTION] = redact_text(tool.description)[:_MAX_TEXT]
        return values


def rpc_code(protocol: str, problem: Problem) -> int | None:
    """Return the JSON-RPC error code that our servers give ``problem``, or None if the protocol has none for it."""
    kind = problem.kind
    if protocol == "opentool":
        return jsonrpc.CODES.get(kind, jsonrpc.TOOL_FAILURE)
    if protocol != "mcp" or is_tool_error(problem):
        return None
    return jsonrpc.INVALID_PARAMS if kind is Kind.UNKNOWN_TOOL else jsonrpc.CODES.get(kind, INTERNAL_ERROR)


def _write_redacted(value: Json) -> str:
    """Return ``value`` as JSON text of limited length, with secrets hidden."""
    try:
        return jsontext.write(redact_data("", value)).decode()[:_MAX_TEXT]
    except (TypeError, ValueError, RecursionError):
        return "not JSON"
