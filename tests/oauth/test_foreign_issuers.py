"""Our client signs in at issuers of other makers, for servers that take their tokens, over each protocol."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import httpx2
import pytest
from fastapi import FastAPI
from joserfc import jwt
from joserfc.jwk import KeySet
from mcp.server.mcpserver import MCPServer

from tests.programs import find_free_port
from tests.support.authlib_issuer import run_authlib
from tests.support.openid import log_in, needs_provider, run_provider, sign_in_as
from tests.support.proxies import run_server
from toolwire import Problem, Value, connect, connect_sync
from toolwire.client.login import ClientIdentity, SignInOptions, SignInUser
from toolwire.client.login.saved_credentials import open_credentials
from toolwire.core.model import Kind
from toolwire.core.selection import Selection
from toolwire.protocols import BUILTIN
from toolwire.stores.credentials.files import CredentialStore

pytestmark = [pytest.mark.requirement("AO-02"), pytest.mark.reveals_secrets]  # logs of issuers have request lines

PROTOCOLS = [codec.name for codec in BUILTIN]
DESK = '''
from toolwire import Context, Toolkit

desk = Toolkit("Desk")


@desk.tool(safe=True, approval="auto", scopes=["read"])
def tell_name(context: Context) -> str:
    """Tell who calls."""
    return context.principal


@desk.tool(approval="auto", scopes=["read", "write"])
def publish(context: Context) -> str:
    """Publish it."""
    return f"published by {context.principal}"
'''


class Issuer(NamedTuple):
    """An issuer of another maker: its URL, and that of its keys."""

    url: str
    keys: str


@pytest.fixture(scope="module", params=["authlib", pytest.param("oidc-provider", marks=needs_provider)])
def issuer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    """Each issuer, with tokens that are valid for so short that each call needs a new one."""
    folder = tmp_path_factory.mktemp("issuer")
    with ExitStack() as stack:
        if request.param == "authlib":
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            url = stack.enter_context(run_authlib(patch, token_s=50))
            yield Issuer(url, f"{url}/jwks")
        else:
            url = stack.enter_context(run_provider(folder, [], scopes="read write", token_s=50))
            yield Issuer(url, f"{url}/jwks")


@pytest.fixture(scope="module")
def desk(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of ours, in a process of its own, that takes the tokens of the issuer."""
    folder, port = tmp_path_factory.mktemp("desk"), find_free_port()
    (folder / "desk.py").write_text(DESK)
    url = f"http://127.0.0.1:{port}"
    words = ["serve", "desk.py", "--port", str(port), "--jwks", issuer.keys, "--jwt-issuer", issuer.url]
    argv = [sys.executable, "-m", "toolwire", *words, "--jwt-audience", f"{url}/mcp"]
    with run_server(argv, port, folder):
        yield url


class Visitor:
    """A person who signs in where the program leads them, and what they saw."""

    def __init__(self, subject: str = "sub-ann") -> None:
        self.subject = subject
        self.pages: list[str] = []
        self.asked: list[tuple[str, str]] = []
        self.scopes: list[tuple[str, tuple[str, ...]]] = []
        self.user = SignInUser(
            show=lambda _: None, open_page=self._open, allow_server=self._allow_server, allow=self._allow
        )

    def _open(self, page: str) -> bool:
        self.pages.append(page)
        return sign_in_as(self.subject, page)

    def _allow_server(self, site: str, origin: str) -> bool:
        self.asked.append((site, origin))
        return True

    def _allow(self, site: str, scopes: Any) -> bool:
        self.scopes.append((site, tuple(scopes)))
        return True


NATIVE = SignInOptions(identity=ClientIdentity(client_id="native"))


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """The environment of a user without a display, whose credentials are in a folder of the test."""
    hidden = ("DISPLAY", "WAYLAND_DISPLAY", "TOOLWIRE_PASSPHRASE", "TOOLWIRE_KEY_FILE")
    return {
        **{name: value for name, value in os.environ.items() if name not in hidden},
        "TOOLWIRE_STATE": str(tmp_path),
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_one_sign_in_at_a_foreign_issuer_lasts_by_its_refreshes(
    issuer: Issuer, desk: str, protocol: str, tmp_path: Path
) -> None:
    store, visitor = CredentialStore(tmp_path), Visitor()
    options: dict[str, Any] = {"protocol": protocol, "credential_store": store, "sign_in": NATIVE}
    tokens = set()
    with connect_sync(desk, user=visitor.user, agree=lambda _: True, **options) as remote:
        for _ in range(3):  # a token is about to expire each time
            assert remote.call("tell_name") == Value("jwt:sub-ann")
            (held,) = store.list_all()
            tokens.add((held.access.reveal(), held.refresh and held.refresh.reveal()))
    assert len(tokens) == 3
    assert (held.issuer, len(visitor.pages), visitor.asked) == (issuer.url, 1, [(desk, issuer.url)])

    async def call_later() -> Any:  # a program that has no user
        async with connect(desk, agree=lambda _: True, **options) as remote:
            return await remote.call("publish")

    assert anyio.run(call_later) == Value("published by jwt:sub-ann")


def guard(app: Any, base: str, issuer: Issuer) -> Any:
    """Return ``app``, an application of another maker, behind a check of tokens; publishing needs another scope."""
    metadata = f"{base}/.well-known/oauth-protected-resource"

    def judge(fields: dict[bytes, bytes], wanted: str) -> tuple[int, str]:
        token = fields.get(b"authorization", b"").removeprefix(b"Bearer ").decode()
        if not token:
            return 401, f'Bearer resource_metadata="{metadata}"'
        keys = KeySet.import_key_set(httpx2.get(issuer.keys).json())
        claims = jwt.decode(token, keys, algorithms=["RS256"]).claims
        if (claims["iss"], claims["aud"]) != (issuer.url, base):
            return 401, f'Bearer error="invalid_token", resource_metadata="{metadata}"'
        if wanted not in claims["scope"].split():
            text = f'Bearer error="insufficient_scope", scope="{wanted}", resource_metadata="{metadata}"'
            return 403, text
        return 0, ""

    async def run(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        messages = [] if scope["method"] == "GET" else [await receive()]

        async def replay() -> Any:
            return messages.pop() if messages else await receive()

        if scope["path"] == "/.well-known/oauth-protected-resource":
            page = {"resource": base, "authorization_servers": [issuer.url]}
            await answer(send, 200, json.dumps(page).encode(), b"application/json")
            return
        is_about = any(b"publish" in one["body"] for one in messages) or scope["path"] == "/publish"
        wanted = "write" if is_about else "read"
        status, challenge = (0, "") if scope["path"] == "/openapi.json" else judge(dict(scope["headers"]), wanted)
        if status:
            await answer(send, status, b"", b"text/plain", (b"www-authenticate", challenge.encode()))
        else:
            await app(scope, replay, send)

    return run


async def answer(send: Any, status: int, body: bytes, media: bytes, *fields: tuple[bytes, bytes]) -> None:
    await send(
        {"type": "http.response.start", "status": status, "headers": [(b"content-type", media), *fields]},
    )
    await send({"type": "http.response.body", "body": body})


def build_mcp() -> Any:
    """Return an application of the official MCP SDK."""
    server = MCPServer("Desk")

    @server.tool()
    def tell_name() -> str:
        return "ann"

    @server.tool()
    def publish() -> str:
        return "published"

    return server.streamable_http_app()


def build_fastapi() -> Any:
    """Return an application of FastAPI, whose document says nothing of models or of the issuer."""
    app = FastAPI(title="Desk")

    @app.post("/tell_name", operation_id="tell_name")
    def tell_name() -> str:
        return "ann"

    @app.post("/publish", operation_id="publish")
    def publish() -> str:
        return "published"

    return app


@pytest.mark.parametrize(("build", "path"), [(build_mcp, "/mcp"), (build_fastapi, "/openapi.json")])
@pytest.mark.parametrize("form", ["async", "blocking"])
def test_server_of_another_maker_gets_more_scopes_at_its_foreign_issuer(
    issuer: Issuer, serve: Callable[..., str], tmp_path: Path, build: Callable[[], Any], path: str, form: str
) -> None:
    url = serve(lambda base: guard(build(), base, issuer))
    store, visitor = CredentialStore(tmp_path), Visitor()
    options: dict[str, Any] = {
        "credential_store": store,
        "approve": lambda _: True,
        "selection": Selection(include="all"),
        "sign_in": replace(NATIVE, scopes=("read",)),
    }

    async def call_async(**more: Any) -> list[Any]:
        async with connect(f"{url}{path}", **options, **more) as remote:
            return [await remote.call(name) for name in ("tell_name", "publish")]

    def call(**more: Any) -> list[Any]:
        if form == "async":
            return anyio.run(partial(call_async, **more))
        with connect_sync(f"{url}{path}", **options, **more) as remote:
            return [remote.call(name) for name in ("tell_name", "publish")]

    assert call(user=visitor.user) == [Value("ann"), Value("published")]
    assert [set(scopes) for _, scopes in visitor.scopes] == [{"read"}, {"read", "write"}]
    assert set(visitor.asked) == {(url, issuer.url)}
    (held,) = store.list_all()
    assert (held.resource, held.issuer, set(held.scopes)) == (url, issuer.url, {"read", "write"})
    assert call() == [Value("ann"), Value("published")]


def test_call_that_needs_more_scopes_gets_them_at_the_foreign_issuer(
    issuer: Issuer, desk: str, tmp_path: Path, env: dict[str, str]
) -> None:
    words = ("--client-id", "native", "--sign-in-at", issuer.url)
    assert "for read" in log_in("sub-ann", desk, "--scope", "read", *words, env=env)
    store = open_credentials(tmp_path / "credentials")
    (first,) = store.list_all()
    assert first.scopes == ("read",)
    # The document lists all tools; over the other protocols, a caller sees those that its scopes allow.
    options: dict[str, Any] = {"protocol": "openapi", "credential_store": store, "agree": lambda _: True}
    with connect_sync(desk, **options) as remote:  # without a user, a refusal costs the sign-in nothing
        refused = remote.call("publish")
        assert isinstance(refused, Problem)
        assert refused.kind is Kind.FORBIDDEN
        assert remote.call("tell_name") == Value("jwt:sub-ann")
    visitor = Visitor()
    with connect_sync(desk, user=visitor.user, **options) as remote:
        assert remote.call("publish") == Value("published by jwt:sub-ann")
    ((_, asked),) = visitor.scopes
    assert set(asked) == {"read", "write"}
    (held,) = store.list_all()
    assert (held.issuer, set(held.scopes)) == (issuer.url, {"read", "write"})


@pytest.mark.requirement("QF-08")
def test_two_accounts_of_one_user_stay_apart(issuer: Issuer, desk: str, tmp_path: Path, env: dict[str, str]) -> None:
    words, work = ("--client-id", "native", "--sign-in-at", issuer.url), ("--account", "work")

    def run(*words: str) -> tuple[int, str]:
        argv = [sys.executable, "-m", "toolwire", *words]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr

    def call(*words: str) -> tuple[int, str]:
        return run("call", desk, "tell_name", "--agree", *words)

    assert "as work, for " in log_in("sub-ann", desk, *work, *words, env=env)
    assert " as " not in log_in("sub-bob", desk, *words, env=env)
    _, listed = run("connections", "--json")
    rows = [(one["account"], one["resource"]) for one in json.loads(listed) if one["issuer"] == issuer.url]
    assert rows == [("", f"{desk}/mcp"), ("work", f"{desk}/mcp")]
    assert [" as work " in line for line in run("connections")[1].splitlines() if desk in line] == [False, True]
    for protocol in PROTOCOLS:
        assert call("--protocol", protocol, *work) == (0, "jwt:sub-ann\n")
        assert call("--protocol", protocol) == (0, "jwt:sub-bob\n")

    store = open_credentials(tmp_path / "credentials")
    options: dict[str, Any] = {"credential_store": store, "agree": lambda _: True}
    with connect_sync(desk, account="work", **options) as one, connect_sync(desk, **options) as other:
        for _ in range(2):  # each call refreshes
            assert (one.call("tell_name"), other.call("tell_name")) == (Value("jwt:sub-ann"), Value("jwt:sub-bob"))

    async def call_async() -> tuple[Any, Any]:
        async with connect(desk, account="work", **options) as one, connect(desk, **options) as other:
            return await one.call("tell_name"), await other.call("tell_name")

    assert anyio.run(call_async) == (Value("jwt:sub-ann"), Value("jwt:sub-bob"))
    code, text = run("logout", desk, *work)
    assert (code, text.splitlines()[0]) == (0, f"Signed out of {desk}/mcp as work.")
    assert [one.account for one in store.list_all()] == [""]
    assert call() == (0, "jwt:sub-bob\n")
    for account in ("work", "wrok"):  # an account without a sign-in is never the one without a name
        assert call("--account", account)[0] == 3
        assert run("logout", desk, "--account", account)[0] == 1
