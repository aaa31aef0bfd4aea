"""A gateway behind each proxy of its page, set up as the page says: what depends on address, scheme and host."""

from __future__ import annotations

import asyncio
import html
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from argon2 import PasswordHasher
from mcp.client.auth import OAuthClientProvider
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

from tests.programs import find_free_port
from tests.support.proxies import (
    NAME,
    WAIT_S,
    resolve_name,
    run_proxy,
    run_server,
    trust_certificate,
    wait_until_healthy,
)
from tests.support.token_storage import Storage
from tests.support.webhooks import KEY, Receiver
from toolwire import Problem, Session, Value, connect_sync
from toolwire.auth.receipt import ReceiptKey
from toolwire.core.check import Answer
from toolwire.core.model import Kind
from toolwire.hosting.gateway_sign_in import make_user_id
from toolwire.stores.consent.open import open_approvals
from toolwire.stores.oauth.accounts import Accounts
from toolwire.stores.oauth.database import OAuthStore

PASSWORD = "correct horse"
CALLBACK = "http://127.0.0.1:9/callback"
FILE = """
port = {port}
allow-host = ["{name}"]
public-url = "https://{name}:{proxy}"
trusted-proxies = ["127.0.0.1"]
workers = {workers}
state = "kept"
consent = "inbox"
webhook = {{ url = "{hook}", secret-env = "HOOK" }}

[sign-in]
operators = ["ann"]

[upstreams.desk]
target = "desk.py"
"""
DESK = '''
from toolwire import Toolkit

desk = Toolkit("Desk")


@desk.tool(approval="per-call")
def publish() -> str:
    """Publish it."""
    return "published"
'''
LISTEN = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "subscriptions/listen",
    "params": {
        "notifications": {"toolsListChanged": True},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        },
    },
}
"""A request to hear of changes."""


@pytest.fixture
def open_user(tmp_path: Path) -> Iterator[Callable[..., User]]:
    """Return what opens a browser at an address of its own; it is closed after the test."""
    with ExitStack() as ending:

        def open_one(address: str = "127.0.0.2") -> User:
            user = User(tmp_path, address)
            ending.callback(user.browser.close)
            return user

        yield open_one


class User:
    """A user with a browser and a program of their own, at an address of their own."""

    def __init__(self, folder: Path, address: str) -> None:
        self.trust = trust_certificate(folder)
        transport = httpx2.HTTPTransport(verify=self.trust, local_address=address)
        self.browser = httpx2.Client(transport=transport, timeout=WAIT_S)
        self.storage = Storage()

    def sign_in(self, url: str) -> str:
        """Do what a user does on the pages, and return the address that leads back to the program."""
        answer = self.browser.get(url)
        for _ in range(8):
            location = answer.headers.get("location", "")
            if location.startswith(CALLBACK):
                return location
            if location:
                answer = self.browser.get(answer.url.join(location))
                continue
            form: dict[str, Any] = dict(re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', answer.text))
            form = {name: html.unescape(value) for name, value in form.items()}
            if 'name="password"' in answer.text:
                form |= {"name": "ann", "password": PASSWORD}
            else:
                form |= {"scope": re.findall(r'name="scope" value="([^"]*)"', answer.text), "decision": "allow"}
            action = answer.url.join(html.unescape(re.findall(r'action="([^"]*)"', answer.text)[0]))
            origin = f"https://{answer.url.netloc.decode()}"
            answer = self.browser.post(action, data=form, headers={"origin": origin, "sec-fetch-site": "same-origin"})
        raise AssertionError(answer.text)

    async def call(self, url: str, tool: str) -> str:
        """Call ``tool`` by the client of the MCP SDK, after a sign-in, and return the text of the result."""
        back = ""

        async def redirect(page: str) -> None:
            nonlocal back
            back = await asyncio.to_thread(self.sign_in, page)

        async def callback() -> AuthorizationCodeResult:
            query = parse_qs(urlsplit(back).query)
            return AuthorizationCodeResult(code=query["code"][0], state=query["state"][0], iss=query["iss"][0])

        metadata = OAuthClientMetadata(redirect_uris=[CALLBACK], client_name="Host", token_endpoint_auth_method="none")
        provider = OAuthClientProvider(f"{url}/mcp", metadata, self.storage, redirect, callback)
        async with (
            httpx2.AsyncClient(auth=provider, timeout=WAIT_S, verify=self.trust) as http,
            streamable_http_client(f"{url}/mcp", http_client=http) as streams,
            ClientSession(streams[0], streams[1]) as session,
        ):
            await session.initialize()
            content: Any = (await session.call_tool(tool, {})).content[0]
            return str(content.text)


@contextmanager
def run_gateway(proxy: str, folder: Path, hook: str, workers: int = 1, more: str = "") -> Iterator[str]:
    """Run a gateway behind ``proxy``, and give its URL."""
    port, front = find_free_port(), find_free_port()
    (folder / "desk.py").write_text(DESK)
    text = FILE.format(port=port, name=NAME, proxy=front, workers=workers, hook=hook)
    (folder / "toolwire.toml").write_text(more + text)
    (folder / "kept").mkdir(mode=0o700)
    with closing(
        Accounts(
            OAuthStore(folder / "kept" / "oauth.sqlite3"),
            hasher=PasswordHasher(time_cost=1, memory_cost=8, parallelism=1),
        )
    ) as people:
        assert people.add("ann", PASSWORD, make_user_id("ann")) is not None
    argv = [sys.executable, "-m", "toolwire", "gateway", "run"]
    with run_server(argv, port, folder), run_proxy(proxy, folder, port, front):
        wait_until_healthy(front, folder)
        yield f"https://{NAME}:{front}"


@pytest.mark.requirement("CR-02")
@pytest.mark.parametrize(("proxy", "workers"), [("nginx", 1), ("caddy", 2), ("haproxy", 1)])
def test_users_sign_in_decide_and_operate_behind_a_proxy(
    proxy: str,
    workers: int,
    tmp_path: Path,
    open_user: Callable[..., User],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hook = Receiver()
    monkeypatch.setenv("HOOK", f"whsec_{KEY}")
    resolve_name(monkeypatch)
    with run_gateway(proxy, tmp_path, hook.url, workers) as url:
        ann = open_user()
        message = asyncio.run(ann.call(url, "publish"))
        assert f"{url}/inbox" in message
        assert hook.take()[2]["data"]["url"].startswith(f"{url}/inbox")
        # the pages know the browser, by cookies that go nowhere but to this host by HTTPS
        assert ann.browser.get(f"{url}/inbox/").headers["location"] == "/inbox/"
        page = ann.browser.get(f"{url}/inbox/").text
        assert page.count("<article") == 1
        cookies = {one.name: one.secure for one in ann.browser.cookies.jar}
        assert all(cookies.values())
        assert all(name.startswith("__Host-") for name in cookies)
        form = dict(re.findall(r'name="(token|id)" value="([^"]*)"', page.partition("<article")[2]))
        own = {"origin": url, "sec-fetch-site": "same-origin"}
        done = ann.browser.post(f"{url}/inbox/", data={**form, "answer": "allow"}, headers=own)
        assert done.status_code == 303
        assert asyncio.run(ann.call(url, "publish")) == "published"
        ann.browser.get(f"{url}/console/log")
        assert "publish" in ann.browser.get(f"{url}/console/log").text
        # a stream comes while it is open
        assert ann.storage.tokens is not None
        headers = {
            "authorization": f"Bearer {ann.storage.tokens.access_token}",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "subscriptions/listen",
        }
        with ann.browser.stream("POST", f"{url}/mcp", json=LISTEN, headers=headers) as stream:
            first = next(stream.iter_lines())
            assert (stream.status_code, first.split(":")[0]) == (200, "event")
        # an address that guesses passwords is stopped, whatever it says of itself, and no other address is
        assert log_in(url, tmp_path, "127.0.0.3", [*map(str, range(6)), PASSWORD]) != 303
        assert log_in(url, tmp_path, "127.0.0.4", [PASSWORD]) == 303


def log_in(url: str, folder: Path, address: str, passwords: Sequence[str]) -> int:
    """Return how the last of ``passwords`` is answered, tried at ``address`` with fields of a proxy of its own."""
    with User(folder, address).browser as browser:
        for number, password in enumerate(passwords):
            fields = {
                "origin": url,
                "x-forwarded-for": f"198.51.100.{number}",
                "forwarded": f"for=203.0.113.{number};proto=http;host=evil.example",
                "x-forwarded-host": "evil.example",
                "x-forwarded-proto": "http",
            }
            page = browser.get(f"{url}/oauth/login", params={"next": "/console/"}, headers=fields)
            assert "evil.example" not in page.text
            form = dict(re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', page.text))
            form |= {"name": "ann", "password": password}
            answer = browser.post(f"{url}/oauth/login", data=form, headers=fields)
            assert "evil.example" not in str(answer.headers)
    return answer.status_code


BELOW = """
port = {port}
allow-host = ["{name}"]
public-url = "https://{name}:{proxy}/shop"
root-path = "/shop"
trusted-proxies = ["127.0.0.1"]
state = "kept"
consent = "inbox"
api-key-file = "keys.txt"

[callers.ann]
answered-by = ["olga"]

[upstreams.desk]
target = "desk.py"
"""


@pytest.mark.requirement("CR-02")
def test_pages_and_links_are_below_the_path_that_a_proxy_takes_off(
    tmp_path: Path, open_user: Callable[..., User], monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_name(monkeypatch)
    port, front = find_free_port(), find_free_port()
    (tmp_path / "desk.py").write_text(DESK)
    (tmp_path / "keys.txt").write_text("key-of-olga olga toolwire:console\nkey-of-ann ann\n")
    (tmp_path / "toolwire.toml").write_text(BELOW.format(port=port, name=NAME, proxy=front))

    def change(text: str) -> str:
        text = text.replace("location / {", "location /shop/ {")
        return text.replace("proxy_pass http://toolwire;", "proxy_pass http://toolwire/;")

    argv = [sys.executable, "-m", "toolwire", "gateway", "run"]
    with run_server(argv, port, tmp_path), run_proxy("nginx", tmp_path, port, front, change):
        wait_until_healthy(front, tmp_path, "/shop/health")
        url = f"https://{NAME}:{front}/shop"
        browser = open_user().browser
        key = {"authorization": "Bearer key-of-ann", "prefer": "wait=0"}
        message = browser.post(f"{url}/call", json={"request": {"tool_id": "publish", "input": {}}}, headers=key)
        assert f"{url}/inbox" in message.text
        own = {"origin": f"https://{NAME}:{front}", "sec-fetch-site": "same-origin"}
        for place, text in (("inbox", "publish"), ("console", "Overview")):
            form = {"key": "key-of-olga", "next": "/"}
            begun = browser.post(f"{url}/{place}/sign-in", data=form, headers=own)
            assert (begun.status_code, begun.headers["location"]) == (303, f"/shop/{place}/")
            page = browser.get(f"{url}/{place}/").text
            assert text in page
            links = re.findall(r'(?:href|src|action)="(/[^"]*)"', page)
            assert links
            assert all(link.startswith(f"/shop/{place}") for link in links), links
        assert all(one.secure and one.name.startswith("__Host-") for one in browser.cookies.jar)


@pytest.mark.requirement("CR-02")
@pytest.mark.parametrize("workers", [1, 2])
def test_proxy_at_a_unix_socket_names_the_clients(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_name(monkeypatch)
    (tmp_path / "desk.py").write_text(DESK)
    place = tmp_path / "tools.sock"
    argv = [sys.executable, "-m", "toolwire", "serve", "desk.py", "--allow-host", NAME, "--host", f"unix:{place}"]
    argv += ["--trusted-proxies", "unix", "--workers", str(workers), "--state", "kept", "--access-log"]

    def change(text: str) -> str:
        return text.replace("server 127.0.0.1:1 ", f"server unix:{place} ")

    with run_server(argv, place, tmp_path), run_proxy("nginx", tmp_path, 1, change=change) as port:
        wait_until_healthy(port, tmp_path)
        for address in ("127.0.0.2", "127.0.0.3"):
            with User(tmp_path, address).browser as browser:
                assert browser.get(f"https://{NAME}:{port}/openapi.json").status_code == 200
        assert place.stat().st_mode & 0o777 == 0o660
    assert not place.exists()
    printed = (tmp_path / "printed-tools.sock.txt").read_text()
    assert all(f'{address}:0 - "GET /openapi.json' in printed for address in ("127.0.0.2", "127.0.0.3"))


SHOP = """
from fastapi import FastAPI

from toolwire import Toolkit, asgi
from toolwire.integrations import fastapi
from toolwire.server.options import ServerOptions

app, desk = FastAPI(title="Shop"), Toolkit("Desk")


@app.get("/ask", operation_id="ask", openapi_extra={{"x-llm": {{"approval": "auto"}}}})
async def ask() -> str:
    return "asked"


@app.get("/health")
async def get_health() -> str:
    return "well"


@desk.tool(approval="per-call")
def publish() -> str:
    \"\"\"Publish it.\"\"\"
    return "published"


options = {{"hosts": ["{name}"], "public_url": "https://{name}:{front}/desk"}}
fastapi.publish_tools(app, options=ServerOptions(hosts=["{name}"]))
receipts = {{"receipts": "required", "receipt_keys": "keys.json", "receipt_audience": "127.0.0.1:{front}"}}
app.mount("/signed", asgi(desk, **receipts, **options))
app.mount("/desk", asgi(desk, state="kept", consent="inbox", api_keys=["key-of-ann"], **options))
"""


@pytest.mark.requirement("CR-02")
@pytest.mark.parametrize(("proxy", "protocol"), [("nginx", "mcp"), ("caddy", "openapi"), ("haproxy", "otc")])
def test_receipts_and_mounted_tools_work_behind_a_proxy(
    proxy: str, protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_name(monkeypatch)
    port, front = find_free_port(), find_free_port()
    key = ReceiptKey()
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [key.to_public_jwk()]}))
    (tmp_path / "shop.py").write_text(SHOP.format(name=NAME, front=front))
    argv = [sys.executable, "-m", "uvicorn", "shop:app", "--port", str(port)]
    argv += ["--proxy-headers", "--forwarded-allow-ips", "127.0.0.1"]

    def add_address(text: str) -> str:
        return text.replace(f"{NAME}:{front} {{", f"{NAME}:{front}, 127.0.0.1:{front} {{")

    with run_server(argv, port, tmp_path), run_proxy(proxy, tmp_path, port, front, add_address):
        wait_until_healthy(front, tmp_path)
        origin = f"https://127.0.0.1:{front}"  # our client takes a name for a public address

        def call(path: str, tool: str, receipt_key: ReceiptKey | None = None) -> Any:
            with connect_sync(
                f"{origin}{path}",
                protocol=protocol,
                ca_file=tmp_path / "fullchain.pem",
                api_key="key-of-ann" if path == "/desk/" else None,
                session=Session(receipt_key=None if receipt_key is None else lambda: receipt_key),
                approve=lambda _: True,
                headers={"prefer": "wait=0"},
            ) as remote:
                return remote.call(tool)

        assert call("/", "ask") == Value("asked")
        assert call("/signed/", "publish", key) == Value("published")
        refused = call("/signed/", "publish", ReceiptKey())
        assert isinstance(refused, Problem)
        assert "receipt" in refused.message
        waiting = call("/desk/", "publish")
        assert isinstance(waiting, Problem)
        assert waiting.kind is Kind.UNCONFIRMED
        with closing(open_approvals(tmp_path / "kept")) as approvals:
            [question] = approvals.list_pending()
            assert approvals.answer(question.id, Answer(allowed=True))
        assert call("/desk/", "publish") == Value("published")
