"""Servers of the official SDK that ask the client for something while a call runs: no call hangs on that."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from mcp import MCPError
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.message import ServerMessageMetadata
from mcp_types import EmptyResult, ListRootsRequest, ListRootsResult, PingRequest
from pydantic import BaseModel

from tests.interop.mcp_revisions import of_2025
from toolwire import Progress, Result, Value, connect, connect_sync

from .conftest import run_app


class Answer(BaseModel):
    size: int


def in_the_stream_of(context: Context[Any]) -> ServerMessageMetadata:
    """Say that a request of the server belongs to the call: it then comes in the stream of the call's answer."""
    return ServerMessageMetadata(related_request_id=context.request_id)


def build_asking_server() -> MCPServer:
    server = MCPServer("Asking")

    @server.tool()
    async def ping(context: Context[Any]) -> str:
        await context.session.send_request(PingRequest(), EmptyResult, metadata=in_the_stream_of(context))
        return "answered"

    @server.tool()
    async def roots(context: Context[Any]) -> str:
        try:
            await context.session.send_request(ListRootsRequest(), ListRootsResult, metadata=in_the_stream_of(context))
        except MCPError as error:
            return f"refused {error.error.code}"
        return "listed"

    @server.tool()
    async def elicit(context: Context[Any]) -> str:
        try:
            await context.elicit("How large?", Answer)
        except MCPError as error:
            return f"refused {error.error.code}"
        return "asked"

    @server.tool()
    async def work(context: Context[Any]) -> str:
        for step in range(1, 4):
            await context.report_progress(step, 3, f"step {step}")
        return "done"

    return server


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with run_app(of_2025(build_asking_server().streamable_http_app())) as base:
        yield base


@pytest.fixture(scope="module")
def newest() -> Iterator[str]:
    with run_app(build_asking_server().streamable_http_app()) as base:
        yield base


def call_blocking(url: str, name: str, heard: list[Progress]) -> Result:
    with connect_sync(url, approve=lambda question: True, timeout_s=20) as remote:
        return remote.call(name, notify=heard.append)


def call_async(url: str, name: str, heard: list[Progress]) -> Result:
    async def take(progress: Progress) -> None:
        heard.append(progress)

    async def calling() -> Result:
        async with connect(url, approve=lambda question: True, timeout_s=20) as remote:
            return await remote.call(name, notify=take)

    return asyncio.run(calling())


@pytest.mark.requirement("MC-06", "I-04")
@pytest.mark.parametrize("call", [call_blocking, call_async])
@pytest.mark.parametrize(
    ("name", "said"), [("ping", "answered"), ("roots", "refused -32601"), ("elicit", "refused -32601")]
)
def test_server_question_during_a_call_is_answered(call: Any, url: str, name: str, said: str) -> None:
    assert call(url, name, []) == Value(said)


@pytest.mark.requirement("MC-05")
@pytest.mark.parametrize("call", [call_blocking, call_async])
@pytest.mark.parametrize("revision", ["url", "newest"])
def test_progress_reaches_the_caller_in_order(call: Any, revision: str, request: pytest.FixtureRequest) -> None:
    received: list[Progress] = []
    assert call(request.getfixturevalue(revision), "work", received) == Value("done")
    assert [one.value for one in received] == [
        {"progress": step, "total": 3, "message": f"step {step}"} for step in (1, 2, 3)
    ]
