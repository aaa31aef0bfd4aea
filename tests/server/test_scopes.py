"""What a caller sees and may call, by the scopes of their credentials; two callers never see each other's lists."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from tests.support.wire import HERE, AppTransport
from toolwire import DefinitionError, Kind, Problem, Secret, Toolkit, Value, asgi
from toolwire.client.transport.drivers import arun
from toolwire.core.codec import Codec, Site, ToolCache
from toolwire.core.http import Request, Response, get_header
from toolwire.core.model import Call, Result, Tool
from toolwire.framing.jsontext import write
from toolwire.protocols import BUILTIN
from toolwire.server import App
from toolwire.server.access.api_keys import ApiKey, ApiKeyCallers, parse_api_key
from toolwire.server.access.callers import ANONYMOUS_CALLER, Caller
from toolwire.server.route_table import RouteTable
from toolwire.validation import check_scopes, filter_visible, permits

Ask = Callable[..., Response]


def office() -> Toolkit:
    tools = Toolkit("Office")

    @tools.tool(approval="auto")
    def hours() -> str:
        return "9 to 5"

    @tools.tool(approval="auto", scopes=("mail.read",))
    def inbox() -> str:
        return "letters"

    @tools.tool(approval="per-call", scopes=["mail.read", "mail.send"])
    def send(to: str) -> str:
        return f"sent to {to}"

    return tools


READER = ApiKey(key=Secret("R"), name="reader", scopes=frozenset({"mail.read", "something.else"}))
WRITER = ApiKey(key=Secret("W"), name="writer", scopes=frozenset({"mail.read", "mail.send"}))
GUEST = ApiKey(key=Secret("G"), name="guest", scopes=frozenset())
KEYS = (READER, WRITER, GUEST, "A")
SEES = {
    "R": {"hours", "inbox"},
    "W": {"hours", "inbox", "send"},
    "G": {"hours"},
    "A": {"hours", "inbox", "send"},
}


class Signing:
    """A door that signs with a key."""

    def __init__(self, app: App, key: str) -> None:
        self.door = AppTransport(app)
        self._fields = ((b"authorization", f"Bearer {key}".encode()),)

    async def send(self, request: Request) -> Response:
        return await self.door.send(request._replace(headers=(*request.headers, *self._fields)))

    async def listen(self, request: Request, hear: Any, *, brief: bool = False) -> Response | Problem:
        return await self.door.listen(request._replace(headers=(*request.headers, *self._fields)), hear)

    async def aclose(self) -> None:
        """Nothing to close."""


def join_codec(
    app: App, codec: Codec, key: str
) -> tuple[set[str], Callable[[Tool, Mapping[str, Any]], Result], Signing]:
    transport = Signing(app, key)

    async def found() -> Any:
        return (await arun(codec.find(HERE), transport)).peer

    peer = asyncio.run(found())
    assert peer is not None

    def call(tool: Tool, arguments: Mapping[str, Any]) -> Result:
        async def within() -> Result:
            return await arun(codec.send(peer, Call(tool, arguments, "c1")), transport)

        return asyncio.run(within())

    return {tool.name for tool in peer.catalog.tools}, call, transport


@pytest.mark.requirement("OTC-042", "D-30")
def test_caller_sees_only_permitted_tools_in_every_protocol(codec: Codec) -> None:
    app = asgi(office(), api_keys=KEYS)
    for key in ("W", "R", "G", "A", "R", "W"):
        names, _, _ = join_codec(app, codec, key)
        assert names == SEES[key], key


@pytest.mark.requirement("OTC-042")
def test_call_of_an_invisible_tool_is_forbidden_and_names_its_scopes(codec: Codec) -> None:
    app = asgi(office(), api_keys=KEYS)
    from tests.support.conformance import open_session

    with open_session(codec, office()) as all_of_it:
        tools = {tool.name: tool for tool in all_of_it.peer.catalog.tools}
        peer = all_of_it.peer
    transport = Signing(app, "R")

    async def within(name: str, arguments: Mapping[str, Any]) -> Result:
        return await arun(codec.send(peer, Call(tools[name], arguments, "c1")), transport)

    refused = asyncio.run(within("send", {"to": "ada"}))
    assert isinstance(refused, Problem), refused
    assert "mail.read mail.send" in refused.message
    response = transport.door.exchanges[-1].response
    assert get_header(response.headers, b"www-authenticate") == (
        'Bearer error="insufficient_scope", scope="mail.read something.else mail.send"'  # all that a new token needs
    )
    assert asyncio.run(within("inbox", {})) == Value("letters")
    assert asyncio.run(within("hours", {})) == Value("9 to 5")


@pytest.mark.requirement("D-30")
@pytest.mark.parametrize("path", ["/tools", "/uts/tools", "/opentool/load", "/openapi.json"])
def test_response_that_differs_by_caller_is_private_for_caches(ask: Ask, path: str) -> None:
    app = asgi(office(), api_keys=KEYS)
    seen = {}
    for key in ("R", "W"):
        response = ask(app, "GET", path, {"authorization": f"Bearer {key}"})
        assert response.status == 200
        assert get_header(response.headers, b"cache-control") == "private"
        assert "authorization" in get_header(response.headers, b"vary")
        etag = get_header(response.headers, b"etag")
        again = ask(app, "GET", path, {"authorization": f"Bearer {key}", "if-none-match": etag})
        assert again.status == 304
        seen[etag] = key
    assert len(seen) == 2
    crossed = ask(app, "GET", path, {"authorization": "Bearer R", "if-none-match": next(iter(reversed(seen)))})
    assert (crossed.status, b"mail.send" in crossed.body or b'"send"' in crossed.body) == (200, False)


@pytest.mark.requirement("D-30")
def test_error_message_names_only_tools_visible_to_the_caller(ask: Ask) -> None:
    app = asgi(office(), api_keys=KEYS)
    body = json.dumps({"request": {"tool_id": "Office.nothing", "input": {}}}).encode()
    fields = {"authorization": "Bearer G", "content-type": "application/json"}
    response = ask(app, "POST", "/call", fields, body)
    assert response.status == 400
    assert b"hours" in response.body
    assert b"inbox" not in response.body


def test_public_documents_are_the_same_for_callers_without_valid_credentials(ask: Ask) -> None:
    app = asgi(office(), api_keys=KEYS)
    public = [ask(app, "GET", "/openapi.json", fields) for fields in ({}, {"authorization": "Bearer wrong"})]
    assert [response.status for response in public] == [200, 200]
    assert all(b"inbox" in response.body for response in public)
    assert get_header(public[0].headers, b"vary")


def test_scopes_are_ignored_on_a_server_without_credentials(codec: Codec) -> None:
    names, call, _ = join_codec(asgi(office()), codec, "whatever")
    assert names == SEES["A"]
    assert call(office().catalog().names["inbox"], {}) == Value("letters") or codec.name != "otc"


def test_server_without_scopes_sends_no_cache_restrictions(ask: Ask) -> None:
    tools = Toolkit("Plain")
    tools.tool(approval="auto")(lambda_like)
    app = asgi(tools, api_keys=KEYS)
    response = ask(app, "GET", "/tools", {"authorization": "Bearer R"})
    assert response.status == 200
    assert "authorization" not in get_header(response.headers, b"vary")
    assert get_header(response.headers, b"cache-control") != "private"


def lambda_like() -> int:
    return 1


class CountingCache(ToolCache):
    """Counts what is derived from a tool, and never how often it is looked up."""

    derived = 0

    def get(self, derive: Callable[[Tool, str], Any], tool: Tool, name: str) -> Any:
        self.derived += (id(tool), name) not in self._stored.get(derive, {})
        return super().get(derive, tool, name)


def many_tools() -> Toolkit:
    tools = Toolkit("Many")
    for number in range(8):
        tools.add(lambda_like, name=f"tool{number}", scopes=(f"s{number}",), approval="auto")
    return tools


@pytest.mark.parametrize(
    "asked",
    [("GET", "/tools"), ("GET", "/openapi.json"), ("GET", "/opentool/load"), ("POST", "/mcp"), ("GET", "/uts/tools")],
)
@pytest.mark.requirement("D-30", "D-34", "P-01")
def test_new_scope_set_reuses_the_derived_data_of_each_tool(asked: tuple[str, str]) -> None:
    cache = CountingCache()
    table = RouteTable(many_tools().catalog(), BUILTIN, Site(keys=True, cache=cache))
    body = write({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    request = Request(*asked, ((b"content-type", b"application/json"),), body)
    assert isinstance(table.find_entry(*asked).read(request), Response)
    before = cache.derived
    assert before >= 8
    for number in range(200):
        scopes = frozenset(f"s{bit}" for bit in range(8) if number >> bit & 1)
        response = table.find_entry_for(partial(filter_visible, scopes=scopes), *asked).read(request)
        assert isinstance(response, Response)
        assert [f"tool{bit}".encode() in response.body for bit in range(8)] == [
            bool(number >> bit & 1) for bit in range(8)
        ]
    assert cache.derived == before


@pytest.mark.requirement("P-01", "P-09")
def test_added_tool_reuses_the_derived_data_of_the_others(ask: Ask) -> None:
    tools = many_tools()
    app = asgi(tools)
    cache = app.tables.cache = CountingCache()
    ask(app, "GET", "/tools", {})
    each = cache.derived // 8
    tools.add(lambda_like, name="another", approval="auto")
    assert b"another" in ask(app, "GET", "/tools", {}).body
    assert cache.derived == 9 * each


@pytest.mark.parametrize(
    ("scopes", "allowed"),
    [(None, True), (frozenset({"a", "b", "c"}), True), (frozenset({"a"}), False), (frozenset(), False)],
)
def test_a_caller_needs_all_the_scopes_of_a_tool(scopes: frozenset[str] | None, allowed: bool) -> None:
    assert permits(scopes, Tool(name="x", scopes=("a", "b"))) is allowed
    assert permits(scopes, Tool(name="y")) is True


def test_scope_check_refuses_a_call_without_its_scopes() -> None:
    from toolwire import Context
    from toolwire.core.check import ALLOW, Deny

    tool = Tool(name="x", scopes=("a",))
    assert check_scopes(Call(tool, {}, "", Context(scopes=frozenset({"a"})))) is ALLOW
    verdict = check_scopes(Call(tool, {}, "", Context(scopes=frozenset())))
    assert isinstance(verdict, Deny)
    assert (verdict.problem.kind, verdict.problem.details) == (Kind.FORBIDDEN, {"scopes": ["a"]})


@pytest.mark.parametrize("scopes", [("two words",), ("",), ('"',), (7,), "text", ["é"]])
def test_scopes_must_be_a_sequence_of_words(scopes: Any) -> None:
    with pytest.raises(DefinitionError, match="scope"):
        Toolkit("T").add(lambda_like, scopes=scopes)


@pytest.mark.parametrize(
    ("text", "caller"),
    [
        ("K", None),
        ("K  billing", Caller("key:billing", None)),
        ("K billing a b", Caller("key:billing", frozenset({"a", "b"}))),
    ],
)
def test_a_key_in_a_file_may_have_a_name_and_scopes(text: str, caller: Caller | None) -> None:
    found = ApiKeyCallers([parse_api_key(text)]).find_caller({b"x-api-key": b"K"})
    assert isinstance(found, Caller)
    assert found == caller if caller is not None else found.scopes is None
    assert found is not ANONYMOUS_CALLER
