"""Serve long calls as tasks: the extension io.modelcontextprotocol/tasks of 2026-07-28.

Rules:
- Only a client that declares the extension in its request gets a task, and only it may ask for one.
- The id of a task is the id of the call, so a task can be read at ``/calls/ID`` too.
"""
# LC-02

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from toolwire.core.call_status import CallPage, CallStatus, LongCallState
from toolwire.core.catalog import Catalog
from toolwire.core.codec import BlockingTask, CallAction, CallQuery, Reading
from toolwire.core.http import JSON_HEADERS, Response
from toolwire.core.model import Json, Kind, Problem, Tool, Value
from toolwire.framing.call_document import is_call_id, write_status, write_time
from toolwire.framing.jsontext import get_object, get_text
from toolwire.framing.jsontext import read as read_json
from toolwire.framing.jsontext import write as to_json

from . import foreign_members
from .answers import AskedMethod, Method, build_answer, build_error, build_invalid, build_refusal, write_static
from .output_schema import OutputForm
from .result import is_tool_error, write_failure, write_opening, write_value
from .revision import CALL_META, CAPABILITIES_META, ELICITATION, MISSING_CAPABILITY, SERVER_META, TASKS

POLL_MS: Final = 1_000
_WORKING: Final = "working"
_STATUSES: Final = {
    LongCallState.ACCEPTED: _WORKING,
    LongCallState.RUNNING: _WORKING,
    LongCallState.WAITING: "input_required",
    LongCallState.CANCELLED: "cancelled",
}
_NO_RESULT: Final = Problem(kind=Kind.INTERNAL, message="Cannot read the call's result.")
_ANY_FORM: Final = OutputForm(None, returns_nothing=True)


def declares_tasks(params: Mapping[str, Json]) -> bool:
    """Return whether the client of a request declares that it reads tasks."""
    capabilities = get_object(get_object(params, "_meta"), CAPABILITIES_META)
    return isinstance(get_object(capabilities, "extensions").get(TASKS), dict)


def build_task_methods(
    catalog: Catalog, server: Mapping[str, Json], end: bytes, find_form: Callable[[Tool, str], OutputForm]
) -> dict[str, Method]:
    """Return the methods of tasks; none for a server without long tools."""
    if not any(tool.long for tool in catalog.tools):
        return {}
    acknowledgement = write_static({}, end)
    return {
        "tasks/get": partial(_check_declared, partial(_get_task, catalog, server, find_form)),
        "tasks/update": partial(_check_declared, partial(_update_task, acknowledgement)),
        "tasks/cancel": partial(_check_declared, partial(_cancel_task, acknowledgement)),
    }


def add_capability(capabilities: dict[str, Json], methods: Mapping[str, Method]) -> dict[str, Json]:
    """Return ``capabilities`` with the extension, if there are ``methods`` of tasks."""
    if not methods:
        return capabilities
    return {**capabilities, "extensions": {**get_object(capabilities, "extensions"), TASKS: {}}}


def write_task(id_: bytes, problem: Problem, server: Mapping[str, Json]) -> Response:
    """Return the answer to a call that goes on as a task; ``details`` of ``problem`` have its status."""
    status_data = get_object(problem.details, "call")
    task: dict[str, Json] = {
        "resultType": "task",
        "taskId": status_data.get("id"),
        "status": "input_required" if status_data.get("state") == LongCallState.WAITING else _WORKING,
        "createdAt": status_data.get("created_at"),
        "lastUpdatedAt": status_data.get("updated_at"),
        "ttlMs": None,
        "pollIntervalMs": problem.retry_after_ms or POLL_MS,
        "_meta": {SERVER_META: dict(server), CALL_META: dict(status_data)},
    }
    if message := get_text(status_data, "message"):
        task["statusMessage"] = message
    return Response(200, JSON_HEADERS, b'{"jsonrpc":"2.0","id":' + id_ + b',"result":' + to_json(task) + b"}")


def refuse_undeclared(asked: AskedMethod) -> Response:
    """Return the error that a client must declare the extension."""
    needed: Json = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
    text = f"This needs the extension {TASKS}, which the client did not declare."
    return build_error(asked.id, MISSING_CAPABILITY, text, 400, needed)


def _check_declared(method: Method, asked: AskedMethod) -> Reading | BlockingTask:
    if not declares_tasks(asked.params):
        return refuse_undeclared(asked)
    if not is_call_id(asked.params.get("taskId")):
        return build_invalid(asked, '"taskId" must be the id of a task, as a string.')
    return method(asked)


def _get_task(
    catalog: Catalog,
    server: Mapping[str, Json],
    find_form: Callable[[Tool, str], OutputForm],
    asked: AskedMethod,
) -> Reading:
    def reply(outcome: CallStatus | CallPage | Problem) -> Response:
        if not isinstance(outcome, CallStatus):
            return _refuse(asked, outcome)
        found = catalog.find(outcome.tool)
        tool = found if isinstance(found, Tool) else None
        task = _write_status(outcome, tool, _ANY_FORM if tool is None else find_form(tool, ""), server)
        return Response(200, JSON_HEADERS, write_opening(asked.id)[:-1] + to_json(task) + b"}")

    return CallQuery(CallAction.READ, reply, str(asked.params["taskId"]))


def _update_task(acknowledgement: bytes, asked: AskedMethod) -> Reading:
    answers = asked.params.get("inputResponses")
    if not isinstance(answers, dict) or not all(isinstance(answer, dict) for answer in answers.values()):
        return build_invalid(asked, '"inputResponses" must be an object with a response object for each name.')
    reply = partial(_acknowledge, acknowledgement, asked)
    return CallQuery(CallAction.ANSWER, reply, str(asked.params["taskId"]), answers=answers)


def _cancel_task(acknowledgement: bytes, asked: AskedMethod) -> Reading:
    reply = partial(_acknowledge, acknowledgement, asked)
    return CallQuery(CallAction.CANCEL, reply, str(asked.params["taskId"]))


def _acknowledge(acknowledgement: bytes, asked: AskedMethod, outcome: CallStatus | CallPage | Problem) -> Response:
    return build_answer(acknowledgement, asked) if isinstance(outcome, CallStatus) else _refuse(asked, outcome)


def _refuse(asked: AskedMethod, outcome: CallPage | Problem) -> Response:
    if not isinstance(outcome, Problem):
        return build_refusal(asked.id, _NO_RESULT)
    # The extension's word for an id that is unknown, or another caller's.
    if outcome.kind is Kind.NOT_FOUND:
        return build_invalid(asked, "There is no task with this ID.")
    return build_refusal(asked.id, outcome)


def _write_status(
    status: CallStatus, tool: Tool | None, form: OutputForm, server: Mapping[str, Json]
) -> dict[str, Json]:
    """Return the task of ``tasks/get``: with its result, its error, or what it asks."""
    status_data = write_status(status)
    ours = {name: value for name, value in status_data.items() if name not in ("result", "error")}
    ttl_s = None if status.expires_at is None else max(status.expires_at - status.created_at, 0.001)
    task: dict[str, Json] = {
        "resultType": "complete",
        "taskId": status.id,
        "createdAt": write_time(status.created_at),
        "lastUpdatedAt": write_time(status.updated_at),
        "ttlMs": None if ttl_s is None else round(1_000 * ttl_s),
        "pollIntervalMs": POLL_MS,
        "_meta": {SERVER_META: dict(server), CALL_META: ours},
    }
    if status.message:
        task["statusMessage"] = status.message
    if status.state is LongCallState.WAITING:
        asked = {name: {"method": ELICITATION, "params": form} for name, form in status.input.items()}
        return {**task, "status": "input_required", "inputRequests": asked}
    if status.state in _STATUSES:
        return {**task, "status": _STATUSES[status.state]}
    return {**task, **_write_end(status, tool, form, server)}


def _write_end(status: CallStatus, tool: Tool | None, form: OutputForm, server: Mapping[str, Json]) -> dict[str, Json]:
    result = _NO_RESULT if status.result is None else status.result
    if isinstance(result, Value):
        end = b',"resultType":"complete"}}'
        written = write_value(b"0", form, result.value, end)
        if foreign_members.has_members(result):
            written = foreign_members.write_result_members(written, result, tool, lambda block: block)
        return {"status": "completed", "result": _take_member(written, "result")}
    # What a call without a task would be told as a JSON-RPC error is one here too.
    if is_tool_error(result):
        written = write_failure(b"0", result, server, has_schema=form.schema is not None)
        return {"status": "completed", "result": _take_member(written, "result")}
    error = _take_member(build_refusal(b"0", result).body, "error")
    return {"status": "failed", "statusMessage": result.message, "error": error}


def _take_member(written: bytes, name: str) -> Json:
    """Return the result or the error in an answer."""
    answer = read_json(written)
    return answer[name] if isinstance(answer, dict) else {}
