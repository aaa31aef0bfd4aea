"""Long calls over plain HTTP: accepted, followed, waited for, cancelled, and read by their callers alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import validate

from tests.support.wire import HERE, AppTransport
from toolwire import App, Authorization, Context, Requirements, ServerLimits, Toolkit, asgi
from toolwire.core.errors import DefinitionError
from toolwire.core.http import Request, Response, get_header
from toolwire.core.model import Secret
from toolwire.protocols.openapi.tools.operations import read_operations
from toolwire.server.access.api_keys import ApiKey
from toolwire.stores.ledger.call_overview import CallOverview

KEYS = tuple(ApiKey(key=Secret(f"{name}-key-of-a-caller"), name=name) for name in ("ada", "bob"))
JSON = (b"content-type", b"application/json")
CONTENT = {"accept": "text/event-stream"}


class Work:
    """The tools of a test, which wait for the test, and what they did."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.started = asyncio.Event()
        self.did: list[Any] = []
        self.kit = Toolkit("Reports")

        @self.kit.tool(approval="per-call", long=True, keep_s=600)
        async def build(rows: int, context: Context) -> dict[str, int]:
            """Build a report."""
            self.did.append(("began", rows))
            await context.progress({"progress": 1, "total": 4, "message": "reading"})
            self.started.set()
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.did.append(("cancelled", rows))
                raise
            self.did.append(("ended", rows))
            return {"rows": rows}

        @self.kit.tool(
            approval="per-call",
            long=True,
            requirements=Requirements(authorization=(Authorization(id="cloud"),), secrets=("KEY",)),
        )
        async def export(context: Context) -> str:
            """Export with a token."""
            return f"{context.token('cloud').reveal()[:3]} {context.secret('KEY').reveal()[:3]}"

        @dataclass
        class Name:
            name: str

        @self.kit.tool(approval="per-call", long=True)
        async def greet(context: Context) -> str:
            """Ask for a name."""
            answer = await context.ask(Name, "Who are you?")
            self.did.append("asked")
            return f"Hello, {answer.name}" if answer else answer.message

        @self.kit.tool(approval="per-call", long=True, rate_limit=(1, "1h"))
        async def seldom() -> str:
            """Run once an hour."""
            return "done"


class Client:
    """One caller of an application."""

    def __init__(self, app: App, key: str = "") -> None:
        self.transport = AppTransport(app)
        self._key = key

    async def send(self, method: str, path: str, body: Any = None, **fields: str) -> tuple[Response, Any]:
        headers = [JSON, *((name.replace("_", "-").encode(), value.encode()) for name, value in fields.items())]
        if self._key:
            headers.append((b"authorization", f"Bearer {self._key}-key-of-a-caller".encode()))
        data = b"" if body is None else json.dumps(body).encode()
        response = await self.transport.send(Request(method, HERE + path, headers, data))
        return response, json.loads(response.body) if response.body.startswith((b"{", b"[")) else response.body

    async def listen(
        self, method: str, path: str, body: Any, until: bytes, then: asyncio.Event, **fields: str
    ) -> bytes:
        """Return all of a stream; ``then`` is set once ``until`` was heard."""
        received: list[bytes] = []

        async def hear(piece: bytes) -> None:
            received.append(piece)
            if until in b"".join(received):
                then.set()

        headers = [JSON, *((name.replace("_", "-").encode(), value.encode()) for name, value in fields.items())]
        if self._key:
            headers.append((b"authorization", f"Bearer {self._key}-key-of-a-caller".encode()))
        data = b"" if body is None else json.dumps(body).encode()
        await self.transport.listen(Request(method, HERE + path, headers, data), hear)
        return b"".join(received)

    async def start(self, rows: int = 7, **fields: str) -> str:
        response, reply = await self.send("POST", "/api/build", {"rows": rows}, **fields)
        assert response.status == 202
        assert get_header(response.headers, b"location") == f"/calls/{reply['id']}"
        return str(reply["id"])

    async def ask(self, method: str, *, declares: bool = True, **params: Any) -> Any:
        """Return the answer to an MCP request of 2026-07-28."""
        extensions = {"io.modelcontextprotocol/tasks": {}} if declares else {}
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "extensions": extensions},
            # What our client says, which asks its user for consent itself.
            "toolwire/asks-consent": True,
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        fields = {"mcp_protocol_version": "2026-07-28", "mcp_method": method, "accept": "application/json"}
        if name := params.get("name") or params.get("taskId"):
            fields["mcp_name"] = name
        _, reply = await self.send("POST", "/mcp", message, **fields)
        return reply.get("result") or reply["error"]

    async def read(self, call_id: str, **fields: str) -> Any:
        response, reply = await self.send("GET", f"/calls/{call_id}", **fields)
        assert response.status == 200, reply
        return reply


def run(scenario: Callable[[Work, Callable[..., Client]], Awaitable[None]], **options: Any) -> None:
    """Run ``scenario`` with a server of its own."""

    async def serve() -> None:
        work = Work()
        app = asgi(work.kit, **options)
        await app.begin()
        try:
            await scenario(work, lambda key="": Client(app, key))
        finally:
            work.gate.set()
            await app.end()

    asyncio.run(serve())


@pytest.mark.requirement("LC-01", "LC-03")
def test_a_call_goes_on_without_its_caller_and_its_end_is_kept() -> None:
    async def scenario(work: Work, caller: Callable[..., Client]) -> None:
        client = caller()
        response, reply = await client.send("POST", "/api/build", {"rows": 7})
        assert (response.status, reply["state"], reply["tool"]) == (202, "accepted", "Reports.build@1.0.0")
        assert get_header(response.headers, b"retry-after") == "1"
        assert len(reply["id"]) * 4 >= 128
        await work.started.wait()
        half = await client.read(reply["id"], prefer="wait=1")
        while half["progress"] is None:
            half = await client.read(reply["id"])
        assert (half["state"], half["progress"], half["message"]) == ("running", 0.25, "reading")
        assert "result" not in half
        work.gate.set()
        over = await client.read(reply["id"], prefer="wait=20")
        assert (over["state"], over["result"]) == ("ended", {"rows": 7})
        assert over["created_at"].endswith("Z")
        assert over["expires_at"] > over["updated_at"]
        assert await client.read(reply["id"]) == over

    run(scenario)


@pytest.mark.requirement("LC-02")
def test_a_caller_waits_as_long_as_it_prefers() -> None:
    async def scenario(work: Work, caller: Callable[..., Client]) -> None:
        client = caller()
        early, reply = await client.send("POST", "/api/build", {"rows": 1}, prefer="respond-async, wait=0")
        assert early.status == 202
        assert get_header(early.headers, b"preference-applied") == "wait=0"
        work.gate.set()
        late, value = await client.send("POST", "/api/build", {"rows": 2}, prefer='wait="20"')
        assert (late.status, value) == (200, {"rows": 2})
        assert get_header(late.headers, b"preference-applied") == "wait=20"
        refused, _ = await client.send("POST", "/api/build", {"rows": "two"}, prefer="wait=20")
        assert (refused.status, get_header(refused.headers, b"preference-applied")) == (422, "")
        again, over = await client.send("GET", f"/calls/{reply['id']}", prefer="wait=20")
        assert (over["state"], get_header(again.headers, b"preference-applied")) == ("ended", "wait=20")

    run(scenario)


@pytest.mark.requirement("LC-02", "LC-03", "FU-05")
def test_changes_come_as_events_until_the_call_is_over() -> None:
    async def scenario(work: Work, caller: Callable[..., Client]) -> None:
        client = caller()
        call_id = await client.start()
        await work.started.wait()
        events = await client.listen("GET", f"/calls/{call_id}", None, b'"progress":0.25', work.gate, **CONTENT)
        data = [json.loads(part.partition(b"data:")[2]) for part in events.strip().split(b"\n\n")]
        assert [one["state"] for one in data] == ["running"] * (len(data) - 1) + ["ended"]
        assert any(one["progress"] == 0.25 for one in data)
        assert data[-1]["result"] == {"rows": 7}
        _, once = await client.send("GET", f"/calls/{call_id}", **CONTENT)
        assert once.count(b"event:status") == 1
        unknown, problem = await client.send("GET", "/calls/unknown", **CONTENT)
        assert (unknown.status, problem["kind"]) == (404, "not_found")

    run(scenario)


@pytest.mark.requirement("LC-04")
def test_cancelling_reaches_the_tool() -> None:
    async def scenario(work: Work, caller: Callable[..., Client]) -> None:
        client = caller()
        call_id = await client.start()
        await work.started.wait()
        asked, reply = await client.send("DELETE", f"/calls/{call_id}")
        assert (asked.status, reply["cancel_asked"]) == (202, True)
        over = await client.read(call_id, prefer="wait=20")
        assert (over["state"], over["error"]["kind"]) == ("cancelled", "cancelled")
        assert work.did == [("began", 7), ("cancelled", 7)]
        again, _ = await client.send("DELETE", f"/calls/{call_id}")
        assert again.status == 200

    run(scenario)


@pytest.mark.requirement("LC-01", "LC-03")
def test_a_call_belongs_to_its_caller_alone() -> None:
    async def scenario(work: Work, caller: Callable[..., Client]) -> None:
        ada, bob, nobody = caller("ada"), caller("bob"), caller()
        call_id = await ada.start()
        answers = [await bob.send(method, f"/calls/{call_id}") for method in ("GET", "DELETE")]
        answers.append(await bob.send("POST", f"/calls/{call_id}", {"input": {"q": {"action": "decline"}}}))
        answers.append(await bob.send("GET", f"/calls/{'0' * 40}"))
        assert [response.status for response, _ in answers] == [404] * 4
        assert len({response.body for response, _ in answers}) == 1
        assert (await nobody.send("GET", f"/calls/{call_id}"))[0].status == 401
        assert (await nobody.send("GET", "/calls"))[0].status == 401
        _, listed = await ada.send("GET", "/calls?limit=1")
        assert [one["id"] for one in listed["calls"]] == [call_id]
        assert (await bob.send("GET", "/calls"))[1] == {"calls": [], "next": None}
        assert work.did[-1] == ("began", 7)

    run(scenario, api_keys=KEYS)


@pytest.mark.requirement("D-38", "LC-03")
def test_calls_of_a_key_that_was_taken_away_do_not_run(tmp_path: Path) -> None:
    stored = tmp_path / "calls.sqlite"
    ids: dict[str, str] = {}

    async def accept_calls(work: Work, caller: Callable[..., Client]) -> None:
        ids["waiting"] = (await caller("bob").ask("tools/call", name="greet", arguments={}))["taskId"]
        assert (await caller("bob").read(ids["waiting"], prefer="wait=20"))["state"] == "waiting"
        ids["running"] = await caller("ada").start()
        await work.started.wait()
        ids["accepted"] = await caller("bob").start()
        work.gate = asyncio.Event()  # the server ends while the first call runs

    async def go_on(work: Work, caller: Callable[..., Client]) -> None:
        work.gate.set()
        assert (await caller("ada").read(ids["running"], prefer="wait=20"))["state"] == "interrupted"
        assert (await caller("bob").send("GET", f"/calls/{ids['accepted']}"))[0].status == 401
        assert work.did == []

    run(accept_calls, api_keys=KEYS, ledger=str(stored), limits=ServerLimits(long_running=1, repeat_s=0.1))
    run(go_on, api_keys=KEYS[:1], ledger=str(stored))
    states = {call.status.id: call.status.state.value for call in CallOverview(stored).list_recent(9)}
    assert states == {ids["running"]: "interrupted", ids["accepted"]: "cancelled", ids["waiting"]: "cancelled"}


@pytest.mark.requirement("D-38", "LC-03")
def test_running_call_of_a_key_is_cancelled_by_the_process_that_comes_without_it(tmp_path: Path) -> None:
    stored = str(tmp_path / "calls.sqlite")

    async def run_call(work: Work, caller: Callable[..., Client]) -> None:
        ids = [await caller(name).start() for name in ("ada", "bob")]
        after = asgi(Work().kit, api_keys=KEYS[:1], ledger=stored)
        await after.begin()
        try:
            over = await caller("bob").read(ids[1], prefer="wait=20")
            assert (over["state"], over["error"]["kind"]) == ("cancelled", "cancelled")
            work.gate.set()
            assert (await caller("ada").read(ids[0], prefer="wait=20"))["state"] == "ended"
        finally:
            await after.end()

    run(run_call, api_keys=KEYS, ledger=stored)


BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.requirement("LC-05", "LC-02")
@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        "application/json",
        "application/json, text/html",
        "text/html;q=0.1, application/json",
        "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2",  # HttpURLConnection of Java
    ],
)
def test_programs_get_data_at_the_address_of_a_call(accept: str) -> None:
    async def scenario(work: Work, caller: Callable[..., Client]) -> None:
        fields = {"accept": accept} if accept else {}
        call_id = await caller().start()
        response, reply = await caller().send("GET", f"/calls/{call_id}", **fields)
        assert (get_header(response.headers, b"content-type"), reply["id"]) == ("application/json", call_id)
        assert get_header(response.headers, b"vary") == "accept"
        assert not get_header(response.headers, b"etag")  # it changes without a word, so nothing may keep it
        assert get_header(response.headers, b"cache-control") == "no-store"
        refused, reply = await caller().send("POST", f"/calls/{call_id}", {"input": {}}, **fields)
        assert (refused.status, get_header(refused.headers, b"vary")) == (422, "accept")
        stream = {"accept": "text/event-stream, text/html"}
        await work.started.wait()
        await caller().send("DELETE", f"/calls/{call_id}", **stream)
        received = await caller().listen("GET", f"/calls/{call_id}", None, b"status", asyncio.Event(), **stream)
        assert received.startswith(b"event:status")
        assert (await caller().send("POST", "/calls", {}, **fields))[0].status == 405
        assert work.did[-1] == ("cancelled", 7)

    run(scenario)


@pytest.mark.requirement("LC-05", "LC-01", "D-22", "D-25")
def test_page_of_a_call_says_what_its_data_says_to_its_caller_alone() -> None:
    async def scenario(work: Work, caller: Callable[..., Client]) -> None:
        ada, bob, nobody = caller("ada"), caller("bob"), caller()
        call_id = await ada.start()
        await work.started.wait()
        path = f"/calls/{call_id}"
        response, body = await ada.send("GET", path, accept=BROWSER)
        text = body.decode()
        assert (response.status, get_header(response.headers, b"vary")) == (200, "accept")
        assert get_header(response.headers, b"cache-control") == "no-store"
        policy = get_header(response.headers, b"content-security-policy")
        assert "default-src 'none'" in policy
        assert "script-src 'self'; connect-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "build is running" in text
        assert "reading" in text
        assert "25 %" in text
        # others are told the same of this call as of none
        elsewhere = f"/calls/{'0' * 40}"
        of_bob = [await bob.send("GET", one, accept=BROWSER) for one in (path, elsewhere)]
        assert {(one.status, one.body) for one, _ in of_bob} == {(404, of_bob[0][0].body)}
        of_nobody = [await nobody.send("GET", one, accept=BROWSER) for one in (path, elsewhere)]
        assert [one.status for one, _ in of_nobody] == [401, 401]
        assert of_nobody[0][0].body.replace(call_id.encode(), b"0" * 40) == of_nobody[1][0].body
        assert b"build" not in of_nobody[0][0].body.replace(call_id.encode(), b"")
        # forms: only of our own page, with the key of the caller, and never by a link
        form = {"content_type": "application/x-www-form-urlencoded", "accept": BROWSER}
        assert (await post_form(caller, path, "step=cancel", **form)).status == 401
        assert (await post_form(caller, path, "step=cancel&key=bob-key-of-a-caller", **form)).status == 404
        mine = "step=cancel&key=ada-key-of-a-caller"
        for foreign in ({"origin": "http://127.0.0.1:1"}, {"sec_fetch_site": "cross-site"}):
            assert (await post_form(caller, path, mine, **form, **foreign)).status == 403
        assert (await ada.read(call_id))["state"] == "running"
        link = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "accept": BROWSER}
        assert (await ada.send("GET", path, **link))[0].status == 200
        assert (await ada.send("GET", path, **{**link, "accept": "*/*"}))[0].status == 403
        done = await post_form(caller, path, mine, **form)
        assert done.status == 200
        assert b"ada-key" not in done.body
        assert (await ada.read(call_id, prefer="wait=5"))["state"] == "cancelled"

    run(scenario, api_keys=KEYS)


async def post_form(caller: Callable[..., Client], path: str, body: str, **fields: str) -> Response:
    """Send a form of a page without any other credentials."""
    client = caller()
    headers = [(name.replace("_", "-").encode(), value.encode()) for name, value in fields.items()]
    return await client.transport.send(Request("POST", HERE + path, headers, body.encode()))


@pytest.mark.requirement("LC-05")
def test_page_of_calls_lists_those_of_a_named_caller_in_pages() -> None:
    async def scenario(work: Work, caller: Callable[..., Client]) -> None:
        ids = [await caller("ada").start(rows) for rows in range(51)]
        form = {"content_type": "application/x-www-form-urlencoded", "accept": BROWSER}
        first = (await post_form(caller, "/calls", "step=call&key=ada-key-of-a-caller", **form)).body.decode()
        assert f"/calls/{ids[-1]}" in first
        assert f"/calls/{ids[0]}" not in first
        cursor = first.partition('name="cursor" value="')[2].partition('"')[0]
        second = await post_form(caller, "/calls", f"cursor={cursor}&key=ada-key-of-a-caller", **form)
        assert f"/calls/{ids[0]}".encode() in second.body
        assert (await post_form(caller, "/calls", "step=call&key=wrong", **form)).status == 401
        of_bob = await post_form(caller, "/calls", "step=call&key=bob-key-of-a-caller", **form)
        assert b"You have no long calls" in of_bob.body
        assert work.kit is not None

    run(scenario, api_keys=KEYS)

    async def unnamed(work: Work, caller: Callable[..., Client]) -> None:
        response, body = await caller().send("GET", "/calls", accept=BROWSER)
        assert (response.status, b"cannot identify its callers" in body) == (403, True)
        assert work.kit is not None

    run(unnamed)


@pytest.mark.requirement("LC-03")
def test_a_list_has_pages_and_none_for_callers_without_names() -> None:
    async def scenario(work: Work, caller: Callable[..., Client]) -> None:
        ada = caller("ada")
        ids = [await ada.start(rows) for rows in range(3)]
        _, first = await ada.send("GET", "/calls?limit=2")
        _, second = await ada.send("GET", f"/calls?limit=2&cursor={first['next']}")
        assert [one["id"] for page in (first, second) for one in page["calls"]] == ids[::-1]
        assert second["next"] is None
        assert (await ada.send("GET", "/calls?limit=0"))[0].status == 422
        assert work.kit is not None

    run(scenario, api_keys=KEYS)

    async def unnamed(work: Work, caller: Callable[..., Client]) -> None:
        await caller().start()
        refused, reply = await caller().send("GET", "/calls")
        assert (refused.status, reply["kind"]) == (403, "forbidden")

    run(unnamed)


@pytest.mark.requirement("LC-01", "LC-02", "LC-04")
def test_the_same_call_on_other_wires_is_one_call_with_one_id() -> None:
    async def scenario(work: Work, caller: Callable[..., Client]) -> None:
        ada = caller("ada")
        call = {"request": {"tool_id": "Reports.build", "call_id": "c-1", "input": {"rows": 3}}}
        later, reply = await ada.send("POST", "/tools/call", call)
        assert (later.status, reply["error"], reply["can_retry"]) == (503, "accepted", True)
        call_id = reply["details"]["call"]["id"]
        assert get_header(later.headers, b"location") == f"/calls/{call_id}"
        by_key = await ada.send("POST", "/api/build", {"rows": 3}, idempotency_key="c-1")
        assert by_key[1]["id"] == call_id
        rpc = {"jsonrpc": "2.0", "id": 1, "method": "build", "params": {"rows": 3}}
        _, opentool = await ada.send("POST", "/opentool/call", rpc, idempotency_key="c-1", prefer="wait=0")
        assert opentool["error"]["data"]["details"]["call"]["id"] == call_id
        other, refused = await ada.send("POST", "/api/build", {"rows": 4}, idempotency_key="c-1")
        assert (other.status, refused["kind"]) == (409, "conflict")
        stream = ("POST", "/opentool/streamCall", rpc)
        frames = await ada.listen(*stream, b'"reading"', work.gate, idempotency_key="c-1", prefer="wait=20")
        assert b'"message":"reading"' in frames
        assert b'"rows":3' in frames
        again, value = await ada.send("POST", "/tools/call", call)
        assert (again.status, value["result"]["value"]) == (200, {"rows": 3})
        assert get_header(again.headers, b"idempotent-replayed") == "true"
        assert work.did == [("began", 3), ("ended", 3)]
        assert (await ada.read(call_id))["result"] == {"rows": 3}

    run(scenario, api_keys=KEYS, limits=ServerLimits(repeat_s=0.05))


@pytest.mark.requirement("LC-02", "LC-03", "LC-04")
def test_a_task_of_mcp_is_the_call_of_every_other_wire() -> None:
    async def scenario(work: Work, caller: Callable[..., Client]) -> None:
        ada = caller("ada")
        task = await ada.ask("tools/call", name="build", arguments={"rows": 5})
        assert (task["resultType"], task["status"], task["ttlMs"]) == ("task", "working", None)
        await work.started.wait()
        assert (await ada.read(task["taskId"]))["state"] == "running"
        assert (await caller("bob").ask("tasks/get", taskId=task["taskId"]))["code"] == -32602
        assert (await ada.ask("tasks/get", declares=False, taskId=task["taskId"]))["code"] == -32021
        work.gate.set()
        over = await ada.read(task["taskId"], prefer="wait=20")
        assert over["result"] == {"rows": 5}
        done = await ada.ask("tasks/get", taskId=task["taskId"])
        assert (done["status"], done["result"]["structuredContent"]) == ("completed", {"rows": 5})
        assert done["ttlMs"] >= 600_000
        assert done["_meta"]["toolwire/call"]["id"] == task["taskId"]

        call = {"request": {"tool_id": "Reports.build", "call_id": "c-9", "input": {"rows": 6}}}
        work.gate.clear()
        _, later = await ada.send("POST", "/tools/call", call, prefer="respond-async")
        other = later["details"]["call"]["id"]
        working = await ada.ask("tasks/get", taskId=other)
        assert working["status"] == "working"
        acknowledged = await ada.ask("tasks/cancel", taskId=other)
        assert set(acknowledged) == {"resultType", "_meta"}
        assert (await ada.read(other, prefer="wait=20"))["state"] == "cancelled"
        assert (await ada.ask("tasks/get", taskId=other))["status"] == "cancelled"

    run(scenario, api_keys=KEYS)


@pytest.mark.requirement("LC-02", "LC-03")
@pytest.mark.parametrize("wire", ["mcp", "http"])
def test_a_tool_asks_in_the_middle_of_a_call_and_goes_on_with_the_answer(wire: str) -> None:
    async def scenario(work: Work, caller: Callable[..., Client]) -> None:
        ada = caller("ada")
        task = await ada.ask("tools/call", name="greet", arguments={})
        call_id = task["taskId"]
        waiting = await ada.read(call_id, prefer="wait=20")
        assert waiting["state"] == "waiting"
        [(name, asked)] = waiting["input"].items()
        assert asked["message"] == "Who are you?"
        shown = await ada.ask("tasks/get", taskId=call_id)
        assert (shown["status"], shown["inputRequests"][name]["params"]) == ("input_required", asked)
        bad = {"action": "accept", "content": {"wrong": 1}}
        await ada.send("POST", f"/calls/{call_id}", {"input": {name: bad}})
        again = await ada.read(call_id, prefer="wait=20")
        [(second, asked)] = again["input"].items()
        assert second != name, "a name is never used twice"
        assert "could not be used" in asked["message"]
        good = {"action": "accept", "content": {"name": "Ada"}}
        if wire == "mcp":
            await ada.ask("tasks/update", taskId=call_id, inputResponses={second: good, "unknown": good})
        else:
            await ada.send("POST", f"/calls/{call_id}", {"input": {second: good}})
        over = await ada.read(call_id, prefer="wait=20")
        assert (over["state"], over["result"], work.did) == ("ended", "Hello, Ada", ["asked"])

    run(scenario, api_keys=KEYS)


@pytest.mark.requirement("LC-01")
def test_a_call_that_nobody_named_must_not_be_sent_again() -> None:
    async def scenario(work: Work, caller: Callable[..., Client]) -> None:
        rpc = {"jsonrpc": "2.0", "id": 1, "method": "build", "params": {"rows": 3}}
        later, reply = await caller().send("POST", "/opentool/call", rpc)
        assert later.status == 200, "clients repeat a 503 by themselves"
        assert reply["error"]["data"]["kind"] == "accepted"
        assert "can_retry" not in reply["error"]["data"]
        work.gate.set()
        call_id = reply["error"]["data"]["details"]["call"]["id"]
        assert (await caller().read(call_id, prefer="wait=20"))["result"] == {"rows": 3}

    run(scenario, limits=ServerLimits(repeat_s=0.05))


@pytest.mark.requirement("LC-01")
def test_checks_refuse_a_call_before_it_is_accepted() -> None:
    async def scenario(work: Work, caller: Callable[..., Client]) -> None:
        ada = caller("ada")
        bad, _ = await ada.send("POST", "/api/build", {"rows": "many"})
        unasked, reply = await ada.send("POST", "/api/build", {"rows": 1})
        assert (bad.status, unasked.status) == (422, 428)
        word = reply["details"]["confirmation"]["word"]
        confirmed, _ = await ada.send("POST", "/api/build", {"rows": 1}, toolwire_confirmation=word)
        assert confirmed.status == 202
        missing, _ = await ada.send("POST", "/api/export", {})
        assert missing.status == 400
        assert len((await ada.send("GET", "/calls"))[1]["calls"]) == 1

    run(scenario, api_keys=KEYS, require_confirmation=lambda call: "Sure?" if call.tool.name == "build" else "")


@pytest.mark.requirement("LC-01")
def test_a_rate_limit_counts_a_call_once_however_often_it_is_asked_for() -> None:
    async def scenario(work: Work, caller: Callable[..., Client]) -> None:
        ada = caller("ada")
        first = await ada.send("POST", "/api/seldom", idempotency_key="k", prefer="wait=20")
        again = await ada.send("POST", "/api/seldom", idempotency_key="k", prefer="wait=20")
        other = await ada.send("POST", "/api/seldom", prefer="wait=20")
        assert [first[0].status, again[0].status, other[0].status] == [200, 200, 429]
        assert work.did == []

    run(scenario, api_keys=KEYS)


@pytest.mark.requirement("LC-01", "D-26")
def test_tokens_and_secrets_of_a_call_reach_its_tool_and_no_file(tmp_path: Path) -> None:
    token, secret = "tok-of-the-cloud-1234567890", "sec-of-the-cloud-1234567890"

    async def scenario(work: Work, caller: Callable[..., Client]) -> None:
        context = {
            "authorization": [{"id": "cloud", "token": token}],
            "secrets": [{"id": "KEY", "value": secret}],
        }
        call = {"request": {"tool_id": "Reports.export", "call_id": "c", "input": {}, "context": context}}
        _, reply = await caller().send("POST", "/tools/call", call)
        assert reply["result"]["value"] == "tok sec"

    path = tmp_path / "calls.sqlite"
    run(scenario, ledger=str(path))
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"Reports.export" in stored
    assert token.encode() not in stored
    assert secret.encode() not in stored


@pytest.mark.requirement("LC-02")
def test_a_stream_is_taken_up_again_from_its_first_piece() -> None:
    gates = [asyncio.Event() for _ in range(3)]
    kit = Toolkit("Counting")

    @kit.tool(approval="auto", safe=True, long=True)
    async def count() -> AsyncIterator[int]:
        """Count."""
        for number, gate in enumerate(gates):
            yield number
            await gate.wait()

    async def scenario() -> None:
        app = asgi(kit)
        await app.begin()
        client = Client(app)
        rpc = {"jsonrpc": "2.0", "id": 1, "method": "count", "params": {}}
        stream, key = ("POST", "/opentool/streamCall", rpc), {"idempotency_key": "k"}
        first = await client.listen(*stream, b"NEVER", gates[2], **key, prefer="wait=1")
        assert b'"result":0' in first
        assert b'"kind":"accepted"' in first, "the stream ends, and the call goes on"
        gates[0].set()
        second = await client.listen(*stream, b'"result":1', gates[1], **key, prefer="wait=1")
        assert [number for number in range(3) if b'"result":%d' % number in second] == [0, 1, 2]
        third = await client.listen(*stream, b'"result":2', gates[2], **key, prefer="wait=20")
        assert [number for number in range(3) if b'"result":%d' % number in third] == [0, 1, 2]
        assert b"event:done" in third
        again = await client.listen(*stream, b"NEVER", gates[2], **key)
        assert again == third
        await app.end()

    asyncio.run(scenario())


@pytest.mark.requirement("LC-01", "D-34")
def test_one_caller_leaves_places_to_run_for_others() -> None:
    async def scenario(work: Work, caller: Callable[..., Client]) -> None:
        ada, bob = caller("ada"), caller("bob")
        first = [await ada.start(rows) for rows in range(5)]
        other = await bob.start(9)
        while ("began", 9) not in work.did:
            await bob.read(other, prefer="wait=1")
        assert [rows for reply, rows in work.did if reply == "began" and rows != 9] == [0, 1]
        assert (await ada.read(first[4]))["state"] == "accepted"
        await ada.send("DELETE", f"/calls/{first[2]}")
        work.gate.set()
        ends = [await ada.read(call_id, prefer="wait=20") for call_id in first]
        assert [end["state"] for end in ends] == ["ended", "ended", "cancelled", "ended", "ended"]

    run(scenario, api_keys=KEYS, limits=ServerLimits(long_running=3))


def test_an_application_in_one_event_loop_after_another_still_runs_its_calls() -> None:
    kit = Toolkit("Twice")

    @kit.tool(approval="auto", safe=True, long=True)
    async def add(a: int) -> int:
        """Add one."""
        return a + 1

    app = asgi(kit)

    async def call(number: int) -> Any:
        return (await Client(app).send("GET", f"/api/add?a={number}", prefer="wait=20"))[1]

    assert [asyncio.run(call(number)) for number in (1, 2)] == [b"2", b"3"]


@pytest.mark.requirement("LC-03")
def test_wrong_methods_and_paths_are_refused_in_the_words_of_the_resource() -> None:
    async def scenario(work: Work, caller: Callable[..., Client]) -> None:
        call_id = await caller().start()
        wrong, _ = await caller().send("PUT", f"/calls/{call_id}", {})
        assert (wrong.status, get_header(wrong.headers, b"allow")) == (405, "GET, HEAD, POST, DELETE")
        for path in ("/calls/", "/calls/a/b", "/calls/%00"):
            assert (await caller().send("GET", path))[0].status == 404
        bad, _ = await caller().send("POST", f"/calls/{call_id}", {"input": {"q": "yes"}})
        assert bad.status == 422
        assert work.did[:1] in ([], [("began", 7)])

    run(scenario)


@pytest.mark.requirement("LC-02")
def test_the_document_describes_the_resource_and_gives_no_tool_another_argument() -> None:
    document = json.loads(asyncio.run(Client(asgi(Work().kit)).send("GET", "/openapi.json"))[0].body)
    validate(document)
    build = document["paths"]["/api/build"]["post"]
    assert build["x-llm"]["long"] is True
    assert build["responses"]["202"] == {"$ref": "#/components/responses/Accepted"}
    assert "parameters" not in build
    assert set(document["paths"]["/calls/{id}"]) == {"parameters", "get", "post", "delete"}
    offer = read_operations(document, f"{HERE}/openapi.json")
    assert {tool.name: tool.long for tool in offer.catalog.tools} == dict.fromkeys(
        ("build", "export", "greet", "seldom"), True
    )


@pytest.mark.requirement("LC-01", "LC-03")
def test_a_tool_with_a_long_time_limit_is_long_and_times_are_checked() -> None:
    kit = Toolkit("Times")

    @kit.tool(timeout_s=301)
    def slow() -> None:
        """Take long."""

    @kit.tool(timeout_s=300)
    def quick() -> None:
        """Take less."""

    assert {tool.name: tool.long for tool in kit.catalog().tools} == {"slow": True, "quick": False}
    for keep_s in (0, -1, 30 * 86_400 + 1, 31 * 86_400, float("nan")):
        with pytest.raises(DefinitionError, match="keep_s"):
            kit.tool(long=True, keep_s=keep_s)(lambda: None)


@pytest.mark.requirement("LC-01")
def test_a_long_call_ends_at_its_time_limit() -> None:
    kit = Toolkit("Times")

    @kit.tool(approval="auto", safe=True, long=True, timeout_s=0.05)
    async def hang() -> None:
        """Never end."""
        await asyncio.Event().wait()

    async def scenario() -> None:
        response, reply = await Client(asgi(kit)).send("GET", "/api/hang", prefer="wait=20")
        assert (response.status, reply["kind"]) == (504, "timeout")

    asyncio.run(scenario())


def test_a_server_without_long_tools_has_no_such_resource() -> None:
    kit = Toolkit("Short")

    @kit.tool(approval="auto")
    def add(a: int) -> int:
        """Add."""
        return a

    async def scenario() -> None:
        client = Client(asgi(kit))
        assert (await client.send("GET", "/calls"))[0].status == 404
        assert (await client.send("GET", "/calls/x"))[0].status == 404

    asyncio.run(scenario())
