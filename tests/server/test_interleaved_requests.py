"""What comes at each await of a request of MCP with a session, and of a request about a long call."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from tests.interleaving import answer_request, interrupt_each_await
from tests.support.wire import HERE
from toolwire import App, Context, Toolkit, asgi
from toolwire.core.http import Request, Response, get_header

pytestmark = pytest.mark.requirement("AT-58", "TE-02")
JSON = (b"content-type", b"application/json")
ANY = (b"accept", b"application/json, text/event-stream")
VERSION = "2025-11-25"
STATELESS = "2026-07-28"


class McpCaller:
    """A client of MCP with a session."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._fields: tuple[tuple[bytes, bytes], ...] = (JSON, ANY)

    async def begin(self) -> None:
        params = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        answer = await self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        session = get_header(answer.headers, b"mcp-session-id").encode()
        self._fields = (JSON, ANY, (b"mcp-protocol-version", VERSION.encode()), (b"mcp-session-id", session))

    async def post(self, message: dict[str, Any]) -> Response:
        return await self.send("POST", json.dumps(message).encode())

    async def call(self, id_: int) -> Response:
        params = {"name": "buy", "arguments": {"what": "tea"}}
        return await self.post({"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params})

    async def send(self, method: str, body: bytes = b"") -> Response:
        return await answer_request(self._app, Request(method, f"{HERE}/mcp", self._fields, body))


def build_shop() -> tuple[Toolkit, list[str]]:
    ran: list[str] = []
    kit = Toolkit("Shop")

    @kit.tool(approval="auto", safe=False)
    async def buy(what: str) -> str:
        ran.append(what)
        await asyncio.sleep(0)
        return f"bought {what}"

    return kit, ran


@pytest.mark.requirement("MC-10", "O-21")
def test_session_that_ends_at_any_await_of_a_call_is_gone_and_the_call_has_an_answer() -> None:
    kit, ran = build_shop()
    app = asgi(kit)

    async def run() -> int:
        callers: list[McpCaller] = []
        for _ in range(100):
            caller = McpCaller(app)
            await caller.begin()
            callers.append(caller)
        ended: list[McpCaller] = []

        def make() -> Any:
            caller = callers.pop()
            ended.append(caller)
            ran.clear()
            return caller.call(1), lambda: caller.send("DELETE")

        def check(answer: Response) -> None:
            # A call that has run has its result; one that has not says that its session is gone.
            assert (b"bought tea" in answer.body) == (ran == ["tea"]), (ran, answer)
            assert ran or answer.status == 404

        number = await interrupt_each_await(make, check, most=90)
        for caller in ended[:-1]:  # the last one was not interrupted
            assert (await caller.call(2)).status == 404
        return number

    assert asyncio.run(run()) > 1


@pytest.mark.requirement("MC-10")
def test_cancellation_that_comes_at_any_await_of_a_call_leaves_the_session_usable() -> None:
    kit, ran = build_shop()
    app = asgi(kit)

    async def run() -> int:
        caller, ids = McpCaller(app), count(1)
        await caller.begin()

        def make() -> Any:
            id_ = next(ids)
            ran.clear()
            cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id_}}
            return caller.call(id_), lambda: caller.post(cancelled)

        def check(_: Response) -> None:
            assert ran in ([], ["tea"])

        number = await interrupt_each_await(make, check)
        assert b"bought tea" in (await caller.call(next(ids))).body
        return number

    assert asyncio.run(run()) > 1


@dataclass
class Name:
    """What a long call asks its user."""

    name: str


class Reports:
    """A server with one long call, which asks for a name, and its caller. ``heard`` are the names that it got."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        kit = Toolkit("Reports")

        @kit.tool(approval="auto", long=True, safe=False)
        async def greet(context: Context) -> str:
            answer = await context.ask(Name, "Who are you?")
            self.heard.append(answer.name if isinstance(answer, Name) else "nobody")
            return self.heard[-1]

        self.app = asgi(kit)

    async def send(self, method: str, path: str, body: Any = None, *fields: tuple[bytes, bytes]) -> Response:
        data = b"" if body is None else json.dumps(body).encode()
        return await answer_request(self.app, Request(method, HERE + path, (JSON, *fields), data))

    async def start(self) -> tuple[str, str]:
        """Return the id of a new call, and the name of its question."""
        extensions = {"io.modelcontextprotocol/tasks": {}}
        meta = {
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "extensions": extensions},
        }
        params = {"name": "greet", "arguments": {}, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        version, method = (b"mcp-protocol-version", STATELESS.encode()), (b"mcp-method", b"tools/call")
        answer = await self.send("POST", "/mcp", message, version, method, (b"mcp-name", b"greet"), ANY)
        call_id = json.loads(answer.body)["result"]["taskId"]
        status = await self.wait_for_change(call_id)
        assert status["state"] == "waiting", status
        return call_id, next(iter(status["input"]))

    async def wait_for_change(self, call_id: str) -> Any:
        answer = await self.send("GET", f"/calls/{call_id}", None, (b"prefer", b"wait=20"))
        return json.loads(answer.body)

    async def answer(self, call_id: str, question: str, name: str) -> int:
        given = {"input": {question: {"action": "accept", "content": {"name": name}}}}
        return (await self.send("POST", f"/calls/{call_id}", given)).status

    async def cancel(self, call_id: str) -> int:
        return (await self.send("DELETE", f"/calls/{call_id}")).status


@pytest.mark.requirement("LC-02", "LC-04")
@pytest.mark.parametrize("rival", ["Ada", "Bob", "a cancellation"])
def test_question_of_a_long_call_has_one_answer_whatever_comes_at_any_await_of_it(rival: str) -> None:
    async def run() -> int:
        reports = Reports()
        await reports.app.begin()
        waiting = [await reports.start() for _ in range(8)]
        used: list[str] = []

        def make() -> Any:
            call_id, question = waiting.pop()
            used.append(call_id)

            async def come_between() -> None:
                again = reports.cancel(call_id) if "cancel" in rival else reports.answer(call_id, question, rival)
                await asyncio.create_task(again)

            return reports.answer(call_id, question, "Ada"), come_between

        number = await interrupt_each_await(make, lambda status: None, most=8)
        ends = [await reports.wait_for_change(call_id) for call_id in used]
        assert {end["state"] for end in ends} <= {"ended", "cancelled"}
        # Each call hears one name, and that is its result.
        assert sorted(end["result"] for end in ends if end["state"] == "ended") == sorted(reports.heard)
        await reports.app.end()
        return number

    assert asyncio.run(run()) >= 1
