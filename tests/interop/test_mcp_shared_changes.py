"""Streams of changes (2026-07-28) of several processes with one state: what changes in any of them is heard."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple, TypeAlias

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.postgres import Postgres, postgres, shared_postgres, wait_until_answering  # noqa: F401 - the fixtures
from tests.support.serve_process import start_serve, url_in

pytestmark = [pytest.mark.requirement("ST-01", "MC-06"), pytest.mark.filterwarnings("ignore:resources/.* is removed")]

PATIENCE_S = 40
KIT = '''
    import os
    from toolwire import Toolkit

    kit = Toolkit("Notes", version="1.0.0")

    @kit.resource("notes://{name}")
    def read_note(name: str) -> str:
        return name

    @kit.resource("secret://plan", scopes=["staff"])
    def plan() -> str:
        return "x"

    @kit.tool(approval="auto", inline=True)
    def change(uris: list[str]) -> int:
        """Change resources."""
        for uri in uris:
            kit.notify_resource_changed(uri)
        return os.getpid()

    @kit.tool(approval="auto", inline=True)
    def grow(kind: str, name: str, scope: str = "") -> str:
        """Add a tool, a prompt or a resource."""
        scopes = [scope] if scope else []

        def new() -> str:
            return name

        if kind == "tool":
            kit.add(new, name=name, approval="auto", scopes=scopes)
        elif kind == "prompt":
            kit.prompt(name=name, scopes=scopes)(new)
        else:
            kit.resource(f"new://{name}", scopes=scopes)(new)
        return name
'''
KEYS = {"ann": "a" * 32, "guest": "b" * 32}
LISTS = {"tools_list_changed": True, "prompts_list_changed": True, "resources_list_changed": True}
Story: TypeAlias = Callable[..., Coroutine[Any, Any, None]]


class Nodes(NamedTuple):
    """Two processes with the same state."""

    urls: tuple[str, str]
    state: str


@pytest.fixture(params=["folder", "postgresql"])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        return str(tmp_path / "state")
    url: str = request.getfixturevalue("shared_postgres").create_database()
    return url


def start_nodes(running: ExitStack, folder: Path, state: str) -> tuple[str, str]:
    (folder / "notes.py").write_text(dedent(KIT))
    (folder / "keys.txt").write_text(f"{KEYS['ann']} ann\n{KEYS['guest']} guest guest\n")
    options = (folder / "notes.py", "--api-key-file", folder / "keys.txt", "--state", state)
    first, other = (url_in(running.enter_context(start_serve(*options))[1]) for _ in range(2))
    return first, other


@pytest.fixture
def nodes(state: str, tmp_path: Path) -> Iterator[Nodes]:
    with ExitStack() as running:
        yield Nodes(start_nodes(running, tmp_path, state), state)


@asynccontextmanager
async def open_client(url: str, name: str = "ann", **given: Any) -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer {KEYS[name]}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), **given) as client,
    ):
        yield client


def run(urls: tuple[str, ...], story: Story) -> None:
    """Run ``story`` with the official client of each of ``urls``."""

    async def tell() -> None:
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(open_client(url)) for url in urls]
            with anyio.fail_after(PATIENCE_S):
                await story(*clients)

    anyio.run(tell)


async def change(client: Client, *names: str) -> Any:
    uris = [f"notes://{name}" for name in names]
    return (await client.call_tool("change", {"uris": uris})).structured_content


async def hear_until(changes: Any, last: str) -> list[str]:
    """Return the names of the notes of which a client hears, up to ``last``."""
    received: list[str] = []
    async for one in changes:
        assert type(one).__name__ == "ResourceUpdated"
        received.append(one.uri.removeprefix("notes://"))
        if received[-1] == last:
            break
    return received


def test_a_client_hears_once_of_a_resource_whichever_process_changes_it(nodes: Nodes) -> None:
    watched = [f"notes://{name}" for name in ("a", "b", "c", "end")]

    async def story(here: Client, there: Client) -> None:
        async with there.listen(resource_subscriptions=watched) as changes:
            assert await change(there, "a") != await change(here, "end"), "two processes"
            await hear_until(changes, "end")  # so that others hear of them before the next stream begins
        async with here.listen(resource_subscriptions=watched) as changes:
            for client, name in ((there, "a"), (here, "b"), (there, "b"), (there, "c")):
                await change(client, "unwatched")
                await change(client, name)
                assert await hear_until(changes, name) == [name]
            await change(there, "a", "c", "a", "end")
            assert sorted(await hear_until(changes, "end")) == ["a", "c", "end"]

    run(nodes.urls, story)


def test_each_of_many_clients_hears_at_both_processes(nodes: Nodes) -> None:
    async def story(here: Client, there: Client) -> None:
        received: list[str] = []

        async def listen(url: str, name: str, *, task_status: Any) -> None:
            async with open_client(url) as client, client.listen(resource_subscriptions=["notes://x"]) as changes:
                task_status.started()
                received.extend([name, *await hear_until(changes, "x")])

        async with anyio.create_task_group() as tasks:
            for number in range(6):
                await tasks.start(listen, nodes.urls[number % 2], f"client {number}")
            await change(there, "x")
        assert received.count("x") == 6

    run(nodes.urls, story)


@pytest.mark.parametrize("kind", ["tool", "prompt", "resource"])
def test_a_client_hears_of_a_list_that_changes_in_another_process_and_of_no_other(kind: str, nodes: Nodes) -> None:
    async def story(here: Client, there: Client) -> None:
        async with here.listen(**LISTS) as changes:
            await there.call_tool("grow", {"kind": kind, "name": "new"})
            async for one in changes:
                assert type(one).__name__ == f"{kind.capitalize()}sListChanged"
                break
            # What it asks again may come to the process that has changed.
            assert "new" in str(await there.list_tools() if kind == "tool" else "new")

    run(nodes.urls, story)


def test_a_client_hears_nothing_of_another_process_that_it_may_not_see(nodes: Nodes) -> None:
    async def story(_: Client, there: Client) -> None:
        async with open_client(nodes.urls[0], "guest") as guest:
            wanted = ["secret://plan", "notes://end"]
            async with guest.listen(tools_list_changed=True, resource_subscriptions=wanted) as changes:
                assert changes.honored.resource_subscriptions == wanted[1:]
                await there.call_tool("change", {"uris": ["secret://plan"]})
                await there.call_tool("grow", {"kind": "tool", "name": "hidden", "scope": "staff"})
                await change(there, "end")
                assert await hear_until(changes, "end") == ["end"]
                await there.call_tool("grow", {"kind": "tool", "name": "open", "scope": "guest"})
                async for one in changes:
                    assert type(one).__name__ == "ToolsListChanged"
                    break

    run(nodes.urls, story)


def test_a_client_of_a_session_hears_of_the_lists_of_another_process_too(nodes: Nodes) -> None:
    async def tell() -> None:
        changed = anyio.Event()

        async def hear(message: object) -> None:
            if getattr(message, "method", "") == "notifications/tools/list_changed":
                changed.set()

        async def answer(*_: object) -> Any:
            raise AssertionError("nothing is asked")  # a client with forms gets a session

        with anyio.fail_after(PATIENCE_S):
            older = open_client(nodes.urls[0], mode="legacy", message_handler=hear, elicitation_callback=answer)
            async with older as client, open_client(nodes.urls[1]) as there:
                await client.list_tools()
                number = 0
                while not changed.is_set():  # its stream may not be open yet
                    number += 1
                    await there.call_tool("grow", {"kind": "tool", "name": f"new{number}"})

    anyio.run(tell)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_a_host_over_stdio_hears_of_a_server_with_the_same_state(mode: str, nodes: Nodes, tmp_path: Path) -> None:
    words = ["-m", "toolwire", "serve", str(tmp_path / "notes.py"), "--stdio"]
    parameters = StdioServerParameters(
        command=sys.executable, args=words, env={**os.environ, "TOOLWIRE_STATE": nodes.state}
    )

    async def tell() -> None:
        received: set[str] = set()
        done = anyio.Event()

        async def hear(message: object) -> None:
            received.add(getattr(message, "method", "").removeprefix("notifications/"))
            if received >= {"resources/updated", "tools/list_changed"}:
                done.set()

        with anyio.fail_after(PATIENCE_S):
            async with open_client(nodes.urls[0]) as there:
                if mode == "legacy":
                    async with Client(stdio_client(parameters), mode="legacy", message_handler=hear) as host:
                        await host.subscribe_resource("notes://a")
                        await host.call_tool("change", {"uris": []})
                        await change(there, "a")
                        await there.call_tool("grow", {"kind": "tool", "name": "new"})
                        await done.wait()
                    return
                wanted = {"tools_list_changed": True, "resource_subscriptions": ["notes://a"]}
                async with Client(stdio_client(parameters)) as host, host.listen(**wanted) as changes:  # type: ignore[arg-type]
                    await change(there, "a")
                    await there.call_tool("grow", {"kind": "tool", "name": "new"})
                    async for one in changes:
                        received.add(type(one).__name__)
                        if received == {"ResourceUpdated", "ToolsListChanged"}:
                            break

    anyio.run(tell)


@pytest.mark.requirement("ST-05")
def test_what_changes_while_the_database_is_down_is_heard_when_it_is_back(
    postgres: Postgres,  # noqa: F811 - the fixture
    tmp_path: Path,
) -> None:
    wait_until_answering(postgres)

    async def story(here: Client, there: Client) -> None:
        async with here.listen(tools_list_changed=True, resource_subscriptions=["notes://a", "notes://b"]) as changes:
            postgres.kill()
            await change(there, "a")
            await there.call_tool("grow", {"kind": "tool", "name": "new"})
            # A stream begins without the state, and hears of its own process at once.
            async with here.listen(resource_subscriptions=["notes://b"]) as own:
                await change(here, "b")
                assert await hear_until(own, "b") == ["b"]
            assert await hear_until(changes, "b") == ["b"]
            postgres.start()
            received: set[str] = set()
            async for one in changes:
                received.add(type(one).__name__)
                if len(received) == 2:
                    break
            assert received == {"ToolsListChanged", "ResourceUpdated"}

    with ExitStack() as running:
        run(start_nodes(running, tmp_path, postgres.create_database()), story)


def test_more_changes_than_are_kept_count_as_a_change_of_all_that_is_watched(nodes: Nodes) -> None:
    async def story(here: Client, there: Client) -> None:
        async with here.listen(resource_subscriptions=["notes://a"]) as changes:
            await change(there, "a")
            await change(there, *(f"n{number}" for number in range(11_000)))
            assert await hear_until(changes, "a") == ["a"]

    run(nodes.urls, story)
