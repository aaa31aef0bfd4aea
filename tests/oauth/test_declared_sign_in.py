"""A site without well-known metadata says in its OpenAPI document, or in llm.json, where to sign in."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

import toolwire
from tests.cli.conftest import Terminal
from tests.oauth.shown_page import page_shown
from toolwire.auth.client_identity import ClientIdentity
from toolwire.client.login import SignInOptions, SignInUser
from toolwire.core.model import Kind, Problem, Value
from toolwire.stores.credentials.files import CredentialStore

from .conftest import Walker

Serve = Callable[[Callable[[str], Any]], str]
NEEDED = {"/list": "read", "/delete": "delete"}
ID = SignInOptions(identity=ClientIdentity(client_id="mine"))
DOCUMENT = "/openapi.json"


class Shop:
    """A site that wants tokens, and the server that gives them; ``asked`` are the scopes of each sign-in."""

    def __init__(self, *, bare: bool = True) -> None:
        self.asked: list[str] = []
        self.grants: list[str] = []
        self.tokens: dict[str, str] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.calls: list[str] = []
        self.bare = bare
        self.login = ""
        self.written: tuple[str, str] = ("", "")
        self.lifetime_s = 3600
        self.entry: dict[str, Any] | None = None
        self.resource: dict[str, Any] | None = None
        self.issuer = ""

    def site(self, base: str) -> Starlette:
        self.base = base
        return Starlette(
            routes=[
                Route("/.well-known/llm.json", self._show_entry),
                Route("/about-me", lambda _: JSONResponse(self.resource)),
                Route(DOCUMENT, self._show_document),
                Route("/list", self._run_tool),
                Route("/delete", self._run_tool, methods=["POST"]),
                *self.sign_in_routes(),
            ]
        )

    def sign_in_routes(self) -> Sequence[Route]:
        return (
            Route("/authorize", self._authorize),
            Route("/token", self._give_token, methods=["POST"]),
            Route("/refresh", self._give_token, methods=["POST"]),
            Route("/.well-known/oauth-authorization-server", self._show_metadata),
        )

    def server(self, base: str) -> Starlette:
        """The authorization server on an origin of its own."""
        self.login = base
        return Starlette(routes=list(self.sign_in_routes()))

    def document(self) -> dict[str, Any]:
        flow = {
            "authorizationUrl": f"{self.login}/authorize",
            "tokenUrl": f"{self.login}/token",
            "refreshUrl": f"{self.login}/refresh",
            "scopes": {"read": "Read", "delete": "Delete", "admin": "Everything"},
        }
        paths: dict[str, Any] = {}
        for path, scope in NEEDED.items():
            operation: dict[str, Any] = {
                "operationId": path[1:],
                "x-llm": {"approval": "auto", "enabled": True},
                "security": [{"account": [scope]}],
                "responses": {"200": {"description": "ok", "content": {"application/json": {}}}},
            }
            paths[path] = {"get" if path == "/list" else "post": operation}
        return {
            "openapi": "3.1.0",
            "info": {"title": "Shop", "version": "1"},
            "x-llm": {"version": "0.1", "name": "Shop"},
            "paths": paths,
            "components": {
                "securitySchemes": {"account": {"$ref": "#/x-account"}, "other": {"type": "http", "scheme": "basic"}}
            },
            "x-account": {"type": "oauth2", "flows": {"authorizationCode": flow}},
        }

    async def _show_entry(self, request: Request) -> Response:
        return JSONResponse({"openapi": DOCUMENT, "auth": "oauth2"} if self.entry is None else self.entry)

    async def _show_document(self, request: Request) -> Response:
        text, kind = self.written
        return Response(text, media_type=kind) if text else JSONResponse(self.document())

    async def _show_metadata(self, request: Request) -> Response:
        if not self.issuer:
            return Response(status_code=404)
        return JSONResponse(
            {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.login}/authorize",
                "token_endpoint": f"{self.login}/token",
                "code_challenge_methods_supported": ["S256"],
            }
        )

    async def _authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        self.asked.append(asked.get("scope", ""))
        assert asked["client_id"] == "mine"
        assert asked["code_challenge_method"] == "S256"
        code = f"code-{len(self.codes)}"
        self.codes[code] = asked
        return RedirectResponse(asked["redirect_uri"] + "?" + urlencode({"code": code, "state": asked["state"]}), 303)

    async def _give_token(self, request: Request) -> Response:
        form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        self.grants.append(f"{request.url.path} {form['grant_type']}")
        if form["grant_type"] == "refresh_token":
            scope = self.tokens[form["refresh_token"]]
        else:
            asked = self.codes.pop(form["code"])
            proof = urlsafe_b64encode(sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
            assert proof == asked["code_challenge"]
            scope = asked["scope"]
        token = f"token-{len(self.grants)}"
        self.tokens[token] = scope
        self.tokens[f"re-{token}"] = scope
        return JSONResponse(
            {
                "access_token": token,
                "token_type": "Bearer",
                "expires_in": self.lifetime_s,
                "refresh_token": f"re-{token}",
            }
        )

    async def _run_tool(self, request: Request) -> Response:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        self.calls.append(f"{request.url.path} {self.tokens.get(token)}")
        fields = {} if self.bare else {"www-authenticate": "Bearer"}
        if token not in self.tokens:
            return JSONResponse({"detail": "who are you?"}, 401, headers=fields)
        if NEEDED[request.url.path] not in self.tokens[token].split():
            return JSONResponse({"detail": "no"}, 403)
        return JSONResponse(f"done {request.url.path}")


@pytest.fixture
def shop(serve: Serve) -> Shop:
    found = Shop()
    serve(found.site)
    return found


@pytest.fixture
def open_shop(tmp_path: Path) -> Callable[..., Any]:
    def start(shop: Shop, user: SignInUser, **more: Any) -> Any:
        options: dict[str, Any] = {"sign_in": ID, "agree": lambda _: True, "approve": lambda _: True, **more}
        return toolwire.connect_sync(
            options.pop("url", shop.base), user=user, credential_store=CredentialStore(tmp_path / "kept"), **options
        )

    return start


@pytest.mark.requirement("XL-110", "XL-102", "AC-01", "AC-08")
@pytest.mark.parametrize("bare", [True, False])
def test_connect_signs_in_by_the_flow_of_the_document_and_adds_scopes_on_demand(
    bare: bool, shop: Shop, open_shop: Callable[..., Any]
) -> None:
    shop.bare = bare
    walker, asked = Walker(), list[tuple[str, tuple[str, ...]]]()

    def allow(site: str, scopes: Any) -> bool:
        asked.append((site, tuple(scopes)))
        return True

    with open_shop(shop, walker.person(allow=allow)) as remote:
        assert asked == []  # looking at the site asks nothing
        assert remote.call("list") == Value("done /list")
        assert remote.call("list") == Value("done /list")
        assert remote.call("delete") == Value("done /delete")
        assert remote.call("list") == Value("done /list")
    assert asked == [(shop.base, ("read",)), (shop.base, ("read", "delete"))]
    assert shop.asked == ["read", "read delete"]
    with open_shop(shop, walker.person(allow=allow)) as remote:  # kept
        assert remote.call("delete") == Value("done /delete")
    assert len(shop.asked) == 2


@pytest.mark.requirement("XL-110", "AC-01", "AC-08")
@pytest.mark.anyio
async def test_connect_signs_in_without_blocking_the_loop(shop: Shop, tmp_path: Path) -> None:
    async with toolwire.connect(
        shop.base,
        user=Walker().person(),
        sign_in=ID,
        agree=lambda _: True,
        credential_store=CredentialStore(tmp_path / "kept"),
    ) as remote:
        assert await remote.call("list") == Value("done /list")
    assert shop.asked == ["read"]


@pytest.mark.requirement("AC-09", "XL-110")
def test_token_is_refreshed_at_the_refresh_url_of_the_document(shop: Shop, open_shop: Callable[..., Any]) -> None:
    shop.lifetime_s = 1  # shorter than the time before its end at which a token is refreshed
    with open_shop(shop, Walker().person()) as remote:
        assert remote.call("list") == Value("done /list")
        assert remote.call("list") == Value("done /list")
    assert shop.grants[:2] == ["/token authorization_code", "/refresh refresh_token"]
    assert len(shop.asked) == 1


@pytest.mark.requirement("XL-110", "AC-01")
def test_loopback_document_can_name_a_loopback_server(
    shop: Shop, open_shop: Callable[..., Any], tmp_path: Path
) -> None:
    shop.login = shop.base
    (tmp_path / "shop.json").write_text(json.dumps({**shop.document(), "servers": [{"url": shop.base}]}))
    with open_shop(shop, Walker().person(), url=str(tmp_path / "shop.json")) as remote:
        assert remote.call("list") == Value("done /list")


@pytest.mark.requirement("D-28", "AC-02", "XL-110")
@pytest.mark.parametrize("allowed", [True, False])
def test_authorization_server_on_another_origin_needs_approval(
    allowed: bool, shop: Shop, serve: Serve, open_shop: Callable[..., Any]
) -> None:
    login = serve(shop.server)
    seen: list[tuple[str, str]] = []

    def allow_server(site: str, origin: str) -> bool:
        seen.append((site, origin))
        return allowed

    with open_shop(shop, Walker().person(allow_server=allow_server)) as remote:
        result = remote.call("list")
        assert seen == [(shop.base, login)]
        if not allowed:
            assert isinstance(result, Problem)
            assert (result.kind, shop.asked) == (Kind.DENIED, [])
            assert login in result.message
            return
        assert result == Value("done /list")
        assert remote.call("delete") == Value("done /delete")
    assert len(seen) == 1  # a step-up goes to the same server


@pytest.mark.requirement("D-28", "AC-02")
def test_authorization_server_on_another_origin_is_refused_without_an_approver(
    shop: Shop, serve: Serve, open_shop: Callable[..., Any]
) -> None:
    serve(shop.server)
    walker = Walker()
    with open_shop(shop, walker.person()) as remote:
        assert isinstance(remote.call("list"), Problem)
    assert (walker.pages, shop.asked) == ([], [])


@pytest.mark.requirement("D-05", "D-28")
@pytest.mark.parametrize("login", ["http://login.example", "javascript:", "http://10.1.2.3"])
def test_an_endpoint_without_https_is_never_opened(login: str, shop: Shop, open_shop: Callable[..., Any]) -> None:
    shop.login = login
    walker = Walker()
    with open_shop(shop, walker.person(allow_server=lambda *_: True)) as remote:
        assert isinstance(remote.call("list"), Problem)
    assert walker.pages == []


@pytest.mark.requirement("XL-021", "XL-024", "AC-02")
@pytest.mark.parametrize("named_issuer", ["the same", "another"])
def test_authorization_server_of_llm_json_is_used_if_its_issuer_matches(
    named_issuer: str, shop: Shop, serve: Serve, open_shop: Callable[..., Any]
) -> None:
    login = serve(shop.server)
    shop.issuer = login if named_issuer == "the same" else "https://other.example"
    shop.entry = {"openapi": DOCUMENT, "auth": {"type": "oauth2", "authorization_server": login}}
    seen: list[str] = []

    def allow_server(_: str, origin: str) -> bool:
        seen.append(origin)
        return True

    with open_shop(shop, Walker().person(allow_server=allow_server)) as remote:
        result = remote.call("list")
    if named_issuer == "the same":
        assert (result, seen, shop.asked) == (Value("done /list"), [login], ["read"])
    else:  # metadata that is wrong is no reason to believe the document instead
        assert isinstance(result, Problem)
        assert (seen, shop.asked) == ([], [])


@pytest.mark.requirement("XL-021", "XL-024")
def test_the_resource_metadata_that_llm_json_names_is_used(shop: Shop, open_shop: Callable[..., Any]) -> None:
    shop.issuer = shop.login = shop.base
    shop.entry = {"openapi": DOCUMENT, "auth": {"type": "oauth2", "resource_metadata": "/about-me"}}
    shop.resource = {"resource": shop.base, "authorization_servers": [shop.base]}
    with open_shop(shop, Walker().person()) as remote:
        assert remote.call("list") == Value("done /list")
    assert shop.asked == ["read"]


@pytest.mark.requirement("AC-04")
def test_unregistered_client_is_told_about_the_client_id_option(shop: Shop, open_shop: Callable[..., Any]) -> None:
    with open_shop(shop, Walker().person(), sign_in=None) as remote:
        result = remote.call("list")
    assert isinstance(result, Problem)
    assert "--client-id" in result.message


@pytest.mark.requirement("XL-102")
def test_declined_sign_in_returns_the_refusal_of_the_site(shop: Shop, open_shop: Callable[..., Any]) -> None:
    with open_shop(shop, Walker().person(allow=lambda *_: False)) as remote:
        result = remote.call("list")
    assert isinstance(result, Problem)
    assert result.kind is Kind.UNAUTHORIZED


# at the command line


def login(state: Path, *words: str) -> tuple[int, str]:
    """Run ``toolwire login`` without a terminal, and walk through the page that it shows."""
    command = [sys.executable, "-m", "toolwire", "login", *words]
    environment = {"XDG_STATE_HOME": str(state), "PATH": "", "NO_COLOR": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment) as it:
        assert it.stderr is not None
        reply = ""
        for line in it.stderr:
            reply += line
            if line.startswith("Open this page"):
                Walker().open(line.rpartition(" ")[2].strip())
        return it.wait(60), reply


YAML = """\
openapi: 3.0.3
info: {title: Shop, version: '1'}
paths:
  /list:
    get:
      operationId: list
      security: [{account: [read]}]
      responses: {'200': {description: ok}}
components:
  securitySchemes:
    account: {$ref: '#/components/x-schemes/account'}
  x-schemes:
    account:
      type: oauth2
      flows:
        authorizationCode: {authorizationUrl: /authorize, tokenUrl: /token, scopes: {read: r, delete: d}}
"""
SWAGGER = {
    "swagger": "2.0",
    "info": {"title": "Shop", "version": "1"},
    "paths": {
        "/list": {
            "get": {"operationId": "list", "security": [{"a": ["read"]}], "responses": {"200": {"description": "ok"}}}
        }
    },
    "securityDefinitions": {
        "a": {
            "type": "oauth2",
            "flow": "accessCode",
            "authorizationUrl": "/authorize",
            "tokenUrl": "/token",
            "scopes": {"read": "r", "delete": "d"},
        }
    },
}
FORMS = {
    "yaml": (YAML, "application/yaml"),
    "swagger": (json.dumps(SWAGGER), "application/json"),
    "plain": ("", ""),
}


@pytest.mark.requirement("AC-01", "AC-08", "XL-110")
@pytest.mark.parametrize(
    ("form", "more", "scopes"),
    [
        ("yaml", (), "read"),
        ("swagger", (), "read"),
        ("plain", (), "delete read"),
        ("plain", ("--match", "list"), "read"),
        ("plain", ("--scope", "admin"), "admin"),
    ],
)
def test_login_requests_the_scopes_of_the_selected_tools(
    form: str, more: tuple[str, ...], scopes: str, shop: Shop, tmp_path: Path
) -> None:
    shop.written = FORMS[form]
    code, reply = login(tmp_path, f"{shop.base}{DOCUMENT}", "--client-id", "mine", *more)
    assert (code, shop.asked) == (0, [scopes]), reply


@pytest.mark.requirement("AC-02", "D-28")
def test_login_uses_another_site_only_if_the_user_named_it(shop: Shop, serve: Serve, tmp_path: Path) -> None:
    there = serve(shop.server)
    code, reply = login(tmp_path, shop.base, "--client-id", "mine")
    assert (code, shop.asked) == (3, [])
    assert f"--sign-in-at {there}" in reply
    code, reply = login(tmp_path, shop.base, "--client-id", "mine", "--sign-in-at", there)
    assert (code, shop.asked) == (0, ["delete read"]), reply


@pytest.mark.requirement("XL-102", "XL-110", "AC-08", "D-28")
def test_call_asks_about_site_and_scopes_before_opening_a_browser(shop: Shop, serve: Serve, tmp_path: Path) -> None:
    there = serve(shop.server)
    environment = {"XDG_STATE_HOME": str(tmp_path), "DISPLAY": "", "WAYLAND_DISPLAY": "", "NO_COLOR": "1"}
    terminal = Terminal(("call", shop.base, "list", "--agree", "--client-id", "mine"), environment)
    try:
        terminal.wait_for(b"Go there? [y/N] ")
        assert f"sign in at another site, {there}".encode() in terminal.shown
        terminal.type("y")
        terminal.wait_for(b"Sign in? [y/N] ")
        assert f"{shop.base} wants you to sign in for read".encode() in terminal.shown
        terminal.type("y")
        page = page_shown(terminal)
        with httpx2.Client() as browser:
            browser.get(Walker()._walked(browser, page))
        assert terminal.end() == 0
    finally:
        terminal.close()
    assert b"done /list" in terminal.shown
    assert shop.asked == ["read"]
