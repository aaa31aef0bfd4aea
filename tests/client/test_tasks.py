"""Calls that an MCP server takes as tasks: waited for, asked about, cancelled; and bounded where it is hostile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from toolwire import InputRequest, Kind, LongCallState, Problem, Progress, Result, Value, connect_sync
from toolwire.client.connection.handle import SyncHandle
from toolwire.testing.loopback import background

TASKS = "io.modelcontextprotocol/tasks"
FORM = {
    "method": "elicitation/create",
    "params": {
        "message": "How large?",
        "requestedSchema": {"type": "object", "properties": {"size": {"type": "integer"}}},
    },
}


def task(status: str, **more: Any) -> dict[str, Any]:
    times = {"createdAt": "2026-11-24T06:00:00Z", "lastUpdatedAt": "2026-11-24T06:00:01Z"}
    return {"taskId": "t1", "status": status, **times, "ttlMs": 60_000, "pollIntervalMs": 0, **more}


def completed(text: str) -> dict[str, Any]:
    return task("completed", result={"content": [{"type": "text", "text": text}], "resultType": "complete"})


class Server:
    """A server of 2026-07-28 whose calls are tasks: ``tasks/get`` answers ``statuses`` in order, the last for ever."""

    def __init__(self, *statuses: Any, declares: bool = True, started: Any = None) -> None:
        self.statuses, self.declares = list(statuses), declares
        self.started = started or task("working")
        self.heard: list[tuple[str, dict[str, Any]]] = []
        self.names: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            part = await receive()
            body, more = body + part.get("body", b""), part.get("more_body", False)
        status, answer = (405, {}) if scope["method"] != "POST" else (200, self.answer(json.loads(body)))
        self.names += [value.decode() for name, value in scope["headers"] if name == b"mcp-name"]
        headers = [(b"content-type", b"application/json"), (b"allow", b"POST")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        method, params = message["method"], message["params"]
        result: dict[str, Any] = {"resultType": "complete"}
        if method == "server/discover":
            extensions = {"extensions": {TASKS: {}}} if self.declares else {}
            result |= {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}, **extensions}}
        elif method == "tools/list":
            result |= {"tools": [{"name": "build", "inputSchema": {"type": "object"}}]}
        else:
            self.heard.append((method, params))
            if method == "tools/call":
                result |= {**self.started, "resultType": "task"}
            elif method == "tasks/get":
                status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
                if isinstance(status, dict) and "code" in status:
                    return {"jsonrpc": "2.0", "id": message["id"], "error": status}
                result |= status
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.heard]


@contextmanager
def connected(server: Server, **options: Any) -> Iterator[Any]:
    options = {"approve": lambda _: True, **options}
    with background(server) as url, connect_sync(f"{url}/mcp", **options) as remote:
        yield remote


def call(server: Server, **options: Any) -> Result:
    with connected(server, **options) as remote:
        result: Result = remote.call("build")
        return result


@pytest.mark.requirement("LC-05")
def test_call_waits_for_the_result_of_a_task() -> None:
    server = Server(task("working"), task("working", statusMessage="Half."), completed("built"))
    received: list[Any] = []
    with connected(server) as remote:

        def hear(progress: Progress) -> None:
            received.append(progress.value)

        assert remote.call("build", notify=hear) == Value("built")
    assert received == [{"message": "Half."}]
    assert server.methods == ["tools/call", "tasks/get", "tasks/get", "tasks/get"]
    capabilities = [params["_meta"]["io.modelcontextprotocol/clientCapabilities"] for _, params in server.heard]
    assert all(one["extensions"] == {TASKS: {}} for one in capabilities)
    assert server.names[-3:] == ["t1", "t1", "t1"], "proxies route by this field"


@pytest.mark.requirement("LC-05")
def test_started_task_is_a_handle_that_another_client_takes_up() -> None:
    server = Server(task("working"), completed("built"))
    with background(server) as url:
        with connect_sync(f"{url}/mcp", approve=lambda _: True) as remote:
            handle = remote.start("build")
            assert isinstance(handle, SyncHandle)
            assert handle.id == "t1"
            status = handle.status()
            assert not isinstance(status, Problem)
            assert (status.state, status.is_over) == (LongCallState.RUNNING, False)
            assert status.expires_at == status.created_at + 60
        with connect_sync(f"{url}/mcp") as remote:
            assert remote.handle("t1").result() == Value("built")
    assert server.methods.count("tools/call") == 1


@pytest.mark.requirement("LC-05")
def test_question_of_a_task_is_asked_once_and_answered() -> None:
    asked: list[InputRequest] = []

    def provide(request: InputRequest) -> dict[str, Any]:
        asked.append(request)
        return {"size": 3}

    waiting = task("input_required", inputRequests={"size": FORM})
    server = Server(waiting, waiting, completed("3"))
    assert call(server, provide_input=provide) == Value("3")
    assert [(one.message, one.tool) for one in asked] == [("How large?", "build")]
    (update,) = [params for method, params in server.heard if method == "tasks/update"]
    assert update["inputResponses"] == {"size": {"action": "accept", "content": {"size": 3}}}
    assert update["taskId"] == "t1"


@pytest.mark.requirement("LC-05")
def test_task_that_waits_for_a_user_who_cannot_be_asked_is_left_waiting() -> None:
    server = Server(task("input_required", inputRequests={"size": FORM}))
    result = call(server, timeout_s=1.0)
    assert isinstance(result, Problem)
    assert (result.kind, result.details["call"]) == (Kind.ACCEPTED, {"id": "t1", "state": "waiting"})
    assert "waits for an answer" in result.message
    assert "tasks/update" not in server.methods


@pytest.mark.requirement("LC-05")
def test_task_is_cancelled_by_its_handle() -> None:
    server = Server(task("cancelled"))
    with connected(server) as remote:
        status = remote.start("build").cancel()
        assert not isinstance(status, Problem)
        assert status.state is LongCallState.CANCELLED
        ended = remote.handle("t1").result()
        assert isinstance(ended, Problem)
        assert ended.kind is Kind.CANCELLED
    assert server.methods == ["tools/call", "tasks/cancel", "tasks/get", "tasks/get"]


ENDS: list[tuple[Any, Kind, str]] = [
    (task("failed", error={"code": -32603, "message": "No paper."}), Kind.TOOL_FAILED, "No paper."),
    (task("failed"), Kind.TOOL_FAILED, "The call failed without a reason"),
    (
        task("completed", result={"content": [{"type": "text", "text": "No ink."}], "isError": True}),
        Kind.TOOL_FAILED,
        "No ink.",
    ),
    (task("completed"), Kind.TOOL_FAILED, ""),
    ({"code": -32602, "message": "Task not found"}, Kind.NOT_FOUND, "Task not found"),
    ({"code": -32603, "message": "Broken"}, Kind.BAD_ANSWER, "Broken"),
    (task("working") | {"taskId": "t2"}, Kind.BAD_ANSWER, "not a task"),
    (task("unheard"), Kind.BAD_ANSWER, "not a task"),
    ({"status": ["working"]}, Kind.BAD_ANSWER, "not a task"),
]


@pytest.mark.requirement("LC-05")
@pytest.mark.parametrize(("status", "kind", "text"), ENDS)
def test_failure_of_a_task_is_a_problem_and_the_call_is_not_repeated(status: Any, kind: Kind, text: str) -> None:
    server = Server(status)
    result = call(server, retries=5)
    if status == task("completed"):
        assert result == Value(None)
    else:
        assert isinstance(result, Problem)
        assert (result.kind, text in result.message) == (kind, True)
    assert server.methods.count("tools/call") == 1


@pytest.mark.requirement("LC-05")
def test_task_without_end_is_bounded_in_time_and_number() -> None:
    server = Server(task("working"))
    result = call(server, timeout_s=2.0)
    assert isinstance(result, Problem)
    assert (result.kind, result.details["call"]["id"]) == (Kind.ACCEPTED, "t1")
    assert server.methods.count("tasks/get") <= 8
    year = Server(task("working", pollIntervalMs=31_536_000_000), started=task("working", pollIntervalMs=10**15))
    assert isinstance(call(year), Problem)
    assert year.methods == ["tools/call"]


@pytest.mark.requirement("LC-05")
def test_task_that_asks_without_end_is_abandoned() -> None:
    number = iter(range(10_000))

    class Asking(Server):
        def answer(self, message: dict[str, Any]) -> dict[str, Any]:
            self.statuses = [task("input_required", inputRequests={f"q{next(number)}": FORM})]
            return super().answer(message)

    asked: list[InputRequest] = []
    server = Asking(None)
    result = call(server, provide_input=lambda one: asked.append(one) or {"size": 1}, timeout_s=60.0)
    assert isinstance(result, Problem)
    assert len(asked) <= 10
    assert server.methods.count("tasks/get") <= 60


@pytest.mark.requirement("LC-05")
@pytest.mark.parametrize("started", [{"taskId": 7}, {"taskId": ""}, {"taskId": "a b"}, {"taskId": "x" * 3_000}, {}])
def test_task_without_a_usable_id_is_a_bad_answer(started: dict[str, Any]) -> None:
    server = Server(task("working"), started={"status": "working", **started})
    result = call(server)
    assert isinstance(result, Problem)
    assert result.kind is Kind.BAD_ANSWER
    assert server.methods == ["tools/call"]


@pytest.mark.requirement("LC-05")
def test_undeclared_task_is_a_bad_answer() -> None:
    server = Server(task("working"), declares=False)
    result = call(server)
    assert isinstance(result, Problem)
    assert result.kind is Kind.BAD_ANSWER
    assert "extensions" not in json.dumps(server.heard)
    with connected(server) as remote:
        unknown = remote.handle("t1").status()
        assert isinstance(unknown, Problem)
        assert unknown.kind is Kind.NOT_FOUND
