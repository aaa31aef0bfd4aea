"""Tools of the official SDK whose names are not legal here, or that only a dash tells apart: all stay callable."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest
from mcp.server.mcpserver import MCPServer

from tests.support.wire import HERE, AppTransport
from toolwire import Preferences, Value, asgi, connect, connect_sync
from toolwire.adapters.dialects import Provider
from toolwire.adapters.tool_declarations import run_named_call_sync
from toolwire.cli import main
from toolwire.client.connection.connection import open_connection
from toolwire.client.connection.remote import Remote
from toolwire.client.discovery.discover import discover
from toolwire.client.transport.drivers import arun
from toolwire.core.codec import Codec
from toolwire.core.model import Call, Tool
from toolwire.protocols import BUILTIN

from .conftest import run_app

NAMES = ("admin.tools.list", "a-b", "a_b", "a.b", "plain")


def build_named_server() -> MCPServer:
    server = MCPServer("Named")
    for name in NAMES:

        def tell(said: str = name) -> str:
            return said

        server.add_tool(tell, name=name, description=f"Say {name}.")
    return server


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with run_app(build_named_server().streamable_http_app()) as base:
        yield base


@pytest.mark.requirement("I-08")
def test_tool_is_called_by_its_original_or_legal_name(url: str) -> None:
    with connect_sync(url, approve=lambda question: True) as remote:
        listed = {tool.original_name or tool.name: tool.name for tool in remote.tools}
        assert listed.keys() == set(NAMES)
        assert listed["admin.tools.list"] == "admin_tools_list"
        for wire_name, name in listed.items():
            assert remote.call(wire_name) == Value(wire_name)
            assert remote.call(name) == Value(wire_name)
            texts = [one for one in remote.findings() if repr(wire_name) in one]
            assert len(texts) == (wire_name != name)
            assert all(repr(name) in one for one in texts)


@pytest.mark.requirement("I-08")
def test_asynchronous_client_also_finds_the_original_name(url: str) -> None:
    async def calling() -> object:
        async with connect(url, approve=lambda question: True) as remote:
            return await remote.call("admin.tools.list")

    assert asyncio.run(calling()) == Value("admin.tools.list")


@pytest.mark.requirement("I-08")
def test_model_can_use_the_original_or_the_legal_name(url: str) -> None:
    with connect_sync(url, approve=lambda question: True) as remote:
        for name in ("admin.tools.list", "admin_tools_list"):
            text = run_named_call_sync(remote, Provider.OPENAI, name, {}).text
            assert json.loads(text)["result"] == "admin.tools.list"


@pytest.mark.requirement("I-08")
def test_command_line_reports_renamed_tools(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["tools", url, "--findings"]) == 0
    reply = capfd.readouterr()
    assert "'admin.tools.list' is called 'admin_tools_list' here" in " ".join((reply.out + reply.err).split())


@pytest.mark.requirement("I-08")
@pytest.mark.parametrize("codec", BUILTIN, ids=lambda codec: codec.name)
def test_a_gateway_passes_a_call_on_by_either_name(url: str, codec: Codec) -> None:
    async def calling() -> None:
        async with connect(url, approve=lambda question: True) as near:
            transport = AppTransport(asgi(near))
            found = await arun(discover(HERE, protocol=codec.name), transport, None)
            assert found.peer is not None
            far = Remote(open_connection(found, Preferences()), transport, lambda question: True)
            for tool in near.tools:
                assert await far.call(tool.id) == Value(tool.original_name or tool.name)
            if codec.name in ("mcp", "opentool"):  # their calls carry a name, and the gateway knows the original ones
                for name in NAMES:
                    called = await arun(codec.send(found.peer, Call(Tool(name=name), {}, "1")), transport, None)
                    assert called in (Value(name), Value({"result": name}))

    asyncio.run(calling())
