"""The answers to the open questions that a program can look at."""

from __future__ import annotations

import subprocess
import sys
from typing import Any
from urllib.parse import urlsplit

import pytest

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Peer, Site
from toolwire.core.http import Request, Response
from toolwire.core.model import Call, Tool
from toolwire.protocols import openapi
from toolwire.protocols.mcp import document as mcp
from toolwire.protocols.openapi import client
from toolwire.protocols.openapi.tools import operations

SDKS = ("openai", "anthropic", "google.genai", "langchain_core", "pydantic_ai", "fastapi", "starlette", "mcp")


@pytest.mark.requirement("OQ-1")
def test_server_is_found_by_llm_json_or_by_convention() -> None:
    routes = openapi.CODEC.routes(Catalog(title="Shop", tools=(Tool(name="find", toolkit="Shop"),)), Site())
    conventions = {"/.well-known/openapi.json", "/openapi.json"}
    assert {"/.well-known/llm.json", "/.well-known/api-catalog", *conventions} <= {path for _, path in routes}
    for hidden in ((), ("/.well-known/llm.json",), ("/.well-known/llm.json", "/.well-known/openapi.json")):
        flow, answer = openapi.CODEC.find("https://shop.example"), None
        finding = None
        while finding is None:
            try:
                request = flow.send(answer)
            except StopIteration as end:
                finding = end.value
                continue
            path = urlsplit(request.url).path
            route = routes.get((request.method, path)) if path not in hidden else None
            answer = Response(404) if route is None else route.read(Request(request.method, path))
        assert [tool.name for tool in finding.peer.catalog.tools] == ["find"]


@pytest.mark.requirement("OQ-8")
def test_only_x_llm_offers_an_operation() -> None:
    def tools(**extension: Any) -> int:
        operation = {"operationId": "a", "responses": {}, **extension}
        document = {"openapi": "3.1.0", "x-llm": {}, "paths": {"/a": {"get": operation}}}
        return len(operations.read_operations(document, "https://a.example/o.json").catalog.tools)

    assert tools(**{"x-llm": {}}) == 1
    assert tools(**{"x-agent": {"enabled": True}}) == tools(**{"x-mcp": {"enabled": True}}) == tools() == 0


@pytest.mark.requirement("OQ-9")
def test_library_imports_no_sdk_and_no_sample_app() -> None:
    code = (
        "import sys, toolwire.adapters.schema, toolwire.adapters.tool_declarations, toolwire.client\n"
        f"print([name for name in {SDKS!r} if name in sys.modules], 'examples' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[] False"


@pytest.mark.requirement("OQ-13")
def test_toolkit_and_tool_name_are_joined_by_an_underscore() -> None:
    catalog = Catalog(tools=(Tool(name="find", toolkit="Shop"), Tool(name="find", toolkit="Desk")))
    assert set(catalog.names) == {"Shop_find", "Desk_find"}


@pytest.mark.requirement("XL-076", "XL-077")
def test_http_methods_determine_idempotence_and_posts_carry_a_key() -> None:
    headers = [{"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}}]
    reply: dict[str, dict[str, Any]] = {
        "get": {}, "put": {}, "delete": {}, "post": {"parameters": headers},
        "patch": {"x-llm": {"idempotencyKey": "X-Once"}},
    }  # fmt: skip
    item = {method: {"operationId": method, "x-llm": {}, "responses": {}, **more} for method, more in reply.items()}
    document = {"openapi": "3.1.0", "x-llm": {"version": "0.1"}, "paths": {"/a": item}}
    offer = operations.read_operations(document, "https://a.example/o.json")
    listed = {entry["name"]: entry["annotations"]["idempotentHint"] for entry in mcp.write(offer.catalog)}
    assert listed == {"get": True, "put": True, "delete": True, "post": False, "patch": False}
    peer = Peer(protocol="openapi", url="https://a.example/o.json", catalog=offer.catalog, memo=offer.memo)
    sent: dict[str, dict[bytes, bytes]] = {}
    for tool in offer.catalog.tools:
        request = next(client.send(peer, Call(tool, {}, "call-1")))
        assert isinstance(request, Request)
        sent[tool.name] = dict(request.headers)
    assert sent["post"][b"idempotency-key"] == sent["patch"][b"x-once"] == b"call-1"
    assert b"idempotency-key" not in sent["get"] | sent["put"] | sent["delete"]
