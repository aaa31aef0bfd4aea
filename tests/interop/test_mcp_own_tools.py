"""A server asks the user of an MCP client with forms before its own tools run, if they need consent."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.types import ElicitResult

from toolwire import Toolkit, asgi, connect, merge_toolboxes
from toolwire.server.run.function_toolbox import FunctionToolbox
from toolwire.testing.loopback import background


class Person:
    """The user of an MCP client: what they answer, and what they were shown."""

    def __init__(self, *, allow: bool) -> None:
        self.allow = allow
        self.shown: list[str] = []

    async def __call__(self, _: Any, params: Any) -> ElicitResult:
        self.shown.append(params.message)
        return ElicitResult(action="accept", content={"allow": True}) if self.allow else ElicitResult(action="decline")


def call(url: str, person: Person | None, name: str, *given: dict[str, Any]) -> list[bool]:
    """Return for each call with the official client whether it ran."""

    async def run() -> list[bool]:
        async with Client(f"{url}/mcp", elicitation_callback=person) as client:
            return [(await client.call_tool(name, arguments)).is_error is not True for arguments in given]

    return anyio.run(run)


def build_bank(ran: list[Any]) -> Toolkit:
    kit = Toolkit("Bank")

    @kit.tool(approval="auto", ask_when=[("/amount", "gt", 50)], question="Pay {/amount}?")
    def pay(amount: int) -> int:
        """Pay somebody."""
        ran.append(amount)
        return amount

    @kit.tool(destructive=True)
    def delete(name: str) -> str:
        """Delete an account."""
        ran.append(name)
        return name

    @kit.tool(approval="auto", safe=True)
    def balance() -> int:
        """Say what is left."""
        return 5

    return kit


@pytest.mark.requirement("CC-01", "CC-05")
@pytest.mark.parametrize("allow", [True, False])
def test_only_a_large_amount_is_asked_about(allow: bool) -> None:
    ran: list[Any] = []
    person = Person(allow=allow)
    with background(asgi(build_bank(ran))) as url:
        assert call(url, person, "pay", {"amount": 50}, {"amount": 51}) == [True, allow]
        assert call(url, person, "balance", {}) == [True]
    assert ran == ([50, 51] if allow else [50])
    assert len(person.shown) == 1
    for words in ("pay needs your consent", "/amount is more than 50", "Pay 51?", '{"amount":51}'):
        assert words in person.shown[0]


@pytest.mark.requirement("CC-05")
def test_host_without_forms_sees_hints_and_asking_can_be_disabled() -> None:
    ran: list[Any] = []
    person = Person(allow=False)
    with background(asgi(build_bank(ran))) as url:
        assert call(url, person, "delete", {"name": "a"}) == [False]
        assert call(url, None, "delete", {"name": "b"}) == [True]
    with background(asgi(build_bank(ran), ask_hosts=False)) as url:
        assert call(url, person, "delete", {"name": "c"}) == [True]
    assert (ran, len(person.shown)) == (["b", "c"], 1)


@pytest.mark.requirement("CC-05")
def test_gateway_asks_once_for_own_and_upstream_tools() -> None:
    """A remote server asks through its own connection, so the gateway does not ask a second time."""
    far: list[Any] = []
    near: list[Any] = []
    person = Person(allow=True)
    questions: list[Any] = []

    async def run(url: str) -> None:
        async with connect(url, approve=lambda question: questions.append(question) is None) as remote:
            own = Toolkit("Desk")

            @own.tool(destructive=True)
            def clear(drawer: int) -> int:
                """Clear a drawer."""
                near.append(drawer)
                return drawer

            toolbox = merge_toolboxes([FunctionToolbox(own), remote], title="Both")
            with background(asgi(toolbox)) as gateway:
                done = await anyio.to_thread.run_sync(call, gateway, person, "clear", {"drawer": 1})
                assert done == [True]

    with background(asgi(build_bank(far))) as url:
        anyio.run(run, url)
    assert (near, len(person.shown), questions) == ([1], 1, [])
