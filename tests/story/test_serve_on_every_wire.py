"""One function, served once, is there on every wire at once; each answers in its own words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import pytest

import toolwire
from toolwire import Toolkit
from toolwire.testing.loopback import background


def calculator() -> Toolkit:
    toolkit = Toolkit("Calculator", version="1.0.0", description="Arithmetic.")

    @toolkit.tool(approval="auto")
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return toolkit


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with background(toolwire.asgi(calculator())) as url:
        yield url


def get(url: str) -> Any:
    with urlopen(url, timeout=30) as response:
        return json.load(response)


def post(url: str, body: Any, **headers: str) -> Any:
    fields = {"content-type": "application/json", **{name.replace("_", "-"): text for name, text in headers.items()}}
    with urlopen(Request(url, json.dumps(body).encode(), fields), timeout=30) as response:
        return json.load(response)


@pytest.mark.requirement("OTRPC-001", "OTRPC-009", "OTRPC-013")
def test_server_speaks_opentool(site: str) -> None:
    assert get(f"{site}/opentool/version") == {"version": "1.0.0"}
    assert [function["name"] for function in get(f"{site}/opentool/load")["functions"]] == ["add"]
    call = {"jsonrpc": "2.0", "id": "7", "method": "add", "params": {"a": 1, "b": 2}}
    assert post(f"{site}/opentool/call", call) == {"jsonrpc": "2.0", "result": {"result": 3}, "error": None, "id": "7"}


@pytest.mark.requirement("OTC-033", "OTC-034", "OTC-036", "S-11")
def test_server_speaks_the_open_tool_calling_rfc(site: str) -> None:
    assert get(f"{site}/health")["status"] == "OK"
    assert [tool["id"] for tool in get(f"{site}/tools")["tools"]] == ["Calculator.add@1.0.0"]
    call = {"request": {"tool_id": "Calculator.add@1.0.0", "call_id": "c7", "input": {"a": 1, "b": 2}}}
    answer = post(f"{site}/call", call)
    assert (answer["call_id"], answer["success"], answer["output"]) == ("c7", True, {"value": 3})


@pytest.mark.requirement("OXP-001", "OXP-002", "OXP-003")
def test_server_speaks_oxp(site: str) -> None:
    assert [tool["id"] for tool in get(f"{site}/tools")["items"]] == ["Calculator.add@1.0.0"]
    call = {"$schema": "urn:oxp:1.0", "request": {"tool_id": "Calculator.add", "input": {"a": 1, "b": 2}}}
    answer = post(f"{site}/tools/call", call)
    assert (answer["$schema"], answer["result"]["success"], answer["result"]["value"]) == ("urn:oxp:1.0", True, 3)


@pytest.mark.requirement("XL-019", "XL-020", "XL-031")
def test_server_speaks_openapi_with_x_llm(site: str) -> None:
    assert get(f"{site}/.well-known/llm.json")["openapi"] == "/openapi.json"
    document = get(f"{site}/openapi.json")
    assert document == get(f"{site}/.well-known/openapi.json")
    assert document["paths"]["/api/add"]["get"]["x-llm"]["approval"] == "auto"
    assert get(f"{site}/api/add?a=1&b=2") == 3


def test_server_speaks_mcp(site: str) -> None:
    accept = "application/json, text/event-stream"
    call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1, "b": 2}}}
    answer = post(f"{site}/mcp", call, accept=accept, mcp_protocol_version="2025-06-18")
    assert (answer["id"], answer["result"]["isError"]) == (7, False)
    assert answer["result"]["content"] == [{"type": "text", "text": "3"}]


def test_browser_shows_a_page_of_the_tools(site: str) -> None:
    with urlopen(site, timeout=30) as response:
        page = response.read().decode()
    assert "Calculator" in page
    assert "Add two numbers." in page
    assert page.count("<script") == 1, "the one script copies code, and is a file of this server"
    assert '<script src="/page.js"' in page
