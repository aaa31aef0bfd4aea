"""Sessions of 2025-11-25 on our server: what they are for, and who tries to get into one that is not theirs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.types import ElicitRequestParams, ElicitResult, ServerNotification

from tests.support.mcp_sessions import (
    ALLOW,
    FORMS,
    KEYS,
    PATIENCE_S,
    Desk,
    Session,
    begin,
    build_call,
    next_message,
    open_session,
)
from toolwire import App, Context, Toolkit, asgi
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Secret
from toolwire.server import ServerLimits
from toolwire.server.access.api_keys import ApiKey
from toolwire.testing import background

pytestmark = pytest.mark.requirement("MC-10", "D-37")


def run(app: App, story: Callable[..., Coroutine[Any, Any, None]], *keys: str) -> None:
    """Run ``story`` with one client for each of ``keys``, or with one that has none."""

    async def tell(url: str) -> None:
        async with AsyncExitStack() as stack:
            clients = []
            for key in keys or ("",):
                headers = {"authorization": f"Bearer {key}"} if key else {}
                client = httpx2.AsyncClient(base_url=url, headers=headers, timeout=PATIENCE_S)
                clients.append(await stack.enter_async_context(client))
            with anyio.fail_after(PATIENCE_S):
                await story(*clients)

    with background(app) as url:
        anyio.run(tell, url)


def with_keys(desk: Desk, **options: Any) -> App:
    keys = [ApiKey(key=Secret(key), name=name) for name, key in KEYS.items()]
    return asgi(desk.kit, api_keys=keys, **options)


@pytest.mark.parametrize(
    ("sessions", "capabilities", "version", "has_session"),
    [
        (None, FORMS, "2025-11-25", True),
        (None, {"elicitation": {"form": {}}}, "2025-06-18", True),
        (None, {"elicitation": {"url": {}}}, "2025-11-25", True),
        (None, {}, "2025-11-25", True),
        ("needed", FORMS, "2025-11-25", True),
        ("needed", {"elicitation": {"url": {}}}, "2025-11-25", False),
        ("needed", {}, "2025-11-25", False),
        (None, FORMS, "2024-11-05", False),
        ("all", {}, "2025-03-26", True),
        ("none", FORMS, "2025-11-25", False),
    ],
)
def test_a_session_is_opened_only_where_it_is_needed(
    sessions: Any, capabilities: Any, version: str, has_session: bool
) -> None:
    async def story(client: httpx2.AsyncClient) -> None:
        response = await begin(client, capabilities, version)
        assert ("mcp-session-id" in response.headers) is has_session
        declared = response.json()["result"]["capabilities"]
        assert declared == ({"tools": {"listChanged": True}, "logging": {}} if has_session else {"tools": {}})

    run(asgi(Desk().kit, sessions=sessions), story)


def test_an_unknown_choice_of_sessions_is_refused() -> None:
    with pytest.raises(DefinitionError, match='sessions must be "needed", "all" or "none", not'):
        asgi(Desk().kit, sessions="some")  # type: ignore[arg-type]  # what an author may write


@pytest.mark.parametrize("meta", [{}, {"progressToken": "p"}])
def test_an_answer_that_nothing_precedes_is_json(meta: dict[str, str]) -> None:
    kit = Toolkit("Desk")

    @kit.tool(approval="auto")
    async def look(context: Context) -> str:
        """Look, and report nothing that this caller gets."""
        await context.log("looking", level="debug")
        return "done"

    async def story(client: httpx2.AsyncClient) -> None:
        session = await open_session(client)
        params = {"name": "look", "arguments": {}, "_meta": meta}
        response = await session.post({"id": 1, "method": "tools/call", "params": params})
        assert response.headers["content-type"] == "application/json"
        assert response.json()["result"]["content"] == [{"type": "text", "text": "done"}]

    run(asgi(kit), story)


@pytest.mark.requirement("CC-05", "MC-09")
@pytest.mark.parametrize("answer", [ALLOW, {"action": "decline"}, {"action": "accept", "content": {}}, None])
def test_a_client_is_asked_within_the_stream_of_its_call(answer: Any) -> None:
    desk = Desk()

    async def story(client: httpx2.AsyncClient) -> None:
        session = await open_session(client)
        async with session.stream("delete", name="old") as events:
            question = (await next_message(events)).message
            assert question["method"] == "elicitation/create"
            assert 'Arguments: {"name":"old"}' in question["params"]["message"]
            if answer is None:
                error = {"code": -1, "message": "There is no window."}
                assert (await session.post({"id": question["id"], "error": error})).status_code == 202
            else:
                await session.reply(question, answer)
            result = (await next_message(events)).message["result"]
        assert result["isError"] is (answer is not ALLOW)

    run(asgi(desk.kit, consent="refuse"), story)
    assert desk.deleted == (["old"] if answer is ALLOW else [])


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("which", ["of another", "guessed", "empty"])
def test_a_session_is_unknown_to_anybody_else(method: str, which: str) -> None:
    desk = Desk()

    async def story(ann: httpx2.AsyncClient, bob: httpx2.AsyncClient) -> None:
        session = await open_session(ann)
        id_ = {"of another": session.id, "guessed": "A" * 43, "empty": ""}[which]
        stranger = Session(bob, id_)
        response = await bob.request(
            method, "/mcp", json=build_call("delete", 1, {"name": "x"}), headers=stranger.headers()
        )
        assert response.status_code == 404
        assert "Unknown session" in response.text
        assert session.id not in response.text
        assert (await session.call("count_written")).json()["result"]["isError"] is False

    run(with_keys(desk), story, *KEYS.values())
    assert desk.deleted == []


def test_a_session_needs_the_credentials_again() -> None:
    async def story(ann: httpx2.AsyncClient, nobody: httpx2.AsyncClient) -> None:
        session = await open_session(ann)
        for method in ("GET", "POST", "DELETE"):
            response = await nobody.request(method, "/mcp", headers=Session(nobody, session.id).headers())
            assert response.status_code == 401

    run(with_keys(Desk()), story, KEYS["ann"], "")


def test_a_client_cannot_choose_the_id_of_a_session() -> None:
    async def story(client: httpx2.AsyncClient) -> None:
        chosen = await begin(client, **{"mcp-session-id": "chosen-by-the-attacker"})
        assert chosen.status_code == 404
        session = await open_session(client)
        again = await begin(client, **{"mcp-session-id": session.id})
        assert again.status_code == 400
        assert "mcp-session-id" not in again.headers
        assert session.id != (await open_session(client)).id
        assert len(session.id) == 43

    run(asgi(Desk().kit), story)


def test_an_answer_counts_in_its_own_session_alone() -> None:
    desk = Desk()

    async def story(ann: httpx2.AsyncClient, bob: httpx2.AsyncClient) -> None:
        first, second = await open_session(ann), await open_session(bob)
        async with first.stream("delete", name="ann's") as events, second.stream("delete", name="bob's") as others:
            question, other = (await next_message(events)).message, (await next_message(others)).message
            assert question["id"] == other["id"]
            await second.reply(question, ALLOW)
            assert (await next_message(others)).message["result"]["isError"] is False
            await first.reply(question, {"action": "decline"})
            assert (await next_message(events)).message["result"]["isError"] is True
            await first.reply(question, ALLOW)  # too late: it is answered

    run(with_keys(desk), story, *KEYS.values())
    assert desk.deleted == ["bob's"]


@pytest.mark.requirement("MC-06")
def test_a_call_is_cancelled_by_its_own_session_alone() -> None:
    async def story(ann: httpx2.AsyncClient, bob: httpx2.AsyncClient) -> None:
        first, second = await open_session(ann), await open_session(bob)
        cancel = {"method": "notifications/cancelled", "params": {"requestId": 7}}
        async with first.stream("wait", 7) as events:
            await next_message(events)
            assert (await second.post(cancel)).status_code == 202
            assert (await first.post({"method": "ping", "id": 8})).json()["result"] == {}
            assert (await first.post({**cancel, "params": {"requestId": "7"}})).status_code == 202
            assert (await first.post(cancel)).status_code == 202
            assert [event async for event in events] == []  # it has no answer
        assert (await first.call("is_cancelled", 9)).json()["result"]["structuredContent"] == {"result": True}

    run(with_keys(Desk()), story, *KEYS.values())


def test_a_broken_stream_is_taken_up_again_after_the_last_event() -> None:
    desk = Desk()

    async def story(client: httpx2.AsyncClient) -> None:
        session = await open_session(client)
        async with session.stream("delete", name="old") as events:
            first = await anext(events)
            assert first.message is None  # the id to come back to, before anything else
        async with session.listen(last_event_id=first.id) as events:
            question = await next_message(events)
            await session.reply(question.message, ALLOW)
            answer = await next_message(events)
            assert answer.message["result"]["isError"] is False
            assert [event async for event in events] == []
        async with session.listen(last_event_id=question.id) as events:  # what was sent is kept for a while
            assert [event.id async for event in events] == [answer.id]

    run(asgi(desk.kit), story)
    assert desk.deleted == ["old"]


@pytest.mark.parametrize("last_id", ["1-1", "9-1", "1-99", "x", "-1--1", "9" * 40, "1-1,2-2"])
def test_events_of_another_session_or_none_are_not_replayed(last_id: str) -> None:
    async def story(ann: httpx2.AsyncClient, bob: httpx2.AsyncClient) -> None:
        session, other = await open_session(ann), await open_session(bob)
        async with session.stream("delete", name="secret") as events:
            await next_message(events)
            response = await bob.get("/mcp", headers=other.headers(**{"last-event-id": last_id}))
            assert response.status_code == 400
            assert "secret" not in response.text

    run(with_keys(Desk()), story, *KEYS.values())


def test_a_call_whose_client_does_not_come_back_is_cancelled() -> None:
    async def story(client: httpx2.AsyncClient) -> None:
        session = await open_session(client)
        async with session.stream("wait") as events:
            await next_message(events)
        assert (await session.call("is_cancelled", 2)).json()["result"]["isError"] is False

    run(asgi(Desk().kit, limits=ServerLimits(resume_s=0.2)), story)


def test_a_caller_who_floods_ends_its_own_sessions_alone() -> None:
    async def story(ann: httpx2.AsyncClient, bob: httpx2.AsyncClient) -> None:
        stored = await open_session(ann)
        flood = [await open_session(bob) for _ in range(5)]
        alive = [(await one.post({"method": "ping", "id": 1})).status_code for one in (stored, *flood)]
        assert alive == [200, 404, 404, 404, 200, 200]

    run(with_keys(Desk(), limits=ServerLimits(sessions_each=2)), story, *KEYS.values())


def test_a_server_full_of_sessions_in_use_opens_no_other() -> None:
    async def story(ann: httpx2.AsyncClient, bob: httpx2.AsyncClient) -> None:
        session = await open_session(ann)
        async with session.listen():
            refused = await begin(bob)
            assert refused.status_code == 503
            assert refused.headers["retry-after"] == "60"
            assert (await begin(bob, {})).status_code == 200  # needs none
        with anyio.fail_after(PATIENCE_S):
            while (await begin(bob)).status_code == 503:
                pass  # the server notices that the stream has gone
        assert (await session.post({"method": "ping", "id": 1})).status_code == 404

    run(with_keys(Desk(), limits=ServerLimits(sessions=1)), story, *KEYS.values())


@pytest.mark.requirement("I-26")
def test_client_without_forms_cancels_a_call() -> None:
    desk = Desk()

    async def story(client: httpx2.AsyncClient) -> None:
        session = await open_session(client, {})
        async with session.stream("wait", 1) as events:
            await next_message(events)
            cancel = {"method": "notifications/cancelled", "params": {"requestId": 1}}
            assert (await session.post(cancel)).status_code == 202
            assert '"true"' in (await session.call("is_cancelled", 2)).text

    run(asgi(desk.kit), story)


@pytest.mark.requirement("I-26")
@pytest.mark.parametrize("is_shared", [False, True])
def test_clients_that_cannot_be_asked_end_no_session_of_one_that_can(is_shared: bool, tmp_path: Path) -> None:
    async def story(ann: httpx2.AsyncClient) -> None:
        asked = await open_session(ann)
        first, second = await open_session(ann, {}), await open_session(ann, {})
        alive = [(await one.post({"method": "ping", "id": 1})).status_code for one in (asked, first)]
        assert alive == [200, 404]
        more = await open_session(ann)
        alive = [(await one.post({"method": "ping", "id": 1})).status_code for one in (asked, second, more)]
        assert alive == [200, 404, 200]
        # There is no room for one that needs none, which is answered without.
        answer = await begin(ann, {})
        assert (answer.status_code, "mcp-session-id" in answer.headers) == (200, False)

    state = str(tmp_path) if is_shared else ""
    run(with_keys(Desk(), limits=ServerLimits(sessions_each=2), state=state), story, KEYS["ann"])


@pytest.mark.requirement("I-26")
def test_client_that_cannot_be_asked_may_send_more_calls_than_a_session_runs() -> None:
    desk = Desk()

    async def story(client: httpx2.AsyncClient) -> None:
        session = await open_session(client, {})
        async with session.stream("wait", 1) as events:
            await next_message(events)
            for id_ in (1, 2):
                answered = await session.call("count_written", id_)
                assert (answered.status_code, '"0"' in answered.text) == (200, True)

    run(asgi(desk.kit, limits=ServerLimits(session_calls=1)), story)


@pytest.mark.parametrize("limits", [ServerLimits(session_idle_s=-1.0), ServerLimits(session_s=-1.0)])
def test_a_session_that_is_too_old_is_gone(limits: ServerLimits) -> None:
    async def story(client: httpx2.AsyncClient) -> None:
        session = await open_session(client)
        assert (await session.post({"method": "ping", "id": 1})).status_code == 404

    run(asgi(Desk().kit, limits=limits), story)


def test_requests_of_one_session_are_bounded_and_have_distinct_ids() -> None:
    async def story(client: httpx2.AsyncClient) -> None:
        session = await open_session(client)
        async with session.stream("wait", 1) as events:
            await next_message(events)
            same = await session.call("count_written", 1)
            assert (
                same.status_code,
                "Use another ID" in same.text,
            ) == (400, True)
            async with session.stream("delete", 2, name="old") as questions:
                await next_message(questions)
                assert (await session.call("count_written", 3)).status_code == 429

    run(asgi(Desk().kit, limits=ServerLimits(session_calls=2)), story)


@pytest.mark.requirement("MC-05")
def test_a_client_that_does_not_read_holds_back_its_tool() -> None:
    async def story(client: httpx2.AsyncClient) -> None:
        session = await open_session(client)

        async def count() -> int:
            written: int = (await session.call("count_written", "c")).json()["result"]["structuredContent"]["result"]
            return written

        async with session.stream("write_much") as events:
            await next_message(events)
            before, now = -1, 0
            while now != before:  # until nothing more is written
                await anyio.sleep(0.2)
                before, now = now, await count()
            assert 0 < now < 1_000

    run(asgi(Desk().kit, limits=ServerLimits(resume_s=0.1)), story)


def test_delete_ends_the_session_with_all_that_runs_in_it() -> None:
    async def story(client: httpx2.AsyncClient) -> None:
        session, other = await open_session(client), await open_session(client)
        async with session.stream("wait") as events, session.listen() as changes:
            await next_message(events)
            assert await session.end() == 204
            assert [event async for event in events] == []
            assert [event async for event in changes] == []
        assert await session.end() == 404
        assert (await other.call("is_cancelled")).json()["result"]["isError"] is False

    run(asgi(Desk().kit), story)


def test_a_server_that_drains_ends_its_sessions() -> None:
    desk = Desk()
    app = asgi(desk.kit)

    async def story(client: httpx2.AsyncClient) -> None:
        session = await open_session(client)
        async with session.stream("delete", name="old") as events, session.listen() as changes:
            await next_message(events)
            app.drain()
            assert "shutting down" in (await next_message(events)).message["error"]["message"]
            assert [event async for event in changes] == []
        assert (await session.post({"id": 5, "method": "tools/call", "params": {"name": "grow"}})).status_code == 503

    run(app, story)
    assert desk.deleted == []


def test_a_question_that_nobody_answers_ends_the_call() -> None:
    async def story(client: httpx2.AsyncClient) -> None:
        session = await open_session(client)
        async with session.stream("delete", name="old") as events:
            question = (await next_message(events)).message
            withdrawn = (await next_message(events)).message
            assert withdrawn["method"] == "notifications/cancelled"
            assert withdrawn["params"]["requestId"] == question["id"]
            assert (await next_message(events)).message["result"]["isError"] is True

    run(asgi(Desk().kit, limits=ServerLimits(answer_s=0.1)), story)


@pytest.mark.requirement("MC-06")
def test_changes_are_told_while_the_client_listens_and_when_it_comes_back() -> None:
    async def story(client: httpx2.AsyncClient) -> None:
        session = await open_session(client)
        async with session.listen() as events:
            assert (await session.call("grow")).json()["result"]["isError"] is False
            message = await next_message(events)
            assert message.message == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
            async with session.listen() as others:  # a second one takes the place of the first
                assert [event async for event in events] == []
                del others
        missing = await open_session(client)
        assert (await missing.call("grow", 2)).status_code == 200
        async with missing.listen() as events:
            assert (await next_message(events)).message["method"] == "notifications/tools/list_changed"
        async with session.listen(last_event_id="0-0") as events:
            assert (await next_message(events)).id == message.id

    run(asgi(Desk().kit), story)


def test_a_newer_client_has_no_session_whatever_it_names() -> None:
    async def story(client: httpx2.AsyncClient) -> None:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
        }
        headers = {
            "mcp-session-id": "any",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "tools/list",
            "accept": "application/json, text/event-stream",
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
        response = await client.post("/mcp", json=message, headers=headers)
        assert response.status_code == 200

    run(asgi(Desk().kit), story)


@pytest.mark.requirement("CC-05", "MC-06")
def test_the_official_client_of_2025_is_asked_and_hears_of_changes() -> None:
    desk, asked = Desk(), []

    async def answer(_: Any, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"allow": True})

    async def story(url: str) -> None:
        changed = anyio.Event()

        async def hear(message: object) -> None:
            if isinstance(message, ServerNotification) or "list_changed" in str(getattr(message, "method", "")):
                changed.set()

        with anyio.fail_after(PATIENCE_S):
            async with Client(f"{url}/mcp", mode="legacy", elicitation_callback=answer, message_handler=hear) as client:
                assert client.server_capabilities.tools is not None
                assert client.server_capabilities.tools.list_changed is True
                assert not (await client.call_tool("delete", {"name": "old"})).is_error
                await client.call_tool("grow", {})
                await changed.wait()

    with background(asgi(desk.kit, consent="refuse")) as url:
        anyio.run(story, url)
    assert desk.deleted == ["old"]
    assert len(asked) == 1
