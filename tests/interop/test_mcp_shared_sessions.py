"""Sessions of MCP clients that several processes share: what one process has begun, another goes on with."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import httpx2
import pytest

from tests.interop.conftest import run_app
from tests.interop.mcp_makers import HERE, INSTALLED, MISSING
from tests.postgres import Postgres, postgres, shared_postgres, wait_until_answering  # noqa: F401 - the fixtures
from tests.support.mcp_drivers import Driver, check_consent, list_drivers, run_driver
from tests.support.mcp_sessions import ALLOW, KEYS, Desk, Event, Session, begin, next_message, open_session
from tests.support.serve_process import start_serve, url_in
from toolwire import ApiKey, Secret, ServerLimits, asgi
from toolwire.testing import background

pytestmark = pytest.mark.requirement("ST-01", "MC-10")

PATIENCE_S = 30
KIT = HERE / "shared_kit.py"


class Nodes(NamedTuple):
    """Two processes with the same state, and the folder in which their tools leave what they did."""

    urls: tuple[str, str]
    folder: Path
    state: str

    def read_deleted(self) -> list[str]:
        file = self.folder / "deleted"
        return file.read_text().split() if file.exists() else []


def start_node(running: ExitStack, folder: Path, state: str, *options: str) -> tuple[Any, str]:
    environment = {
        "TOOLWIRE_TEST_FOLDER": str(folder),
        "TOOLWIRE_STATE": state,
        "TOOLWIRE_API_KEYS": ",".join(f"{key} {name}" for name, key in KEYS.items()),
    }
    words = (f"{KIT}:kit", "--consent", "refuse", "--sessions", "all", *options)
    process, reply = running.enter_context(start_serve(*words, environment=environment))
    return process, url_in(reply)


@pytest.fixture(scope="module", params=["folder", "postgresql"])
def nodes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    folder = tmp_path_factory.mktemp("nodes")
    if request.param == "folder":
        state = str(folder / "state")
    else:
        state = request.getfixturevalue("shared_postgres").create_database()
    with ExitStack() as running:
        urls = [start_node(running, folder, state)[1] for _ in range(2)]
        yield Nodes((urls[0], urls[1]), folder, state)


@pytest.fixture(autouse=True)
def empty_folder(request: pytest.FixtureRequest) -> None:
    if "nodes" in request.fixturenames:
        for file in request.getfixturevalue("nodes").folder.glob("*"):
            if file.is_file():
                file.unlink()


def run(urls: tuple[str, ...], story: Callable[..., Coroutine[Any, Any, None]], name: str = "ann") -> None:
    """Run ``story`` with a client of each of ``urls``."""

    async def tell() -> None:
        headers = {"authorization": f"Bearer {KEYS[name]}"}
        async with AsyncExitStack() as stack:
            clients = [httpx2.AsyncClient(base_url=url, headers=headers, timeout=PATIENCE_S) for url in urls]
            for client in clients:
                await stack.enter_async_context(client)
            with anyio.fail_after(PATIENCE_S):
                await story(*clients)

    anyio.run(tell)


async def open_both(first: httpx2.AsyncClient, other: httpx2.AsyncClient) -> tuple[Session, Session]:
    """Open a session at one process, and return it with the same one at the other."""
    session = await open_session(first)
    return session, Session(other, session.id)


def read_result(response: httpx2.Response) -> Any:
    assert response.status_code == 200, response.text
    result = response.json()["result"]
    return result["structuredContent"]["result"] if "structuredContent" in result else result["content"][0]["text"]


@pytest.mark.requirement("CC-05")
def test_a_session_is_one_at_both_processes_and_an_answer_comes_through_the_other(nodes: Nodes) -> None:
    async def story(first: httpx2.AsyncClient, other: httpx2.AsyncClient) -> None:
        here, there = await open_both(first, other)
        pids = {read_result(await one.call("whose")) for one in (here, there, here)}
        assert len(pids) == 2
        for asked, answered in ((here, there), (there, here)):
            async with asked.stream("delete", name="old") as events:
                question = (await next_message(events)).message
                assert question["method"] == "elicitation/create"
                await answered.reply(question, ALLOW)
                assert (await next_message(events)).message["result"]["isError"] is False
        async with here.stream("delete", name="kept") as events:
            await there.reply((await next_message(events)).message, {"action": "decline"})
            assert (await next_message(events)).message["result"]["isError"] is True

    run(nodes.urls, story)
    assert nodes.read_deleted() == ["old", "old"]


@pytest.mark.requirement("I-32")
def test_a_ping_is_answered_through_the_other_process(tmp_path: Path) -> None:
    limits = ServerLimits(answer_s=9)  # a ping may take a thirtieth of it
    parts: dict[str, Any] = {"consent": "refuse", "sessions": "all", "state": str(tmp_path / "state"), "limits": limits}

    async def story(first: httpx2.AsyncClient, other: httpx2.AsyncClient) -> None:
        here, there = await open_both(first, other)
        async with here.stream("delete", name="old") as events:
            messages = (event.message async for event in events if event.message)
            ping, question = await anext(messages), await anext(messages)
            await there.reply(ping, {})
            following = asyncio.ensure_future(anext(messages))
            assert await asyncio.wait([following], timeout=1) == (set(), {following})
            await there.reply(question, ALLOW)
            assert (await following)["result"]["isError"] is False

    with background(asgi(Desk().kit, **parts)) as one, background(asgi(Desk().kit, **parts)) as two:
        run((one, two), story)


def test_a_call_is_cancelled_through_the_other_process(nodes: Nodes) -> None:
    async def story(first: httpx2.AsyncClient, other: httpx2.AsyncClient) -> None:
        here, there = await open_both(first, other)
        async with here.stream("wait", 7) as events:
            await next_message(events)
            for id_ in ("7", 8, 7):  # the first two are other ids
                cancel = {"method": "notifications/cancelled", "params": {"requestId": id_}}
                assert (await there.post(cancel)).status_code == 202
            assert [event async for event in events] == []
        assert (nodes.folder / "cancelled").exists()

    run(nodes.urls, story)


@pytest.mark.requirement("MC-06")
def test_the_level_of_the_log_holds_at_the_other_process_once_it_is_answered(nodes: Nodes) -> None:
    async def story(first: httpx2.AsyncClient, other: httpx2.AsyncClient) -> None:
        here, there = await open_both(first, other)

        async def count_messages(session: Session, id_: int) -> int:
            async with session.stream("talk", id_) as events:
                return len([one async for one in events if one.message and "method" in one.message])

        assert await count_messages(there, 1) == 1
        for number, (level, expected) in enumerate((("debug", 2), ("error", 1), ("debug", 2)), 2):
            answer = await here.post({"id": number, "method": "logging/setLevel", "params": {"level": level}})
            assert answer.json()["result"] == {}
            assert await count_messages(there, number) == expected

    run(nodes.urls, story)


@pytest.mark.requirement("MC-06")
def test_a_client_is_told_of_a_watched_resource_whichever_process_changes_it(nodes: Nodes) -> None:
    async def story(first: httpx2.AsyncClient, other: httpx2.AsyncClient) -> None:
        here, there = await open_both(first, other)

        async def request(session: Session, method: str, uri: str) -> None:
            answer = await session.post({"id": 1, "method": f"resources/{method}", "params": {"uri": uri}})
            assert answer.json()["result"] == {}, answer.text

        async def write(session: Session, name: str) -> None:
            assert read_result(await session.call("write_note", 2, name=name)) == name

        def read_uri(event: Any) -> str:
            assert event.message["method"] == "notifications/resources/updated"
            return str(event.message["params"]["uri"])

        async def read_until(events: AsyncIterator[Event], name: str) -> set[str]:
            message: set[str] = set()
            while f"notes://{name}" not in message:
                message.add(read_uri(await next_message(events)))
            return message

        for name in "acd":
            await request(here, "subscribe", f"notes://{name}")
        async with here.listen() as events:
            await request(there, "subscribe", "notes://b")
            for session, name in ((here, "a"), (there, "a"), (there, "b")):
                await write(session, "unwatched")
                await write(session, name)
                last = await next_message(events)
                assert read_uri(last) == f"notes://{name}"
        await write(there, "c")  # while the client is away
        async with there.listen() as events:
            # Who begins to listen elsewhere may be told again of what it was told a moment ago.
            assert "notes://unwatched" not in await read_until(events, "c")
        await request(there, "unsubscribe", "notes://b")
        async with here.listen(last_event_id=last.id) as events:
            await write(there, "b")
            await write(there, "d")
            assert await read_until(events, "d") <= {"notes://c", "notes://d"}

    run(nodes.urls, story)


@pytest.mark.requirement("MC-06")
def test_a_client_that_listens_elsewhere_hears_of_lists_that_differ_there_and_ends_the_listening_before(
    tmp_path: Path,
) -> None:
    async def story(first: httpx2.AsyncClient, other: httpx2.AsyncClient) -> None:
        here, there = await open_both(first, other)
        async with here.listen() as events:
            async with there.listen():
                assert [event async for event in events] == []
            assert read_result(await there.call("grow")) == "grown"
        async with there.listen() as events:
            notice = (await next_message(events)).message
            assert notice == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}

    with ExitStack() as running:
        urls = [start_node(running, tmp_path, str(tmp_path / "state"))[1] for _ in range(2)]
        run((urls[0], urls[1]), story)


def test_a_broken_stream_is_taken_up_again_at_the_other_process(nodes: Nodes) -> None:
    async def story(first: httpx2.AsyncClient, other: httpx2.AsyncClient) -> None:
        here, there = await open_both(first, other)
        async with here.stream("delete", name="old") as events:
            start = await anext(events)
            assert start.message is None
        async with there.listen(last_event_id=start.id) as events:
            question = await next_message(events)
            await there.reply(question.message, ALLOW)
            answer = await next_message(events)
            assert answer.message["result"]["isError"] is False
            assert [event async for event in events] == []
        async with there.listen(last_event_id=question.id) as events:  # it is over, and still kept
            assert [event.id async for event in events] == [answer.id]
        for wrong in (question.id.replace("-1-", "-9-"), "0" * 16 + "-1-1", answer.id + "9"):
            refused = await there.client.get("/mcp", headers=there.headers(**{"last-event-id": wrong}))
            assert (
                refused.status_code,
                ("Events after this last-event-id are not stored. Reconnect without it, or call again") in refused.text,
            ) == (400, True)

    run(nodes.urls, story)
    assert nodes.read_deleted() == ["old"]


def test_a_large_stream_comes_whole_and_in_order_through_the_other_process(nodes: Nodes) -> None:
    async def story(first: httpx2.AsyncClient, other: httpx2.AsyncClient) -> None:
        here, there = await open_both(first, other)
        async with here.stream("much") as events:
            start = await next_message(events)
        async with there.listen(last_event_id=start.id) as events:
            (nodes.folder / "go").touch()
            got = [event.message async for event in events if event.message]
        texts = [one["params"]["data"].split()[0] for one in got[:-1]]
        assert texts == [str(number) for number in range(32)]
        assert got[-1]["result"]["isError"] is False

    run(nodes.urls, story)


def test_delete_at_one_process_ends_the_session_and_what_runs_of_it_at_the_other(nodes: Nodes) -> None:
    async def story(first: httpx2.AsyncClient, other: httpx2.AsyncClient) -> None:
        here, there = await open_both(first, other)
        async with here.stream("wait") as events, here.listen() as notices:
            await next_message(events)
            assert await there.end() == 204
            assert [event async for event in events] == []
            assert [event async for event in notices] == []
        assert (nodes.folder / "cancelled").exists()
        began = time.monotonic()
        for one in (here, there, here):
            assert (await one.post({"method": "ping", "id": 1})).status_code == 404
        assert time.monotonic() - began < PATIENCE_S
        assert await here.end() == 404

    run(nodes.urls, story)


def test_a_session_of_another_process_is_unknown_to_another_principal(nodes: Nodes) -> None:
    opened: list[str] = []

    async def open_one(first: httpx2.AsyncClient, _: httpx2.AsyncClient) -> None:
        opened.append((await open_session(first)).id)

    async def enter(first: httpx2.AsyncClient, other: httpx2.AsyncClient) -> None:
        for client, method in itertools.product((other, first), ("POST", "GET", "DELETE")):
            message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            headers = Session(client, opened[0]).headers()
            response = await client.request(method, "/mcp", json=message, headers=headers)
            assert (response.status_code, opened[0] in response.text) == (404, False)

    async def go_on(_: httpx2.AsyncClient, other: httpx2.AsyncClient) -> None:
        assert (await Session(other, opened[0]).post({"method": "ping", "id": 1})).status_code == 200

    run(nodes.urls, open_one)
    run(nodes.urls, enter, "bob")
    run(nodes.urls, go_on)


@pytest.mark.requirement("D-37")
def test_what_a_client_passes_on_is_bounded(nodes: Nodes) -> None:
    async def story(first: httpx2.AsyncClient, other: httpx2.AsyncClient) -> None:
        here, there = await open_both(first, other)
        answer = {"id": "toolwire-0123456789abcdef-1", "result": {"action": "accept", "content": {"a": "x" * 1_000}}}
        codes = [(await here.post(answer)).status_code for _ in range(110)]
        assert codes == [202] * 100 + [503] * 10
        large = {**answer, "result": {"content": {"a": "x" * 300_000}}}
        assert (await there.post(large)).status_code == 413
        assert (await there.post({"id": "mine", "result": {}})).status_code == 202  # waited for by nobody
        other_session = await open_session(other)
        assert (await other_session.post(answer)).status_code == 202

    run(nodes.urls, story)


def test_a_session_outlives_the_process_that_opened_it(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    opened: list[tuple[str, str]] = []

    async def open_one(client: httpx2.AsyncClient) -> None:
        session = await open_session(client)
        level = {"id": 1, "method": "logging/setLevel", "params": {"level": "debug"}}
        assert (await session.post(level)).status_code == 200
        async with session.stream("wait", 2) as events:
            opened.append((session.id, (await next_message(events)).id))

    async def go_on(client: httpx2.AsyncClient) -> None:
        session = Session(client, opened[0][0])
        async with session.stream("talk", 3) as events:
            assert len([one async for one in events if one.message and "method" in one.message]) == 2
        async with session.stream("delete", 4, name="old") as events:
            await session.reply((await next_message(events)).message, ALLOW)
            assert (await next_message(events)).message["result"]["isError"] is False
        refused = await client.get("/mcp", headers=session.headers(**{"last-event-id": opened[0][1]}))
        assert refused.status_code == 400  # that stream has ended with its process
        assert await session.end() == 204

    for number, story in ((signal.SIGKILL, open_one), (signal.SIGTERM, go_on)):
        with ExitStack() as running:
            process, url = start_node(running, tmp_path, state)
            run((url,), story)
            process.send_signal(number)
            process.wait(PATIENCE_S)


@contextmanager
def serve_twice(desk: Desk, state: Path, **limits: float) -> Iterator[tuple[str, str]]:
    """Give the URLs of two applications with the same state, which know nothing else of each other."""
    keys = [ApiKey(key=Secret(key), name=name) for name, key in KEYS.items()]
    apps = [asgi(desk.kit, api_keys=keys, state=state, limits=ServerLimits(**limits)) for _ in range(2)]  # type: ignore[arg-type]  # whole numbers too
    with background(apps[0]) as first, background(apps[1]) as other:
        yield first, other


def test_the_number_of_sessions_of_a_caller_is_bounded_for_all_processes_together(tmp_path: Path) -> None:
    async def story(first: httpx2.AsyncClient, other: httpx2.AsyncClient) -> None:
        clients = (first, other, first)
        opened = [(await open_session(one)).id for one in clients]
        for client in (first, other):
            alive = [(await Session(client, id_).post({"method": "ping", "id": 1})).status_code for id_ in opened]
            assert alive == [404, 200, 200]

    with serve_twice(Desk(), tmp_path, sessions_each=2) as urls:
        run(urls, story)


@pytest.mark.parametrize("limits", [{"session_idle_s": -1.0}, {"session_s": -1.0}])
def test_a_session_that_is_too_old_is_gone_everywhere(limits: dict[str, float], tmp_path: Path) -> None:
    async def story(first: httpx2.AsyncClient, other: httpx2.AsyncClient) -> None:
        for one in await open_both(first, other):
            assert (await one.post({"method": "ping", "id": 1})).status_code == 404

    with serve_twice(Desk(), tmp_path, **limits) as urls:
        run(urls, story)


def test_a_call_whose_client_leaves_the_other_process_too_is_cancelled(tmp_path: Path) -> None:
    desk = Desk()

    async def story(first: httpx2.AsyncClient, other: httpx2.AsyncClient) -> None:
        here, there = await open_both(first, other)
        async with here.stream("wait") as events:
            last = await next_message(events)
        response = there.client.stream("GET", "/mcp", headers=there.headers(**{"last-event-id": last.id}))
        async with response as resumed:
            assert resumed.status_code == 200
            assert not desk.cancelled.is_set()
        assert read_result(await there.call("is_cancelled", 2)) is True

    with serve_twice(desk, tmp_path, resume_s=0.5) as urls:
        run(urls, story)


def test_a_session_in_use_is_not_forgotten_and_one_that_ended_elsewhere_is(tmp_path: Path) -> None:
    def read_use() -> float:
        return float(rows.execute("SELECT used_at FROM sessions").fetchone()[0])

    async def story(first: httpx2.AsyncClient, other: httpx2.AsyncClient) -> None:
        here, there = await open_both(first, other)
        async with here.listen() as notices, here.stream("wait", 5) as events:
            await next_message(events)
            began = read_use()
            while read_use() < began + 2.5:  # longer than a session lasts that is not used
                await first.get("/health")
            assert (await there.post({"method": "ping", "id": 1})).status_code == 200
            rows.execute("DELETE FROM sessions")  # and no message says that it has ended
            rows.commit()
            assert [event async for event in events] == []
            assert [event async for event in notices] == []

    with (
        serve_twice(Desk(), tmp_path, session_idle_s=1.2) as urls,
        closing(sqlite3.connect(tmp_path / "sessions.sqlite3", check_same_thread=False)) as rows,
    ):
        run(urls, story)


@pytest.mark.requirement("ST-05")
def test_a_database_that_hangs_refuses_sessions_and_nothing_else(
    postgres: Postgres,  # noqa: F811 - the fixture
    tmp_path: Path,
) -> None:
    wait_until_answering(postgres)

    async def story(client: httpx2.AsyncClient) -> None:
        session = await open_session(client)
        assert (await session.post({"method": "ping", "id": 1})).status_code == 200
        with postgres.stopped():
            while (response := await session.post({"method": "ping", "id": 1})).status_code == 200:
                pass  # what was read a moment ago still holds
            assert response.status_code == 503
            assert "retry-after" in response.headers
            assert (await begin(client)).status_code == 503
            assert (await session.end()) == 503
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            fields = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
            assert (await client.post("/mcp", json=message, headers=fields)).status_code == 200
            assert (await client.get("/health")).status_code == 200
        while (await session.post({"method": "ping", "id": 1})).status_code == 503:
            pass
        assert (await session.call("add", 2, a=1, b=2)).json()["result"]["structuredContent"] == {"result": 3}

    with ExitStack() as running:
        _, url = start_node(running, tmp_path, postgres.create_database())
        run((url,), story)


class Alternating:
    """A load balancer that sends each request to the process after the one that got the last request."""

    def __init__(self, urls: tuple[str, ...]) -> None:
        self._urls = itertools.cycle(urls)
        self.counts = dict.fromkeys(urls, 0)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message.get("more_body"):
                break
        url = next(self._urls)
        self.counts[url] += 1
        headers = [(name, value) for name, value in scope["headers"] if name not in (b"host", b"connection")]
        async with httpx2.AsyncClient(timeout=PATIENCE_S) as client, anyio.create_task_group() as tasks:

            async def stop_with_client() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                tasks.cancel_scope.cancel()

            tasks.start_soon(stop_with_client)
            async with client.stream(scope["method"], url + scope["path"], headers=headers, content=body) as response:
                fields = [one for one in response.headers.raw if one[0].lower() not in (b"transfer-encoding",)]
                await send({"type": "http.response.start", "status": response.status_code, "headers": fields})
                async for piece in response.aiter_raw():
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
            tasks.cancel_scope.cancel()


@pytest.mark.requirement("MC-12")
@pytest.mark.skipif(not INSTALLED, reason=MISSING)
@pytest.mark.parametrize("driver", [one for one in list_drivers() if one.values[0].revision == "2025-11-25"])
def test_a_client_of_another_maker_does_everything_though_each_request_goes_to_another_process(
    driver: Driver, tmp_path: Path
) -> None:
    with ExitStack() as running:
        environment = {"TOOLWIRE_TEST_FOLDER": str(tmp_path), "TOOLWIRE_STATE": str(tmp_path / "state")}
        words = (f"{KIT}:kit", "--consent", "refuse")
        served = [running.enter_context(start_serve(*words, environment=environment))[1] for _ in range(2)]
        front = Alternating(tuple(map(url_in, served)))
        url = running.enter_context(run_app(front))
        reply = run_driver(driver, tmp_path, url=f"{url}/mcp", leaves=False)
    assert min(front.counts.values()) >= 5
    assert reply["version"] == "2025-11-25"
    assert reply["sum"] == {"result": 3}
    assert [one["progress"] for one in reply["progress"]] == [1, 2, 3]
    assert (reply["waited"], reply["heard"]) == ("cancelled", "cancelled")
    check_consent(reply)
    assert (tmp_path / "deleted").read_text() == "old.txt\n"


@pytest.mark.parametrize("options", [(), ("--sessions", "all")])
def test_workers_share_sessions_in_a_folder(options: tuple[str, ...], tmp_path: Path) -> None:
    async def story(client: httpx2.AsyncClient) -> None:
        session = await open_session(client)
        pids: set[int] = set()
        while len(pids) < 2:  # each connection goes to some worker
            async with httpx2.AsyncClient(base_url=str(client.base_url), timeout=PATIENCE_S) as another:
                pids.add(read_result(await Session(another, session.id).call("whose")))

    with ExitStack() as running:
        environment = {"TOOLWIRE_TEST_FOLDER": str(tmp_path), "TOOLWIRE_API_KEYS": ""}
        words = (f"{KIT}:kit", "--state", tmp_path / "state", "--workers", 2, *options)
        _, reply = running.enter_context(start_serve(*words, environment=environment))
        run((url_in(reply),), story)
    assert os.path.exists(tmp_path / "state" / "sessions.sqlite3")
