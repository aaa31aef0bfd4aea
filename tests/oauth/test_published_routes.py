"""The routes of a web application as tools behind a sign-in: each protocol says which scopes a client lacks."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.oauth.conftest import ISSUER, SCOPES, Browser, Site
from toolwire import Toolkit, asgi
from toolwire.auth.caller_token import ExpectedClaims, read_secret
from toolwire.auth.challenge import find_bearer
from toolwire.auth.security_schemes import read_security_schemes
from toolwire.integrations.asgi import ServerOptions, publish_tools
from toolwire.server.access.signed_tokens import SignedTokenCallers
from toolwire.server.oauth import protect_app

METADATA_URL = f"{ISSUER}/.well-known/oauth-protected-resource"
TASKS: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Desk", "version": "1.0.0"},
    "paths": {
        "/tasks": {
            "get": {"operationId": "list", "summary": "List", "responses": {"200": {"description": "All."}}},
            "delete": {"operationId": "clear", "summary": "Clear", "responses": {"200": {"description": "None."}}},
        }
    },
}
TOOL_ID = "Desk.clear@1.0.0"
ALL = ("tasks:read", "tasks:delete")
MCP = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
CALLS: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {
    "mcp": (
        "/mcp",
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "clear", "arguments": {}}},
        MCP,
    ),
    "opentool": ("/opentool/call", {"jsonrpc": "2.0", "id": "1", "method": "clear", "params": {}}, {}),
    "otc": ("/tools/call", {"request": {"tool_id": TOOL_ID, "inputs": {}}}, {}),
}


def read_challenge(answer: httpx2.Response) -> dict[str, Any]:
    found = find_bearer(answer.headers.get_list("www-authenticate"))
    assert found is not None, (answer.status_code, answer.text)
    return dict(found.parameters)


@pytest.fixture
def app(site: Site) -> Browser:
    """An application whose routes need scopes, and whose protocol paths need any token."""

    async def tasks(request: Request) -> JSONResponse:
        return JSONResponse({"method": request.method})

    def needs(method: str, path: str) -> tuple[str, ...]:
        if path != "/tasks":
            return ()
        return ("tasks:read",) if method == "GET" else ("tasks:read", "tasks:delete")

    routes = Starlette(routes=[Route("/tasks", tasks, methods=["GET", "DELETE"])])
    guarded = protect_app(routes, site.server.callers, needs)
    published = publish_tools(guarded, TASKS, include="all", options=ServerOptions(callers=site.server.callers))
    return Browser(site.server.serve_before(published), ISSUER, site.runner)


def call(app: Browser, protocol: str, **headers: str) -> httpx2.Response:
    path, body, fields = CALLS[protocol]
    return app.post(path, json=body, headers={**fields, **headers})


@pytest.mark.requirement("I-22")
@pytest.mark.parametrize("protocol", CALLS)
def test_challenge_of_a_route_reaches_the_client_on_each_protocol(app: Browser, site: Site, protocol: str) -> None:
    token = site.tokens("tasks:read")["access_token"]
    refused = call(app, protocol, authorization=f"Bearer {token}")
    assert refused.status_code == (200 if protocol == "opentool" else 403), refused.text
    reply = {"error": "insufficient_scope", "scope": "tasks:read tasks:delete", "resource_metadata": METADATA_URL}
    assert read_challenge(refused) == reply
    more = site.tokens(*ALL, scope=" ".join(ALL))["access_token"]
    allowed = call(app, protocol, authorization=f"Bearer {more}")
    assert allowed.status_code == 200
    assert "DELETE" in allowed.text
    assert "www-authenticate" not in allowed.headers


@pytest.mark.requirement("I-22")
@pytest.mark.parametrize("protocol", CALLS)
def test_first_refusal_names_every_scope_that_routes_may_need(app: Browser, site: Site, protocol: str) -> None:
    refused = call(app, protocol)
    assert refused.status_code == 401
    assert set(read_challenge(refused)["scope"].split()) == set(SCOPES)


def build_kit() -> Toolkit:
    kit = Toolkit("Desk")

    @kit.tool(safe=True, approval="auto", scopes=["tasks:read"])
    def show() -> str:
        """Show."""
        return "shown"

    @kit.tool(approval="auto", scopes=["tasks:delete"])
    def clear() -> str:
        """Clear."""
        return "cleared"

    return kit


@pytest.mark.requirement("I-22")
@pytest.mark.parametrize("protocol", CALLS)
def test_first_refusal_names_the_scopes_of_the_tools(site: Site, protocol: str) -> None:
    desk = site.server.serve_before(asgi(build_kit(), callers=site.server.callers))
    refused = call(Browser(desk, ISSUER, site.runner), protocol)
    assert refused.status_code == 401
    assert set(read_challenge(refused)["scope"].split()) == {"tasks:read", "tasks:delete"}


@pytest.mark.requirement("I-31")
def test_document_says_where_a_user_signs_in_and_which_scopes_a_tool_needs(site: Site) -> None:
    desk = Browser(site.server.serve_before(asgi(build_kit(), callers=site.server.callers)), ISSUER, site.runner)
    assert desk.get("/.well-known/llm.json").json()["auth"] == "oauth2"
    document = desk.get("/openapi.json").json()
    (name,) = document["components"]["securitySchemes"]
    scheme = document["components"]["securitySchemes"][name]
    metadata = desk.get("/.well-known/oauth-authorization-server").json()
    assert scheme["type"] == "oauth2"
    assert scheme["flows"]["authorizationCode"] == {
        "authorizationUrl": metadata["authorization_endpoint"],
        "tokenUrl": metadata["token_endpoint"],
        "refreshUrl": metadata["token_endpoint"],
        "scopes": SCOPES,
    }
    token = site.tokens(*ALL, scope=" ".join(ALL))["access_token"]
    whole = desk.get("/openapi.json", headers={"authorization": f"Bearer {token}"}).json()
    needed = {
        one["operationId"].rpartition(".")[2]: one["security"]
        for path in whole["paths"].values()
        for one in path.values()
    }
    assert needed == {"show": [{name: ["tasks:read"]}], "clear": [{name: ["tasks:delete"]}]}
    declared = read_security_schemes(document, f"{ISSUER}/openapi.json", ISSUER)
    assert declared.targets["page"].server.authorization_url == metadata["authorization_endpoint"]


@pytest.mark.requirement("I-31")
def test_document_offers_keys_beside_a_sign_in_only_where_there_are_keys(site: Site) -> None:
    app = asgi(build_kit(), callers=site.server.callers, api_keys=["a-key-of-ann-0123456789"])
    document = Browser(app, ISSUER, site.runner).get("/openapi.json").json()
    assert document["security"] == [{"oauth": []}, {"key": []}]
    keys_only = Browser(asgi(build_kit(), api_keys=["a-key-of-ann-0123456789"]), ISSUER, site.runner)
    assert keys_only.get("/openapi.json").json()["security"] == [{"key": []}]
    assert keys_only.get("/.well-known/llm.json").json()["auth"] == "api-key"


@pytest.mark.requirement("I-31")
def test_document_names_the_issuer_of_signed_tokens(site: Site) -> None:
    issuer = "https://login.example"
    expected = ExpectedClaims(issuer=issuer, audience=ISSUER)
    callers = SignedTokenCallers(read_secret(b"a secret of at least thirty-two bytes"), expected)
    app = Browser(asgi(build_kit(), callers=callers), ISSUER, site.runner)
    document = app.get("/openapi.json").json()
    scheme = document["components"]["securitySchemes"]["oauth"]
    assert scheme == {"type": "openIdConnect", "openIdConnectUrl": f"{issuer}/.well-known/openid-configuration"}
    assert app.get("/.well-known/llm.json").json()["auth"] == "oauth2"
    reply = read_challenge(call(app, "mcp"))
    assert reply == {"resource_metadata": METADATA_URL, "scope": "tasks:delete tasks:read"}
