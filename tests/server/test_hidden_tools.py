"""No response shows a text of a tool that its caller may not see: every route, every protocol, any body."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any
from urllib.parse import urlencode

import pytest

from toolwire import Secret, Toolkit, asgi
from toolwire.core.codec import Site
from toolwire.core.http import Response
from toolwire.protocols import BUILTIN
from toolwire.server import App
from toolwire.server.access.api_keys import ApiKey
from toolwire.server.route_table import RouteTable

Ask = Callable[..., Any]
KEYS = [
    ApiKey(key=Secret("few"), name="few", scopes=frozenset({"look"})),
    ApiKey(key=Secret("all"), name="all"),
]
CANARY = "zqxj"
"""In every text of the hidden tools, and in no request but where it names one of them."""
HIDDEN = "zqxjhidden"


def build_kit() -> Toolkit:
    kit = Toolkit("Office", description="What there is.")

    @kit.tool(approval="auto", safe=True, scopes=["look"])
    def hours(day: str = "mon") -> str:
        """Say the hours."""
        return f"9 to 5 on {day}"

    @kit.tool(approval="per-call", destructive=True)
    def erase(name: str) -> str:
        """Erase something of yours."""
        return name

    @kit.tool(approval="auto", safe=True, long=True)
    async def render(name: str) -> str:
        """Render something."""
        await asyncio.Event().wait()
        return name

    @kit.tool(name=HIDDEN, approval="auto", scopes=["secret.zqxjscope"])
    def hidden(zqxjargument: str = "zqxjdefault") -> str:
        """Do the zqxj thing."""
        return f"zqxj did {zqxjargument}"

    @kit.tool(name=f"{HIDDEN}_long", approval="auto", long=True, scopes=["secret.zqxjscope"])
    async def hidden_long(zqxjother: str = "zqxjdefault") -> str:
        """Do the long zqxj thing."""
        return f"zqxj did {zqxjother}"

    return kit


@pytest.fixture(params=[False, True], ids=["public", "private"])
def app(request: pytest.FixtureRequest) -> App:
    return asgi(build_kit(), api_keys=KEYS, private=request.param)


def check(response: Response, *sent: str) -> None:
    """Find no text of a hidden tool in ``response``, but what the request itself said."""
    text = b" ".join((*(b"%s: %s" % field for field in response.headers), response.body)).decode("utf-8", "replace")
    for reply in sorted((one for one in sent if CANARY in one), key=len, reverse=True):
        text = text.replace(reply, "")
    # A caller who names a tool is told by its id which scopes it needs.
    for reply in ("secret.zqxjscope",) if sent else ():
        text = text.replace(reply, "")
    at = text.find(CANARY)
    assert at < 0, text[max(0, at - 300) : at + 300]


def list_routes() -> list[tuple[str, str]]:
    catalog = asgi(build_kit())._toolbox.catalog()
    table = RouteTable(catalog, BUILTIN, Site())
    return [*table._entries, ("GET", "/calls"), ("POST", "/calls"), ("GET", "/calls/nothing"), ("PUT", "/api/hours")]


ROUTES = [one for one in list_routes() if HIDDEN not in one[1]]
HEADERS: list[Mapping[str, str]] = [
    {"accept": "text/html"},
    {"accept": "application/json, text/event-stream", "content-type": "application/json"},
]
STEPS = ("", "show", "answer", "call", "cancel", "accept", "decline", "nothing")


@pytest.mark.requirement("AT-36", "D-30")
@pytest.mark.parametrize("route", ROUTES, ids=" ".join)
def test_no_route_shows_a_hidden_tool(route: tuple[str, str], app: App, ask: Ask) -> None:
    for headers in HEADERS:
        for body in (b"", b"{}", b"[]", b"null", b"tool=hours", b"\xff\xfe"):
            if route[0] == "GET" and body:
                continue
            given = {**headers, "authorization": "Bearer few"}
            check(ask(app, *route, given, body))


@pytest.mark.requirement("AT-36", "D-30", "CO-01")
@pytest.mark.parametrize("step", STEPS)
def test_no_form_of_the_page_shows_a_hidden_tool(step: str, app: App, ask: Ask) -> None:
    headers = {
        "content-type": "application/x-www-form-urlencoded",
        "accept": "text/html",
        "authorization": "Bearer few",
    }
    names = ("", "hours", "erase", HIDDEN, f"{HIDDEN}_long", "nothing")
    for tool, call, asked in product(names, ("", "a" * 32, "x"), (None, "consent-1")):
        for more in ({}, {"arguments": "{}", "answer": "allow", "seen": "x"}, {"/day": "tue", "/name": "x", "q": "zq"}):
            fields: dict[str, str] = {"tool": tool, "step": step, "call": call, **more}
            if asked is not None:
                fields["asked"] = asked
            check(ask(app, "POST", "/", headers, urlencode(fields).encode()), tool)
    for query in ("tool=hours", f"tool={HIDDEN}", "q=thing", "q=long", "step=call&call=x"):
        check(ask(app, "GET", f"/?{query}", headers), HIDDEN if HIDDEN in query else "")


@pytest.mark.requirement("AT-36", "D-30", "LC-05")
def test_page_of_a_call_that_goes_on_shows_the_tools_of_its_caller_alone(app: App) -> None:
    from tests.support.wire import HERE, AppTransport
    from toolwire.core.http import Request

    async def use() -> None:
        transport = AppTransport(app)
        fields = ((b"content-type", b"application/x-www-form-urlencoded"), (b"authorization", b"Bearer few"))

        async def send(**form: str) -> Any:
            return await transport.send(Request("POST", f"{HERE}/", fields, urlencode(form).encode()))

        started = await send(**{"tool": "render", "/name": "film"})
        check(started)
        assert b"render" in started.body
        id_ = started.body.partition(b'"/calls/')[2].partition(b'"')[0].decode()
        assert id_
        for step in ("call", "cancel"):
            for tool in ("render", HIDDEN, ""):
                shown = await send(tool=tool, step=step, call=id_)
                check(shown, tool)
        ran = await send(**{"tool": "hours", "/day": "mon"})
        assert b"9 to 5 on mon" in ran.body
        check(ran)

    asyncio.run(use())


METHODS = (
    "initialize", "server/discover", "tools/list", "tools/call", "resources/list", "resources/templates/list",
    "prompts/list", "prompts/get", "completion/complete", "ping", "load", "version", "call", "nothing", "tasks/list",
    "hours", "erase", HIDDEN,
)  # fmt: skip


@pytest.mark.requirement("AT-36", "D-30")
@pytest.mark.parametrize("path", ["/mcp", "/opentool/call", "/opentool", "/tools/call", "/tools", "/api/hours", "/"])
def test_no_body_in_any_protocol_shows_a_hidden_tool(path: str, app: App, ask: Ask) -> None:
    chance = random.Random(36)
    values: list[Any] = [None, 1, "hours", "zq", "Hidden", [], {}, {"name": "hours"}, {"name": "x", "arguments": {}}]
    for method in METHODS:
        for version in ("2026-07-28", "2025-11-25"):
            meta = {
                "io.modelcontextprotocol/protocolVersion": version,
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            }
            params: Any = chance.choice(values)
            if method == "initialize":
                params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            elif isinstance(params, dict):
                params = {**params, "_meta": meta}
            body = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": method,
                "params": params,
                "request": {"tool_id": f"Office.{chance.choice(['hours', 'zq', 'nothing'])}@1.0.0", "input": {}},
            }
            headers = {
                "content-type": "application/json",
                "accept": "application/json, text/event-stream",
                "authorization": "Bearer few",
                "mcp-protocol-version": version,
                "mcp-method": method,
            }
            check(ask(app, "POST", path, headers, json.dumps(body).encode()), method if HIDDEN in method else "")


@pytest.mark.requirement("AT-36")
def test_caller_with_all_scopes_sees_them(app: App, ask: Ask) -> None:
    response = ask(app, "POST", "/", {"authorization": "Bearer all"}, urlencode({"tool": "hours"}).encode())
    assert b"zqxj thing" in response.body
