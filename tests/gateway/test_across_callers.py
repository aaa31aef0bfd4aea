"""A caller uses what was given to another: the cursor of a list, the URI of a resource, the cursor of long calls."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from tests.support.upstreams import connect_without_user
from toolwire import ApiKey, Secret, Toolkit, asgi, merge_toolboxes
from toolwire.client.calls.session import Session
from toolwire.gateway import UpstreamLimits
from toolwire.server.run.function_toolbox import FunctionToolbox
from toolwire.testing import background

ANN, BOB = "key-of-ann", "key-of-bob"
KEYS = [ApiKey(key=Secret(f"key-of-{name}"), name=name, scopes=frozenset({name})) for name in ("ann", "bob")]
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
}


def build_kit() -> Toolkit:
    kit = Toolkit("Notes")
    for number in range(40):
        for name, mark in (("ann", "marigold"), ("bob", "cornflower")):
            kit.tool(
                name=f"{mark}_{number}", description=f"{mark} " * 20_000, approval="auto", safe=True, scopes=[name]
            )(lambda: "done")
    for name in ("ann", "bob"):
        kit.resource(f"notes://{name}", name=f"note_of_{name}", scopes=[name])(lambda: "a note")

    @kit.tool(long=True, approval="auto", safe=True)
    def work() -> str:
        """Work."""
        return "worked"

    return kit


def ask(url: str, key: str, method: str, **params: Any) -> Any:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
    headers = {"x-api-key": key, "mcp-protocol-version": "2026-07-28", "mcp-method": method}
    headers |= {"mcp-name": params["uri"]} if "uri" in params else {}
    accept = "application/json, text/event-stream"
    return httpx2.post(f"{url}/mcp", json=body, headers={**headers, "accept": accept}, timeout=30).json()


@pytest.mark.requirement("D-30", "MC-06")
@pytest.mark.parametrize("through", ["server", "gateway"])
def test_cursor_of_another_callers_list_leads_nowhere(through: str) -> None:
    kit = build_kit()
    own = FunctionToolbox(kit)
    toolbox = own if through == "server" else merge_toolboxes([own], limits={0: UpstreamLimits(running=5)})
    with background(asgi(toolbox, api_keys=KEYS, private=True, find="never")) as url:
        first = ask(url, ANN, "tools/list")["result"]
        cursor = first["nextCursor"]
        assert "marigold" in json.dumps(ask(url, ANN, "tools/list", cursor=cursor))
        refused = ask(url, BOB, "tools/list", cursor=cursor)
        assert refused["error"]["code"] == -32602
        assert "marigold" not in json.dumps(refused)
        assert "marigold" not in json.dumps(ask(url, BOB, "tools/list"))


@pytest.mark.requirement("D-37", "LC-02")
def test_cursor_of_another_callers_long_calls_shows_only_the_own_ones() -> None:
    with background(asgi(build_kit(), api_keys=KEYS)) as url:
        own: dict[str, set[str]] = {}
        for key in (ANN, BOB):
            own[key] = set()
            for _ in range(3):
                answer = httpx2.get(f"{url}/api/work", headers={"x-api-key": key, "prefer": "respond-async, wait=0"})
                own[key].add(answer.json()["id"])
        first = httpx2.get(f"{url}/calls?limit=1", headers={"x-api-key": ANN}).json()
        cursor = first["next"]
        assert cursor
        seen = httpx2.get(f"{url}/calls", params={"limit": 9, "cursor": cursor}, headers={"x-api-key": BOB}).json()
        assert not any(one in json.dumps(seen) for one in own[ANN])


@pytest.mark.requirement("D-30", "MC-08")
@pytest.mark.parametrize("through", ["server", "gateway"])
def test_nobody_hears_of_changes_of_a_resource_outside_their_view(through: str) -> None:
    kit = build_kit()
    toolbox: Any = FunctionToolbox(kit)
    if through == "gateway":
        toolbox = merge_toolboxes([toolbox], limits={0: UpstreamLimits(running=5)})
    with background(asgi(toolbox, api_keys=KEYS, private=True)) as url:
        wanted = {"resourceSubscriptions": ["notes://ann", "notes://bob"]}
        body = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen"}
        headers = {"x-api-key": BOB, "mcp-protocol-version": "2026-07-28", "mcp-method": "subscriptions/listen"}
        asked = {**body, "params": {"notifications": wanted, "_meta": META}}
        accept = {"accept": "application/json, text/event-stream"}
        with httpx2.stream("POST", f"{url}/mcp", json=asked, headers={**headers, **accept}, timeout=30) as stream:
            lines = (json.loads(line[5:]) for line in stream.iter_lines() if line.startswith("data:"))
            begun = next(lines)
            assert begun["params"]["notifications"]["resourceSubscriptions"] == ["notes://bob"]
            kit.notify_resource_changed("notes://ann")
            kit.notify_resource_changed("notes://bob")
            assert next(lines)["params"]["uri"] == "notes://bob"
        assert "error" in ask(url, BOB, "resources/read", uri="notes://ann")
        assert "ann" not in json.dumps(ask(url, BOB, "resources/list"))


@pytest.mark.requirement("D-30", "MC-08")
def test_resource_of_an_upstream_is_read_by_those_alone_who_may_see_it() -> None:
    with background(asgi(build_kit(), api_keys=[ApiKey(key=Secret("all"), name="gateway")])) as site:
        upstream = connect_without_user(site, Session(), protocol="mcp", api_key="all", agree=lambda _: True)
        merged = merge_toolboxes([upstream, FunctionToolbox(Toolkit("Own"))], names={0: "up"}, scopes={0: ["ann"]})
        with background(asgi(merged, api_keys=KEYS, private=True)) as url:
            assert "a note" in json.dumps(ask(url, ANN, "resources/read", uri="up+notes://bob"))
            refused = json.dumps(ask(url, BOB, "resources/read", uri="up+notes://bob"))
            assert "error" in refused
            assert "note_of" not in refused
            assert "note" not in json.dumps(ask(url, BOB, "resources/list"))
