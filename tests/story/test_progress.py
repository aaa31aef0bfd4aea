"""A tool says how far it is while it runs, and its caller hears it: on MCP and OpenTool, whoever the caller is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from mcp import Client

from toolwire import Context, Progress, Toolkit, Value, asgi, connect, connect_sync
from toolwire.cli import main
from toolwire.testing.loopback import background

SAID: list[Any] = ["a text", 1, {"progress": 2, "total": 3, "message": "two of three"}, {"rows": [1]}, None]


def build_working_kit() -> Toolkit:
    kit = Toolkit("Working")

    @kit.tool(approval="per-call", blanket_allowed=True)
    async def work(context: Context) -> str:
        """Work in five steps."""
        for one in SAID:
            await context.progress(one)
        return "done"

    @kit.tool(approval="auto", safe=True)
    def work_in_thread(context: Context) -> str:
        """Work in five steps, in a thread."""
        for one in SAID:
            context.progress(one)
        return "done"

    @kit.tool(approval="auto", safe=True)
    def quiet() -> str:
        """Work without a word."""
        return "done"

    return kit


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with background(asgi(build_working_kit())) as base:
        yield base


def hear_blocking(url: str, protocol: str, name: str) -> tuple[Any, list[Progress]]:
    received: list[Progress] = []
    with connect_sync(url, protocol=protocol, approve=lambda question: True) as remote:
        return remote.call(name, notify=received.append), received


def handle_async(url: str, protocol: str, name: str) -> tuple[Any, list[Progress]]:
    received: list[Progress] = []

    async def take(progress: Progress) -> None:
        received.append(progress)

    async def calling() -> Any:
        async with connect(url, protocol=protocol, approve=lambda question: True) as remote:
            return await remote.call(name, notify=take)

    return asyncio.run(calling()), received


@pytest.mark.requirement("FU-05", "MC-05")
@pytest.mark.parametrize("hear", [hear_blocking, handle_async])
@pytest.mark.parametrize("protocol", ["mcp", "opentool"])
@pytest.mark.parametrize("name", ["work", "work_in_thread"])
def test_progress_of_a_tool_reaches_the_caller(hear: Callable[..., Any], protocol: str, name: str, url: str) -> None:
    arrived, received = hear(url, protocol, name)
    assert arrived == Value("done")
    assert [(one.value, one.event) for one in received] == [(reply, "progress") for reply in SAID]


@pytest.mark.parametrize("protocol", ["mcp", "opentool", "otc", "openapi"])
@pytest.mark.parametrize("name", ["work", "quiet"])
def test_result_is_the_same_without_a_listener_or_progress_support(protocol: str, name: str, url: str) -> None:
    with connect_sync(url, protocol=protocol, approve=lambda question: True) as remote:
        assert remote.call(name) == Value("done")
    assert hear_blocking(url, protocol, "quiet") == (Value("done"), [])
    if protocol in ("otc", "openapi"):  # they have no word for it
        assert hear_blocking(url, protocol, "work") == (Value("done"), [])


@pytest.mark.requirement("FU-05", "MC-05")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_official_sdk_client_receives_increasing_progress_numbers(mode: Any, url: str) -> None:
    received: list[tuple[float, float | None, str | None]] = []

    async def take(progress: float, total: float | None, message: str | None) -> None:
        received.append((progress, total, message))

    async def talk() -> Any:
        async with Client(f"{url}/mcp", mode=mode) as client:
            return await client.call_tool("work", {}, progress_callback=take)

    called = asyncio.run(talk())
    assert [block.text for block in called.content] == ["done"]
    assert (called.is_error, called.structured_content) == (False, None)  # a text goes once
    assert received == [
        (1, None, "a text"),
        (2, None, None),
        (3, None, "two of three"),
        (4, None, '{"rows":[1]}'),
        (5, None, "null"),
    ]


@pytest.mark.requirement("FU-05")
def test_command_line_shows_progress(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["call", url, "work", "--protocol", "mcp", "--yes"]) == 0
    reply = capfd.readouterr()
    assert reply.out == "done\n"
    assert reply.err.splitlines()[:2] == ["a text", "100%"]


@pytest.mark.requirement("FU-05")
def test_gateway_passes_progress_on(url: str) -> None:
    from tests.support.wire import HERE, AppTransport
    from toolwire.client.connection.connection import open_connection
    from toolwire.client.connection.remote import Remote
    from toolwire.client.discovery.discover import discover
    from toolwire.client.transport.drivers import arun

    received: list[Progress] = []

    async def take(progress: Progress) -> None:
        received.append(progress)

    async def calling() -> Any:
        async with connect(url, protocol="mcp", approve=lambda question: True) as near:
            transport = AppTransport(asgi(near))
            found = await arun(discover(HERE, protocol="mcp"), transport, None)
            far = Remote(open_connection(found), transport, lambda question: True)
            return await far.call("work", notify=take)

    assert asyncio.run(calling()) == Value("done")
    assert [one.value for one in received] == SAID


def test_a_part_is_shown_as_a_percentage_and_an_item_as_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kit = Toolkit("Working")

    @kit.tool(approval="auto", safe=True)
    async def halve(context: Context) -> str:
        """Say how far it is."""
        await context.progress(0.5)
        await context.progress(7)
        return "done"

    @kit.tool(approval="auto", safe=True)
    def count() -> Iterator[int]:
        """Yield two items."""
        yield from (0, 1)

    with background(asgi(kit)) as base:
        for protocol in ("opentool", "mcp"):
            assert main(["call", base, "halve", "--agree", "--protocol", protocol]) == 0
            assert capsys.readouterr() == ("done\n", "50%\n7\n"), protocol
            assert main(["call", base, "count", "--agree", "--protocol", protocol]) == 0
            assert capsys.readouterr().err == "0\n1\n", protocol


def test_yes_says_why_a_tool_that_was_approved_over_another_protocol_is_asked_about_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with background(asgi(build_working_kit())) as base:
        assert main(["call", base, "work", "--yes", "--protocol", "openapi"]) == 0
        assert main(["call", base, "work", "--yes", "--protocol", "mcp"]) == 3
    text = capsys.readouterr().err
    assert "--yes does not cover this call: You approved this tool at another address or over another protocol." in text
    assert "The server has changed this tool since you approved it" not in text
