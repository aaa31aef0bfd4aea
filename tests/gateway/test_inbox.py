"""Questions about calls of a gateway reach their caller: on a page, by a webhook, while the call waits."""

from __future__ import annotations

import json
import re
import socket
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from getpass import getuser
from hashlib import sha256
from html import unescape
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from tests.console.conftest import Browser
from tests.postgres import Postgres, psycopg, shared_postgres  # noqa: F401 - fixtures
from tests.support.inbox import wait_for
from tests.support.jwt_signing import SECRET, sign_with_secret
from tests.support.webhooks import KEY, Receiver
from toolwire import Problem, Toolkit, asgi, connect_sync
from toolwire.auth.caller_token import ExpectedClaims, read_secret
from toolwire.cli import main
from toolwire.console import add_caller_inbox
from toolwire.console.sessions import OperatorSessions, SessionUser
from toolwire.core.check import Answer
from toolwire.core.errors import UsageError
from toolwire.hosting.build_settings import build_gateway_settings
from toolwire.hosting.caller_consent import find_inbox
from toolwire.hosting.gateway_file import parse_gateway_file
from toolwire.hosting.open_upstreams import open_toolboxes
from toolwire.hosting.serve_app import build_app
from toolwire.limits import CallerRules
from toolwire.server.access.api_keys import parse_api_key
from toolwire.server.access.signed_tokens import SignedTokenCallers
from toolwire.server.run.function_toolbox import FunctionToolbox
from toolwire.stores.consent.approvals import Approvals, PendingQuestion
from toolwire.stores.consent.open import open_decisions, open_grants, open_used_nonces
from toolwire.testing import background

PUBLIC_URL = "https://tools.example"
ANN, BOB, OPS, PHONE = (f"{name}-key-000000000000000000000000" for name in ("ann", "bob", "ops", "phone"))
WIRES = ("mcp", "mcp-2025", "openapi", "otc", "opentool")


class Shop:
    """An upstream that remembers what was done."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.kit = kit = Toolkit("Shop")

        @kit.tool(approval="per-call", blanket_allowed=True)
        def publish(name: str) -> str:
            """Publish something."""
            self.done.append(name)
            return f"published {name}"

        @kit.tool(destructive=True)
        def erase(name: str) -> str:
            """Erase something."""
            self.done.append(f"erased {name}")
            return "erased"

        @kit.tool(long=True, approval="per-call")
        def render(name: str) -> str:
            """Render a film."""
            self.done.append(f"rendered {name}")
            return f"rendered {name}"


@dataclass
class Client:
    """A program that calls the gateway over one protocol, with header fields of its own."""

    url: str
    wire: str = "openapi"
    key: str = ANN
    fields: dict[str, str] = field(default_factory=dict)

    def call(self, tool: str, arguments: dict[str, Any]) -> tuple[int, Any]:
        """Return the status and the body of the response."""
        connection = self.open(tool, arguments)
        answer = connection.getresponse()
        data = answer.read().decode()
        connection.close()
        return answer.status, json.loads(data) if data[:1] in '{["' else data

    def get(self, path: str) -> Any:
        """Return the JSON at ``path``."""
        return self._send("GET", path, None)

    def post(self, path: str, data: Any) -> Any:
        """Send JSON to ``path``, and return the answer."""
        return self._send("POST", path, json.dumps(data))

    def _send(self, method: str, path: str, body: str | None) -> Any:
        connection = HTTPConnection(urlsplit(self.url).netloc, timeout=30)
        fields = {"content-type": "application/json", "authorization": f"Bearer {self.key}"}
        connection.request(method, path, body, fields)
        data = connection.getresponse().read()
        connection.close()
        return json.loads(data)

    def open(self, tool: str, arguments: dict[str, Any]) -> HTTPConnection:
        """Send the request, and return its connection."""
        path, body = _write(self.wire, tool, arguments)
        connection = HTTPConnection(urlsplit(self.url).netloc, timeout=30)
        fields = {"content-type": "application/json", "authorization": f"Bearer {self.key}", **self.fields}
        if self.wire == "mcp":
            fields |= {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": tool}
        connection.request("POST", path, json.dumps(body), fields)
        return connection


def _write(wire: str, tool: str, arguments: dict[str, Any]) -> tuple[str, Any]:
    match wire:
        case "openapi":
            return f"/api/{tool}", arguments
        case "otc":
            return "/tools/call", {"request": {"tool_id": f"Shop.{tool}@1.0.0", "input": arguments}}
        case "opentool":
            params = {"jsonrpc": "2.0", "method": tool, "params": arguments, "id": "1"}
            return "/opentool/call", params
        case _:
            params: dict[str, Any] = {"name": tool, "arguments": arguments}
            if wire == "mcp":
                params["_meta"] = {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {},
                    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
                }
            return "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


@dataclass
class Started:
    """A gateway that runs, its upstream, and the folder of its state."""

    url: str
    shop: Shop
    state: Path

    @property
    def approvals(self) -> Approvals:
        return Approvals(self.state)

    def sign_in(self, key: str = PHONE) -> Browser:
        """Return a browser that is signed in at the inbox."""
        browser = Browser(self.url)
        reply = browser.send("POST", "/inbox/sign-in", urlencode({"key": key, "next": "/"}))
        assert reply.status == 303, reply.text
        browser.cookie = reply.headers["set-cookie"].partition(";")[0]
        return browser

    def answer(self, browser: Browser, **fields: str) -> str:
        """Answer the only question on the page, and return the page that follows."""
        page = browser.get("/inbox").text
        [id_] = re.findall(r'name="id" value="([^"]+)"', page)
        token = page.partition('name="token" value="')[2].partition('"')[0]
        reply = browser.send("POST", "/inbox/", urlencode({"token": token, "id": id_, **fields}))
        return browser.get(reply.headers["location"]).text if reply.status == 303 else reply.text


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Started]]:
    """Start a gateway of a file with ``above`` the upstream and ``below`` it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keys.txt").write_text(f"{ANN} ann\n{BOB} bob\n{OPS} ops toolwire:console\n{PHONE} phone\n")
    (tmp_path / "keys.txt").chmod(0o600)
    with ExitStack() as ending:

        def started(
            above: str = 'consent = "inbox"', below: str = "", *, own: bool = False, state: str = "state"
        ) -> Started:
            # AT-35: another credential than that of the program answers.
            rule = 'answered-by = ["phone"]'
            if "answered-by" not in below:
                own_table = "[callers.ann]\n"
                below = (
                    below.replace(own_table, f"{own_table}{rule}\n", 1)
                    if own_table in below
                    else f'{below}\n[callers."*"]\n{rule}\n'
                )
            shop = Shop()
            site = ending.enter_context(background(asgi(shop.kit)))
            text = f"""
state = "{state}"
api-key-file = "keys.txt"
public-url = "{PUBLIC_URL}"
{above}

[upstreams.shop]
target = "{site}"

{below}
"""
            settings = build_gateway_settings(parse_gateway_file(text.encode(), "toolwire.toml"))
            boxes = [FunctionToolbox(shop.kit, threads=4)] if own else open_toolboxes(settings)
            app = build_app(settings, boxes)
            return Started(ending.enter_context(background(app)), shop, tmp_path / "state")

        yield started


def in_thread(call: Callable[[], Any]) -> Future[Any]:
    return ThreadPoolExecutor(1).submit(call)


@pytest.mark.requirement("GW-04")
@pytest.mark.parametrize("wire", WIRES)
def test_call_waits_for_the_answer_on_the_page_and_then_runs_once(wire: str, start: Callable[..., Started]) -> None:
    gateway = start()
    client = Client(gateway.url, wire, fields={"prefer": "wait=30"})
    waiting = in_thread(lambda: client.call("publish", {"name": "tea"}))
    browser = gateway.sign_in()
    wait_for(lambda: "publish" in browser.get("/inbox").text)
    assert gateway.shop.done == []
    assert "Allowed. The call can run now" in gateway.answer(browser, answer="allow")
    status, body = waiting.result(20)
    assert status == 200
    assert "published tea" in json.dumps(body)
    assert gateway.shop.done == ["tea"]
    # The answer is used up: the same call asks anew.
    assert "published" not in json.dumps(Client(gateway.url, wire).call("publish", {"name": "tea"}))
    assert gateway.shop.done == ["tea"]


@pytest.mark.requirement("GW-04")
@pytest.mark.parametrize("wire", WIRES)
def test_call_that_waits_is_told_a_no_with_its_reason(wire: str, start: Callable[..., Started]) -> None:
    gateway = start()
    client = Client(gateway.url, wire, fields={"prefer": "wait=30"})
    waiting = in_thread(lambda: client.call("publish", {"name": "tea"}))
    [asked] = wait_for(gateway.approvals.list_pending)
    browser = gateway.sign_in()
    assert "Denied." in gateway.answer(browser, answer="deny", reason="too dear")
    _, body = waiting.result(20)
    assert "its user did not allow it: too dear" in json.dumps(body)
    assert gateway.shop.done == []
    assert not gateway.approvals.answer(asked.id, Answer(allowed=True))


@pytest.mark.requirement("GW-04")
def test_call_that_waits_in_vain_names_the_page(start: Callable[..., Started]) -> None:
    gateway = start()
    status, body = Client(gateway.url, fields={"prefer": "wait=1"}).call("publish", {"name": "tea"})
    assert (status, body["details"]["inbox"]["url"]) == (428, f"{PUBLIC_URL}/inbox")
    assert "within five minutes. Then send the same call again." in body["detail"]
    # The question goes on to wait, and the same call then runs at once.
    gateway.answer(gateway.sign_in(), answer="allow")
    assert Client(gateway.url, fields={"prefer": "wait=0"}).call("publish", {"name": "tea"}) == (200, "published tea")


@pytest.mark.requirement("GW-04")
def test_host_without_forms_waits_as_long_as_the_file_says(start: Callable[..., Started]) -> None:
    gateway = start('consent = "inbox"\nask-wait = 30')
    waiting = in_thread(lambda: Client(gateway.url, "mcp").call("publish", {"name": "tea"}))
    [asked] = wait_for(gateway.approvals.list_pending)
    # The terminal answers as well as the page does.
    assert main(["approvals", "--path", str(gateway.state), "allow", asked.id]) == 0
    assert "published tea" in json.dumps(waiting.result(20))


@pytest.mark.requirement("FU-60", "CC-07")
@pytest.mark.parametrize("action", ["allow", "deny"])
def test_decision_at_the_terminal_is_in_the_log_with_who_decided_and_for_whom(
    action: str, start: Callable[..., Started], capsys: pytest.CaptureFixture[str]
) -> None:
    gateway = start()
    assert Client(gateway.url, fields={"prefer": "wait=0"}).call("publish", {"name": "tea"})[0] == 428
    [asked] = gateway.approvals.list_pending()
    place = ["--path", str(gateway.state)]
    assert main(["approvals", *place, action, asked.id]) == 0
    [record] = [one.record for one in open_decisions(gateway.state).entries() if one.record.channel == "terminal"]
    assert (record.principal, record.caller, record.tool) == (getuser(), "key:ann", "publish")
    assert (record.decision, record.binding) == ("allowed" if action == "allow" else "denied", asked.id)
    assert main(["approvals", *place, "log"]) == 0
    assert f"{getuser()} for key:ann" in capsys.readouterr().out
    # An answer that comes too late is none, and is not in the log.
    assert main(["approvals", *place, action, asked.id]) == 1
    assert len([one for one in open_decisions(gateway.state).entries() if one.record.channel == "terminal"]) == 1


@pytest.mark.requirement("FU-60")
def test_rules_and_permissions_that_are_changed_at_the_terminal_are_in_the_log(start: Callable[..., Started]) -> None:
    gateway = start()
    client = Client(gateway.url, fields={"prefer": "wait=0"})
    assert client.call("publish", {"name": "tea"})[0] == 428
    [asked] = gateway.approvals.list_pending()
    place = ["--path", str(gateway.state)]
    assert main(["approvals", *place, "allow", asked.id, "--always"]) == 0
    assert client.call("publish", {"name": "tea"})[0] == 200
    [grant] = open_grants(gateway.state).list_grants()
    assert main(["approvals", *place, "revoke", grant.id]) == 0
    records = [one.record for one in open_decisions(gateway.state).entries() if one.record.channel == "terminal"]
    assert [(one.decision, one.always, one.principal, one.caller) for one in records] == [
        ("allowed", True, getuser(), "key:ann"),
        ("allowed", False, getuser(), "key:ann"),  # the call that this answer lets run
        ("revoked", False, getuser(), "key:ann"),
    ]


@pytest.mark.requirement("GW-04", "D-39")
@pytest.mark.parametrize("key", ["", "order-7"])
def test_nothing_runs_if_the_client_leaves_while_its_call_waits(key: str, start: Callable[..., Started]) -> None:
    gateway = start()
    fields = {"prefer": "wait=60", **({"idempotency-key": key} if key else {})}
    connection = Client(gateway.url, fields=fields).open("publish", {"name": "tea"})
    [asked] = wait_for(gateway.approvals.list_pending)
    connection.close()
    # Another call of the same kind shows that the server has gone on.
    other = Client(gateway.url, fields={"prefer": "wait=1"})
    assert other.call("publish", {"name": "coffee"})[0] == 428
    assert gateway.approvals.answer(asked.id, Answer(allowed=True))
    assert other.call("publish", {"name": "coffee"})[0] == 428
    assert gateway.shop.done == []
    assert gateway.approvals.is_answered(asked.id), "nothing has used the answer"


@pytest.mark.requirement("GW-04")
def test_answer_counts_for_the_arguments_that_were_shown_alone(start: Callable[..., Started]) -> None:
    gateway = start()
    client = Client(gateway.url, fields={"prefer": "wait=1"})
    assert client.call("publish", {"name": "tea"})[0] == 428
    browser = gateway.sign_in()
    gateway.answer(browser, answer="allow")
    assert client.call("publish", {"name": "all tea"})[0] == 428
    assert Client(gateway.url, key=BOB, fields={"prefer": "wait=1"}).call("publish", {"name": "tea"})[0] == 428
    assert gateway.shop.done == []


@pytest.mark.requirement("GW-04", "D-39")
def test_session_sees_its_own_questions_and_those_it_answers_alone(start: Callable[..., Started]) -> None:
    gateway = start()
    Client(gateway.url, "mcp", ANN).call("publish", {"name": "anns-secret"})
    [asked] = gateway.approvals.list_pending()
    bob = gateway.sign_in(BOB)
    page = bob.get("/inbox").text
    assert "anns-secret" not in page
    assert "No pending questions." in page
    token = page.partition('name="token" value="')[2].partition('"')[0]
    reply = bob.send("POST", "/inbox/", urlencode({"token": token, "id": asked.id, "answer": "allow"}))
    assert reply.headers["location"].endswith("note=over")
    assert [one.id for one in gateway.approvals.list_pending()] == [asked.id]
    assert not gateway.approvals.answer(asked.id, Answer(allowed=True), principal="key:bob")
    for key in (ANN, PHONE):
        seen = gateway.sign_in(key).get("/inbox").text
        assert "anns-secret" in seen
        assert "key:ann" in seen


@pytest.mark.requirement("GW-04", "D-39")
def test_inbox_needs_a_key_of_a_caller_and_the_token_of_its_page(start: Callable[..., Started]) -> None:
    gateway = start()
    Client(gateway.url, "mcp").call("publish", {"name": "tea"})
    [asked] = gateway.approvals.list_pending()
    stranger = Browser(gateway.url)
    for path in ("/inbox", "/inbox/permissions", "/inbox/answers", "/inbox/nothing"):
        reply = stranger.get(path)
        assert (reply.status, "publish" in reply.text) == (401, False)
    assert stranger.get("/inbox/events").status == 401
    wrong = stranger.send("POST", "/inbox/sign-in", urlencode({"key": "guess", "next": "/"}))
    assert (wrong.status, "This server does not accept this key" in wrong.text) == (403, True)
    ann = gateway.sign_in()
    body = urlencode({"token": "wrong", "id": asked.id, "answer": "allow"})
    assert ann.send("POST", "/inbox/", body).status == 403
    assert ann.send("POST", "/inbox/", body, sec_fetch_site="cross-site").status == 403
    assert ann.send("GET", "/inbox", Host="evil.example").status == 421
    page = ann.get("/inbox")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]
    assert page.headers["cache-control"] == "no-store"
    assert [one.id for one in gateway.approvals.list_pending()] == [asked.id]


@pytest.mark.requirement("GW-04", "D-39")
def test_cookie_is_bounded_holds_no_key_and_is_read_by_no_script(start: Callable[..., Started]) -> None:
    gateway = start()
    reply = Browser(gateway.url).send("POST", "/inbox/sign-in", urlencode({"key": ANN, "next": "/"}))
    cookie = reply.headers["set-cookie"]
    assert cookie.endswith("; Path=/inbox; HttpOnly; SameSite=Strict")
    text = cookie.partition("=")[2].partition(".")[0]
    audience, _, name, _, until, _, _ = json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    assert (audience, name) == ("inbox", "key:ann")
    assert until <= time.time() + 12 * 3600
    assert ANN not in cookie
    assert ANN not in reply.headers["location"]


@pytest.mark.requirement("GW-04")
def test_always_makes_a_permission_of_this_caller_which_they_take_back(start: Callable[..., Started]) -> None:
    gateway = start()
    client = Client(gateway.url, fields={"prefer": "wait=30"})
    waiting = in_thread(lambda: client.call("publish", {"name": "a"}))
    ann = gateway.sign_in()
    wait_for(lambda: "publish" in ann.get("/inbox").text)
    assert ". You can revoke this on the Permissions page" in gateway.answer(ann, answer="allow", always="yes")
    assert waiting.result(20) == (200, "published a")
    at_once = Client(gateway.url, fields={"prefer": "wait=0"})
    assert at_once.call("publish", {"name": "b"}) == (200, "published b")
    # It is ann's alone.
    bobs = Client(gateway.url, key=BOB, fields={"prefer": "wait=0"})
    assert bobs.call("publish", {"name": "c"})[0] == 428
    bob = gateway.sign_in(BOB)
    assert "Take back" in gateway.sign_in(ANN).get("/inbox/permissions").text
    assert "Take back" not in bob.get("/inbox/permissions").text
    page = ann.get("/inbox/permissions").text
    [id_] = re.findall(r'name="id" value="([^"]+)"', page)
    token = page.partition('name="token" value="')[2].partition('"')[0]
    theirs = bob.get("/inbox").text.partition('name="token" value="')[2].partition('"')[0]
    reply = bob.send("POST", "/inbox/permissions", urlencode({"token": theirs, "id": id_}))
    assert reply.headers["location"].endswith("note=not-there")
    reply = ann.send("POST", "/inbox/permissions", urlencode({"token": token, "id": id_}))
    assert reply.headers["location"].endswith("note=revoked")
    assert at_once.call("publish", {"name": "d"})[0] == 428
    assert gateway.shop.done == ["a", "b"]
    answers = ann.get("/inbox/answers").text
    assert "allowed, and later calls" in answers
    assert "allowed, and later calls" not in bob.get("/inbox/answers").text


@pytest.mark.requirement("GW-04", "D-34")
def test_one_caller_cannot_take_the_event_streams_of_the_others(start: Callable[..., Started]) -> None:
    gateway = start()
    parts = urlsplit(gateway.url)
    ann, bob = gateway.sign_in(), gateway.sign_in(BOB)
    with ExitStack() as ending:

        def listen(browser: Browser) -> bytes:
            stream = ending.enter_context(socket.create_connection((parts.hostname, parts.port), timeout=20))
            fields = f"Host: {parts.netloc}\r\nCookie: {browser.cookie}"
            stream.sendall(f"GET /inbox/events HTTP/1.1\r\n{fields}\r\n\r\n".encode())
            return stream.recv(12)

        assert {listen(ann) for _ in range(20)} == {b"HTTP/1.1 200"}
        assert listen(ann) == b"HTTP/1.1 503"
        assert listen(bob) == b"HTTP/1.1 200"


class ChangingSite:
    """A site with an OpenAPI document: the same tool at each of ``paths``, below which each caller has a place."""

    def __init__(self, *paths: str) -> None:
        self.paths = paths
        self.operation = "/preview"
        self.done: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        path = scope["path"]
        root = next((one for one in self.paths if path.startswith(one)), "")
        status, body = 404, b"{}"
        if path == f"{root}/openapi.json":
            status, body = 200, json.dumps(self._write(root)).encode()
        elif scope["method"] == "POST" and path.startswith(f"{root}/p"):
            self.done.append(path)
            status = 200
        await send(
            {"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json")]}
        )
        await send({"type": "http.response.body", "body": body})

    def _write(self, root: str) -> dict[str, Any]:
        schema = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
        operation = {
            "operationId": "order",
            "x-llm": {"enabled": True, "approval": "per-call", "blanketApprovalAllowed": True},
            "description": "Order something.",
            "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
            "responses": {"200": {"description": "Done"}},
        }
        return {
            "openapi": "3.1.0",
            "info": {"title": "Shop", "version": "1"},
            "x-llm": {"version": "0.1", "name": "Shop"},
            "servers": [{"url": root or "/"}],
            "paths": {self.operation: {"post": operation}},
        }


def serve_upstreams(targets: dict[str, str]) -> Any:
    """Return the application of a gateway whose callers decide in the inbox, over ``targets`` by name."""
    tables = "".join(f'[upstreams.{name}]\ntarget = "{target}"\n' for name, target in targets.items())
    rules = '[callers."*"]\nanswered-by = ["phone"]\n'
    server = f'state = "state"\napi-key-file = "keys.txt"\npublic-url = "{PUBLIC_URL}"\nconsent = "inbox"\n'
    text = f"{server}{tables}{rules}"
    settings = build_gateway_settings(parse_gateway_file(text.encode(), "toolwire.toml"))
    return build_app(settings, open_toolboxes(settings))


@pytest.mark.requirement("GW-04", "D-04")
@pytest.mark.usefixtures("start")  # the folder with the keys
def test_permission_for_one_upstream_is_none_for_another_of_the_same_site(tmp_path: Path) -> None:
    site = ChangingSite("/mine", "/theirs")
    with (
        background(site) as url,
        background(serve_upstreams({"mine": f"{url}/mine/openapi.json", "theirs": f"{url}/theirs/openapi.json"})) as at,
    ):
        gateway = Started(at, Shop(), tmp_path / "state")
        client = Client(at, "mcp-2025", fields={"prefer": "wait=0"})
        assert "its user must decide" in json.dumps(client.call("mine_Shop_order", {"name": "tea"}))
        ann = gateway.sign_in()
        page = ann.get("/inbox").text
        assert f"order at mine (POST {url}/mine/preview), for key:ann" in page
        assert ". You can revoke this on the Permissions page" in gateway.answer(ann, answer="allow", always="yes")
        for _ in range(2):
            client.call("mine_Shop_order", {"name": "tea"})
        assert site.done == ["/mine/preview", "/mine/preview"]
        assert "its user must decide" in json.dumps(client.call("theirs_Shop_order", {"name": "tea"}))
        assert site.done == ["/mine/preview", "/mine/preview"]


@pytest.mark.requirement("GW-04", "D-04")
@pytest.mark.usefixtures("start")  # the folder with the keys
def test_permission_for_later_calls_ends_when_a_site_sends_them_to_another_path(tmp_path: Path) -> None:
    site = ChangingSite("")
    with background(site) as url:
        with background(serve_upstreams({"shop": f"{url}/openapi.json"})) as at:
            gateway = Started(at, Shop(), tmp_path / "state")
            client = Client(at, fields={"prefer": "wait=0"})
            assert client.call("order", {"name": "tea"})[0] == 428
            gateway.answer(gateway.sign_in(), answer="allow", always="yes")
            assert client.call("order", {"name": "tea"})[0] == 200
            assert client.call("order", {"name": "coffee"})[0] == 200
        with background(serve_upstreams({"shop": url})) as at:
            assert Client(at, fields={"prefer": "wait=0"}).call("order", {"name": "milk"})[0] == 200
        # Name, description and schema stay what they were.
        site.operation = "/purchase"
        with background(serve_upstreams({"shop": f"{url}/openapi.json"})) as at:
            assert Client(at, fields={"prefer": "wait=0"}).call("order", {"name": "tea"})[0] == 428
        assert site.done == ["/preview"] * 3


@pytest.mark.requirement("GW-04")
def test_caller_finds_the_own_answers_behind_thousands_of_others(start: Callable[..., Started]) -> None:
    gateway = start()
    assert Client(gateway.url, fields={"prefer": "wait=0"}).call("publish", {"name": "tea"})[0] == 428
    ann = gateway.sign_in()
    gateway.answer(ann, answer="deny")
    log = open_decisions(gateway.state)
    [own] = [one.record for one in log.entries() if one.record.channel == "inbox"]
    for _ in range(6_000):
        log.append(replace(own, principal="key:bob", tool="theirs"))
    answers = ann.get("/inbox/answers").text
    assert ("publish" in answers, "not allowed" in answers, "theirs" in answers) == (True, True, False)


@pytest.mark.requirement("GW-04")
def test_what_destroys_is_typed_and_never_allowed_for_later(start: Callable[..., Started]) -> None:
    gateway = start()
    client = Client(gateway.url, fields={"prefer": "wait=0"})
    assert client.call("erase", {"name": "old"})[0] == 428
    ann = gateway.sign_in()
    page = ann.get("/inbox").text
    assert "Later calls" not in page
    assert "To allow this call, type: erase yes" in gateway.answer(ann, answer="allow", always="yes")
    refused = gateway.answer(ann, answer="allow", confirm="erase yes", always="yes")
    assert "This tool can only be allowed one call at a time" in refused
    assert "Allowed. The call" in gateway.answer(ann, answer="allow", confirm="erase yes")
    assert client.call("erase", {"name": "old"})[0] == 200
    assert client.call("erase", {"name": "old"})[0] == 428
    assert gateway.shop.done == ["erased old"]


@pytest.mark.requirement("GW-04", "D-39")
def test_caller_whose_questions_go_to_the_inbox_cannot_confirm_a_call_itself(start: Callable[..., Started]) -> None:
    gateway = start(above="", below='[callers.ann]\nquestions = "inbox"')
    for wire in WIRES:
        body = json.dumps(Client(gateway.url, wire).call("publish", {"name": wire}))
        assert ", within five minutes. Then send the same call again" in body
        assert '"word"' not in body
    # Bob's program is told how to confirm, as before; his word is worth nothing in the hands of ann's.
    _, asked = Client(gateway.url, key=BOB).call("publish", {"name": "x"})
    word = asked["details"]["confirmation"]["word"]
    fields = {"toolwire-confirmation": word}
    assert Client(gateway.url, fields=fields).call("publish", {"name": "x"})[0] == 428
    assert Client(gateway.url, key=BOB, fields=fields).call("publish", {"name": "x"})[0] == 200
    with connect_sync(gateway.url, protocol="openapi", api_key=ANN, approve=lambda _: True) as remote:
        refused = remote.call("publish", {"name": "ours"})
    assert isinstance(refused, Problem)
    assert ", within five minutes. Then send the same call again" in refused.message
    assert gateway.shop.done == ["x"]


def try_to_allow(gateway: Started, browser: Browser, asked: PendingQuestion, root: str = "/inbox") -> tuple[int, str]:
    """Return what becomes of a form that allows ``asked``, whether or not the page shows one."""
    path = "/inbox/" if root == "/inbox" else f"{root}/inbox"
    token = browser.get(path).text.partition('name="token" value="')[2].partition('"')[0]
    assert token
    facts = {row.label: row.text for row in asked.rows}
    form = {"token": token, "id": asked.id, "answer": "allow", "confirm": f"{facts['tool']} yes"}
    reply = browser.send("POST", path, urlencode(form))
    return reply.status, reply.text or reply.headers["location"]


@pytest.mark.requirement("AT-35", "GW-04", "D-39")
@pytest.mark.parametrize("tool", ["publish", "erase"])
@pytest.mark.parametrize(
    "below",
    [
        '[callers.ann]\nquestions = "inbox"',
        '[callers."*"]\nquestions = "inbox"\nanswered-by = ["phone"]',
        '[callers.agents]\nquestions = "inbox"\nmembers = ["ann"]\nanswered-by = ["phone", "ann"]',
        "",
    ],
    ids=["own table", "all callers", "a group that names itself", "consent of the server"],
)
def test_program_does_not_allow_its_own_call_with_its_own_key(
    below: str, tool: str, start: Callable[..., Started]
) -> None:
    gateway = start("" if below else 'consent = "inbox"', below)
    client = Client(gateway.url, fields={"prefer": "wait=0"})
    assert client.call(tool, {"name": "x"})[0] == 428
    [asked] = gateway.approvals.list_pending()
    own = gateway.sign_in(ANN)
    page = own.get("/inbox").text
    assert (asked.id in page, "Allow this call" in page, "It is for " in page) == (True, False, True)
    status, text = try_to_allow(gateway, own, asked)
    assert (
        status,
        ("You cannot answer this question here, because the program that asks uses the same key or token. It is for")
        in text,
    ) == (403, True)
    assert client.call(tool, {"name": "x"})[0] == 428
    assert gateway.shop.done == []
    # The credential that the file names answers, and the log says who did it for whom.
    assert try_to_allow(gateway, gateway.sign_in(PHONE), asked)[0] == 303
    assert client.call(tool, {"name": "x"})[0] == 200
    records = [one.record for one in open_decisions(gateway.state).entries() if one.record.channel == "inbox"]
    # One is of the answer, and one of the call that it lets run.
    assert [(one.principal, one.caller, one.decision) for one in records] == [("key:phone", "key:ann", "allowed")] * 2


@pytest.mark.requirement("AT-35")
def test_operator_whose_key_calls_too_does_not_allow_the_own_call(start: Callable[..., Started]) -> None:
    gateway = start("", '[callers.ops]\nquestions = "inbox"')
    assert Client(gateway.url, key=OPS).call("publish", {"name": "x"})[0] == 428
    assert Client(gateway.url, fields={"prefer": "wait=0"}).call("publish", {"name": "x"})[0] == 428
    anns, own = sorted(gateway.approvals.list_pending(), key=lambda one: one.principal)
    browser = Browser(gateway.url)
    reply = browser.send("POST", "/console/sign-in", urlencode({"key": OPS, "next": "/"}))
    browser.cookie = reply.headers["set-cookie"].partition(";")[0]
    status, text = try_to_allow(gateway, browser, own, "/console")
    assert (status, "Another operator can" in text) == (403, True)
    assert try_to_allow(gateway, browser, anns, "/console")[0] == 303
    [record] = [one.record for one in open_decisions(gateway.state).entries() if one.record.channel == "console"]
    assert (record.principal, record.caller, record.decision) == ("ops", "key:ann", "allowed")


@pytest.mark.requirement("AT-35")
@pytest.mark.parametrize("answered_by", [(), ("ann",), ("jwt:ann",)])
def test_signed_token_does_not_answer_for_its_own_caller(answered_by: tuple[str, ...], tmp_path: Path) -> None:
    token = sign_with_secret({"sub": "ann", "exp": int(time.time()) + 60}).decode()
    rules = {"ann": CallerRules(inbox=True, answered_by=frozenset(answered_by))}
    callers = SignedTokenCallers(read_secret(SECRET), ExpectedClaims())
    shop = Shop()
    app = add_caller_inbox(
        asgi(
            shop.kit,
            callers=callers,
            api_keys=[parse_api_key(f"{ANN} ann")],
            state=tmp_path / "state",
            caller_rules=rules,
        ),
        tmp_path / "state",
        callers=callers,
        api_keys=[parse_api_key(f"{ANN} ann")],
        caller_rules=rules,
    )
    with background(app) as url:
        gateway = Started(url, shop, tmp_path / "state")
        assert Client(url, key=token).call("publish", {"name": "x"})[0] == 428
        [asked] = gateway.approvals.list_pending()
        # Nor does the key of the same name: one program may have both.
        for credential in (token, ANN):
            assert try_to_allow(gateway, gateway.sign_in(credential), asked)[0] in (303, 403)
            assert [one.id for one in gateway.approvals.list_pending()] == [asked.id]
        assert shop.done == []


@pytest.mark.requirement("AT-42")
def test_who_reads_the_state_of_a_server_of_tokens_cannot_open_an_inbox(tmp_path: Path) -> None:
    token = sign_with_secret({"sub": "ann", "exp": int(time.time()) + 60}).decode()
    callers, shop, state = SignedTokenCallers(read_secret(SECRET), ExpectedClaims()), Shop(), tmp_path / "state"
    served = asgi(shop.kit, callers=callers, state=state, consent="inbox")
    with background(add_caller_inbox(served, state, callers=callers, api_keys=[])) as url:
        gateway = Started(url, shop, state)
        browser = gateway.sign_in(token)
        assert browser.get("/inbox").status == 200
        name, _, real = browser.cookie.partition("=")
        # No key is in the file, so what signs the cookies comes from the state alone.
        secret = sha256(b"inbox" + open_used_nonces(state).key).digest()
        sessions = OperatorSessions(lambda _: None, secret=secret, audience="inbox")
        session = sessions.find(real)
        assert session is not None, "the attacker knows the key"
        forged = sessions.start_for(SessionUser(session.name, 600.0))
        assert sessions.find(forged) is not None
        browser.cookie = f"{name}={forged}"
        page = browser.get("/inbox")
        assert (page.status, "sign-in" in page.text) == (401, True)


@pytest.mark.requirement("GW-04")
@pytest.mark.parametrize("own", [True, False], ids=["own tool", "tool of an upstream"])
def test_long_call_waits_for_the_answer_and_goes_on_by_itself(own: bool, start: Callable[..., Started]) -> None:
    gateway = start(below='[callers.ann]\nquestions = "inbox"', own=own)
    client = Client(gateway.url)
    status, body = client.call("render", {"name": "film"})
    assert status == 202, body
    call_id = body["id"]

    def read() -> Any:
        return client.get(f"/calls/{call_id}")

    waiting = wait_for(lambda: read() if read()["state"] == "waiting" else None)
    [asked] = waiting["input"].values()
    assert asked["url"] == f"{PUBLIC_URL}/inbox"
    assert gateway.shop.done == []
    # its page in a browser leads there too, and an answer on it decides nothing
    form = {"content-type": "application/x-www-form-urlencoded", "accept": "text/html"}
    browser = Browser(gateway.url)
    page = browser.send("POST", f"/calls/{call_id}", urlencode({"step": "call", "key": ANN}), **form).text
    assert f'href="{PUBLIC_URL}/inbox"' in page
    fields = dict(re.findall(r'name="(asked|question)" value="([^"]*)"', page))
    done = {name: unescape(value) for name, value in fields.items()} | {"step": "accept", "key": ANN}
    assert browser.send("POST", f"/calls/{call_id}", urlencode(done), **form).status == 200
    wait_for(lambda: read()["state"] == "waiting")
    assert gateway.shop.done == []
    # The caller's program cannot answer for its user.
    [name] = waiting["input"]
    client.post(f"/calls/{call_id}", {"input": {name: {"action": "accept"}}})
    wait_for(lambda: read()["state"] == "waiting")
    assert gateway.shop.done == []
    gateway.answer(gateway.sign_in(), answer="allow")
    ended = wait_for(lambda: read() if read()["state"] == "ended" else None)
    assert ended["result"] == "rendered film"
    assert gateway.shop.done == ["rendered film"]


@pytest.mark.requirement("GW-04")
def test_long_call_ends_with_a_no(start: Callable[..., Started]) -> None:
    gateway = start(below='[callers.ann]\nquestions = "inbox"', own=True)
    client = Client(gateway.url)
    call_id = client.call("render", {"name": "film"})[1]["id"]
    wait_for(lambda: client.get(f"/calls/{call_id}")["state"] == "waiting")
    gateway.answer(gateway.sign_in(), answer="deny", reason="no film")
    ended = wait_for(lambda: found if (found := client.get(f"/calls/{call_id}"))["state"] == "ended" else None)
    assert "no film" in ended["error"]["message"]
    assert gateway.shop.done == []


@pytest.mark.requirement("GW-04", "D-26")
def test_question_is_told_to_the_webhook_of_the_file_and_the_operator_sees_what_fails(
    start: Callable[..., Started], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    site: Receiver = request.getfixturevalue("receiver")
    monkeypatch.setenv("HOOK_SECRET", f"whsec_{KEY}")
    hook = f'[webhook]\nurl = "{site.url}/hook"\nsecret-env = "HOOK_SECRET"\n'
    anns = f'[callers.ann.webhook]\nurl = "{site.url}/ann"\nsecret-env = "HOOK_SECRET"\narguments = true\n'
    gateway = start(below=hook + anns)
    for key, path in ((ANN, "/ann"), (BOB, "/hook")):
        Client(gateway.url, "mcp", key).call("publish", {"name": "tea"})
        where, _, message = site.take()
        assert where == path
        assert message["data"]["url"] == f"{PUBLIC_URL}/inbox"
        assert message["data"].get("arguments") == ({"name": "tea"} if key == ANN else None)
    # It tells once for each question, and answers nothing.
    Client(gateway.url, "mcp").call("publish", {"name": "tea"})
    assert site.received.empty()
    assert len(gateway.approvals.list_pending()) == 2
    site.answers = [(500, {})]
    Client(gateway.url, "mcp").call("publish", {"name": "coffee"})
    site.received.get(timeout=20)
    operator = Browser(gateway.url)
    reply = operator.send("POST", "/console/sign-in", urlencode({"key": OPS, "next": "/"}))
    operator.cookie = reply.headers["set-cookie"].partition(";")[0]
    wait_for(
        lambda: (
            f"The webhook at {site.url} failed: it answered with status 500. The message will be sent again."
            in operator.get("/console").text
        )
    )
    assert "/ann" not in operator.get("/console").text


@pytest.mark.requirement("GW-04")
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('[webhook]\nurl = "https://h.example"', 'a webhook needs "url", and "secret-env"'),
        ('[webhook]\nurl = "https://h.example"\nsecret = "x"', "a secret does not belong into this file"),
        ('[webhook]\nurl = "h.example"\nsecret-env = "S"', "url is the URL of a page"),
        ('[webhook]\nurl = "https://h.example"\nsecret-env = "S"\narguments = 1', "arguments must be true or false"),
        ('[webhook]\nurl = "https://h.example"\nsecret-env = "S"\nto = "x"', 'there is no option "to" here'),
        ('[callers.ann]\nquestions = "page"', 'questions is "inbox"'),
    ],
)
def test_fault_of_the_file_about_the_inbox_has_its_place(text: str, fault: str) -> None:
    file = f'consent = "inbox"\n\n[upstreams.shop]\ntarget = "shop.py"\n\n{text}\n'
    with pytest.raises(UsageError, match=re.escape(fault)) as refused:
        parse_gateway_file(file.encode(), "toolwire.toml")
    assert re.search(r"toolwire\.toml:\d+:\d+", str(refused.value))


@pytest.mark.requirement("GW-04")
def test_webhook_without_an_inbox_or_its_secret_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOOK_SECRET", raising=False)
    hook = '[webhook]\nurl = "https://h.example"\nsecret-env = "HOOK_SECRET"\n'
    upstream = '[upstreams.shop]\ntarget = "shop.py"\n'
    with pytest.raises(UsageError, match="tells of questions in the inbox"):
        parse_gateway_file(f"{upstream}{hook}".encode(), "toolwire.toml")
    above = f'consent = "inbox"\npublic-url = "{PUBLIC_URL}"'
    settings = build_gateway_settings(parse_gateway_file(f"{above}\n{upstream}{hook}".encode(), "toolwire.toml"))
    with pytest.raises(UsageError, match="The environment variable HOOK_SECRET"):
        find_inbox(settings)


@pytest.mark.requirement("GW-04", "ST-01")
@pytest.mark.parametrize("where", ["folder", "postgresql"])
def test_answer_at_another_node_lets_the_call_go_on(
    where: str, start: Callable[..., Started], request: pytest.FixtureRequest
) -> None:
    place = "state"
    if where == "postgresql":
        place = request.getfixturevalue("shared_postgres").create_database()
    first = start(below='[callers.ann]\nquestions = "inbox"', state=place, own=True)
    second = start(below='[callers.ann]\nquestions = "inbox"', state=place, own=True)
    client = Client(first.url, fields={"prefer": "wait=30"})
    waiting = in_thread(lambda: client.call("publish", {"name": "tea"}))
    ann = second.sign_in()
    wait_for(lambda: "publish" in ann.get("/inbox").text)
    second.answer(ann, answer="allow")
    assert waiting.result(20) == (200, "published tea")
    call_id = Client(first.url).call("render", {"name": "film"})[1]["id"]
    wait_for(lambda: client.get(f"/calls/{call_id}")["state"] == "waiting")
    second.answer(ann, answer="allow")
    wait_for(lambda: client.get(f"/calls/{call_id}")["state"] == "ended")
    assert first.shop.done + second.shop.done == ["tea", "rendered film"]


@pytest.mark.requirement("FU-60", "GW-06")
@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("where", ["inbox", "terminal"])
def test_log_of_a_gateway_names_who_decided_where_and_for_whom(
    where: str, allowed: bool, start: Callable[..., Started], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "toolwire.decisions")
    gateway = start()
    waiting = in_thread(
        lambda: Client(gateway.url, "mcp-2025", fields={"prefer": "wait=30"}).call("publish", {"name": "tea"})
    )
    [asked] = wait_for(gateway.approvals.list_pending)
    if where == "inbox":
        gateway.answer(gateway.sign_in(), answer="allow" if allowed else "deny")
    else:  # as `toolwire approvals allow` does
        answer = Answer(allowed=allowed, channel="terminal", decided_by="ada")
        assert gateway.approvals.answer(asked.id, answer)
    waiting.result(20)
    decider, channel = ("key:phone", "inbox") if where == "inbox" else ("ada", "terminal")
    records = [one.record for one in open_decisions(gateway.state).entries() if one.number]
    last = records[-1]
    assert (last.principal, last.caller, last.channel, last.decision) == (
        decider,
        "key:ann",
        channel,
        "allowed" if allowed else "refused",
    )
    assert {one.principal for one in records} == {decider}
    [fields] = [one.__dict__["fields"] for one in caplog.records if one.__dict__["fields"]["decision"] != "asked"]
    assert (fields["decided_by"], fields["principal"], fields["channel"]) == (decider, "key:ann", channel)
