"""A toolkit, a module or an application is connected to in this process, with the same questions as over a network."""

from __future__ import annotations

import asyncio
import types
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from fastapi import FastAPI

from toolwire import (
    CallError,
    ConnectError,
    DefinitionError,
    Kind,
    Problem,
    Progress,
    Toolkit,
    Value,
    asgi,
    connect,
    connect_sync,
    merge_toolboxes,
)
from toolwire.integrations.fastapi import publish_tools, x_llm
from toolwire.protocols import BUILTIN

PROTOCOLS = [codec.name for codec in BUILTIN]


def make_kit() -> tuple[Toolkit, list[str]]:
    kit, wiped = Toolkit("Calculator"), list[str]()

    @kit.tool(approval="auto")
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @kit.tool
    def wipe(name: str) -> str:
        """Delete something."""
        wiped.append(name)
        return f"wiped {name}"

    @kit.tool(approval="auto")
    async def count(number: int) -> AsyncIterator[int]:
        """Count up."""
        for one in range(number):
            yield one

    return kit, wiped


@pytest.mark.requirement("FU-12")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_toolkit_is_called_without_a_network_over_every_protocol(protocol: str) -> None:
    kit, _ = make_kit()

    async def story() -> None:
        async with connect(kit, protocol=protocol, agree=lambda _: True) as remote:
            assert [tool.name for tool in remote.tools] == ["add", "count", "wipe"]
            assert (await remote.call("add", {"a": 1, "b": 2})).unwrap() == 3
            assert (await remote.call("add", {"a": 1, "b": "x"})).ok is False

    asyncio.run(story())
    with connect_sync(kit, protocol=protocol, agree=lambda _: True) as remote:
        assert remote.call("add", {"a": 1, "b": 2}) == Value(3)


@pytest.mark.requirement("XL-053")
def test_in_process_call_asks_and_a_denial_runs_nothing() -> None:
    kit, wiped = make_kit()
    with connect_sync(kit) as remote:
        denied = remote.call("wipe", {"name": "disk"})
    assert isinstance(denied, Problem)
    assert denied.kind is Kind.DENIED
    assert wiped == []
    asked = []
    with connect_sync(kit, approve=lambda question: bool(asked.append(question.call.arguments) or True)) as remote:
        assert remote.call("wipe", {"name": "disk"}) == Value("wiped disk")
    assert (asked, wiped) == ([{"name": "disk"}], ["disk"])


@pytest.mark.parametrize("protocol", ["opentool", "mcp"])
def test_stream_items_arrive_one_by_one_in_process(protocol: str) -> None:
    kit, _ = make_kit()
    seen: list[object] = []

    async def note(progress: Progress) -> None:
        seen.append(progress.value)

    async def story() -> None:
        async with connect(kit, protocol=protocol, agree=lambda _: True) as remote:
            await remote.call("count", {"number": 3}, notify=note)

    asyncio.run(story())
    assert seen == [0, 1, 2]
    seen.clear()
    with connect_sync(kit, protocol=protocol, agree=lambda _: True) as remote:
        remote.call("count", {"number": 2}, notify=lambda progress: seen.append(progress.value))
    assert seen == [0, 1]


def test_tool_runs_in_the_event_loop_of_the_test() -> None:
    kit = Toolkit("Waiter")

    async def story() -> None:
        opened = asyncio.Event()

        @kit.tool(approval="auto")
        async def wait() -> str:
            """Wait until the test says so."""
            await opened.wait()
            return "open"

        async with connect(kit, agree=lambda _: True) as remote, anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.lowlevel.checkpoint)
            opened.set()
            assert await remote.call("wait") == Value("open")

    asyncio.run(story())


def test_abandoned_call_cancels_its_tool() -> None:
    kit = Toolkit("Sleeper")

    async def story() -> list[str]:
        begun, seen = asyncio.Event(), list[str]()

        @kit.tool(approval="auto")
        async def sleep() -> None:
            """Sleep for ever."""
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        async with connect(kit, protocol="otc", agree=lambda _: True) as remote:
            calling = asyncio.ensure_future(remote.call("sleep"))
            await begun.wait()
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
        return seen

    assert asyncio.run(story()) == ["cancelled"]


def test_call_above_its_time_limit_is_a_problem() -> None:
    kit = Toolkit("Sleeper")

    @kit.tool(approval="auto")
    async def sleep() -> None:
        """Sleep for ever."""
        await asyncio.Event().wait()

    with connect_sync(kit, timeout_s=0.2, agree=lambda _: True) as remote:
        result = remote.call("sleep")
    assert isinstance(result, Problem)
    assert result.details["reason"] == "timeout"


@pytest.mark.requirement("FU-12")
def test_application_of_another_framework_runs_with_its_lifespan() -> None:
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        events.append("start")
        yield
        events.append("stop")

    app = FastAPI(title="Shop", version="1.0.0", lifespan=lifespan)

    @app.get("/stock/{item}", operation_id="in_stock", openapi_extra=x_llm())
    def in_stock(item: str) -> int:
        """Say how many there are."""
        return len(item)

    publish_tools(app)
    with connect_sync(app, approve=lambda _: True) as remote:
        assert events == ["start"]
        assert remote.call("in_stock", {"item": "tea"}) == Value(3)
    assert events == ["start", "stop"]


def test_application_that_fails_to_start_raises_connect_error() -> None:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        raise ValueError("no database")
        yield

    with (
        pytest.raises(ConnectError, match="did not start: ValueError: no database"),
        connect_sync(FastAPI(lifespan=lifespan)),
    ):
        pass


def test_api_key_is_checked_in_process() -> None:
    kit, _ = make_kit()
    app = asgi(kit, api_keys=["a-key-of-thirty-two-characters-xx"])
    with connect_sync(app, api_key="a-key-of-thirty-two-characters-xx", agree=lambda _: True) as remote:
        assert remote.call("add", {"a": 1, "b": 2}) == Value(3)


@pytest.mark.requirement("FU-12")
def test_module_or_merged_toolkits_can_be_connected_to() -> None:
    kit, _ = make_kit()
    module = types.ModuleType("tools")
    module.kit = kit  # type: ignore[attr-defined]
    for target in (module, merge_toolboxes([kit])):
        with connect_sync(target, agree=lambda _: True) as remote:
            assert remote.call("add", {"a": 1, "b": 2}) == Value(3)
    module.other = Toolkit("Other")  # type: ignore[attr-defined]
    with pytest.raises(DefinitionError, match=r"several toolkits .kit, other.. Pass the toolkit itself to connect"):
        connect_sync(module)


@pytest.mark.parametrize("target", [5, None, Toolkit, ["http://a.example"]])
def test_unsupported_connect_target_is_refused_with_the_supported_ones(target: object) -> None:
    with pytest.raises(
        DefinitionError, match="connect needs a URL, a Toolkit, a module with one, or an ASGI application, not"
    ):
        connect_sync(target)  # type: ignore[arg-type]


@pytest.mark.requirement("FU-12")
def test_unopened_connection_tells_how_to_open_it() -> None:
    with pytest.raises(AttributeError, match="`with connect_sync"):
        connect_sync("http://127.0.0.1:1").call("add")  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="`async with connect"):
        connect("http://127.0.0.1:1").tools  # type: ignore[attr-defined]  # noqa: B018 - reading it is the mistake


@pytest.mark.requirement("FU-12")
def test_unwrap_returns_the_value_or_raises_the_problem() -> None:
    assert Value({"a": 1}).unwrap() == {"a": 1}
    problem = Problem(kind=Kind.DENIED, message="Nobody allowed it.")
    with pytest.raises(CallError, match="denied: Nobody allowed it") as caught:
        problem.unwrap()
    assert caught.value.problem is problem
    with pytest.raises(AttributeError, match=r"the call failed .Nobody allowed it.* .result.unwrap"):
        _ = problem.value  # type: ignore[attr-defined]
