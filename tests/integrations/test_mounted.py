"""An application with tools below a mount or a root path: its guard, limits, documents and protocols work there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from flask import Flask, jsonify, request
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from toolwire import Value, connect_sync
from toolwire.integrations import asgi, starlette, wsgi
from toolwire.oauth import authorization_server

URL = "http://127.0.0.1:9627"
OPERATION = {"operationId": "where", "summary": "Say where this is", "responses": {}, "x-llm": {"approval": "auto"}}
LIMITED = {**OPERATION, "x-llm": {"approval": "auto", "rateLimit": {"max": 1, "window": "1m"}}}
GUARDED = {**OPERATION, "security": [{"oauth": ["read"]}]}


def write_document(operation: dict[str, Any]) -> dict[str, Any]:
    info = {"title": "Places", "version": "1.0.0"}
    return {"openapi": "3.1.0", "info": info, "paths": {"/where": {"get": operation}}}


async def where(request: Request) -> JSONResponse:
    return JSONResponse(request.scope["root_path"] + "/where")


async def log_in(_: Request) -> PlainTextResponse:
    return PlainTextResponse("Sign in")


def build_routes() -> list[Route]:
    return [Route("/where", where), Route("/login", log_in)]


def publish_starlette(operation: dict[str, Any], **options: Any) -> Any:
    return starlette.publish_tools(Starlette(routes=build_routes()), write_document(operation), **options)


def publish_asgi(operation: dict[str, Any], **options: Any) -> Any:
    return asgi.publish_tools(Starlette(routes=build_routes()), write_document(operation), **options)


def publish_flask(operation: dict[str, Any], **options: Any) -> Any:
    app = Flask("places")
    app.add_url_rule("/where", view_func=lambda: jsonify(f"{request.script_root}/where"), endpoint="where")
    app.add_url_rule("/login", view_func=lambda: "Sign in", endpoint="login")
    return wsgi.publish_tools(app, write_document(operation), **options)


ADAPTERS = (publish_starlette, publish_asgi, publish_flask)


def mount(app: Any) -> TestClient:
    return TestClient(Starlette(routes=[Mount("/shop", app)]), base_url=URL)


def serve_below_a_root_path(app: Any) -> TestClient:
    return TestClient(app, base_url=URL, root_path="/shop")


@pytest.mark.requirement("AO-01")
@pytest.mark.parametrize("publish", ADAPTERS)
@pytest.mark.parametrize("serve", [mount, serve_below_a_root_path])
def test_guard_of_a_route_holds_below_a_path(
    publish: Callable[..., Any], serve: Callable[[Any], TestClient], tmp_path: Path
) -> None:
    sign_in = authorization_server(
        issuer=f"{URL}/shop",
        scopes={"read": "See it"},
        store=tmp_path / "sign-ins.db",
        users=lambda user: user,
        login_url="/login",
        identify_user=lambda _: None,
    )
    client = serve(publish(GUARDED, sign_in=sign_in))
    refusal = client.get("/shop/where")
    assert (refusal.status_code, refusal.json()["error"]) == (401, "unauthorized")
    metadata = "/.well-known/oauth-protected-resource/shop"
    assert f'resource_metadata="{URL}{metadata}"' in refusal.headers["www-authenticate"]
    assert client.get(f"/shop{metadata}").json()["resource"] == f"{URL}/shop"
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    fields = {"accept": "application/json, text/event-stream"}
    assert client.post("/shop/mcp", json=call, headers=fields).status_code == 401


@pytest.mark.requirement("AO-04")
@pytest.mark.parametrize("publish", ADAPTERS)
@pytest.mark.parametrize("serve", [mount, serve_below_a_root_path])
def test_limit_of_a_route_holds_below_a_path(publish: Callable[..., Any], serve: Callable[[Any], TestClient]) -> None:
    client = serve(publish(LIMITED, enforce=True))
    assert [client.get("/shop/where").status_code for _ in range(2)] == [200, 429]


@pytest.mark.requirement("FU-30")
@pytest.mark.parametrize("publish", ADAPTERS)
@pytest.mark.parametrize("protocol", ["openapi", "opentool", "otc", "mcp"])
def test_route_of_a_mounted_app_knows_its_path_over_every_protocol(
    publish: Callable[..., Any], protocol: Any, loopback: Any
) -> None:
    app = Starlette(routes=[Mount("/shop", publish(OPERATION))])
    with (
        loopback(app) as url,
        connect_sync(f"{url}/shop/", protocol=protocol, agree=lambda _: True, approve=lambda _: True) as remote,
    ):
        assert remote.call("where") == Value("/shop/where")
        catalog = httpx2.get(f"{url}/shop/.well-known/api-catalog").json()
        assert httpx2.get(catalog["linkset"][0]["service-desc"][0]["href"]).status_code == 200
