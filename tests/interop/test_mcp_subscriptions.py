"""Subscriptions to single resources: the official client hears of a change over HTTP and stdio, and of no other one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tests.support.upstreams import connect_without_user
from toolwire import ApiKey, App, DefinitionError, Secret, Session, Toolkit, asgi, merge_toolboxes
from toolwire.protocols.mcp.resource_subscriptions import MAX_SUBSCRIPTIONS, MAX_URI
from toolwire.server.run.function_toolbox import FunctionToolbox
from toolwire.testing import background

pytestmark = [pytest.mark.requirement("MC-06"), pytest.mark.filterwarnings("ignore:resources/.* is removed as of")]

NOTES = '''
from toolwire import Toolkit

kit = Toolkit("Notes")
notes = {}


@kit.resource("notes://{name}")
def read_note(name: str) -> str:
    return notes.get(name, "")


@kit.resource("secret://plan", scopes=["staff"])
def plan() -> str:
    return "x"


@kit.tool(approval="auto")
def write_note(name: str, text: str) -> str:
    """Write a note."""
    notes[name] = text
    kit.notify_resource_changed(f"notes://{name}")
    return text


@kit.tool(approval="auto")
def change_plan() -> str:
    """Change the plan."""
    kit.notify_resource_changed("secret://plan")
    return ""
'''
PATIENCE_S = 20
KEYS = tuple(
    ApiKey(key=Secret(letter * 32), name=name, scopes=frozenset({name}))
    for letter, name in (("a", "guest"), ("b", "staff"))
)


def build_kit(title: str = "Notes") -> Toolkit:
    names: dict[str, Any] = {"__name__": "notes"}
    exec(compile(NOTES.replace("Notes", title), "notes.py", "exec"), names)
    kit: Toolkit = names["kit"]
    return kit


class Ear:
    """Keeps the URIs of the resources of which a client of up to 2025-11-25 hears."""

    def __init__(self) -> None:
        self._sender, self._receiver = anyio.create_memory_object_stream[str](100)

    async def hear(self, message: object) -> None:
        if getattr(message, "method", "") == "notifications/resources/updated":
            await self._sender.send(str(message.params.uri))  # type: ignore[attr-defined]  # checked by its method

    async def next_uri(self) -> str:
        return await self._receiver.receive()

    def close(self) -> None:
        self._sender.close()
        self._receiver.close()


def run(app: App, story: Callable[[str], Any]) -> None:
    async def tell(url: str) -> None:
        with anyio.fail_after(PATIENCE_S):
            await story(url)

    with background(app) as url:
        anyio.run(tell, url)


async def use_subscriptions(client: Client, ear: Ear) -> None:
    """Subscribe, hear of a change with its new value, and hear nothing any more after the end of the subscription."""
    assert client.server_capabilities.resources is not None
    assert client.server_capabilities.resources.subscribe is True
    for uri in ("notes://tea", "notes://trip"):
        await client.subscribe_resource(uri)
    await client.call_tool("write_note", {"name": "other", "text": "nobody hears of this"})
    await client.call_tool("write_note", {"name": "tea", "text": "green"})
    assert await ear.next_uri() == "notes://tea"
    (contents,) = (await client.read_resource("notes://tea")).contents
    assert contents.text == "green"  # type: ignore[union-attr]  # a text
    await client.unsubscribe_resource("notes://tea")
    await client.call_tool("write_note", {"name": "tea", "text": "black"})
    await client.call_tool("write_note", {"name": "trip", "text": "at eight"})
    assert await ear.next_uri() == "notes://trip"


def test_official_client_of_2025_hears_in_a_session_of_what_it_subscribed_to() -> None:
    async def story(url: str) -> None:
        listener = Ear()
        async with Client(f"{url}/mcp", mode="legacy", message_handler=listener.hear) as client:
            await use_subscriptions(client, listener)
        listener.close()

    run(asgi(build_kit(), sessions="all"), story)


def test_official_client_of_2025_hears_over_stdio_of_what_it_subscribed_to(tmp_path: Path) -> None:
    file = tmp_path / "notes.py"
    file.write_text(NOTES)
    parameters = StdioServerParameters(command=sys.executable, args=["-m", "toolwire", "serve", str(file), "--stdio"])

    async def use() -> None:
        listener = Ear()
        with anyio.fail_after(PATIENCE_S):
            async with Client(stdio_client(parameters), mode="legacy", message_handler=listener.hear) as client:
                await use_subscriptions(client, listener)
        listener.close()

    anyio.run(use)


async def hear_by_listening(client: Client, unknown: str = "nothing://here", tool: str = "write_note") -> None:
    wanted = ["notes://tea", unknown]
    async with client.listen(resource_subscriptions=wanted) as changes:
        assert changes.honored.resource_subscriptions == wanted[:1]
        await client.call_tool(tool, {"name": "other", "text": "nobody hears of this"})
        await client.call_tool(tool, {"name": "tea", "text": "green"})
        async for change in changes:
            assert type(change).__name__ == "ResourceUpdated"
            assert change.uri == wanted[0]  # type: ignore[union-attr]  # checked by its type
            break


def test_official_client_of_2026_hears_of_the_resources_for_which_it_listens() -> None:
    async def story(url: str) -> None:
        async with Client(f"{url}/mcp") as client:
            assert client.server_capabilities.resources is not None
            assert client.server_capabilities.resources.subscribe is True
            await hear_by_listening(client)

    run(asgi(build_kit()), story)


def test_official_client_of_2026_hears_over_stdio(tmp_path: Path) -> None:
    file = tmp_path / "notes.py"
    file.write_text(NOTES)
    parameters = StdioServerParameters(command=sys.executable, args=["-m", "toolwire", "serve", str(file), "--stdio"])

    async def use() -> None:
        with anyio.fail_after(PATIENCE_S):
            async with Client(stdio_client(parameters)) as client:
                await hear_by_listening(client)

    anyio.run(use)


def test_gateway_tells_of_its_own_resources_and_grants_none_of_an_upstream() -> None:
    async def story(url: str) -> None:
        async with Client(f"{url}/mcp") as client:
            await hear_by_listening(client, "up+notes://tea", "Own.write_note@1.0.0")
        async with Client(f"{url}/mcp", mode="legacy") as older:
            with pytest.raises(MCPError, match="The server cannot notify you of changes to 'up\\+notes://tea'"):
                await older.subscribe_resource("up+notes://tea")

    with background(asgi(build_kit())) as upstream_url:
        upstream = connect_without_user(f"{upstream_url}/mcp", Session(), protocol="mcp", agree=lambda _: True)
        own = FunctionToolbox(build_kit("Own"))
        run(asgi(merge_toolboxes([own, upstream], names={1: "up"}), sessions="all"), story)


def test_resource_that_a_caller_may_not_read_is_as_one_that_does_not_exist() -> None:
    async def story(url: str) -> None:
        reply = {}
        for letter in "ab":
            http = httpx2.AsyncClient(headers={"authorization": f"Bearer {letter * 32}"})
            async with http, Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client:
                wanted = ["secret://plan", "notes://tea"]
                async with client.listen(resource_subscriptions=wanted) as changes:
                    await client.call_tool("change_plan", {})
                    await client.call_tool("write_note", {"name": "tea", "text": letter})
                    received: set[str] = set()
                    async for change in changes:
                        received.add(change.uri)  # type: ignore[union-attr]  # nothing else was asked for
                        if "notes://tea" in received:
                            break
                    reply[letter] = changes.honored.resource_subscriptions, received
            transport = httpx2.AsyncClient(headers={"authorization": f"Bearer {letter * 32}"})
            async with transport:
                old = Client(streamable_http_client(f"{url}/mcp", http_client=transport), mode="legacy")
                async with old as client:
                    if letter == "b":
                        await client.subscribe_resource("secret://plan")
                        continue
                    with pytest.raises(MCPError) as hidden:
                        await client.subscribe_resource("secret://plan")
                    with pytest.raises(MCPError) as unknown:
                        await client.subscribe_resource("secret://past")
                    assert hidden.value.code == unknown.value.code == -32002
                    assert str(hidden.value).replace("plan", "past") == str(unknown.value)
        assert reply["a"] == (["notes://tea"], {"notes://tea"})
        assert reply["b"][0] == ["secret://plan", "notes://tea"]

    run(asgi(build_kit(), sessions="all", api_keys=KEYS), story)


def test_number_and_length_of_subscriptions_are_bounded() -> None:
    async def story(url: str) -> None:
        async with Client(f"{url}/mcp", mode="legacy") as client:
            for number in range(MAX_SUBSCRIPTIONS):
                await client.subscribe_resource(f"notes://{number}")
            await client.subscribe_resource("notes://0")  # one that is there already takes no room
            with pytest.raises(MCPError, match=f"At most {MAX_SUBSCRIPTIONS} resources can be watched"):
                await client.subscribe_resource("notes://more")
            await client.unsubscribe_resource("notes://0")
            with pytest.raises(MCPError, match="at most 1,000 characters"):
                await client.subscribe_resource("notes://" + "x" * MAX_URI)
            await client.subscribe_resource("notes://more")
        async with Client(f"{url}/mcp") as client:
            with pytest.raises(MCPError, match=f"at most {MAX_SUBSCRIPTIONS} URIs"):
                async with client.listen(resource_subscriptions=["notes://x"] * (MAX_SUBSCRIPTIONS + 1)):
                    pass

    run(asgi(build_kit(), sessions="all"), story)


def test_server_without_sessions_declares_no_subscriptions_to_older_clients_and_takes_none() -> None:
    async def story(url: str) -> None:
        async with Client(f"{url}/mcp", mode="legacy") as client:
            assert client.server_capabilities.resources is not None
            assert not client.server_capabilities.resources.subscribe
            with pytest.raises(MCPError, match="Unknown method 'resources/subscribe'"):
                await client.subscribe_resource("notes://tea")

    run(asgi(build_kit(), sessions="none"), story)


def test_change_before_the_client_listens_is_told_when_it_does() -> None:
    async def story(url: str) -> None:
        accept = {"accept": "application/json, text/event-stream"}
        async with httpx2.AsyncClient(base_url=url, headers=accept, timeout=PATIENCE_S) as client:

            async def ask(method: str, **params: Any) -> httpx2.Response:
                message = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
                return await client.post("/mcp", json=message)

            opened = await ask("initialize", protocolVersion="2025-11-25", capabilities={})
            client.headers["mcp-session-id"] = opened.headers["mcp-session-id"]
            client.headers["mcp-protocol-version"] = "2025-11-25"
            assert (await ask("resources/subscribe", uri="notes://tea")).json()["result"] == {}
            await ask("tools/call", name="write_note", arguments={"name": "tea", "text": "green"})
            for last_id in (None, "0-0"):  # the second time it is told again, to a client that has lost it
                more = {} if last_id is None else {"last-event-id": last_id}
                async with client.stream("GET", "/mcp", headers=more) as response:
                    async for line in response.aiter_lines():
                        if line.startswith("data:") and "updated" in line:
                            assert '"uri":"notes://tea"' in line
                            break

    run(asgi(build_kit(), sessions="all"), story)


def test_toolkit_refuses_a_change_of_a_resource_that_it_does_not_have() -> None:
    with pytest.raises(DefinitionError, match=r"The toolkit 'Notes' has no resource at 'note://tea'"):
        build_kit().notify_resource_changed("note://tea")
