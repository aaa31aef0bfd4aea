"""What an MCP server says beyond what toolwire reads goes through a gateway, with the pages of its tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx2
import pytest

from tests.support.upstreams import connect_without_user
from toolwire import Session, Toolkit, asgi, connect_sync, merge_toolboxes
from toolwire.core.toolbox import Toolbox
from toolwire.protocols.mcp.foreign_members import MAX_DEFINITION_PARTS
from toolwire.server.run.function_toolbox import FunctionToolbox
from toolwire.testing import background

pytestmark = pytest.mark.requirement("I-24")

PAGE = "ui://weather/view.html"
HIDDEN_PAGE = "ui://weather/unlisted.html"
ICONS = [{"src": "https://weather.example/icon.png", "sizes": ["48x48"]}]
FORGED = {"toolwire/tool": {"toolkit": "Bank"}, "toolwire/call": {"id": "x"}, "progressToken": "t"}
TOOLS: list[dict[str, Any]] = [
    {
        "name": "show_weather",
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True, "audienceHint": "child"},
        "icons": ICONS,
        "toolwire/mark": 1,
        "execution": {"taskSupport": "optional"},
        "_meta": {
            "ui": {"resourceUri": PAGE, "visibility": ["model", "app"]},
            "ui/resourceUri": PAGE,
            "openai/outputTemplate": HIDDEN_PAGE,
            "vendor/large": "x" * 64 * MAX_DEFINITION_PARTS,
            **FORGED,
        },
    },
    {"name": "tell", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
]
RESULTS: dict[str, dict[str, Any]] = {
    "show_weather": {
        "content": [{"type": "text", "text": "Sunny, 21 degrees.", "annotations": {"audience": ["user"]}}],
        "structuredContent": {"degrees": 21},
        "vendorMember": {"deep": [1, None]},
        "_meta": {"vendor/rows": [1, 2], "io.modelcontextprotocol/serverInfo": {"name": "Bank"}, **FORGED},
    },
    "tell": {
        "content": [
            {
                "type": "text",
                "text": "one",
                "annotations": {"priority": 0.5},
                "_meta": {"a": 1, "toolwire/text": False},
            },
            {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png", "annotations": {"audience": ["user"]}},
        ]
    },
}
CONTENTS = {
    "text": "<p>Weather</p>",
    "mimeType": "text/html;profile=mcp-app",
    "_meta": {"ui": {"csp": {"connectDomains": ["https://weather.example"]}}},
}


class Weather(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.answer(405, b"")

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        params = asked.get("params", {})
        if "id" not in asked:
            self.answer(202, b"")
            return
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": params.get("protocolVersion"),
                "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
                "serverInfo": {"name": "weather", "version": "1"},
            },
            "tools/list": {"tools": TOOLS},
            "tools/call": RESULTS.get(params.get("name", "")),
            "resources/list": {"resources": [{"uri": PAGE, "name": "view", "icons": ICONS, "_meta": {"r": 1}}]},
            "resources/templates/list": {"resourceTemplates": []},
            "resources/read": {
                "contents": [{"uri": params.get("uri"), **CONTENTS}],
                "_meta": {"read": params.get("uri")},
            },
            "prompts/list": {"prompts": [{"name": "greet", "icons": ICONS}]},
            "prompts/get": {
                "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
                "_meta": {"p": 1},
            },
        }
        found = results.get(asked["method"])
        reply = {"error": {"code": -32601, "message": "no"}} if found is None else {"result": found}
        self.answer(200, json.dumps({"jsonrpc": "2.0", "id": asked["id"], **reply}).encode())

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        if status == 405:
            self.send_header("allow", "POST")
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serve_weather() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Weather) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def gateway() -> Iterator[str]:
    own = Toolkit("Own")
    with serve_weather() as first, serve_weather() as second:
        session = Session()
        upstreams: list[Toolbox] = [
            connect_without_user(url, session, protocol="mcp", agree=lambda _: True) for url in (first, second)
        ]
        merged = merge_toolboxes([*upstreams, FunctionToolbox(own)], names={0: "east", 1: "west"})
        with background(asgi(merged)) as url:
            yield f"{url}/mcp"


def ask(url: str, version: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": version}
    if version == "2026-07-28":
        reply = {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientInfo": {"name": "host", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {**params, "_meta": reply}
        headers["mcp-method"] = method
        if name := params.get("name", params.get("uri")):
            headers["mcp-name"] = name
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    result: dict[str, Any] = httpx2.post(url, json=body, headers=headers).json()["result"]
    return result


each_version = pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])


def find_tools(url: str, version: str) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in ask(url, version, "tools/list", {})["tools"]}


@each_version
def test_definition_of_a_tool_keeps_what_its_server_says(gateway: str, version: str) -> None:
    tools = find_tools(gateway, version)
    tool = next(one for name, one in tools.items() if name.endswith("show_weather") and "east" in str(one["_meta"]))
    assert tool["icons"] == ICONS
    assert tool["annotations"]["audienceHint"] == "child"
    meta = tool["_meta"]
    assert meta["ui"]["visibility"] == ["model", "app"]
    # Forged marks, what is too large, and what only its own server can do are not passed on.
    assert meta["toolwire/tool"]["toolkit"] != "Bank"
    assert meta.keys().isdisjoint({"toolwire/call", "progressToken", "vendor/large"})
    assert tool.keys().isdisjoint({"toolwire/mark", "execution"})


@each_version
@pytest.mark.parametrize("server", ["east", "west"])
def test_host_reads_the_page_of_a_tool_through_the_gateway(gateway: str, version: str, server: str) -> None:
    tools = find_tools(gateway, version)
    metas = [one["_meta"] for one in tools.values() if server in one["_meta"].get("ui", {}).get("resourceUri", "")]
    assert len(metas) == 1
    for uri, own in (
        (metas[0]["ui"]["resourceUri"], PAGE),
        (metas[0]["ui/resourceUri"], PAGE),
        (metas[0]["openai/outputTemplate"], HIDDEN_PAGE),
    ):
        assert uri == own.replace("ui://", f"ui://{server}+")
        read = ask(gateway, version, "resources/read", {"uri": uri})
        assert read["contents"] == [{"uri": uri, **CONTENTS}]
        assert read["_meta"]["read"] == own
    listed = ask(gateway, version, "resources/list", {})["resources"]
    view = next(one for one in listed if one["uri"] == f"ui://{server}+weather/view.html")
    assert (view["icons"], view["_meta"]) == (ICONS, {"r": 1})
    prompt = ask(gateway, version, "prompts/list", {})["prompts"][0]
    assert prompt["icons"] == ICONS
    assert ask(gateway, version, "prompts/get", {"name": prompt["name"]})["_meta"]["p"] == 1


@each_version
def test_result_keeps_its_meta_and_the_content_for_the_model(gateway: str, version: str) -> None:
    name = next(name for name in find_tools(gateway, version) if name.endswith("show_weather"))
    result = ask(gateway, version, "tools/call", {"name": name, "arguments": {}})
    assert result["content"] == RESULTS["show_weather"]["content"]
    assert result["structuredContent"] == {"degrees": 21}
    assert result["vendorMember"] == {"deep": [1, None]}
    assert result["_meta"]["vendor/rows"] == [1, 2]
    assert result["_meta"].keys().isdisjoint(FORGED)
    assert "Bank" not in json.dumps(result)


@each_version
def test_blocks_of_a_result_keep_their_annotations(gateway: str, version: str) -> None:
    name = next(name for name in find_tools(gateway, version) if name.endswith("tell"))
    first, second = ask(gateway, version, "tools/call", {"name": name, "arguments": {}})["content"]
    assert (first["text"], first["annotations"], first["_meta"]) == ("one", {"priority": 0.5}, {"a": 1})
    assert (second["mimeType"], second["annotations"]) == ("image/png", {"audience": ["user"]})


def test_gateway_of_a_gateway_reads_the_page(gateway: str) -> None:
    remote = connect_without_user(gateway, Session(), protocol="mcp", agree=lambda _: True)
    merged = merge_toolboxes([remote, FunctionToolbox(Toolkit("Own"))], names={0: "outer"})
    with background(asgi(merged)) as url:
        tools = find_tools(f"{url}/mcp", "2025-11-25").values()
        uris = {one["_meta"]["ui"]["resourceUri"] for one in tools if "ui" in one["_meta"]}
        assert uris == {f"ui://outer+{server}+weather/view.html" for server in ("east", "west")}
        for uri in uris:
            read = ask(f"{url}/mcp", "2025-11-25", "resources/read", {"uri": uri})
            assert read["contents"] == [{"uri": uri, **CONTENTS}]


def test_one_server_alone_keeps_its_own_uris() -> None:
    with serve_weather() as upstream:
        remote = connect_without_user(upstream, Session(), protocol="mcp", agree=lambda _: True)
        with background(asgi(remote)) as url, connect_sync(url, protocol="mcp") as client:
            (tool,) = (one for one in find_tools(f"{url}/mcp", "2025-11-25").values() if "ui" in one["_meta"])
            assert tool["_meta"]["ui"]["resourceUri"] == PAGE
            assert client.read_resource(PAGE).unwrap() == CONTENTS["text"]
