"""Define the versions of MCP, and the names that client and server share.

Up to 2025-11-25 a client opens with ``initialize``; since 2026-07-28 each request says for itself who asks.
"""

from __future__ import annotations

STATELESS = "2026-07-28"
HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
SUPPORTED = (STATELESS, *HANDSHAKE)
WITH_SESSIONS = frozenset({"2025-11-25", "2025-06-18", "2025-03-26"})
"""The revisions whose sessions are named by a header field."""

VERSION_HEADER = b"mcp-protocol-version"
METHOD_HEADER = b"mcp-method"
NAME_HEADER = b"mcp-name"
SESSION_HEADER = b"mcp-session-id"
LIST_HEADER = b"toolwire-tool-list"
"""Says which list of tools the client of a session has, to the application behind the session."""

VERSION_META = "io.modelcontextprotocol/protocolVersion"
CLIENT_META = "io.modelcontextprotocol/clientInfo"
CAPABILITIES_META = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL_META = "io.modelcontextprotocol/logLevel"
SUBSCRIPTION_META = "io.modelcontextprotocol/subscriptionId"
SERVER_META = "io.modelcontextprotocol/serverInfo"

POLICY_META = "toolwire/x-llm"
IDENTITY_META = "toolwire/tool"
PROBLEM_META = "toolwire/problem"
HEADERS_META = "toolwire/headers"
CONSENT_META = "toolwire/asks-consent"
CONFIRMATION_META = "toolwire/confirmation"
RECEIPT_META = "toolwire/receipt"
UNANSWERED_META = "toolwire/unanswered"
PROGRESS_META = "toolwire/progress"
PROGRESS_EVENT_META = "toolwire/event"
LIST_META = "toolwire/tool-list"
"""Says the same in what is kept of a session."""
TEXT_META = "toolwire/text"
"""In a text block: whether the text is the value, and not the JSON of it."""
CALL_META = "toolwire/call"

TASKS = "io.modelcontextprotocol/tasks"
SKILLS = "io.modelcontextprotocol/skills"
"""The extension by which a call can go on as a task."""

DISCOVER = "server/discover"
ELICITATION = "elicitation/create"
LISTEN = "subscriptions/listen"
LISTENED = "notifications/subscriptions/acknowledged"
NOTICES = {
    "toolsListChanged": "notifications/tools/list_changed",
    "promptsListChanged": "notifications/prompts/list_changed",
    "resourcesListChanged": "notifications/resources/list_changed",
}
"""The notices of changed lists, by what a client asks for when it listens."""

COMPLETE = "completion/complete"
MAX_VALUES = 100
"""How many values a completion may have."""

NAMED_BY = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""The parameter that the header ``mcp-name`` repeats, by method."""

INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
