"""The applications of docs/how-to/app-with-users.md in other frameworks: an app acts for a user who signs in there."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from tests.docs.blocks import read_blocks
from toolwire.auth.pkce import compute_challenge
from toolwire.core.errors import DefinitionError
from toolwire.integrations import asgi, starlette
from toolwire.integrations.asgi import identify_by_route
from toolwire.integrations.routes import Routes
from toolwire.oauth import authorization_server

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "app-with-users.md"
URL = "http://127.0.0.1:9627"
CALLBACK = "http://127.0.0.1/callback"
VERIFIER = "v" * 50
OWN = {"sec-fetch-site": "same-origin"}
ADD_DJANGO_USER = (
    "import desk\nfrom django.core.management import call_command\ncall_command('migrate', verbosity=0)\n"
    "desk.get_user_model().objects.create_user('ada', password='correct horse', pk=7)\n"
)


def read_page(name: str) -> str:
    (text,) = [block.text for block in read_blocks(PAGE.read_text("utf-8")) if block.name.removeprefix("peer ") == name]
    return text


def build_starlette() -> Any:
    """The one framework of the page without code: a list, and a route that changes it."""
    notes = {"7": ["tea"]}

    async def use_notes(request: Request) -> JSONResponse:
        own = notes[request.state.caller.name]
        if request.method == "POST":
            own.append(request.query_params["text"])
        return JSONResponse(own)

    async def log_in(request: Request) -> RedirectResponse:
        request.session["user"] = 7
        return RedirectResponse(request.query_params["next"], 303)

    text = {"name": "text", "in": "query", "required": True, "schema": {"type": "string"}}
    reply = {"responses": {}, "summary": "Notes"}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Notes", "version": "1.0.0"},
        "paths": {
            "/notes": {
                "get": {"operationId": "listNotes", "security": [{"oauth": ["read"]}], **reply},
                "post": {"operationId": "add", "security": [{"oauth": ["write"]}], "parameters": [text], **reply},
            }
        },
    }
    app = Starlette(
        routes=[Route("/notes", use_notes, methods=["GET", "POST"]), Route("/login", log_in)],
        middleware=[Middleware(SessionMiddleware, secret_key="s" * 20)],
    )
    sign_in = authorization_server(
        issuer=URL,
        name="Notes",
        store="notes.db",
        scopes={"read": "See your notes", "write": "Add notes"},
        users=lambda user_id: user_id if user_id in notes else None,
        login_url="/login",
        identify_user=lambda scope: scope["session"].get("user"),
        registration=True,
    )
    return starlette.publish_tools(app, document, include="all", sign_in=sign_in)


@contextmanager
def open_in_process(build: Callable[[], Any]) -> Iterator[Any]:
    with TestClient(build(), base_url=URL) as client:
        yield client


def execute(name: str) -> Callable[[], Any]:
    def build() -> Any:
        names: dict[str, Any] = {"__name__": __name__}  # Litestar looks for the module of a handler
        exec(compile(read_page(name), name, "exec", dont_inherit=True), names)
        return names["app"]

    return build


@contextmanager
def open_django() -> Iterator[Any]:
    """A process of its own, because a process has the settings of one Django project."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    for name in ("desk_settings.py", "desk.py"):
        Path(name).write_text(read_page(name).replace("9627", port), "utf-8")
    subprocess.run([sys.executable, "-W", "ignore", "-c", ADD_DJANGO_USER], check=True, timeout=60)
    command = [sys.executable, "-m", "uvicorn", "desk:app", "--port", port]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            reply = ""
            while "CTRL+C" not in reply:
                line = server.stderr.readline()
                assert line, reply
                reply += line
            with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
                yield client
        finally:
            server.terminate()


def allow(client: Any, client_id: str, *scopes: str) -> str:
    """Let an app in as a user does: at the sign-in page of the application if it asks, then at the consent page."""
    asked = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": CALLBACK,
        "code_challenge": compute_challenge(VERIFIER),
        "code_challenge_method": "S256",
        "scope": " ".join(scopes),
    }
    page = client.get("/oauth/authorize", params=asked, follow_redirects=True, headers=OWN)
    fields = dict(re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', page.text))
    if "csrfmiddlewaretoken" in fields:
        form = {**fields, "username": "ada", "password": "correct horse"}
        page = client.post(page.url, data=form, follow_redirects=True, headers=OWN)
        fields = dict(re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', page.text))
    form = {**fields, "scope": list(scopes), "decision": "allow"}
    back = client.post("/oauth/consent", data=form, follow_redirects=False, headers=OWN)
    assert back.status_code == 303, (page.text, back.text)
    code = parse_qs(urlsplit(back.headers["location"]).query)["code"][0]
    form = {"grant_type": "authorization_code", "code": code, "code_verifier": VERIFIER, "redirect_uri": CALLBACK}
    answer = client.post("/oauth/token", data={**form, "client_id": client_id})
    return str(answer.json()["access_token"])


def call_over_mcp(client: Any, token: str, tool: str, **arguments: str) -> Any:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
    return client.post(
        "/mcp", json=message, headers={**headers, **({"authorization": f"Bearer {token}"} if token else {})}
    )


APPS: dict[str, tuple[Any, str, str, tuple[str, ...], str, tuple[str, dict[str, str]] | None]] = {
    "starlette": (
        lambda: open_in_process(build_starlette), "/notes", "listNotes", ("read", "write"), "tea",
        ("add", {"text": "x"}),
    ),
    "litestar": (
        lambda: open_in_process(execute("clinic.py")), "/visits", "listVisits", ("visits:read", "visits:write"),
        "Monday", ("addVisit", {"day": "Friday"}),
    ),
    "flask": (lambda: open_in_process(execute("library.py")), "/loans", "listLoans", ("loans:read",), "Emma", None),
    "django": (open_django, "/api/tickets", "listTickets", ("tickets:read",), "The lamp of user 7", None),
}  # fmt: skip


@pytest.mark.requirement("AO-01")
@pytest.mark.parametrize("name", APPS)
def test_app_acts_for_the_user_of_an_application(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    opened, path, tool, scopes, expected, change = APPS[name]
    with opened() as client:
        url = str(client.base_url).rstrip("/")
        asked = {"origin": "https://other.example", "access-control-request-method": "GET"}
        for refused in (client.get(path), client.options(path, headers=asked), call_over_mcp(client, "", tool)):
            assert refused.status_code == 401
            assert (
                f'resource_metadata="{url}/.well-known/oauth-protected-resource"' in refused.headers["www-authenticate"]
            )
        document = client.get("/.well-known/openapi.json").json()
        assert document["paths"][path]["get"]["security"] == [{"oauth": [scopes[0]]}]
        assert document["components"]["securitySchemes"]["oauth"]["type"] == "oauth2"
        assert client.get("/.well-known/llm.json").json()["auth"] == "oauth2"
        about = {"client_name": "Desk", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
        client_id = client.post("/oauth/register", json=about).json()["client_id"]
        token = allow(client, client_id, scopes[0])
        assert expected in client.get(path).text  # the user's own session
        client.cookies.clear()
        assert expected in call_over_mcp(client, token, tool).text
        assert expected in client.get(path, headers={"authorization": f"Bearer {token}"}).text
        for other in (path, f"{path}/", path.upper()):
            assert client.get(other, headers={"authorization": "Bearer wrong"}).status_code == 401, other
        if change is not None:
            refused = call_over_mcp(client, token, change[0], **change[1])
            assert refused.status_code == 403
            assert f'scope="{" ".join(scopes)}"' in refused.headers["www-authenticate"]
            assert client.post(path, params=change[1], headers={"authorization": f"Bearer {token}"}).status_code == 403
            token = allow(client, client_id, *scopes)
            assert next(iter(change[1].values())) in call_over_mcp(client, token, change[0], **change[1]).text


@pytest.mark.requirement("AO-01")
@pytest.mark.parametrize(
    ("method", "path", "scopes"),
    [
        ("GET", "/api/orders", ["read"]),
        ("HEAD", "/api/orders", ["read"]),
        ("GET", "/api//Orders/", ["read"]),
        ("PUT", "/api/orders", ["read", "write"]),
        ("OPTIONS", "/api/orders", ["read", "write"]),
        ("POST", "/api/me", []),
        pytest.param("PUT", "/api/me", [], id="a method without a name, where the sign-in needs no scope"),
        ("get", "/api/me", []),
        ("DELETE", "/api/orders/1", ["drop"]),
        ("DELETE", "/api/orders/1/2", ["drop"]),
        ("DELETE", "/api/orders/open", ["drop"]),
        ("GET", "/api/orders/open", None),
        ("GET", "/orders", None),
    ],
)
def test_path_that_may_be_one_of_a_protected_route_is_protected(
    method: str, path: str, scopes: list[str] | None
) -> None:
    def needs(*needed: str) -> dict[str, Any]:
        return {"security": [{"oauth": list(needed)}]}

    document = {
        "servers": [{"url": "https://shop.example/api"}],
        "paths": {
            "/orders": {"get": needs("read"), "post": needs("write")},
            "/orders/{id}": {"delete": needs("drop")},
            "/orders/open": {"get": {}},
            "/me": {"post": needs()},
        },
    }
    assert Routes(document).find_scopes(method, path) == scopes


@pytest.mark.requirement("AO-01", "D-09")
@pytest.mark.parametrize("method", ["POST", "PUT", "GET", "delete", "X", "OPTIONS"])
def test_route_that_ignores_the_method_needs_the_sign_in_of_its_operation(tmp_path: Path, method: str) -> None:
    async def close_account(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"closed"})

    sign_in = authorization_server(
        issuer=URL,
        store=tmp_path / "a.db",
        scopes={"read": "Read"},
        users=lambda _: None,
        login_url="/login",
        identify_user=lambda _: None,
    )
    operation = {"operationId": "closeAccount", "security": [{"oauth": []}], "responses": {}}
    paths = {"/account": {"post": operation}}
    app = asgi.publish_tools(
        close_account, {"openapi": "3.1.0", "info": {"title": "A", "version": "1"}, "paths": paths}, sign_in=sign_in
    )
    replies: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        replies.append(message)

    headers = [(b"origin", b"https://other.example"), (b"access-control-request-method", b"POST")]
    scope = {"type": "http", "method": method, "path": "/account", "query_string": b"", "headers": headers}
    anyio.run(app, scope, receive, send)
    assert replies[0]["status"] == 401


def build_preflight_app(
    app: Any, tmp_path: Path, *protected: str, publish: Callable[..., Any] = asgi.publish_tools
) -> TestClient:
    """Return a client of ``app``, whose POST at the ``protected`` paths needs the sign-in."""
    sign_in = authorization_server(
        issuer=URL,
        store=tmp_path / "a.db",
        scopes={"read": "Read"},
        users=lambda _: None,
        login_url="/login",
        identify_user=lambda _: None,
    )
    paths = {
        path: {"post": {"operationId": f"use{number}", "security": [{"oauth": []}], "responses": {}}}
        for number, path in enumerate(protected)
    }
    document = {"openapi": "3.1.0", "info": {"title": "A", "version": "1"}, "paths": paths}
    return TestClient(publish(app, document, sign_in=sign_in), base_url=URL)


@pytest.mark.requirement("AO-01", "D-09")
@pytest.mark.parametrize("origin", ["https://desk.example", "https://other.example"])
def test_preflight_is_answered_as_the_application_says_and_no_view_runs(tmp_path: Path, origin: str) -> None:
    ran = list[str]()

    async def close_account(scope: Any, _receive: Any, send: Any) -> None:
        ran.append(scope["path"])
        status = 200 if scope["path"] == "/account" else 404
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b"closed"})

    inner = CORSMiddleware(close_account, allow_origins=["https://desk.example"], allow_headers=["authorization"])
    client = build_preflight_app(inner, tmp_path, "/account")
    asked = {"origin": origin, "access-control-request-method": "POST"}
    reply = client.options("/account", headers={**asked, "access-control-request-headers": "authorization"})
    assert client.options("/account", headers={"origin": origin}).status_code == 401
    assert ran == []
    assert reply.status_code == (204 if origin == "https://desk.example" else 401)
    assert (reply.headers.get("access-control-allow-origin") == origin) is (reply.status_code == 204)


@pytest.mark.requirement("AO-01", "D-09", "D-30")
@pytest.mark.parametrize(
    ("protected", "path"),
    [
        ("/{path}", "/account"),
        ("/api/{path}", "/api/account"),
        ("/api/{path}", "/api/a/b"),
        ("/api/{id}/state", "/api/7/state"),
    ],
)
def test_preflight_runs_no_view_that_answers_many_paths_and_gives_away_nothing(
    tmp_path: Path, protected: str, path: str
) -> None:
    pattern = re.compile(re.sub(r"\{[^{}]*\}", ".+", re.escape(protected)))
    ran, seen = list[str](), list[Any]()

    async def close_account(scope: Any, receive: Any, send: Any) -> None:
        if pattern.fullmatch(scope["path"]):
            ran.append(scope["path"])
        message = await receive()
        seen.append((message["body"], scope["query_string"], {name for name, _ in scope["headers"]}))
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b"closed"})

    client = build_preflight_app(close_account, tmp_path, protected)
    asked = {"origin": "https://other.example", "access-control-request-method": "POST", "x-user": "ada"}
    cookies = {"cookie": "session=1"}
    reply = client.request("OPTIONS", f"{path}?all=1", headers={**asked, **cookies}, content=b'{"all": true}')
    assert reply.status_code == 401
    assert ran == []
    for body, query, names in seen:
        assert (body, query) == (b"", b"")
        assert names == {b"host", b"origin", b"access-control-request-method"}


def allow_below_api(app: Any) -> Any:
    """As django-cors-headers and flask-cors allow it: for the paths of a pattern."""
    allowing = CORSMiddleware(app, allow_origins=["https://desk.example"], allow_methods=["POST"])

    async def choose(scope: Any, receive: Any, send: Any) -> None:
        is_allowed = scope["type"] == "http" and re.match(r"^/api/.*$", scope["path"])
        await (allowing if is_allowed else app)(scope, receive, send)

    return choose


def mount_api(app: Any) -> Any:
    return Starlette(
        routes=[Mount("/api", CORSMiddleware(app, allow_origins=["https://desk.example"], allow_methods=["POST"]))]
    )


@pytest.mark.requirement("AO-01")
@pytest.mark.parametrize("allow", [allow_below_api, mount_api])
@pytest.mark.parametrize("path", ["/api/items", "/api/items/7", "/api/items/7/parts/a/b", "/other"])
def test_preflight_is_allowed_where_the_application_allows_it_for_some_paths(
    tmp_path: Path, allow: Callable[[Any], Any], path: str
) -> None:
    protected = ("/api/items", "/api/items/{id}", "/api/items/{id}/parts/{path}", "/other")
    asked = {"origin": "https://desk.example", "access-control-request-method": "POST"}
    bare = TestClient(allow(answer_nothing), base_url=URL).options(path, headers=asked)
    allowed = bare.headers.get("access-control-allow-origin")
    assert (bare.status_code, allowed) == ((404, None) if path == "/other" else (200, asked["origin"]))
    for publish in [asgi.publish_tools, *([starlette.publish_tools] if allow is mount_api else [])]:
        client = build_preflight_app(allow(answer_nothing), tmp_path, *protected, publish=publish)
        reply = client.options(path, headers=asked)
        assert reply.headers.get("access-control-allow-origin") == allowed
        assert reply.status_code == (204 if allowed else 401)
        assert client.post(path, headers=asked).status_code == 401


async def answer_nothing(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        raise ValueError("There is no lifespan, as in Django.")
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.requirement("AO-01")
@pytest.mark.parametrize(
    ("identify_user", "sentence"),
    [
        (
            identify_by_route(answer_nothing, "/whoami"),
            "/whoami answered with status 404. It must answer",
        ),
        (lambda _: None, "login_url of sign_in is /login, but the application has no page at this path."),
    ],
)
def test_application_of_any_framework_says_at_startup_what_is_missing(
    tmp_path: Path, identify_user: Any, sentence: str
) -> None:
    sign_in = authorization_server(
        issuer=URL,
        store=tmp_path / "a.db",
        scopes={"read": "Read"},
        users=lambda _: SimpleNamespace(name="Ada"),
        login_url="/login",
        identify_user=identify_user,
    )
    document = {"openapi": "3.1.0", "info": {"title": "A", "version": "1"}, "paths": {}}
    replies: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "lifespan.startup"}

    async def send(message: Any) -> None:
        replies.append(message)

    app = asgi.publish_tools(answer_nothing, document, sign_in=sign_in)
    anyio.run(app, {"type": "lifespan"}, receive, send)
    assert replies[0]["type"] == "lifespan.startup.failed"
    assert sentence in replies[0]["message"]
    with pytest.raises(DefinitionError, match="GET /a requires the scope 'write', which sign_in does not offer"):
        asgi.publish_tools(
            answer_nothing,
            {**document, "paths": {"/a": {"get": {"security": [{"oauth": ["write"]}]}}}},
            sign_in=sign_in,
        )
