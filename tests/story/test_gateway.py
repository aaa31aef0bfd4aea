"""A gateway is a sentence: serve a remote server again, on every protocol, beside tools of your own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio
import anyio.to_thread
import pytest

import toolwire
from toolwire import DefinitionError, Kind, Problem, Toolkit, Value, connect, connect_sync, merge_toolboxes
from toolwire.server.run.function_toolbox import FunctionToolbox
from toolwire.testing.loopback import background

PROTOCOLS = ["openapi", "opentool", "otc", "mcp"]


def far_away(notes: list[str]) -> Toolkit:
    toolkit = Toolkit("Far", version="3.1.4")

    @toolkit.tool(approval="auto")
    def weather(town: str) -> dict[str, str]:
        """Say how the weather is.

        Args:
            town: The name of the town.
        """
        return {"town": town, "sky": "☁"}

    @toolkit.tool(approval="per-call")
    def note(text: str) -> None:
        """Write something down."""
        notes.append(text)

    return toolkit


def nearby() -> Toolkit:
    toolkit = Toolkit("Near")

    @toolkit.tool(approval="auto")
    def shout(text: str) -> str:
        """Say it loud."""
        return text.upper()

    return toolkit


def through(far: str, spoken: str, use: Callable[[str], None], approve: Callable[..., bool] | None = None) -> None:
    """Serve what is at ``far``, reached by the protocol ``spoken``, beside our own tools, and use that."""

    async def run() -> None:
        async with connect(far, protocol=spoken, approve=approve, agree=lambda _: True) as remote:
            box = merge_toolboxes([remote, FunctionToolbox(nearby())], title="Both")
            with background(toolwire.asgi(box)) as gateway:
                await asyncio.wait_for(anyio.to_thread.run_sync(use, gateway), 20)

    asyncio.run(run())


@pytest.mark.parametrize("spoken", PROTOCOLS)
def test_gateway_serves_a_remote_server_over_every_other_protocol(serve: Callable[..., str], spoken: str) -> None:
    def use(gateway: str) -> None:
        for protocol in PROTOCOLS:
            with connect_sync(gateway, protocol=protocol, agree=lambda _: True) as remote:
                assert {"weather", "note", "shout"} == {tool.name for tool in remote.tools}
                assert remote.call("weather", {"town": "Ulm"}) == Value({"town": "Ulm", "sky": "☁"})
                assert remote.call("shout", {"text": "hey"}) == Value("HEY")
                wrong = remote.call("weather", {"town": 7})
                assert isinstance(wrong, Problem)
                assert list(wrong.parameter_errors) == ["town"]

    through(serve(far_away([])), spoken, use)


@pytest.mark.parametrize("spoken", PROTOCOLS)
def test_gateway_passes_consent_through(serve: Callable[..., str], spoken: str) -> None:
    notes: list[str] = []
    far = serve(far_away(notes))

    def refused(gateway: str) -> None:
        with connect_sync(gateway) as remote:
            result = remote.call("note", {"text": "nobody was asked"})
            assert isinstance(result, Problem)
            assert result.kind is Kind.DENIED

    def allowed(gateway: str) -> None:
        with connect_sync(gateway, approve=lambda _: True) as remote:
            result = remote.call("note", {"text": "both said yes"})
            assert result.ok, result

    def allowed_here_only(gateway: str) -> None:
        with connect_sync(gateway, approve=lambda _: True) as remote:
            result = remote.call("note", {"text": "the gateway has nobody to ask"})
            assert isinstance(result, Problem)
            assert result.kind is Kind.DENIED

    through(far, spoken, refused, approve=lambda _: True)
    through(far, spoken, allowed_here_only)
    assert notes == []
    through(far, spoken, allowed, approve=lambda _: True)
    assert notes == ["both said yes"]


def test_duplicate_tool_id_is_refused_at_start() -> None:
    with pytest.raises(DefinitionError, match=r"Near\.shout@1\.0\.0"):
        merge_toolboxes([FunctionToolbox(nearby()), FunctionToolbox(nearby())])
