"""An application and its sign-in know about each other, and what is missing is said when the application starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.middleware.sessions import SessionMiddleware
from starlette.testclient import TestClient

from toolwire.core.errors import DefinitionError
from toolwire.integrations.fastapi import ServerOptions, publish_tools, require_user, x_llm
from toolwire.oauth import authorization_server

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
URL = "http://127.0.0.1:9627"


class Shop:
    """A FastAPI application with users, of which a test can leave out or change a part."""

    def __init__(
        self,
        folder: Path,
        *,
        login: str = "/login",
        sessions: bool = True,
        path: str = "/orders",
        issuer: str = URL,
        login_url: str = "/login",
    ) -> None:
        self.sign_in = authorization_server(
            issuer=issuer,
            store=folder / "oauth.db",
            scopes={"read": "See your orders", "write": "Order for you"},
            users=lambda user_id: SimpleNamespace(email="ada@example.com") if user_id == "7" else None,
            login_url=login_url,
            identify_user=lambda scope: scope["session"].get("user"),
            registration=True,
        )
        self.app = FastAPI(title="Shop")
        if sessions:
            self.app.add_middleware(SessionMiddleware, secret_key="s" * 20)
        self.app.get(login, include_in_schema=False)(lambda: "Sign in.")
        self.add_route(path, "read")

    def add_route(self, path: str, *scopes: str) -> None:
        user_of = require_user(self.sign_in, *scopes)

        def list_orders(user: Any = user_of) -> str:
            return str(user.email)

        self.app.get(path, operation_id=f"list{path.replace('/', '-')}", summary="List", openapi_extra=x_llm())(
            list_orders
        )

    def start(self) -> None:
        with TestClient(self.app, base_url=URL):
            """It has started."""


def require_unknown_scope(folder: Path) -> Shop:
    shop = Shop(folder)
    shop.add_route("/more", "reed")
    return shop


@pytest.mark.requirement("AO-01")
@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (
            lambda folder: Shop(folder, sessions=False),
            r"identify_user of sign_in fails .* \(KeyError: 'session'\)\. Add SessionMiddleware to the application\.",
        ),
        (
            lambda folder: Shop(folder, login="/enter"),
            "login_url of sign_in is /login, but the application has no page at this path.",
        ),
        (require_unknown_scope, "GET /more requires the scope 'reed', which sign_in does not offer."),
        (lambda folder: Shop(folder, path="/oauth/token"), "/oauth/token is a route of the application"),
    ],
)
def test_application_that_nobody_could_sign_in_at_does_not_start(
    tmp_path: Path, build: Callable[[Path], Shop], sentence: str
) -> None:
    shop = build(tmp_path)
    publish_tools(shop.app, sign_in=shop.sign_in)
    with pytest.raises(DefinitionError, match=sentence):
        shop.start()


@pytest.mark.requirement("AO-01")
@pytest.mark.parametrize("is_first", [True, False])
def test_order_of_routes_sessions_and_tools_does_not_matter(tmp_path: Path, is_first: bool) -> None:
    shop = Shop(tmp_path, sessions=False)
    if is_first:
        publish_tools(shop.app, sign_in=shop.sign_in)
    shop.app.add_middleware(SessionMiddleware, secret_key="s" * 20)
    shop.app.get("/{rest:path}", include_in_schema=False)(lambda rest: "A page for every path.")
    if not is_first:
        publish_tools(shop.app, sign_in=shop.sign_in)
    with TestClient(shop.app, base_url=URL) as browser:
        assert browser.get("/oauth/connected", follow_redirects=False).headers["location"].startswith("/login?next=")
        assert browser.get("/.well-known/oauth-protected-resource").json()["resource"] == URL


@pytest.mark.requirement("AO-01")
def test_document_and_challenges_name_the_sign_in_and_the_scopes(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    publish_tools(shop.app, sign_in=shop.sign_in)
    with TestClient(shop.app, base_url=URL) as client:
        document = client.get("/openapi.json").json()
        assert document["paths"]["/orders"]["get"]["security"] == [{"oauth": ["read"]}]
        flow = document["components"]["securitySchemes"]["oauth"]["flows"]["authorizationCode"]
        assert (flow["authorizationUrl"], set(flow["scopes"])) == (f"{URL}/oauth/authorize", {"read", "write"})
        assert client.get("/.well-known/llm.json").json()["auth"] == "oauth2"
        where = f'resource_metadata="{URL}/.well-known/oauth-protected-resource"'
        refused = client.get("/orders")
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, f'Bearer {where}, scope="read"')
        for path in ("/mcp", "/opentool/call", "/tools/call"):
            assert where in client.post(path, json={}).headers["www-authenticate"], path


@pytest.mark.requirement("AO-01")
def test_callers_come_from_one_place(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    options = ServerOptions(callers=shop.sign_in.callers)
    with pytest.raises(DefinitionError, match="sign_in and the option callers both identify callers\\. Leave one out"):
        publish_tools(shop.app, sign_in=shop.sign_in, options=options)


@pytest.mark.requirement("AO-01")
def test_function_that_finds_users_needs_the_sign_in_of_the_application(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="login_url and identify_user"):
        authorization_server(issuer=URL, scopes={"read": "Read"}, store=tmp_path / "a.db", users=lambda _: None)


@pytest.mark.requirement("AO-01")
@pytest.mark.parametrize("login_url", ["/login", "/shop/login"])
@pytest.mark.parametrize("is_stripped", [False, True])
def test_sign_in_below_a_path_is_found_there(tmp_path: Path, login_url: str, is_stripped: bool) -> None:
    shop = Shop(tmp_path, issuer=f"{URL}/shop", login_url=login_url)
    shop.app.root_path = "/shop"
    publish_tools(shop.app, sign_in=shop.sign_in)
    # uvicorn --root-path puts the path before that of the request again; FastAPI(root_path=...) does not
    below = "" if is_stripped else "/shop"
    with TestClient(shop.app, base_url=URL, root_path=below) as client:
        challenge = client.get(f"{below}/orders").headers["www-authenticate"]
        where = f"{URL}/.well-known/oauth-protected-resource/shop"
        assert f'resource_metadata="{where}"' in challenge
        page = client.get(f"{below}/oauth/connected", follow_redirects=False)
        assert page.headers["location"] == "/shop/login?next=%2Fshop%2Foauth%2Fconnected"
