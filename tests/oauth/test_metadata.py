"""What the server says about itself, and how a protected path asks for a token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata
from authlib.oauth2.rfc9207.discovery import AuthorizationServerMetadata as WithIssuer
from mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from toolwire.auth.challenge import find_bearer
from toolwire.server.oauth import protect_app

from .conftest import ISSUER, SCOPES, Browser, Site


@pytest.mark.requirement("AS-13", "AS-06", "XL-113")
def test_authorization_server_metadata_is_complete_and_valid_for_other_libraries(
    open_site: Callable[..., Site],
) -> None:
    site = open_site(registration=True)
    answer = site.browser.get("/.well-known/oauth-authorization-server")
    metadata = answer.json()
    AuthorizationServerMetadata(metadata).validate(metadata_classes=[WithIssuer])
    OAuthMetadata.model_validate(metadata)
    assert metadata["issuer"] == ISSUER
    assert metadata["response_types_supported"] == ["code"]
    assert metadata["code_challenge_methods_supported"] == ["S256"]
    assert metadata["grant_types_supported"] == ["authorization_code", "refresh_token"]
    assert "none" in metadata["token_endpoint_auth_methods_supported"]
    assert metadata["scopes_supported"] == list(SCOPES)
    assert metadata["client_id_metadata_document_supported"] is True
    assert metadata["authorization_response_iss_parameter_supported"] is True
    for endpoint in ("authorization", "token", "revocation", "registration"):
        path = metadata[f"{endpoint}_endpoint"].removeprefix(ISSUER)
        assert site.browser.request("PUT", path).status_code == 405  # it is there
    assert site.browser.get("/.well-known/openid-configuration").status_code == 404


@pytest.mark.requirement("AS-13", "AS-14")
def test_metadata_of_an_issuer_with_a_path_is_at_the_well_known_path_prefix(open_site: Callable[..., Site]) -> None:
    site = open_site(issuer=f"{ISSUER}/accounts", resource=f"{ISSUER}/api/v1")
    metadata = site.browser.get("/.well-known/oauth-authorization-server/accounts").json()
    assert metadata["token_endpoint"] == f"{ISSUER}/accounts/oauth/token"
    assert site.browser.get("/.well-known/oauth-authorization-server").status_code == 404
    for path in ("/.well-known/oauth-protected-resource/api/v1", "/.well-known/oauth-protected-resource"):
        resource = site.browser.get(path).json()
        ProtectedResourceMetadata.model_validate(resource)
        assert resource["resource"] == f"{ISSUER}/api/v1"
        assert resource["authorization_servers"] == [f"{ISSUER}/accounts"]
        assert resource["bearer_methods_supported"] == ["header"]
        assert "offline_access" not in resource["scopes_supported"]
        assert resource["resource_name"] == "Tasks"


@pytest.mark.requirement("AS-20")
def test_cross_origin_reads_are_allowed_for_metadata_and_tokens_but_not_pages(site: Site) -> None:
    for path in ("/.well-known/oauth-authorization-server", "/oauth/token", "/oauth/revoke"):
        preflight = site.browser.request("OPTIONS", path)
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in preflight.headers
    assert site.token(grant_type="x").headers["access-control-allow-origin"] == "*"
    for path in ("/oauth/authorize", "/oauth/consent", "/oauth/login"):
        for method in ("OPTIONS", "GET", "POST"):
            answer = site.browser.request(method, path)
            assert "access-control-allow-origin" not in answer.headers


def needs(method: str, path: str) -> tuple[str, ...] | None:
    if path != "/tasks":
        return None
    return {"GET": ("tasks:read",), "DELETE": ("tasks:read", "tasks:delete")}.get(method, ())


@pytest.fixture
def api(site: Site) -> Browser:
    """An application of somebody's behind the server."""

    async def tasks(request: Request) -> JSONResponse:
        return JSONResponse({"caller": request.state.caller.name, "method": request.method})

    async def about(request: Request) -> JSONResponse:
        return JSONResponse({"open": True})

    app = Starlette(routes=[Route("/tasks", tasks, methods=["GET", "DELETE"]), Route("/about", about)])
    return Browser(site.server.serve_before(protect_app(app, site.server.callers, needs)), ISSUER, site.runner)


def read_challenge(answer: httpx2.Response) -> dict[str, Any]:
    found = find_bearer(answer.headers.get_list("www-authenticate"))
    assert found is not None
    return dict(found.parameters)


METADATA_URL = f"{ISSUER}/.well-known/oauth-protected-resource"


@pytest.mark.requirement("AS-15", "XL-115")
def test_request_without_a_token_is_401_with_the_metadata_url(api: Browser) -> None:
    answer = api.get("/tasks")
    assert answer.status_code == 401
    assert read_challenge(answer) == {"resource_metadata": METADATA_URL, "scope": "tasks:read"}
    assert api.get("/about").json() == {"open": True}
    assert api.get("/.well-known/oauth-protected-resource").json()["resource"] == ISSUER


@pytest.mark.requirement("AS-15")
def test_invalid_token_is_named_in_the_challenge_and_a_url_token_is_ignored(api: Browser, site: Site) -> None:
    answer = api.get("/tasks", headers={"authorization": "Bearer nonsense"})
    assert answer.status_code == 401
    assert read_challenge(answer)["error"] == "invalid_token"
    token = site.tokens("tasks:read")["access_token"]
    in_url = api.get("/tasks", params={"access_token": token})
    assert in_url.status_code == 401
    assert "error" not in read_challenge(in_url)
    good = api.get("/tasks", headers={"authorization": f"bearer {token}"})
    assert good.json()["caller"] == site.caller(token).name


@pytest.mark.requirement("AS-15", "XL-115")
def test_insufficient_scope_is_403_with_all_needed_scopes(api: Browser, site: Site) -> None:
    token = site.tokens("tasks:read")["access_token"]
    answer = api.request("DELETE", "/tasks", headers={"authorization": f"Bearer {token}"})
    assert answer.status_code == 403
    reply = read_challenge(answer)
    assert reply["error"] == "insufficient_scope"
    assert reply["scope"] == "tasks:read tasks:delete"
    assert reply["resource_metadata"] == METADATA_URL


@pytest.mark.requirement("XL-116")
def test_a_revoked_token_is_refused_at_the_very_next_call(api: Browser, site: Site) -> None:
    tokens = site.tokens("tasks:read")
    field = {"authorization": f"Bearer {tokens['access_token']}"}
    assert api.get("/tasks", headers=field).status_code == 200
    assert api.get("/tasks", headers=field).status_code == 200  # remembered
    site.browser.post("/oauth/revoke", {"client_id": "app", "token": tokens["refresh_token"]})
    assert api.get("/tasks", headers=field).status_code == 401
