"""Other people's OAuth clients log in against our server: the official MCP SDK's, and Authlib's."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from authlib.integrations.httpx_client import AsyncOAuth2Client
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.support.token_storage import Storage
from toolwire.core.http import Response
from toolwire.server.oauth import protect_app

from .conftest import CALLBACK, ISSUER, Site, document

URL = "https://app.example/oauth-client.json"


def behind(site: Site) -> Any:
    async def tasks(request: Request) -> JSONResponse:
        return JSONResponse({"scopes": sorted(request.state.caller.scopes)})

    app = Starlette(routes=[Route("/mcp", tasks), Route("/delete", tasks)])
    needs = {"/mcp": ("tasks:read",), "/delete": ("tasks:read", "tasks:delete")}
    return site.server.serve_before(protect_app(app, site.server.callers, lambda _, path: needs.get(path)))


async def press_buttons(person: httpx2.AsyncClient, url: str) -> str:
    """What a person does in their browser: sign in if asked, allow, and be sent back."""
    answer = await person.get(url)
    for _ in range(5):
        location = answer.headers.get("location", "")
        if answer.status_code == 303 and location.startswith(CALLBACK):
            return location
        if answer.status_code == 303:
            answer = await person.get(location)
            continue
        fields = dict(re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', answer.text.replace("&amp;", "&")))
        if "password" in answer.text:
            form = {**fields, "name": "Ada", "password": "correct horse"}
            answer = await person.post("/oauth/login", data=form)
        else:
            ticked = re.findall(r'name="scope" value="([^"]*)"', answer.text)
            form = {**fields, "scope": ticked, "decision": "allow"}
            answer = await person.post("/oauth/consent", data=form)
    raise AssertionError(answer.text)


async def mcp_login(site: Site, storage: Storage, metadata_url: str | None) -> list[Any]:
    transport = httpx2.ASGITransport(behind(site))
    async with httpx2.AsyncClient(transport=transport, base_url=ISSUER) as person:
        back = ""

        async def redirect(url: str) -> None:
            nonlocal back
            back = await press_buttons(person, url)

        async def callback() -> AuthorizationCodeResult:
            query = parse_qs(urlsplit(back).query)
            return AuthorizationCodeResult(code=query["code"][0], state=query["state"][0], iss=query["iss"][0])

        provider = OAuthClientProvider(
            f"{ISSUER}/mcp",
            OAuthClientMetadata(redirect_uris=[CALLBACK], client_name="MCP", token_endpoint_auth_method="none"),
            storage,
            redirect,
            callback,
            client_metadata_url=metadata_url,
        )
        async with httpx2.AsyncClient(transport=transport, base_url=ISSUER, auth=provider) as client:
            first = (await client.get("/mcp")).json()
            provider.context.token_expiry_time = 1.0  # long ago: it must refresh
            refreshed = (await client.get("/mcp")).json()
            stepped_up = (await client.get("/delete")).json()
    return [first, refreshed, stepped_up]


@pytest.mark.requirement("AS-13", "AS-14", "AS-15", "AS-16", "XL-113")
def test_mcp_client_signs_in_with_a_metadata_document_and_refreshes_and_steps_up(site: Site) -> None:
    body = document(URL, grant_types=["authorization_code", "refresh_token"])
    site.internet.pages[URL] = Response(200, ((b"content-type", b"application/json"),), json.dumps(body).encode())
    storage = Storage()
    answers = asyncio.run(mcp_login(site, storage, URL))
    assert answers == [
        {"scopes": ["tasks:read"]},
        {"scopes": ["tasks:read"]},
        {"scopes": ["tasks:delete", "tasks:read"]},
    ]
    assert storage.client is not None
    assert storage.client.client_id == URL
    assert [event.kind for event in site.events].count("tokens issued") == 3


@pytest.mark.requirement("AS-18")
def test_mcp_client_registers_if_permitted(open_site: Callable[..., Site]) -> None:
    site, storage = open_site(registration=True), Storage()
    assert asyncio.run(mcp_login(site, storage, None))[0] == {"scopes": ["tasks:read"]}
    assert storage.client is not None
    assert storage.client.client_id is not None
    assert storage.client.client_id.startswith("app-")


async def authlib_login(site: Site) -> dict[str, Any]:
    transport = httpx2.ASGITransport(site.server)
    async with httpx2.AsyncClient(transport=transport, base_url=ISSUER) as person:
        client = AsyncOAuth2Client(
            "web app",
            "p:w/d %",
            redirect_uri=CALLBACK,
            scope="tasks:read",
            code_challenge_method="S256",
            revocation_endpoint_auth_method="client_secret_basic",
            transport=transport,
        )
        verifier = "v" * 43
        url, state = client.create_authorization_url(f"{ISSUER}/oauth/authorize", code_verifier=verifier)
        back = await press_buttons(person, url)
        token_url = f"{ISSUER}/oauth/token"
        first = dict(
            await client.fetch_token(token_url, authorization_response=back, code_verifier=verifier, state=state)
        )
        second = dict(await client.refresh_token(token_url, refresh_token=first["refresh_token"]))
        revoked = await client.revoke_token(f"{ISSUER}/oauth/revoke", token=second["refresh_token"])
        await client.aclose()
    return {"first": first, "second": second, "revoked": revoked.status_code}


@pytest.mark.requirement("AS-09", "AS-11", "AS-12")
def test_authlib_client_signs_in_refreshes_and_revokes(site: Site) -> None:
    reply = asyncio.run(authlib_login(site))
    assert reply["first"]["scope"] == "tasks:read"
    assert reply["second"]["refresh_token"] != reply["first"]["refresh_token"]
    assert reply["revoked"] == 200
    assert site.caller(reply["second"]["access_token"]).kind == "unauthorized"
