"""Which list of tools a client gets by default, and that it keeps it for a whole session."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from toolwire import App, Approval, Secret, asgi, connect_sync
from toolwire.core.catalog import Catalog
from toolwire.core.model import Call, Result, Tool, Value
from toolwire.core.toolbox import Notify, ignore_progress
from toolwire.protocols import BUILTIN
from toolwire.server.access.api_keys import ApiKey
from toolwire.server.stdio import serve_stdio
from toolwire.testing.loopback import background

FORMS = {"elicitation": {}}
SHORT = ["call", "describe", "find"]
STATELESS = "2026-07-28"


def build_catalog(count: int, approval: Approval = Approval.PER_CALL, scopes: tuple[str, ...] = ()) -> Catalog:
    """Return a catalog of so many tools; 90 are too long for a model, and nine are not."""
    text = "A long text about what it does. " * 12
    tools = [
        Tool(
            name=f"tool_{number}",
            toolkit="Kit",
            description=text,
            approval=approval,
            safe=approval is Approval.AUTO,
            scopes=scopes if number >= 9 else (),
        )
        for number in range(count)
    ]
    return Catalog(title="Kit", tools=tuple(tools))


class Changing:
    """A Toolbox whose tools change while it is served, as those of a gateway do."""

    def __init__(self, now: Catalog) -> None:
        self.now = now

    def catalog(self) -> Catalog:
        return self.now

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        return Value(f"{call.tool.name} ran")


class Host:
    """A client of MCP. ``begin`` opens a session."""

    def __init__(self, url: str, name: str, capabilities: dict[str, Any], **headers: str) -> None:
        self._url = f"{url}/mcp"
        self._own = {"accept": "application/json, text/event-stream", "user-agent": "host/1", **headers}
        self._about = {"capabilities": capabilities, "clientInfo": {"name": name, "version": "1"}}
        self.fields: dict[str, str] = {}

    def send(self, method: str, params: dict[str, Any]) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        response = httpx2.post(self._url, json=message, headers=self._own | self.fields, timeout=30)
        self.fields |= {name: response.headers[name] for name in ("mcp-session-id",) if name in response.headers}
        return response.json()

    def begin(self) -> None:
        self.send("initialize", {"protocolVersion": "2025-11-25", **self._about})
        assert "mcp-session-id" in self.fields

    def list_names(self) -> list[str]:
        return sorted(tool["name"] for tool in self.send("tools/list", {})["result"]["tools"])

    def list_stateless(self) -> Any:
        meta = {
            "protocolVersion": STATELESS,
            "clientInfo": self._about["clientInfo"],
            "clientCapabilities": self._about["capabilities"],
        }
        self.fields = {"mcp-protocol-version": STATELESS, "mcp-method": "tools/list"}
        return self.send("tools/list", {"_meta": {f"io.modelcontextprotocol/{key}": one for key, one in meta.items()}})

    def call(self, name: str, /, **arguments: Any) -> str:
        answer = self.send("tools/call", {"name": name, "arguments": arguments})
        return json.dumps(answer.get("result") or answer["error"])


@contextmanager
def open_host(
    app: App, name: str = "host", capabilities: dict[str, Any] = FORMS, **headers: str
) -> Generator[Host, None, None]:
    with background(app) as url:
        yield Host(url, name, capabilities, **headers)


@pytest.mark.requirement("FI-01", "FI-06")
@pytest.mark.parametrize(
    ("count", "name", "capabilities", "options", "is_short"),
    [
        (9, "host", FORMS, {}, False),
        (90, "host", FORMS, {}, True),
        (90, "host", {}, {}, False),  # its user is asked by the hints of each tool
        (90, "host", FORMS, {"ask_hosts": False}, False),
        (90, "host", {}, {"consent": "refuse"}, True),  # the server asks, or nobody does
        (90, "claude-code", FORMS, {}, False),  # it searches by itself
        (90, "toolwire", FORMS, {}, False),
        (90, "host", FORMS, {"find": "never"}, False),
        (9, "host", {}, {"find": "always"}, True),
    ],
)
def test_a_model_gets_three_tools_where_all_are_too_long_and_its_user_is_asked_about_each_call(
    count: int, name: str, capabilities: dict[str, Any], options: dict[str, Any], is_short: bool
) -> None:
    app = asgi(Changing(build_catalog(count)), result_limit=0, **options)
    with open_host(app, name, capabilities) as host:
        listed = host.list_stateless()["result"]
        assert (sorted(tool["name"] for tool in listed["tools"]) == SHORT) is is_short
        # Where clients get different lists, no cache may give one to another.
        is_same = count == 9 or options.get("find") == "never" or options.get("ask_hosts") is False
        assert listed["cacheScope"] == ("public" if is_same else "private")
        host.fields = {}
        host.begin()
        assert (host.list_names() == SHORT) is is_short


@pytest.mark.requirement("FI-01")
def test_tools_that_ask_nobody_are_shortened_for_every_client() -> None:
    with open_host(asgi(Changing(build_catalog(90, Approval.AUTO))), "host", {}) as host:
        assert host.list_names() == SHORT  # even without a session
        assert "tool_3 ran" in host.call("tool_3")
        assert "tool_7():" in host.call("find", words="tool_7")
        assert "tool_7 ran" in host.call("call", name="tool_7")


@pytest.mark.requirement("FI-01")
@pytest.mark.parametrize("codec", [codec for codec in BUILTIN if codec.name != "mcp"], ids=lambda codec: codec.name)
def test_other_protocols_list_all_tools_and_so_does_mcp_for_a_toolwire_client(codec: Any) -> None:
    with background(asgi(Changing(build_catalog(90)))) as url:
        for protocol in (codec.name, "mcp"):
            with connect_sync(url, protocol=protocol, approve=lambda _: True) as remote:
                assert len(remote.tools) == 90
                assert "tool_88 ran" in str(remote.call("tool_88", {}))


@pytest.mark.requirement("FI-01")
@pytest.mark.parametrize("is_shared", [False, True])
def test_a_session_keeps_its_list_when_the_tools_change(is_shared: bool, tmp_path: Path) -> None:
    box = Changing(build_catalog(90))
    options: dict[str, Any] = {"state": str(tmp_path / "state")} if is_shared else {}
    first = asgi(box, **options)
    with background(first) as url, background(asgi(box, **options)) as other:
        long, elsewhere = Host(url, "host", FORMS), Host(other if is_shared else url, "host", FORMS)
        long.begin()
        elsewhere.fields = long.fields
        assert long.list_names() == elsewhere.list_names() == SHORT
        box.now = build_catalog(9)
        short = Host(url, "host", FORMS)
        short.begin()
        assert long.list_names() == elsewhere.list_names() == SHORT
        assert "tool_8():" in elsewhere.call("find", words="tool_8")
        box.now = build_catalog(90)
        assert long.list_names() == SHORT
        assert len(short.list_names()) == 90
        assert "find" not in short.list_names()


@pytest.mark.requirement("FI-01")
def test_a_program_on_standard_input_keeps_its_list_too() -> None:
    box, output = Changing(build_catalog(90)), io.BytesIO()
    about = {"protocolVersion": "2025-11-25", "capabilities": FORMS, "clientInfo": {"name": "host", "version": "1"}}

    async def serve() -> list[Any]:
        reader = asyncio.StreamReader()
        serving = asyncio.ensure_future(serve_stdio(asgi(box), reader, output))

        async def ask(method: str, params: Any) -> Any:
            before = len(output.getvalue())
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            reader.feed_data(json.dumps(message).encode() + b"\n")
            while True:
                for line in output.getvalue()[before:].splitlines(keepends=True):
                    if line.endswith(b"\n") and b'"id":1' in line:
                        return json.loads(line)["result"]
                await asyncio.sleep(0)

        await ask("initialize", about)
        lists = [(await ask("tools/list", {}))["tools"]]
        box.now = build_catalog(9)
        lists.append((await ask("tools/list", {}))["tools"])
        found = await ask("tools/call", {"name": "find", "arguments": {"words": "tool_8"}})
        reader.feed_eof()
        await serving
        return [*lists, found]

    before, after, found = asyncio.run(asyncio.wait_for(serve(), 60))
    assert sorted(tool["name"] for tool in before) == SHORT
    assert after == before
    assert "tool_8():" in json.dumps(found)


@pytest.mark.requirement("FI-01")
def test_each_caller_gets_the_list_that_their_own_tools_need() -> None:
    keys = [ApiKey(key=Secret("G"), name="guest", scopes=frozenset()), ApiKey(key=Secret("A"), name="admin")]
    app = asgi(Changing(build_catalog(90, scopes=("admin",))), api_keys=keys)
    with background(app) as url:
        lists = {}
        for key in ("G", "A"):
            host = Host(url, "host", FORMS, authorization=f"Bearer {key}")
            host.begin()
            lists[key] = host.list_names()
    assert lists == {"A": SHORT, "G": [f"tool_{number}" for number in range(9)]}


@pytest.mark.requirement("FI-01")
def test_a_tool_of_the_server_keeps_its_name_where_all_are_listed() -> None:
    call = Tool(name="call", toolkit="Phone", description="Call a number.", approval=Approval.AUTO, safe=True)
    box = Changing(Catalog(title="Phone", tools=(call,)))
    with open_host(asgi(box)) as host:
        assert "call ran" in host.call("call", name="tool_3")
        host.begin()
        box.now = Catalog(title="Phone", tools=(call, *build_catalog(90).tools))
        assert "call ran" in host.call("call", name="tool_3")
