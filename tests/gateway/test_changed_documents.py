"""An OpenAPI document that changes behind two gateways with one state: clients hear of it, whether they call or not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.support.waiting import wait_until
from toolwire.client.connection import freshness
from toolwire.hosting import open_gateway
from toolwire.testing import background

pytestmark = [pytest.mark.requirement("OQ-4", "MC-06", "XL-048"), pytest.mark.filterwarnings("ignore:.* is removed")]

PATIENCE_S = 40
BEFORE = """
openapi: 3.1.0
info: {title: Notes, version: 1.0.0}
paths:
  /add:
    post: {operationId: add, summary: Add a note, responses: {'200': {description: ok}}}
  /old:
    post: {operationId: old, summary: Old, responses: {'200': {description: ok}}}
"""
AFTER = BEFORE.replace("Add a note", "Add a note and publish it").replace("old", "new")


class Site:
    """A server with a document that can be changed, and the paths that were called."""

    def __init__(self) -> None:
        self.document, self.status = BEFORE, 200
        self.called: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        is_document = scope["path"] == "/openapi.yaml"
        if scope["method"] == "POST":
            self.called.append(scope["path"])
        kind = b"application/yaml" if is_document else b"application/json"
        headers = [(b"content-type", kind), (b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": self.status if is_document else 200, "headers": headers})
        await send({"type": "http.response.body", "body": self.document.encode() if is_document else b"{}"})


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def nodes(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    monkeypatch.setattr(freshness, "POLL_S", 0.05)
    monkeypatch.setattr(freshness, "MIN_INTERVAL_S", 0.05)
    with ExitStack() as running:
        url = running.enter_context(background(site))
        file = tmp_path / "toolwire.toml"
        file.write_text(
            f'state = "{tmp_path}/state"\n[upstreams.notes]\ntarget = "{url}/openapi.yaml"\ninclude = "all"\n'
        )
        first, other = (running.enter_context(background(open_gateway(file))) for _ in range(2))
        yield first, other


async def follow(client: Client, wanted: set[str], changes: AsyncIterator[Any]) -> None:
    """Return when the list of ``client`` is ``wanted``; it is fetched only if a change is heard."""
    async for _ in changes:
        if {tool.name for tool in (await client.list_tools()).tools} == wanted:
            return


def test_clients_of_two_gateways_hear_of_a_document_that_nobody_calls(site: Site, nodes: tuple[str, str]) -> None:
    async def tell() -> None:
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(Client(streamable_http_client(f"{url}/mcp"))) for url in nodes]
            streams = [await stack.enter_async_context(client.listen(tools_list_changed=True)) for client in clients]
            for client in clients:
                assert {tool.name for tool in (await client.list_tools()).tools} == {"add", "old"}
            for document, wanted in ((AFTER, {"add", "new"}), (BEFORE, {"add", "old"})):
                site.document = document
                async with anyio.create_task_group() as tasks:
                    for client, changes in zip(clients, streams, strict=True):
                        tasks.start_soon(follow, client, wanted, changes)

    async def tell_in_time() -> None:
        with anyio.fail_after(PATIENCE_S):
            await tell()

    anyio.run(tell_in_time)


def test_a_yes_to_the_old_definition_runs_nothing_at_either_gateway(site: Site, nodes: tuple[str, str]) -> None:
    def call(url: str, tool: str, word: str = "") -> tuple[int, Any]:
        headers = {"toolwire-confirmation": word} if word else {}
        answer = httpx2.post(f"{url}/api/{tool}", headers=headers, timeout=PATIENCE_S)
        return answer.status_code, answer.json()

    for url in nodes:
        site.document = BEFORE
        wait_until(lambda url=url: call(url, "old")[0] == 428)  # type: ignore[misc]  # the loop's own
        words = {tool: call(url, tool)[1]["details"]["confirmation"]["word"] for tool in ("add", "old")}
        site.document = AFTER
        wait_until(lambda url=url: call(url, "new")[0] == 428)  # type: ignore[misc]  # the loop's own
        assert call(url, "add", words["add"])[0] == 428
        assert call(url, "old", words["old"])[0] == 404
    assert not site.called


@pytest.mark.parametrize("status", [503, 404, 200])
def test_a_document_that_is_lost_for_a_while_is_served_again(site: Site, nodes: tuple[str, str], status: int) -> None:
    def call(word: str = "") -> tuple[int, Any]:
        headers = {"toolwire-confirmation": word} if word else {}
        answer = httpx2.post(f"{nodes[0]}/api/add", headers=headers, timeout=PATIENCE_S)
        return answer.status_code, answer.json()

    assert call()[0] == 428
    site.document, site.status = "openapi: 3.1.0\npaths: [", status
    if status != 503:  # withdrawn or unreadable: nothing of it runs
        wait_until(lambda: call()[0] == 404)
        _, refused = call()
        assert refused["detail"].startswith("The upstream notes no longer offers its tools")
        assert "127.0.0.1" not in refused["detail"]
    site.document, site.status = BEFORE, 200
    wait_until(lambda: call()[0] == 428)
    assert call(call()[1]["details"]["confirmation"]["word"])[0] == 200
    assert site.called == ["/add"]
