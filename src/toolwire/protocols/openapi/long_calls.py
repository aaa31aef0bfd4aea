"""Describe ``/calls`` and ``/calls/ID`` in the document of a server with long tools.

Rules:
- These operations are no tools: they have no ``x-llm``, so no reader offers them to a model.
"""
# LC-02

from __future__ import annotations

from typing import Any, Final

from toolwire.core.call_status import LongCallState
from toolwire.core.model import Json

_STATUS: Final[dict[str, Json]] = {
    "type": "object",
    "description": "The status of a call that continues after its caller disconnects.",
    "required": ["id", "tool", "state", "progress", "message", "created_at", "updated_at", "expires_at"],
    "properties": {
        "id": {"type": "string"},
        "tool": {"type": "string"},
        "state": {"type": "string", "enum": [state.value for state in LongCallState]},
        "progress": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
        "message": {"type": "string"},
        "created_at": {"type": "string", "format": "date-time"},
        "updated_at": {"type": "string", "format": "date-time"},
        "expires_at": {"type": ["string", "null"], "format": "date-time"},
        "cancel_asked": {"type": "boolean"},
        "input": {"type": "object", "description": "The input that the tool needs before it continues, by name."},
        "result": {"description": "What the tool returned, once the call has ended."},
        "error": {"type": "object", "description": "Why the finished call has no result."},
    },
}
_SCHEMA: Final = {"$ref": "#/components/schemas/Call"}
_HEADERS: Final[dict[str, Json]] = {
    "Location": {"description": "The URL of the call.", "schema": {"type": "string"}},
    "Retry-After": {"description": "How many seconds to wait before asking again.", "schema": {"type": "integer"}},
}
_PREFER: Final[dict[str, Json]] = {
    "name": "Prefer",
    "in": "header",
    "description": "`wait=N`: wait up to N seconds for the end of the call. `respond-async`: do not wait (RFC 7240).",
    "schema": {"type": "string"},
}


def describe(document: dict[str, Any]) -> None:
    """Add the calls resource to ``document``, which has no tools yet."""
    components = document["components"]
    components["schemas"]["Call"] = _STATUS
    components["parameters"] = {
        "Prefer": _PREFER,
        "CallId": {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}},
    }
    components["responses"]["Accepted"] = {
        "description": (
            "The call was accepted and continues. Read its result at its URL. With the header `Prefer: "
            "wait=N`, the server waits up to N seconds for the result before it answers."
        ),
        "headers": _HEADERS,
        "content": {"application/json": {"schema": _SCHEMA}},
    }
    document["paths"] = {
        "/calls": {"get": _write_list()},
        "/calls/{id}": {
            "parameters": [{"$ref": "#/components/parameters/CallId"}],
            "get": _write_read(),
            "post": _write_answer(),
            "delete": _write_operation("cancelCall", "Cancel a call", {"202": _write_status("It is being cancelled.")}),
        },
    }


def _write_list() -> dict[str, Json]:
    page: Json = {
        "type": "object",
        "required": ["calls", "next"],
        "properties": {"calls": {"type": "array", "items": _SCHEMA}, "next": {"type": ["string", "null"]}},
    }
    listed = {"description": "The calls, newest first.", "content": {"application/json": {"schema": page}}}
    operation = _write_operation("listCalls", "List the caller's own long calls", {})
    operation["responses"]["200"] = listed
    operation["parameters"] = [
        {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 200}},
        {"name": "cursor", "in": "query", "schema": {"type": "string"}},
    ]
    return operation


def _write_read() -> dict[str, Json]:
    operation = _write_operation("readCall", "Tell how a call stands", {})
    operation["parameters"] = [{"$ref": "#/components/parameters/Prefer"}]
    operation["responses"]["200"]["content"]["text/event-stream"] = {}
    return operation


def _write_answer() -> dict[str, Json]:
    operation = _write_operation("answerCall", "Answer what the tool of a call asks", {})
    answers = {"type": "object", "additionalProperties": {"type": "object"}}
    schema = {"type": "object", "required": ["input"], "properties": {"input": answers}}
    operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return operation


def _write_operation(name: str, summary: str, more: dict[str, Json]) -> dict[str, Any]:
    responses = {
        "200": _write_status("The call's status."),
        **more,
        "4XX": {"$ref": "#/components/responses/Refused"},
        "5XX": {"$ref": "#/components/responses/Failed"},
    }
    return {"operationId": name, "summary": summary, "responses": responses}


def _write_status(description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": _SCHEMA}}}
