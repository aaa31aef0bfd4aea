# ruff: noqa: F811 - fixtures are imported
"""Where a server keeps what must last: one setting for two servers of one machine, or of two."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import Postgres, postgres, shared_postgres, wait_until_answering  # noqa: F401 - the fixtures
from tests.support.wire import HERE, AppTransport
from toolwire import RateLimit, Toolkit, asgi
from toolwire.core.errors import DefinitionError
from toolwire.core.http import Request, Response
from toolwire.server import App

JSON = (b"content-type", b"application/json")


def build_kit(ran: list[str]) -> Toolkit:
    kit = Toolkit("Shop")

    @kit.tool(safe=False, approval="auto")
    async def order(what: str) -> str:
        """Order something."""
        ran.append(what)
        return f"order {len(ran)}"

    @kit.tool(safe=True, approval="auto")
    async def price(what: str) -> int:
        """Read a price."""
        return len(what)

    @kit.tool(safe=False, approval="auto", rate_limit=RateLimit(max=2, window="1h"))
    async def scarce() -> str:
        """Do what may be done twice an hour."""
        return "done"

    return kit


def call(protocol: str, tool: str, key: str, **arguments: str) -> Request:
    """Return the request of a call with an idempotency key."""
    fields: tuple[tuple[bytes, bytes], ...] = (JSON, (b"idempotency-key", key.encode())) if key else (JSON,)
    match protocol:
        case "openapi":
            path, body = f"/api/{tool}", arguments
        case "otc":
            path, body = "/call", {"request": {"tool_id": f"Shop.{tool}", "input": arguments}}
        case "opentool":
            path = "/opentool/call"
            body = {"jsonrpc": "2.0", "id": "1", "method": tool, "params": arguments}
        case _:
            path = "/mcp"
            fields += ((b"accept", b"application/json, text/event-stream"), (b"mcp-protocol-version", b"2025-06-18"))
            params = {"name": tool, "arguments": arguments}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return Request("POST", HERE + path, fields, json.dumps(body).encode())


@pytest.fixture(params=["folder", "postgresql"])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        return str(tmp_path / "deep" / "state")
    url: str = request.getfixturevalue("shared_postgres").create_database()
    return url


def run(work: Callable[[list[App]], Coroutine[Any, Any, None]], apps: list[App]) -> None:
    async def story() -> None:
        try:
            await work(apps)
        finally:
            for app in apps:
                await app.end()

    asyncio.run(story())


@pytest.mark.requirement("ST-01", "ST-02")
@pytest.mark.parametrize("how", ["parameter", "environment"])
@pytest.mark.parametrize("protocol", ["openapi", "otc", "opentool", "mcp"])
def test_call_runs_once_on_servers_with_shared_state(
    state: str, protocol: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    if how == "environment":
        monkeypatch.setenv("TOOLWIRE_STATE", state)
    given = state if how == "parameter" else ""
    apps = [asgi(build_kit(ran), state=given) for _ in range(2)]

    async def story(apps: list[App]) -> None:
        answers = [await AppTransport(app).send(call(protocol, "order", "k1", what="tea")) for app in apps]
        assert ran == ["tea"]
        assert all(b"order 1" in answer.body for answer in answers)
        assert dict(answers[1].headers)[b"idempotent-replayed"] == b"true"

    run(story, apps)


@pytest.mark.requirement("ST-01", "XL-066")
def test_a_rate_limit_counts_the_calls_of_all_servers(state: str) -> None:
    apps = [asgi(build_kit([]), state=state, rates_fail="closed") for _ in range(2)]

    async def story(apps: list[App]) -> None:
        statuses = [(await AppTransport(apps[n % 2]).send(call("openapi", "scarce", ""))).status for n in range(4)]
        assert statuses == [200, 200, 429, 429]

    run(story, apps)


@pytest.mark.requirement("ST-01")
def test_state_in_memory_is_not_shared_despite_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLWIRE_STATE", str(tmp_path / "unused"))
    ran: list[str] = []
    apps = [asgi(build_kit(ran), state="memory") for _ in range(2)]

    async def story(apps: list[App]) -> None:
        for app in apps:
            await AppTransport(app).send(call("openapi", "order", "k1", what="tea"))

    run(story, apps)
    assert ran == ["tea", "tea"]
    assert not (tmp_path / "unused").exists()


@pytest.mark.requirement("ST-01")
@pytest.mark.parametrize("where", ["redis://localhost", "mysql://root:canary-db@localhost/x"])
def test_unsupported_state_url_is_refused_in_one_sentence(where: str) -> None:
    with pytest.raises(DefinitionError, match=r"^State must be memory, a folder or a URL") as raised:
        asgi(build_kit([]), state=where)
    assert "canary" not in str(raised.value)


@pytest.mark.requirement("ST-01")
def test_folder_that_cannot_be_made_is_refused_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(
        DefinitionError, match=r"^Cannot store state in .*file/state: .* Choose another location with --state"
    ):
        asgi(build_kit([]), state=file / "state")


@pytest.mark.requirement("ST-05", "R11")
def test_hanging_database_stops_only_calls_that_need_it(postgres: Postgres) -> None:
    wait_until_answering(postgres)
    ran: list[str] = []
    app = asgi(build_kit(ran), state=postgres.create_database(), rates_fail="closed")
    wire = AppTransport(app)

    async def send(protocol: str, tool: str, key: str = "", **arguments: str) -> Response:
        answer = await wire.send(call(protocol, tool, key, **arguments))
        assert isinstance(answer, Response)
        return answer

    async def story(_: list[App]) -> None:
        assert (await send("openapi", "order", "k0", what="tea")).status == 200
        with postgres.stopped():
            for protocol in ("openapi", "otc", "opentool", "mcp"):
                refused = await send(protocol, "order", f"k-{protocol}", what="milk")
                assert b"did not run" in refused.body, refused
                if protocol in ("openapi", "otc"):
                    assert refused.status == 503
                    assert int(dict(refused.headers)[b"retry-after"]) >= 1
                assert b"milk" not in (await send(protocol, "price", "k", what="milk")).body, (
                    "a call that reads goes on"
                )
                assert b"order" in (await send(protocol, "order", what="no key")).body
            limited = await send("openapi", "scarce")
            assert (limited.status, limited.headers and dict(limited.headers)[b"retry-after"]) == (503, b"1")
            for path in ("/", "/health", "/tools", "/openapi.json"):
                assert (await wire.send(Request("GET", HERE + path, ()))).status == 200
        assert ran == ["tea", *["no key"] * 4], "nothing that was refused ran"

    run(story, [app])


@pytest.mark.requirement("ST-01", "ST-05")
def test_confirmation_that_waits_for_a_hanging_database_delays_no_other_call(postgres: Postgres) -> None:
    wait_until_answering(postgres)
    ran: list[str] = []
    app = asgi(build_kit(ran), state=postgres.create_database(), require_confirmation=lambda _: "Call it?")
    reader = asgi(build_kit(ran))

    async def story(apps: list[App]) -> None:
        wire, other = (AppTransport(one) for one in apps)
        asked = await wire.send(call("openapi", "order", "", what="tea"))
        assert isinstance(asked, Response)
        word = json.loads(asked.body)["details"]["confirmation"]["word"].encode()
        confirmed = call("openapi", "order", "", what="tea")
        confirmed = confirmed._replace(headers=(*confirmed.headers, (b"toolwire-confirmation", word)))
        with postgres.stopped():
            waiting = asyncio.ensure_future(wire.send(confirmed))
            await asyncio.sleep(0)
            assert (await other.send(call("otc", "price", "", what="milk"))).status == 200
            assert not waiting.done(), "the event loop went on while the database was asked"
            async with asyncio.timeout(10):
                refused = await waiting
            assert isinstance(refused, Response)
            assert refused.status == 503
            assert b"order did not run: its confirmation cannot be verified now." in refused.body
        assert ran == []

    run(story, [app, reader])
