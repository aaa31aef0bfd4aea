"""Header fields of an upstream reach MCP clients over HTTP, standard input and streams, for each maker and revision."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from shlex import join
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.responses import JSONResponse

from tests.crossings.clients import MODERN, Call, Driver, Target, start_driver
from tests.interop.mcp_makers import INSTALLED, MISSING
from toolwire import Context, Problem, Progress, Toolkit, Value, asgi, connect_sync
from toolwire.hosting import ServeSettings, UpstreamSettings, open_gateway
from toolwire.hosting.options import RemoteOptions
from toolwire.integrations import fastapi
from toolwire.testing.loopback import background

META = "toolwire/headers"
RATE = {"ratelimit": '"day";r=3;t=7', "ratelimit-policy": '"day";q=5;w=60'}
WAIT = {"retry-after": "7", **RATE}
NARROW = {"www-authenticate": 'Bearer error="insufficient_scope", scope="write"'}
CLIENTS = ("Python SDK 1.x", "TypeScript SDK")
OLDER = "MCP 2025-11-25"


def build_things() -> FastAPI:
    """Routes that answer with header fields, as tools that need no question."""
    app = FastAPI(title="Things")

    def add(name: str, status: int, fields: dict[str, str]) -> None:
        @app.get(f"/{name}", operation_id=name, openapi_extra={"x-llm": {"approval": "auto", "safe": True}})
        async def answer(row: str = "") -> JSONResponse:
            return JSONResponse({"message": f"{name} says {status}{row}"}, status, fields)

    add("made", 201, {"location": "/things/7", "etag": '"v1"', **WAIT})
    add("narrow", 403, NARROW)
    add("gone", 404, {})
    fastapi.publish_tools(app)
    return app


def build_rows() -> Any:
    """A server whose tool streams, behind something that adds its rate to each response."""
    kit = Toolkit("Rows", description="It streams.")

    @kit.tool(safe=True, approval="auto")
    async def rows() -> AsyncIterator[str]:
        """Return rows."""
        yield "one"
        yield "two"

    @kit.tool(safe=True, approval="auto")
    async def steps(context: Context) -> str:
        """Return a text after a step."""
        await context.progress({"progress": 1, "total": 2, "message": "half"})
        return "done"

    inner = asgi(kit)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def add_rate(message: Any) -> None:
            if message["type"] == "http.response.start":
                fields = [(name.encode(), value.encode()) for name, value in RATE.items()]
                message = {**message, "headers": [*message["headers"], *fields]}
            await send(message)

        await inner(scope, receive, add_rate if scope["type"] == "http" else send)

    return app


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[str], str]]:
    """The URL of a gateway in front of both, the command of one on standard input, and the URL of the routes."""
    with background(build_things()) as things, background(build_rows()) as rows:
        upstreams = [
            UpstreamSettings(name="things", target=things, agree=True, remote=RemoteOptions(protocol="openapi")),
            UpstreamSettings(name="rows", target=rows, agree=True, remote=RemoteOptions(protocol="opentool")),
        ]
        # those of one protocol share a command
        command = [sys.executable, "-m", "toolwire", "serve", things, "--stdio", "--agree", "--protocol", "openapi"]
        with background(open_gateway(ServeSettings(upstreams=upstreams))) as url:
            yield url, command, things


@pytest.fixture(scope="module")
def drivers() -> Iterator[dict[str, Driver]]:
    """A process of the client of each maker."""
    if not INSTALLED:
        pytest.skip(MISSING)
    started = {name: start_driver(name, dict(os.environ)) for name in CLIENTS}
    yield started
    for one in started.values():
        one.close()


def list_fields(result: Value | Problem) -> Any:
    facts = result.details if isinstance(result, Problem) else result.notes or {}
    return facts.get("headers")


@pytest.mark.requirement("CR-04")
def test_fields_come_over_standard_input(places: tuple[str, list[str], str]) -> None:
    _, command, things = places
    with connect_sync(f"stdio:{join(command)}", approve_command=lambda _: True, agree=lambda _: True) as remote:
        made, narrow = remote.call("made"), remote.call("narrow")
    assert list_fields(made) == {"location": f"{things}/things/7", "etag": '"v1"', **WAIT}
    assert list_fields(narrow) == NARROW


@pytest.mark.requirement("CR-04")
@pytest.mark.parametrize("protocol", ["opentool", "mcp"])
@pytest.mark.parametrize(("tool", "items"), [("rows", 2), ("steps", 1)])
def test_fields_come_at_the_end_of_a_stream(
    protocol: str, tool: str, items: int, places: tuple[str, list[str], str]
) -> None:
    seen: list[Progress] = []
    with connect_sync(places[0], protocol=protocol, agree=lambda _: True) as remote:
        result = remote.call(tool, notify=seen.append)
    assert result == Value(["one", "two"] if tool == "rows" else "done")
    assert len(seen) == items
    assert list_fields(result) == RATE


@pytest.mark.requirement("CR-04")
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("is_program", [False, True], ids=["HTTP", "standard input"])
def test_fields_reach_clients_of_other_makers(
    client: str, is_program: bool, places: tuple[str, list[str], str], drivers: dict[str, Driver], tmp_path: Path
) -> None:
    url, command, things = places
    target = Target(
        url="" if is_program else url,
        command=command if is_program else [],
        ca_file=tmp_path,
        token="",
        folder=tmp_path,
        environment=dict(os.environ),
    )

    def call(tool: str, protocol: str) -> Any:
        asked = Call(tool=tool, row="", protocol=protocol, consent="auto", kind="read")
        outcome = drivers[client].call(target, asked)
        assert outcome.version == protocol.removeprefix("MCP ")
        return outcome.refusal, outcome.meta.get(META)

    fields = {"location": f"{things}/things/7", "etag": '"v1"', **WAIT}
    assert call("made", OLDER) == ("", fields)
    # A status of the upstream is none of the gateway's: some clients show no sentence beside it, or end their session.
    assert call("narrow", OLDER) == ("narrow says 403", NARROW)
    assert call("gone", OLDER) == ("gone says 404", None)
    if client == "TypeScript SDK" and not is_program:
        assert call("made", MODERN) == ("", fields)
