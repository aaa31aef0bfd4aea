"""Middleware of an application changes the responses of tools in it, as it changes those of its own routes."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.testclient import TestClient

from toolwire import Toolkit, asgi
from toolwire.integrations import fastapi

HERE, PAGE = "http://127.0.0.1:9627", "https://page.example"
TEXT = "thing " * 200
CALLS: dict[str, Any] = {
    "/call": {"request": {"tool_id": "tell", "input": {}}},
    "/opentool/call": {"jsonrpc": "2.0", "id": "1", "method": "tell", "params": {}},
    "/opentool/streamCall": {"jsonrpc": "2.0", "id": "1", "method": "tell", "params": {}},
    "/mcp": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "tell", "arguments": {}}},
}


def build_app() -> FastAPI:
    """An application with middleware, tools that are mounted, and a route that is published."""
    app, kit = FastAPI(title="Shop"), Toolkit("Kit", description="It tells.")
    app.add_middleware(GZipMiddleware, minimum_size=100)
    app.add_middleware(CORSMiddleware, allow_origins=[PAGE])

    @app.get("/tell", operation_id="tell", openapi_extra={"x-llm": {"approval": "auto"}})
    @kit.tool(approval="auto", safe=True)
    async def tell() -> str:
        """Tell."""
        return TEXT

    fastapi.publish_tools(app)
    app.mount("/tools", asgi(kit, origins=[PAGE]))
    return app


@pytest.mark.requirement("CR-01")
def test_middleware_of_an_application_changes_what_tools_answer() -> None:
    headers, origin = {"accept": "application/json, text/event-stream"}, {"origin": PAGE}
    with TestClient(build_app(), HERE, headers=headers) as client:
        pages = [client.get(path, headers=origin) for path in ("/tell", "/openapi.json", "/tools/openapi.json")]
        mounted = [client.post(f"/tools{path}", json=body, headers=origin) for path, body in CALLS.items()]
        published = [client.post(path, json=body) for path, body in CALLS.items() if path != "/call"]
    for answer in (*pages, *mounted, *published):
        assert answer.status_code == 200, (answer.url, answer.text)
        is_stream = answer.headers["content-type"].startswith("text/event-stream")
        assert is_stream or answer.headers["content-encoding"] == "gzip"
    for answer in (*mounted, *published):
        assert TEXT in answer.text
    for answer in (*pages, *mounted):
        assert answer.headers["access-control-allow-origin"] == PAGE


@pytest.mark.requirement("CR-01")
@pytest.mark.parametrize("is_first", [True, False])
def test_tools_mounted_at_a_path_of_a_protocol_keep_it(is_first: bool, caplog: pytest.LogCaptureFixture) -> None:
    app, kit = FastAPI(title="Shop"), Toolkit("Kit", description="It adds.")

    @kit.tool(approval="auto", safe=True)
    def add(a: int) -> int:
        """Add one."""
        return a + 1

    @app.get("/tell", operation_id="tell", openapi_extra={"x-llm": {"approval": "auto"}})
    async def tell() -> str:
        return TEXT

    if is_first:
        app.mount("/tools", asgi(kit))
    fastapi.publish_tools(app)
    if not is_first:
        app.mount("/tools", asgi(kit))
    with TestClient(app, HERE) as client:
        called = client.post("/tools/call", json={"request": {"tool_id": "add", "input": {"a": 1}}})
        assert called.json()["output"] == {"value": 2}
        assert TEXT in client.post("/mcp", json=CALLS["/mcp"]).text
    assert "/tools/call is a route of the application, so its tools are not served over otc." in caplog.messages
