"""Read and cancel tasks of an MCP server, which are calls that go on after their answer.

Rules:
- The client declares the extension io.modelcontextprotocol/tasks only to a server that declares it, since 2026-07-28.
- What a task asks the user is asked once, in the same words and within the same limits as in the middle of a call.
- A task of another id than the one asked for, or of an unknown status, is no answer.
"""
# LC-05

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from toolwire.core.call_status import CallPage, CallStatus, LongCallState
from toolwire.core.codec import CallReading, Flow, Peer
from toolwire.core.http import Response
from toolwire.core.model import Json, Kind, Problem, Result, Tool
from toolwire.framing import calls_resource
from toolwire.framing.call_document import is_call_id, read_message, read_status, read_time
from toolwire.framing.jsonrpc import INVALID_PARAMS
from toolwire.framing.jsontext import get_object
from toolwire.framing.rate_headers import parse_wait_ms

from . import elicitation, post_message, result
from .post_message import Conversation, McpClientSession, Refused
from .revision import CALL_META, STATELESS
from .stream_reader import fetch_answer

_STATES: Final = {
    "working": LongCallState.RUNNING,
    "input_required": LongCallState.WAITING,
    "completed": LongCallState.ENDED,
    "failed": LongCallState.ENDED,
    "cancelled": LongCallState.CANCELLED,
}
_ANY_TOOL: Final = Tool(name="call")


def read_started(session: McpClientSession, tool: Tool, answer: Mapping[str, Json]) -> Problem:
    """Return the Problem that the call of ``tool`` goes on as the task ``answer``, or that this cannot be."""
    task_id = answer.get("taskId")
    if session.version != STATELESS or "tasks" not in session.server_capabilities or not is_call_id(task_id):
        text = f"The server answered {tool.name} with a task that this client cannot read."
        return Problem(kind=Kind.BAD_ANSWER, message=text)
    status = _read_task(answer, task_id, None)
    return Problem(
        kind=Kind.ACCEPTED,
        message=f"The server is processing {tool.name} as call {task_id}. Read its result later.",
        can_retry=True,
        retry_after_ms=parse_wait_ms(answer.get("pollIntervalMs")),
        details={"call": {"id": task_id, "state": "running" if status is None else status.state.value}},
    )


def read(
    peer: Peer, tool: Tool | None, call_id: str, _wait_s: float, answered: set[str] | None
) -> Flow[CallReading | Problem]:
    """Return how the task stands; what it asks the user is asked and answered first."""
    answer = yield from _ask(peer, "tasks/get", {"taskId": call_id})
    if isinstance(answer, Problem):
        return answer
    status = _read_task(answer, call_id, tool, peer)
    if status is None:
        return Problem(kind=Kind.BAD_ANSWER, message=f"The server's answer about the call {call_id} is not a task.")
    if status.state is LongCallState.WAITING and answered is not None and _get_session(peer).can_ask:
        problem = yield from _answer(peer, call_id, get_object(answer, "inputRequests"), answered, status.tool)
        if problem is not None:
            return problem
    wait_ms = parse_wait_ms(answer.get("pollIntervalMs"))
    return CallReading(status, None if wait_ms is None else wait_ms / 1_000)


def cancel(peer: Peer, call_id: str) -> Flow[Problem | None]:
    """Ask to cancel the task, and return a Problem if the server refuses."""
    answer = yield from _ask(peer, "tasks/cancel", {"taskId": call_id})
    return answer if isinstance(answer, Problem) else None


def list_calls(peer: Peer, limit: int, cursor: str) -> Flow[CallPage | Problem]:
    """Return the calls of this caller from the resource that our own server has beside its MCP endpoint.

    MCP itself has no list of tasks.
    """
    listed = yield from calls_resource.list_beside(peer, limit, cursor)
    if isinstance(listed, Problem) and listed.kind in (Kind.NOT_FOUND, Kind.BAD_ANSWER):
        text = "MCP cannot list tasks. Read a call by its ID, or list the calls over another protocol of the server."
        return Problem(kind=Kind.NOT_FOUND, message=text)
    return listed


def _answer(peer: Peer, call_id: str, asked: Mapping[str, Json], answered: set[str], tool: str) -> Flow[Problem | None]:
    new = {name: request for name, request in asked.items() if name not in answered}
    if not new:
        return None
    if len(answered) + len(new) > calls_resource.MAX_ANSWERS:
        return elicitation.build_endless(tool or "The call")
    wanted = elicitation.read_questions(new, None)
    if isinstance(wanted, Problem):
        return wanted
    given = yield from elicitation.ask_user(wanted, tool)
    if isinstance(given, Problem):
        return given
    sent = yield from _ask(peer, "tasks/update", {"taskId": call_id, **given})
    answered.update(new)
    return sent if isinstance(sent, Problem) else None


def _read_task(
    answer: Mapping[str, Json], task_id: str, tool: Tool | None, peer: Peer | None = None
) -> CallStatus | None:
    """Return the status that a task says; None if it is none, or that of another task."""
    word = answer.get("status")
    state = _STATES.get(word) if isinstance(word, str) else None
    if state is None or answer.get("taskId") != task_id:
        return None
    created_at, ttl_ms = read_time(answer.get("createdAt")) or 0.0, parse_wait_ms(answer.get("ttlMs"))
    status = CallStatus(
        id=task_id,
        tool="" if tool is None else tool.id,
        state=state,
        message=read_message(answer.get("statusMessage")),
        created_at=created_at,
        updated_at=read_time(answer.get("lastUpdatedAt")) or 0.0,
        expires_at=None if ttl_ms is None or not created_at else created_at + ttl_ms / 1_000,
    )
    # Our own server says more of a call than MCP has words for.
    ours = read_status(get_object(answer, "_meta").get(CALL_META))
    if ours is not None and ours.id == task_id:
        status = replace(status, tool=ours.tool or status.tool, progress=ours.progress)
        status = replace(status, state=ours.state if ours.state.is_final == state.is_final else state)
        status = replace(status, expires_at=ours.expires_at, cancel_asked=ours.cancel_asked)
    if not state.is_final:
        return status
    found = peer.catalog.find(status.tool) if tool is None and peer is not None else tool
    return replace(status, result=_read_end(answer, status, found if isinstance(found, Tool) else _ANY_TOOL))


def _read_end(answer: Mapping[str, Json], status: CallStatus, tool: Tool) -> Result | None:
    if answer.get("status") == "completed":
        return result.read(tool, get_object(answer, "result"))
    if answer.get("status") == "failed":
        error = get_object(answer, "error")
        code, text = error.get("code"), error.get("message")
        described = text if isinstance(text, str) and text else status.message or "The call failed without a reason."
        refused = Refused(code if type(code) is int else 0, described[:2_000], error.get("data"))
        problem = post_message.build_problem(Response(200), refused)
        return replace(problem, kind=Kind.TOOL_FAILED) if problem.kind in (Kind.BAD_ANSWER, Kind.ACCEPTED) else problem
    return None


def _ask(peer: Peer, method: str, params: dict[str, Json]) -> Flow[dict[str, Json] | Problem]:
    session = _get_session(peer)
    if session.version != STATELESS or "tasks" not in session.server_capabilities:
        text = "This MCP server does not support tasks, so it cannot report a call's status."
        return Problem(kind=Kind.NOT_FOUND, message=text, details={"sent": False})
    if not is_call_id(params["taskId"]):
        return Problem(kind=Kind.NOT_FOUND, message="This is not a valid call ID.", details={"sent": False})
    id_ = method
    # Nothing is asked within the answer, so a server has no more time for it than for any other.
    response = yield from fetch_answer(post_message.write(session, method, params, id_), session, id_, is_brief=True)
    if isinstance(response, Problem):
        return response
    answer = post_message.read(response, id_)
    if not isinstance(answer, Refused):
        return answer
    problem = post_message.build_problem(response, answer)
    # The extension's word for an unknown task.
    return replace(problem, kind=Kind.NOT_FOUND) if answer.code == INVALID_PARAMS else problem


def _get_session(peer: Peer) -> McpClientSession:
    conversation: Conversation = peer.memo
    return conversation.session
