"""Define the names of attributes, metrics and error types.

They are those of the GenAI semantic conventions as of November 2026, and our own under ``toolwire.``. They stand in one
place because these conventions still change.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from toolwire.core.model import Kind

SCOPE: Final = "toolwire"
SPAN: Final = "execute_tool"
MCP_CALL: Final = "tools/call"

OPERATION: Final = "gen_ai.operation.name"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
CALL_ID: Final = "gen_ai.tool.call.id"
ERROR_TYPE: Final = "error.type"
TOOL_DESCRIPTION: Final = "gen_ai.tool.description"
ARGUMENTS: Final = "gen_ai.tool.call.arguments"
RESULT: Final = "gen_ai.tool.call.result"
USER_ID: Final = "user.id"
MCP_METHOD: Final = "mcp.method.name"
MCP_VERSION: Final = "mcp.protocol.version"
MCP_SESSION: Final = "mcp.session.id"
RPC_ID: Final = "jsonrpc.request.id"
RPC_STATUS: Final = "rpc.response.status_code"
TRANSPORT: Final = "network.transport"
WIRE: Final = "network.protocol.name"
WIRE_VERSION: Final = "network.protocol.version"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"

PROTOCOL: Final = "toolwire.protocol"
TOOL_ID: Final = "toolwire.tool.id"
TOOL_VERSION: Final = "toolwire.tool.version"
TOOLKIT: Final = "toolwire.toolkit"
EXECUTION: Final = "toolwire.execution"
ATTEMPT: Final = "toolwire.attempt"
IDEMPOTENCY: Final = "toolwire.idempotency"
APPROVAL: Final = "toolwire.approval"
RATE_LIMIT: Final = "toolwire.ratelimit.result"
UPSTREAM: Final = "toolwire.upstream"
CLIENT_TRACE_ID: Final = "toolwire.client_trace_id"

DURATION: Final = "gen_ai.execute_tool.duration"
MCP_SERVER_DURATION: Final = "mcp.server.operation.duration"
MCP_CLIENT_DURATION: Final = "mcp.client.operation.duration"
IN_FLIGHT: Final = "toolwire.inflight_calls"
SHED: Final = "toolwire.shed"
RATE_LIMITED: Final = "toolwire.rate_limited"
APPROVALS: Final = "toolwire.approvals"
LEDGER_OP: Final = "toolwire.ledger_op"
OAUTH_TOKENS: Final = "toolwire.oauth_tokens"
WEBHOOKS: Final = "toolwire.webhooks"
BREAKER_STATE: Final = "toolwire.upstream_breaker_state"
BUILD_INFO: Final = "toolwire.build_info"
UPSTREAM_UP: Final = "toolwire.upstream_up"
UPSTREAM_RUNNING: Final = "toolwire.upstream_running"
UPSTREAM_CALLS: Final = "toolwire.upstream_calls"

BUCKETS_S: Final = (
    0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0
)  # fmt: skip

ERROR_TYPES: Final[Mapping[Kind, str]] = {
    Kind.MALFORMED: "validation_error",
    Kind.UNSUPPORTED_TYPE: "validation_error",
    Kind.TOO_LARGE: "validation_error",
    Kind.TOO_SLOW: "timeout",
    Kind.NOT_FOUND: "validation_error",
    Kind.WRONG_METHOD: "validation_error",
    Kind.UNKNOWN_TOOL: "validation_error",
    Kind.INVALID_ARGUMENTS: "validation_error",
    Kind.MISSING_REQUIREMENTS: "unauthorized",
    Kind.UNAUTHORIZED: "unauthorized",
    Kind.FORBIDDEN: "forbidden",
    Kind.MISDIRECTED: "forbidden",
    Kind.DENIED: "approval_denied",
    Kind.UNCONFIRMED: "approval_required",
    Kind.CONFLICT: "idempotency_conflict",
    Kind.ACCEPTED: "accepted",
    Kind.INTERRUPTED: "interrupted",
    Kind.RATE_LIMITED: "rate_limited",
    Kind.OVERLOADED: "overloaded",
    Kind.TOOL_FAILED: "tool_error",
    Kind.TIMEOUT: "timeout",
    Kind.CANCELLED: "cancelled",
    Kind.UNREACHABLE: "upstream_error",
    Kind.BAD_ANSWER: "upstream_error",
    Kind.INTERNAL: "_OTHER",
}
"""The value of ``error.type`` for each kind of problem. The values are few, as a label of metrics needs."""


def error_type(kind: Kind) -> str:
    """Return the ``error.type`` of a problem."""
    return ERROR_TYPES.get(kind, "_OTHER")


def user_hash(principal: str) -> str:
    """Return a digest that names a caller without revealing who it is."""
    return sha256(principal.encode("utf-8", "replace")).hexdigest()[:16]
