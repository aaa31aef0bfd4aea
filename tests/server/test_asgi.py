"""The application as a client meets it: guard, keys, limits, methods, entity tags, the end."""

import asyncio
import gzip
import json
import logging
import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from typing import Any

import pytest

from tests.support.conformance import build_kit
from tests.support.wire import HERE, AppTransport
from toolwire import ApiKey, Context, DefinitionError, Secret, ServerLimits, ToolError, Toolkit, asgi
from toolwire.core.catalog import Catalog
from toolwire.core.codec import Codec, Route
from toolwire.core.http import Request, Response
from toolwire.core.model import Approval, Call, Result, Tool, Value
from toolwire.core.toolbox import Notify, ignore_progress
from toolwire.server import App
from toolwire.server.access.callers import AnonymousCallers
from toolwire.server.access.host_guard import HostGuard
from toolwire.server.build_app import build_app
from toolwire.server.options import ServerOptions
from toolwire.server.parts import ServerParts

Ask = Callable[..., Response]
Send = Callable[[App, Request], Response]
Serve = Callable[..., App]
Where = tuple[str, str]


class Untouched:
    """A toolbox whose tools must not run."""

    def __init__(self) -> None:
        self._catalog = build_kit().catalog()

    def catalog(self) -> Catalog:
        return self._catalog

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        raise AssertionError(f"{call.tool.name} ran")


ODD_WITH_PROGRESS = {"name": "odd", "arguments": {}, "_meta": {"progressToken": 1}}


class Odd:
    """A toolbox that returns what is not JSON data."""

    def __init__(self) -> None:
        self._catalog = Catalog(tools=(Tool(name="odd", toolkit="Kit", approval=Approval.PER_CALL, reports=True),))

    def catalog(self) -> Catalog:
        return self._catalog

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        return Value(object())


def field(response: Response, name: bytes) -> bytes | None:
    return dict(response.headers).get(name)


# Guard and keys


@pytest.mark.requirement("D-24")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "evil.example:9627"}, 421),
        ({"host": "localhost.evil.example"}, 421),
        ({"host": ""}, 421),
        ({"host": "localhost", "origin": "https://evil.example"}, 403),
        ({"host": "127.0.0.1:9627", "origin": "null"}, 403),
    ],
)
def test_every_route_refuses_a_foreign_host_or_origin(
    ask: Ask, route: Where, headers: dict[str, str], status: int
) -> None:
    response = ask(asgi(Untouched()), *route, headers)
    # A load balancer asks for /health by any name; the answer says nothing of the tools.
    health_by_any_name = status == 421 and route[1].endswith("/health")
    assert response.status == (200 if health_by_any_name else status)
    assert b"Bench" not in response.body
    assert json.loads(response.body)


@pytest.mark.requirement("D-24")
@pytest.mark.parametrize("route", [("GET", "/nope"), ("GET", "/opentool/nope"), ("PATCH", "/mcp"), ("HEAD", "/tools")])
def test_unknown_path_or_method_refuses_a_foreign_host(ask: Ask, route: Where) -> None:
    assert ask(asgi(Untouched()), *route, {"host": "evil.example"}).status == 421


@pytest.mark.requirement("D-24")
def test_every_route_accepts_loopback_hosts_and_origins(ask: Ask, build_served_app: Serve, route: Where) -> None:
    headers = {"host": "localhost:9627", "origin": "http://localhost:3000"}
    assert ask(build_served_app(), *route, headers).status not in (403, 421)


@pytest.mark.requirement("OTC-035", "S-7")
def test_only_public_routes_answer_without_the_configured_key(ask: Ask, build_served_app: Serve, route: Where) -> None:
    app = build_served_app(api_keys=["K1"])
    response = ask(app, *route)
    opened = route[1] in ("/", "/health", "/uts/health") or route[1].endswith((".json", "/api-catalog", "/server-card"))
    assert (response.status != 401) == opened
    if response.status == 401:
        assert field(response, b"www-authenticate") == b"Bearer"
        assert json.loads(response.body)["message"]
    assert ask(app, *route, {"x-api-key": "K2"}).status == response.status
    assert ask(app, *route, {"authorization": "Bearer K1"}).status != 401


def test_tool_learns_the_caller_name_but_not_the_key(ask: Ask) -> None:
    tools, seen = Toolkit("Who"), list[str]()

    @tools.tool(approval="auto")
    async def whoami(context: Context) -> str:
        """Say who calls."""
        seen.append(context.principal)
        return context.principal

    body = json.dumps({"jsonrpc": "2.0", "method": "whoami", "params": {}, "id": 1}).encode()
    headers = {"content-type": "application/json"}
    ask(asgi(tools, api_keys=["K1"]), "POST", "/opentool/call", {**headers, "x-api-key": "K1"}, body)
    ask(asgi(tools), "POST", "/opentool/call", headers, body)
    otc = json.dumps({"request": {"call_id": "c", "tool_id": "Who.whoami", "input": {}, "context": {"user_id": "u"}}})
    ask(asgi(tools, api_keys=["K1"]), "POST", "/call", {**headers, "x-api-key": "K1"}, otc.encode())
    assert seen[0] == seen[2]
    assert seen[0].startswith("key-")
    assert seen[1] == "anonymous"


# Bodies


@pytest.mark.requirement("R10", "D-34")
def test_server_refuses_a_too_large_body_before_reading_it(
    drip: Callable[..., Response], build_served_app: Serve, short: ServerLimits, erase_request: Request
) -> None:
    request = erase_request._replace(headers=(*erase_request.headers, (b"content-length", b"2001")))
    response = drip(build_served_app(limits=short), request, [])
    assert response.status == 413
    assert "2,000 bytes" in json.dumps(json.loads(response.body))


@pytest.mark.requirement("R10", "D-34")
def test_server_stops_reading_a_body_that_grows_too_large(
    drip: Callable[..., Response], build_served_app: Serve, short: ServerLimits, erase_request: Request
) -> None:
    piece = {"type": "http.request", "body": b"x" * 800, "more_body": True}
    assert drip(build_served_app(limits=short), erase_request, [piece] * 3).status == 413
    assert (
        drip(
            build_served_app(limits=short), erase_request, [{**piece, "body": b"x" * 2_001, "more_body": False}]
        ).status
        == 413
    )


@pytest.mark.requirement("R10")
def test_server_joins_a_body_sent_in_pieces(
    drip: Callable[..., Response], build_served_app: Serve, short: ServerLimits, erase_request: Request
) -> None:
    pieces = [erase_request.body[:10], b"", erase_request.body[10:]]
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    response = drip(build_served_app(limits=short), erase_request, [*messages, {"type": "http.request"}])
    assert response.status == 200
    assert b"erased all" in response.body


@pytest.mark.requirement("R10")
def test_server_answers_408_to_a_body_that_does_not_arrive(
    drip: Callable[..., Response], build_served_app: Serve, short: ServerLimits, erase_request: Request
) -> None:
    piece = {"type": "http.request", "body": b"{", "more_body": True}
    response = drip(build_served_app(limits=short), erase_request, [piece])
    assert response.status == 408
    assert "0.05 seconds" in json.dumps(json.loads(response.body))


def test_server_runs_no_call_with_an_incomplete_body(
    drip: Callable[..., Response], short: ServerLimits, erase_request: Request
) -> None:
    messages = [{"type": "http.request", "body": erase_request.body, "more_body": True}, {"type": "http.disconnect"}]
    assert drip(asgi(Untouched(), limits=short), erase_request, messages).status == 400


@pytest.mark.requirement("A-29")
def test_a_body_of_another_type_is_refused(send: Send, erase_request: Request) -> None:
    others = tuple(pair for pair in erase_request.headers if pair[0] != b"content-type")
    request = erase_request._replace(headers=(*others, (b"content-type", b"text/plain")))
    response = send(asgi(Untouched()), request)
    assert response.status == 415
    assert json.loads(response.body)


@pytest.mark.requirement("R10", "S-16", "D-16")
@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff", b'{"a":NaN}', b"[" * 10_000, b'{"a":1e999}', b'{"a":"\\ud800"}', b"1" * 9_999, b"[]"],
)
def test_a_hostile_body_is_answered_with_400_in_json(send: Send, erase_request: Request, body: bytes) -> None:
    response = send(asgi(Untouched()), erase_request._replace(body=body))
    assert response.status in (400, 422)
    assert json.loads(response.body)
    assert b"Traceback" not in response.body


# Paths and methods


def test_unknown_path_is_404_in_json(ask: Ask, build_served_app: Serve) -> None:
    for path in ("/nope", "/opentool/nope", "/tools/nope", "/mcp/nope", "/uts", "//", "/%2e%2e/etc/passwd"):
        response = ask(build_served_app(), "GET", path)
        assert response.status == 404
        assert json.loads(response.body)


def test_wrong_method_is_405_and_lists_the_allowed_ones(ask: Ask, build_served_app: Serve, route: Where) -> None:
    response = ask(build_served_app(), "DELETE", route[1])
    assert response.status == 405
    assert route[0] == "QUERY" or route[0] in str(field(response, b"allow"))  # GR-05: Allow says what a document lists


def test_head_is_get_without_the_body(ask: Ask, build_served_app: Serve, route: Where) -> None:
    if route[0] != "GET":
        return
    app = build_served_app()
    get, head = ask(app, "GET", route[1]), ask(app, "HEAD", route[1])
    assert (head.status, head.headers, head.body) == (get.status, get.headers, b"")
    assert field(head, b"content-length") == str(len(get.body)).encode()


@pytest.mark.requirement("XL-018", "XL-087")
@pytest.mark.parametrize(
    "path", ["/", "/openapi.json", "/.well-known/llm.json", "/opentool/load", "/tools", "/uts/tools"]
)
def test_list_with_a_matching_etag_is_304(ask: Ask, build_served_app: Serve, path: str) -> None:
    app = build_served_app()
    etag = field(ask(app, "GET", path), b"etag")
    assert etag
    for known in (etag.decode(), f'"other", W/{etag.decode()}', "*"):
        again = ask(app, "GET", path, {"if-none-match": known})
        assert (again.status, again.body, field(again, b"etag")) == (304, b"", etag)
        assert field(again, b"content-length") is None
    assert ask(app, "GET", path, {"if-none-match": '"other"'}).status == 200
    assert field(ask(build_served_app(), "GET", path), b"etag") == etag


def test_response_without_an_etag_is_always_sent_whole(ask: Ask, build_served_app: Serve) -> None:
    assert ask(build_served_app(), "GET", "/health", {"if-none-match": "*"}).status == 200
    assert ask(build_served_app(), "GET", "/nope", {"if-none-match": "*"}).status == 404


def test_index_page_loads_nothing_from_another_origin(ask: Ask, build_served_app: Serve) -> None:
    response = ask(build_served_app(), "GET", "/")
    text = response.body.decode()
    assert "<h1>Bench" in text
    assert "erase" in text
    assert "destroys something" in text
    assert re.findall(r"<script([^>]*)>", text) == [' src="/page.js" defer']
    assert all(url.startswith("/") for url in re.findall(r'(?:src|href|action)="([^"#]+)', text))
    assert b"default-src 'none'" in (field(response, b"content-security-policy") or b"")


def test_author_text_is_escaped_on_the_index_page(ask: Ask) -> None:
    tools = Toolkit("<script>alert(1)</script>", description="<b>bold</b>")

    @tools.tool(description="<img src=x>\nsecond line")
    def x() -> None:
        """Do nothing."""

    text = ask(asgi(tools), "GET", "/").body.decode()
    assert "<script>" not in text
    assert "<b>bold" not in text
    assert "<img" not in text
    assert "second line" not in text


def test_an_application_can_be_mounted_below_a_path(drip: Callable[..., Response], build_served_app: Serve) -> None:
    app = build_served_app()

    async def mounted(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "root_path": "/tools-of-ours"}, receive, send)

    for path, status in (("/tools-of-ours/health", 200), ("/tools-of-ours", 200), ("/health", 200)):
        assert drip(mounted, Request("GET", HERE + path), []).status == status


def test_tool_added_while_serving_is_served(ask: Ask) -> None:
    tools = Toolkit("Growing")
    app = asgi(tools)
    assert b"late" not in ask(app, "GET", "/tools").body

    @tools.tool
    def late() -> None:
        """Come late."""

    assert b"late" in ask(app, "GET", "/tools").body


# How much is taken on


@pytest.mark.requirement("R1", "A-41")
def test_call_above_the_concurrency_limit_is_503_with_retry_after(send: Send, erase_request: Request) -> None:
    response = send(asgi(Untouched(), limits=ServerLimits(running=0)), erase_request)
    assert response.status == 503
    assert field(response, b"retry-after") == b"1"
    assert "busy" in json.dumps(json.loads(response.body))


@pytest.mark.requirement("R15")
def test_draining_server_refuses_every_route(ask: Ask, route: Where) -> None:
    app = asgi(Untouched())
    app.drain()
    response = ask(app, *route)
    assert response.status == 503
    assert json.loads(response.body)


@pytest.mark.requirement("R15", "A-41")
def test_draining_server_answers_503_with_retry_after(send: Send, erase_request: Request) -> None:
    app = asgi(Untouched())
    app.drain()
    response = send(app, erase_request)
    assert (response.status, field(response, b"retry-after")) == (503, b"5")


@pytest.mark.requirement("R15")
def test_call_running_when_draining_begins_is_completed(erase_request: Request) -> None:
    tools, begun, go = Toolkit("Bench", version="2.1.0"), asyncio.Event(), asyncio.Event()

    @tools.tool(approval="per-call", destructive=True)
    async def erase(what: str) -> str:
        """Wait, then erase."""
        begun.set()
        await go.wait()
        return f"erased {what}"

    async def stop() -> Response:

        app = asgi(tools)
        running = asyncio.create_task(AppTransport(app).send(erase_request))
        await begun.wait()
        assert app.active_calls == 1
        app.drain()
        go.set()
        return await running

    response = asyncio.run(stop())
    assert response.status == 200
    assert b"erased all" in response.body


# Bugs


def test_a_reader_that_raises_is_answered_and_logged(ask: Ask, codec: Codec, caplog: pytest.LogCaptureFixture) -> None:
    def broken(request: Request) -> Response:
        raise LookupError("inside")

    wrong = replace(codec, routes=lambda catalog, site: {("POST", "/broken"): Route(broken)})
    parts = ServerParts(callers=AnonymousCallers(), guard=HostGuard(), limits=ServerLimits())
    app = build_app(Untouched(), ServerOptions(), parts, codecs=(wrong,))
    with caplog.at_level(logging.ERROR, "toolwire"):
        response = ask(app, "POST", "/broken?key=secret")
    assert b"inside" not in response.body
    assert "The server failed" in json.dumps(json.loads(response.body))
    assert "reading POST /broken failed" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/opentool/call", {"jsonrpc": "2.0", "method": "odd", "params": {}, "id": 1}),
        ("/opentool/streamCall", {"jsonrpc": "2.0", "method": "odd", "params": {}, "id": 1}),
        ("/call", {"request": {"tool_id": "Kit.odd", "input": {}}}),
        ("/tools/call", {"request": {"tool_id": "Kit.odd", "input": {}}}),
        ("/mcp", {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "odd", "arguments": {}}, "id": 1}),
        ("/mcp", {"jsonrpc": "2.0", "method": "tools/call", "params": ODD_WITH_PROGRESS, "id": 1}),
    ],
)
def test_toolbox_value_that_is_not_json_is_logged_as_an_error(
    ask: Ask, path: str, body: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "toolwire"):
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        response = ask(asgi(Odd()), "POST", path, headers, json.dumps(body).encode())
    assert response.status == 200
    assert b"cannot be written as JSON" in response.body
    assert "the result of Kit.odd@1.0.0" in caplog.text


# What is not HTTP


def exchange_messages(scope_type: str, *messages: str) -> list[str]:
    sent: list[str] = []
    waiting = [{"type": message} for message in messages]

    async def receive() -> Any:
        return waiting.pop(0)

    async def send(message: Any) -> None:
        sent.append(message["type"])

    asyncio.run(asgi(Untouched())({"type": scope_type}, receive, send))
    return sent


def test_application_starts_and_stops_with_its_server() -> None:
    sent = exchange_messages("lifespan", "lifespan.startup", "lifespan.shutdown")
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_websocket_is_closed_and_other_scopes_are_ignored() -> None:
    assert exchange_messages("websocket", "websocket.connect") == ["websocket.close"]
    assert exchange_messages("something else") == []


@pytest.mark.parametrize("number", [1, 12])
@pytest.mark.parametrize("root", ["", "/mounted"])
def test_no_link_of_the_page_runs_a_tool_and_every_document_is_linked(
    ask: Callable[..., Response], number: int, root: str
) -> None:
    ran, tools = list[int](), Toolkit("Many")
    for each in range(number):
        tools.add(lambda: ran.append(1), name=f"t{each}", safe=True, approval="auto")
    app = asgi(tools)

    async def mounted(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "root_path": root}, receive, send)

    text = ask(mounted, "GET", f"{root}/").body.decode()
    links = re.findall(r'(?:href|src|action|formaction)="([^"]*)"', text)
    assert {f"{root}/openapi.json", f"{root}/.well-known/llm.json", f"{root}/tools"} <= set(links)
    for link in links:
        assert ask(mounted, "GET", link).status == 200
    assert ran == []
    assert f"<code>GET {root}/api/t0</code>" in text
    assert f"<code>POST {root}/mcp</code>" in text
    assert ask(mounted, "GET", f"{root}/api/t0").status == 200
    assert ran == [1]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"api_keys": "secret-word"}, "Server keys must be a list: write api_keys=[KEY]."),
        ({"api_keys": Secret("secret-word")}, "Server keys must be a list: write api_keys=[KEY]."),
        ({"api_keys": ApiKey(key=Secret("secret-word"))}, "Server keys must be a list: write api_keys=[KEY]."),
        ({"api_keys": ["secret-word", " "]}, "A server key must be a non-empty string or an ApiKey."),
        ({"api_keys": [None]}, "A server key must be a non-empty string or an ApiKey."),
        ({"hosts": "example.com"}, "hosts is a list: write hosts=['example.com']."),
        ({"hosts": ["https://example.com"]}, "'https://example.com' is not a valid value for hosts. Write tools."),
        ({"hosts": ["*"]}, "'*' is not a valid value for hosts"),
        ({"origins": "https://example.com"}, "origins is a list: write origins=['https://example.com']."),
        ({"origins": ["example.com"]}, "'example.com' is not a valid value for origins. Write https://app."),
        ({"origins": ["https://example.com/"]}, "'https://example.com/' is not a valid value for origins"),
    ],
)
def test_option_that_no_request_could_meet_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        asgi(Toolkit("K"), **options)
    assert str(refused.value).startswith(sentence)
    assert "secret-word" not in str(refused.value)


def test_names_as_requests_have_them_are_taken() -> None:
    asgi(
        Toolkit("K"),
        hosts=["Tools.example.com", "tools.example.com:8443", "[::1]:80", "my_service"],
        origins=["https://app.example.com:8443", "chrome-extension://abc", "null"],
    )


@pytest.mark.parametrize("target", [asgi, "shop.py", None])
def test_what_is_no_toolkit_is_not_served(target: Any) -> None:
    with pytest.raises(DefinitionError, match=r"^asgi needs a Toolkit or a Toolbox, not \w+\.$"):
        asgi(target)


BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.requirement("CO-01", "FU-32", "D-25")
@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/nope", 404, "There is no such page here"),
        ("/mcp", 405, "This address is for programs"),
        ("/opentool/call", 405, "This address is for programs"),
    ],
)
def test_browser_at_a_wrong_address_gets_a_page_that_leads_on(
    ask: Ask, build_served_app: Serve, path: str, status: int, words: str
) -> None:
    response = ask(build_served_app(), "GET", path, {"accept": BROWSER})
    text = response.body.decode()
    assert (response.status, field(response, b"content-type")) == (status, b"text/html; charset=utf-8")
    assert (words in text, 'href="/"' in text) == (True, True)
    assert (field(response, b"vary"), field(response, b"cache-control")) == (b"accept", b"no-store")
    assert b"default-src 'none'" in field(response, b"content-security-policy")
    data = ask(build_served_app(), "GET", path, {"accept": "*/*"})
    assert (data.status, field(data, b"content-type")[:12]) == (status, b"application/")
    assert field(response, b"allow") == field(data, b"allow")


@pytest.mark.requirement("CO-01", "FU-32", "D-24", "D-25")
def test_browser_that_is_refused_gets_a_page_that_says_why(ask: Ask, build_served_app: Serve) -> None:
    keyed = build_served_app(api_keys=["a-key-of-somebody"], private=True)
    for path in ("/openapi.json", "/nope"):
        response = ask(keyed, "GET", path, {"accept": BROWSER})
        assert (response.status, b"This address needs a key" in response.body) == (401, True)
        assert field(response, b"content-type") == b"text/html; charset=utf-8"
    strange = ask(build_served_app(), "GET", "/", {"accept": BROWSER, "host": "evil.example<b>"})
    assert strange.status in (400, 421)
    assert b"This server has another name" in strange.body
    assert (b"<b>" in strange.body, b'href="/"' in strange.body) == (False, False)
    # a form and a program are answered as ever
    assert field(ask(keyed, "POST", "/nope", {"accept": BROWSER}), b"content-type") == b"application/json"


@pytest.mark.requirement("A-12")
def test_an_option_that_does_not_exist_is_named_with_the_one_that_was_meant() -> None:
    with pytest.raises(TypeError, match=r"asgi has no option 'api_key': did you mean 'api_keys'\?"):
        asgi(Toolkit("T"), api_key="K1")  # type: ignore[call-arg]
    assert "K1-secret" not in repr(ServerOptions(api_keys=["K1-secret"], state="postgresql://u:K1-secret@h/d"))


MCP_POST = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


@pytest.mark.requirement("FD-06", "D-24")
def test_mcp_client_at_the_address_of_the_page_is_led_to_the_path_of_mcp(ask: Ask, build_served_app: Serve) -> None:
    for options in ({}, {"api_keys": ["a-key-of-somebody"], "private": True}):  # who is told learns nothing else
        app = build_served_app(**options)
        posted = ask(app, "POST", "/", MCP_POST, PING)
        listened = ask(app, "GET", "/", {"accept": "text/event-stream"})
        left = ask(app, "DELETE", "/", {"mcp-session-id": "s"})
        for response in (posted, listened, left):
            assert (response.status, field(response, b"location")) == (307, b"/mcp")
            assert json.loads(response.body)["error"]["message"] == "MCP clients connect to this server at /mcp."
        strange = ask(app, "POST", "/", {**MCP_POST, "origin": "https://evil.example", "sec-fetch-site": "cross-site"})
        assert (strange.status, field(strange, b"location")) == (403, None)


@pytest.mark.requirement("FD-06")
def test_path_of_mcp_can_end_with_a_slash(ask: Ask, build_served_app: Serve) -> None:
    for options, status in (({}, 200), ({"api_keys": ["a-key-of-somebody"], "private": True}, 401)):
        app = build_served_app(**options)
        assert [ask(app, "POST", path, MCP_POST, PING).status for path in ("/mcp", "/mcp/")] == [status, status]
    assert ask(app, "POST", "/mcp//", MCP_POST, PING).status in (401, 404)


@pytest.mark.requirement("A-29")
def test_compressed_body_is_refused_by_its_name(ask: Ask, build_served_app: Serve) -> None:
    body = json.dumps({"request": {"tool_id": "add", "input": {"a": 1, "b": 2}}}).encode()
    fields = {"content-type": "application/json"}
    app = build_served_app()
    refused = ask(app, "POST", "/call", {**fields, "content-encoding": "gzip"}, gzip.compress(body))
    assert refused.status == 415
    data = json.loads(refused.body)["message"]
    assert data == "Send the body without compression, not with Content-Encoding: gzip."
    for coding in ({}, {"content-encoding": "identity"}):
        assert ask(app, "POST", "/call", {**fields, **coding}, body).status == 200


@pytest.mark.requirement("FD-06")
def test_only_mcp_clients_are_led_away_from_the_page(ask: Ask, build_served_app: Serve) -> None:
    app = build_served_app()
    form = {"accept": BROWSER, "content-type": "application/x-www-form-urlencoded"}
    assert ask(app, "POST", "/", form, b"tool=nothing").status == 404
    assert ask(app, "POST", "/", {"accept": "*/*", "content-type": "application/json"}, PING).status == 404
    assert [ask(app, "GET", "/", {"accept": one}).status for one in (BROWSER, "*/*")] == [200, 200]
    assert ask(app, "DELETE", "/").status == 405


@pytest.mark.requirement("FD-06")
def test_page_shows_the_raw_messages_that_a_client_of_each_protocol_hears(ask: Ask) -> None:
    kit = Toolkit("Desk")

    @kit.tool(approval="auto", safe=True)
    async def count(context: Context, fails: bool = False) -> str:
        await context.report_progress(1, 2, "half <b>")
        await context.info("counted")
        if fails:
            raise ToolError("It broke.")
        return "done"

    form = {"accept": BROWSER, "content-type": "application/x-www-form-urlencoded", "origin": HERE}
    page = ask(asgi(kit), "POST", "/", form, b"tool=count&step=try")
    text = unescape(page.body.decode())
    assert (page.status, field(page, b"content-type")) == (200, b"text/html; charset=utf-8")
    assert b"default-src 'none'" in (field(page, b"content-security-policy") or b"")
    mcp = text[text.index("<summary>Model Context Protocol") :]
    assert '"progressToken":' in mcp[: mcp.index("Notifications")]
    received = mcp[mcp.index("Notifications") : mcp.index("<h3>Response")]
    assert '"method":"notifications/progress"' in received
    assert '"method":"notifications/message"' in received
    assert "<b>" not in page.body.decode().partition("half ")[2][:4]
    failed = ask(asgi(kit), "POST", "/", form, b"tool=count&step=try&/fails=true")
    assert (failed.status, b"It broke." in failed.body, b"notifications/message" in failed.body) == (200, True, True)
