"""Messages of a tool's log: sent to clients that want them, shown by our client, passed on by a gateway."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import LoggingMessageNotificationParams

from tests.interop.talking_kit import KIT
from toolwire import Authorization, Context, Requirements, Toolkit, asgi
from toolwire.core.model import LOG_LEVELS
from toolwire.testing import background

pytestmark = pytest.mark.requirement("MC-06")


def build_kit() -> Toolkit:
    names: dict[str, Toolkit] = {"__name__": "talking"}  # type: ignore[dict-item]  # what a module has
    exec(compile(KIT, "talking.py", "exec"), names)
    return names["kit"]


class Heard:
    """What the official client is told."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, Any, Any]] = []

    async def __call__(self, params: LoggingMessageNotificationParams) -> None:
        self.messages.append((params.level, params.logger, params.data))


INFO = [("info", "search", {"found": 3}), ("error", None, "gone")]


@pytest.mark.parametrize(
    ("level", "expected"), [(None, []), ("debug", [("debug", None, "looking"), *INFO]), ("error", INFO[1:])]
)
def test_a_client_of_2026_gets_the_level_that_its_call_names(level: Any, expected: list[Any]) -> None:
    received = Heard()

    async def story(url: str) -> None:
        async with Client(f"{url}/mcp", logging_callback=received, log_level=level) as client:
            assert client.server_capabilities.logging is not None
            assert not (await client.call_tool("talk", {})).is_error

    with background(asgi(build_kit())) as url:
        anyio.run(story, url)
    assert received.messages == expected


@pytest.mark.filterwarnings("ignore:The logging capability is deprecated")
@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_a_client_of_2025_sets_its_level_for_the_session(transport: str, tmp_path: Path) -> None:
    received = Heard()
    (tmp_path / "talking.py").write_text(KIT)
    command = ["-m", "toolwire", "serve", str(tmp_path / "talking.py"), "--stdio"]

    async def story(url: str) -> None:
        program = StdioServerParameters(command=sys.executable, args=command)
        target: Any = f"{url}/mcp" if transport == "http" else stdio_client(program)
        async with Client(target, mode="legacy", logging_callback=received) as client:
            assert client.server_capabilities.logging is not None
            await client.call_tool("talk", {})
            await client.call_tool("talk_from_a_thread", {})
            await client.set_logging_level("error")
            await client.call_tool("talk", {})

    with background(asgi(build_kit(), sessions="all")) as url:
        anyio.run(story, url)
    assert received.messages == [*INFO, ("info", None, "here"), INFO[1]]


def test_a_level_that_does_not_exist_is_refused_on_both_sides() -> None:
    async def story(url: str) -> None:
        async with httpx2.AsyncClient(base_url=url) as client:
            params = {"protocolVersion": "2025-11-25", "capabilities": {}}
            message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
            headers = {"accept": "application/json, text/event-stream"}
            headers["mcp-session-id"] = (await client.post("/mcp", json=message, headers=headers)).headers[
                "mcp-session-id"
            ]
            message = {"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "loud"}}
            error = (await client.post("/mcp", json=message, headers=headers)).json()["error"]
            assert (error["code"], ", ".join(LOG_LEVELS) in error["message"]) == (-32602, True)

    with background(asgi(build_kit(), sessions="all")) as url:
        anyio.run(story, url)
    with pytest.raises(ValueError, match="level must be one of debug, info"):
        Context().log("x", level="loud")


@pytest.mark.requirement("D-26")
def test_the_secrets_of_a_call_do_not_reach_the_log() -> None:
    kit = Toolkit("Secret")
    needed = Requirements(authorization=(Authorization(id="mail"),))

    @kit.tool(approval="auto", requirements=needed)
    async def send(context: Context) -> str:
        """Write a token to the log."""
        await context.log({"header": f"Bearer {context.token('mail').reveal()}"})
        return "sent"

    from toolwire.core.model import Call, Progress, Secret
    from toolwire.server.run.function_toolbox import FunctionToolbox
    from toolwire.telemetry.redaction import hide_secrets

    texts: list[Progress] = []

    async def notify(progress: Progress) -> None:
        texts.append(progress)

    async def story() -> None:
        toolbox = FunctionToolbox(kit)
        context = Context(tokens={"mail": Secret("mail-token-1234567890")}, log_level="debug")
        (tool,) = toolbox.catalog().tools
        with hide_secrets(context):
            await toolbox.run(Call(tool, {}, "1", context), notify)

    anyio.run(story)
    assert [one.value for one in texts] == [{"level": "info", "data": {"header": "Bearer ***"}}]
