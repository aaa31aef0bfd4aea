"""What a page of the application shows about its tools, and limits that hold on every way to a route."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from flask import Flask, jsonify
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from toolwire.core.errors import DefinitionError
from toolwire.integrations import asgi, fastapi, starlette, wsgi
from toolwire.integrations.tool_list import build_tool_list
from toolwire.oauth import authorization_server

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
LIMITED = {"operationId": "list", "summary": "List", "responses": {}, **asgi.x_llm(rate_limit="2/10m")}
OTHER = {"operationId": "other", "summary": "Other", "responses": {}, **asgi.x_llm()}
DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "Shop", "version": "1.0.0"},
    "paths": {"/orders": {"get": LIMITED}, "/other": {"get": OTHER}},
}
MCP = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}


def list_nothing() -> list[str]:
    return []


def build_fastapi(enforce: bool) -> Any:
    app = FastAPI(title="Shop")
    app.get("/orders", operation_id="list", summary="List", openapi_extra=fastapi.x_llm(rate_limit="2/10m"))(
        list_nothing
    )
    app.get("/other", operation_id="other", summary="Other", openapi_extra=fastapi.x_llm())(list_nothing)
    return fastapi.publish_tools(app, enforce=enforce)


def build_starlette(enforce: bool) -> Any:
    async def answer(_: Request) -> JSONResponse:
        return JSONResponse([])

    app = Starlette(routes=[Route("/orders", answer), Route("/other", answer)])
    return starlette.publish_tools(app, DOCUMENT, enforce=enforce)


def build_flask(enforce: bool) -> Any:
    app = Flask("shop")
    app.get("/orders", endpoint="orders")(lambda: jsonify([]))
    app.get("/other", endpoint="other")(lambda: jsonify([]))
    return wsgi.publish_tools(app, DOCUMENT, enforce=enforce)


def call_over_mcp(client: Any, user: str) -> Any:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list", "arguments": {}}}
    return client.post("/mcp", json=message, headers={**MCP, "authorization": f"Bearer {user}"})


@pytest.mark.requirement("AO-04")
@pytest.mark.parametrize("build", [build_fastapi, build_starlette, build_flask])
def test_enforced_limit_counts_calls_of_a_caller_on_each_way(build: Any) -> None:
    with TestClient(build(True), base_url="http://127.0.0.1") as client:
        ann = {"authorization": "Bearer ann"}
        assert client.get("/orders", headers=ann).status_code == 200
        assert '"isError":false' in call_over_mcp(client, "ann").text
        refused = client.get("/orders", headers=ann)
        assert refused.status_code == 429
        assert 0 < int(refused.headers["retry-after"]) <= 600
        assert "list" in refused.json()["message"]
        assert client.get("/Orders/", headers=ann, follow_redirects=False).status_code == 429
        assert '"isError":false' not in call_over_mcp(client, "ann").text
        assert client.get("/other", headers=ann).status_code == 200
        assert client.get("/orders", headers={"authorization": "Bearer bob"}).status_code == 200


@pytest.mark.requirement("AO-04")
@pytest.mark.parametrize("build", [build_fastapi, build_flask])
def test_limit_holds_for_the_protocols_alone_unless_it_is_enforced(build: Any) -> None:
    with TestClient(build(False), base_url="http://127.0.0.1") as client:
        assert {client.get("/orders").status_code for _ in range(4)} == {200}


@pytest.mark.requirement("AO-04")
def test_enforced_limits_need_a_server_that_counts() -> None:
    with pytest.raises(DefinitionError, match="enforce=True needs options"):
        fastapi.publish_tools(FastAPI(), options=None, enforce=True)


@pytest.mark.requirement("AO-04")
def test_list_says_what_models_may_do_in_the_words_of_the_application(tmp_path: Path) -> None:
    sign_in = authorization_server(
        issuer="http://127.0.0.1:9627",
        store=tmp_path / "a.db",
        scopes={"read": "See your <orders>"},
        users=lambda _: None,
        login_url="/login",
        identify_user=lambda _: None,
    )
    security = {"security": [{"oauth": ["read"]}]}
    paths = {
        "/orders": {"get": {**LIMITED, **security}, "delete": {"summary": "Drop <b>all</b>", **asgi.x_llm()}},
        "/pay": {"post": {"summary": "Pay", **asgi.x_llm(cost="paid", approval="auto")}},
        "/off": {"post": {"summary": "Off", **asgi.x_llm(enabled=False)}},
        "/page": {"get": {"summary": "No tool"}},
    }
    replies = build_tool_list({**DOCUMENT, "paths": paths}, sign_in)
    items = re.findall(r'<li data-effect="(\w+)"><strong>(.*?)</strong><ul>(.*?)</ul></li>', replies)
    assert [(effect, title, re.findall("<li>(.*?)</li>", facts)) for effect, title, facts in items] == [
        (
            "reads",
            "List",
            [
                "Reads.",
                "Needs no question.",
                "Requires your permission: See your &lt;orders&gt;.",
                "At most 2 calls in 10 minutes.",
            ],
        ),
        (
            "destroys",
            "Drop &lt;b&gt;all&lt;/b&gt;",
            ["Deletes or destroys something.", "You are asked before each call."],
        ),
        ("changes", "Pay", ["Changes something.", "You are asked before each call.", "Costs something."]),
    ]
