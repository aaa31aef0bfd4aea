"""Our client on the real universal-tool and open-tool servers: found, listed, called, and what goes wrong there."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolwire import Kind, Problem, Value, connect, connect_sync
from toolwire.core.model import Call

PROGRAM = Path(__file__).with_name("foreign_servers.py")
TITLES = {"universal_tool_server": "universal-tool", "open_tool_server": "open-tool"}


@pytest.fixture(scope="module", params=list(TITLES))
def foreign(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """The name and the URL of a server that is not ours, in a process of its own."""
    command = [sys.executable, str(PROGRAM), request.param]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert url, f"{request.param} does not start"
            yield request.param, url
        finally:
            process.kill()


def open_connection(url: str, **options: Any) -> Any:
    return connect_sync(url, approve=lambda question: True, **options)


@pytest.mark.requirement("C-8", "A-34", "A-35", "A-48")
def test_older_server_is_recognized_and_its_tools_listed(foreign: tuple[str, str]) -> None:
    name, url = foreign
    with open_connection(url) as remote:
        assert remote.protocol == "otc"
        assert remote.probes[-1].meaning == f"{TITLES[name]}; tools: 3"
        assert [tool.name for tool in remote.tools] == ["add", "divide", "nothing"]
        add = remote.catalog().names["add"]
        assert set(add.parameters) == {"a", "b"}
        assert not add.safe


@pytest.mark.requirement("A-33", "A-38", "A-43", "C-9")
def test_tools_of_an_older_server_can_be_called(foreign: tuple[str, str]) -> None:
    _, url = foreign
    with open_connection(url) as remote:
        assert remote.call("add", {"a": 1, "b": 2}) == Value(3)
        assert remote.call("divide", {"a": 1, "b": 4}) == Value(0.25)
        assert remote.call("nothing") == Value(None)

    async def talk() -> Any:
        async with connect(url, approve=lambda question: True) as remote:
            return await remote.call("add", {"a": 1, "b": 2})

    assert asyncio.run(talk()) == Value(3)


@pytest.mark.requirement("OTC-029", "C-12")
def test_a_tool_that_fails_is_a_problem_and_runs_once(foreign: tuple[str, str]) -> None:
    _, url = foreign
    with open_connection(url) as remote:
        failed = remote.call("divide", {"a": 1, "b": 0})
    assert isinstance(failed, Problem)
    assert (failed.kind, failed.can_retry) == (Kind.TOOL_FAILED, False)
    assert "attempts" not in failed.details


def test_invalid_arguments_are_refused_by_client_and_server(foreign: tuple[str, str]) -> None:
    from dataclasses import replace

    from toolwire.client.transport.drivers import run
    from toolwire.client.transport.network import SyncNetwork
    from toolwire.protocols.otc import CODEC

    _, url = foreign
    with open_connection(url) as remote:
        here = remote.call("add", {"a": "one", "b": 2})
        assert isinstance(here, Problem)
        assert here.kind is Kind.INVALID_ARGUMENTS
    transport = SyncNetwork()
    try:
        peer = run(CODEC.find(url), transport).peer
        assert peer is not None
        assert not peer.deduplicates_calls
        add = peer.catalog.names["add"]
        there = run(CODEC.send(peer, Call(add, {"a": "one", "b": 2}, "c1")), transport)
        gone = replace(add, name="subtract")
        unknown = run(CODEC.send(peer, Call(gone, {"a": 1, "b": 2}, "c2")), transport)
    finally:
        transport.close()
    assert isinstance(there, Problem)
    assert there.kind is Kind.INVALID_ARGUMENTS
    assert isinstance(unknown, Problem)
    assert unknown.kind is Kind.UNKNOWN_TOOL
    assert "not found" in unknown.message
    json.dumps(there.message)
