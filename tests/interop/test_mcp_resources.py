"""Resources and prompts: to the official MCP client over HTTP and stdio, and from servers of its SDK."""

from __future__ import annotations

import json
import sys
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts.base import AssistantMessage, UserMessage
from mcp.shared.exceptions import MCPError
from mcp.types import (
    BlobResourceContents,
    Completion,
    CompletionArgument,
    CompletionContext,
    ImageContent,
    PromptReference,
    ResourceTemplateReference,
    TextContent,
    TextResourceContents,
)

from tests.support.upstreams import connect_without_user
from toolwire import (
    ApiKey,
    Context,
    DefinitionError,
    File,
    Image,
    Problem,
    Secret,
    Session,
    ToolError,
    Toolkit,
    Value,
    asgi,
    connect,
    connect_sync,
    merge_toolboxes,
    read_content,
)
from toolwire.server.run.function_toolbox import FunctionToolbox
from toolwire.testing import background

from .conftest import run_app

PNG = bytes(range(256))

pytestmark = pytest.mark.requirement("MC-08")

SHOP = '''
from typing import Literal

from toolwire import Context, Image, PromptMessage, ToolError, Toolkit

kit = Toolkit("Shop")
PNG = bytes(range(256))
Tone = Literal["calm", "curt", "warm"]


@kit.tool(approval="auto")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@kit.resource("config://app", title="Settings", media_type="application/toml")
def config() -> str:
    """The settings of the shop."""
    return "color = 'red'"


@kit.resource("orders://{number}/{part}")
async def order(number: int, part: str) -> dict[str, str | int]:
    """A part of an order."""
    if number == 404:
        raise ToolError("There is no order 404.")
    return {"number": number, "part": part}


@kit.resource("logo://main", media_type="image/png")
def logo() -> bytes:
    return PNG


@kit.prompt
def greet(name: str, times: int = 1) -> str:
    """Greet a customer.

    Args:
        name: who is greeted
    """
    return " ".join([f"Hello, {name}!"] * times)


@kit.prompt(name="review", title="Review")
def talk(topic: str, tone: Tone | None = None, short: bool = False) -> list[str | PromptMessage]:
    return [f"About {topic}.", PromptMessage("I see.", role="assistant"), PromptMessage(Image(PNG, "image/png"))]
'''


def build_shop() -> Toolkit:
    names: dict[str, Toolkit] = {"__name__": "shop"}  # type: ignore[dict-item]  # what a module has
    exec(compile(SHOP, "shop.py", "exec"), names)
    return names["kit"]


@pytest.fixture(scope="module")
def shop() -> Iterator[str]:
    with background(asgi(build_shop())) as url:
        yield url


async def use_shop(client: Client) -> None:
    """Do all that a host does with resources and prompts, and check what it gets."""
    resources = {one.uri: one for one in (await client.list_resources()).resources}
    assert set(resources) == {"config://app", "logo://main"}
    assert resources["config://app"].title == "Settings"
    assert resources["config://app"].description == "The settings of the shop."
    assert resources["config://app"].mime_type == "application/toml"
    templates = (await client.list_resource_templates()).resource_templates
    assert [one.uri_template for one in templates] == ["orders://{number}/{part}"]

    (text,) = (await client.read_resource("config://app")).contents
    assert isinstance(text, TextResourceContents)
    assert (text.text, text.mime_type, text.uri) == ("color = 'red'", "application/toml", "config://app")
    (blob,) = (await client.read_resource("logo://main")).contents
    assert isinstance(blob, BlobResourceContents)
    assert (b64decode(blob.blob), blob.mime_type) == (PNG, "image/png")
    (data,) = (await client.read_resource("orders://7/a%20b")).contents
    assert isinstance(data, TextResourceContents)
    assert (data.text, data.mime_type) == ('{"number":7,"part":"a b"}', "application/json")

    prompts = {one.name: one for one in (await client.list_prompts()).prompts}
    assert set(prompts) == {"greet", "review"}
    described = [(one.name, one.description, one.required) for one in prompts["greet"].arguments or ()]
    assert described == [("name", "who is greeted", True), ("times", None, False)]
    greeting = await client.get_prompt("greet", {"name": "Ada", "times": "2"})
    assert greeting.messages[0].role == "user"
    assert greeting.messages[0].content == TextContent(type="text", text="Hello, Ada! Hello, Ada!")
    review = await client.get_prompt("review", {"topic": "tea"})
    assert [one.role for one in review.messages] == ["user", "assistant", "user"]
    assert isinstance(review.messages[2].content, ImageContent)
    assert b64decode(review.messages[2].content.data) == PNG

    review_ref = PromptReference(name="review")
    for name, typed, values in (("tone", "C", ["calm", "curt"]), ("short", "", ["true", "false"]), ("topic", "a", [])):
        completed = await client.complete(review_ref, {"name": name, "value": typed})
        assert completed.completion.values == values
    order = ResourceTemplateReference(uri="orders://{number}/{part}")
    assert (await client.complete(order, {"name": "part", "value": ""})).completion.values == []
    for reference, name in ((review_ref, "none"), (PromptReference(name="none"), "topic")):
        with pytest.raises(MCPError):
            await client.complete(reference, {"name": name, "value": ""})

    for uri in ("config://app2", "orders://x/y", "orders://404/a"):
        with pytest.raises(MCPError):
            await client.read_resource(uri)
    for arguments in ({}, {"name": "Ada", "times": "many"}, {"name": "Ada", "more": "x"}):
        with pytest.raises(MCPError):
            await client.get_prompt("greet", arguments)
    with pytest.raises(MCPError, match="no prompt"):
        await client.get_prompt("bye")


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_official_client_reads_resources_and_prompts_over_http(shop: str, mode: str) -> None:
    async def use() -> None:
        async with Client(f"{shop}/mcp", mode=mode) as client:
            await use_shop(client)

    anyio.run(use)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_official_client_reads_resources_and_prompts_over_stdio(tmp_path: Path, mode: str) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    command = [sys.executable, "-m", "toolwire", "serve", str(tmp_path / "shop.py"), "--stdio"]

    async def use() -> None:
        parameters = StdioServerParameters(command=command[0], args=command[1:])
        async with Client(stdio_client(parameters), mode=mode) as client:
            await use_shop(client)

    anyio.run(use)


def test_server_without_resources_declares_none() -> None:
    kit = Toolkit("Plain")

    @kit.tool
    def magnitude(of: int) -> int:
        return abs(of)

    async def use() -> None:
        with background(asgi(kit)) as url:
            async with Client(f"{url}/mcp") as client:
                assert client.server_capabilities.resources is None
                assert client.server_capabilities.prompts is None
            async with connect(url, protocol="mcp") as remote:
                assert await remote.list_resources() == ()
                assert await remote.list_prompts() == ()

    anyio.run(use)


def test_callers_see_and_read_only_what_their_scopes_allow() -> None:
    kit = Toolkit("Books")

    @kit.resource("public://list")
    def public() -> str:
        return "open"

    @kit.resource("secret://list", scopes=["staff"])
    def secret() -> str:
        return "for staff"

    @kit.prompt(scopes=["staff"])
    def fire() -> str:
        return "You are fired."

    keys = (
        ApiKey(key=Secret("a" * 32), name="guest", scopes=frozenset()),
        ApiKey(key=Secret("b" * 32), name="boss", scopes=frozenset({"staff"})),
    )
    with background(asgi(kit, api_keys=keys)) as url:
        with connect_sync(url, protocol="mcp", api_key="a" * 32) as guest:
            listed = guest.list_resources()
            assert not isinstance(listed, Problem)
            assert [one.uri for one in listed] == ["public://list"]
            assert guest.list_prompts() == ()
            refusal = guest.read_resource("secret://list")
            assert isinstance(refusal, Problem)
            assert "staff" in refusal.message
            assert "for staff" not in repr(refusal)
        with connect_sync(url, protocol="mcp", api_key="b" * 32) as boss:
            assert boss.read_resource("secret://list") == Value("for staff")
            assert isinstance(boss.get_prompt("fire"), Value)


@pytest.mark.parametrize("protocol", ["mcp", "stdio"])
def test_our_client_reads_resources_and_prompts(shop: str, tmp_path: Path, protocol: str) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    url = shop
    if protocol == "stdio":
        url = f"stdio:{sys.executable} -m toolwire serve {tmp_path / 'shop.py'} --stdio"
    with connect_sync(url, protocol="mcp", approve_command=lambda _: True) as remote:
        listed = remote.list_resources()
        assert not isinstance(listed, Problem)
        assert {one.uri: one.is_template for one in listed} == {
            "config://app": False,
            "logo://main": False,
            "orders://{number}/{part}": True,
        }
        assert remote.read_resource("config://app") == Value("color = 'red'")
        image = remote.read_resource("logo://main")
        assert isinstance(image, Value)
        assert read_content(image.value) == File(PNG, "image/png", "")
        missing = remote.read_resource("config://none")
        assert isinstance(missing, Problem)
        prompts = remote.list_prompts()
        assert not isinstance(prompts, Problem)
        assert {one.name for one in prompts} == {"greet", "review"}
        reply = remote.get_prompt("greet", {"name": "Ada"})
        assert isinstance(reply, Value)
        assert reply.value == {
            "description": "Greet a customer.",
            "messages": [{"role": "user", "content": "Hello, Ada!"}],
        }
        review = remote.get_prompt("review", {"topic": "tea"})
        assert isinstance(review, Value)
        assert read_content(review.value["messages"][2]["content"]) == Image(PNG, "image/png")
        lacking = remote.get_prompt("greet")
        assert isinstance(lacking, Problem)
        assert "name" in lacking.message


def test_asynchronous_client_reads_the_same_resources(shop: str) -> None:
    async def use() -> None:
        async with connect(shop, protocol="mcp") as remote:
            resources, prompts = await remote.list_resources(), await remote.list_prompts()
            assert not isinstance(resources, Problem)
            assert not isinstance(prompts, Problem)
            assert (len(resources), len(prompts)) == (3, 2)
            assert await remote.read_resource("orders://7/x") == Value('{"number":7,"part":"x"}')
            assert isinstance(await remote.get_prompt("review", {"topic": "tea"}), Value)
            await remote.refresh()
            assert len(remote.catalog().features.resources) == 3

    anyio.run(use)


@pytest.mark.parametrize("wire", ["openapi", "opentool", "otc"])
def test_other_protocols_report_no_resources(shop: str, wire: str) -> None:
    with connect_sync(shop, protocol=wire) as remote:
        assert remote.list_resources() == ()
        assert remote.list_prompts() == ()
        refusal = remote.read_resource("config://app")
        assert isinstance(refusal, Problem)
        assert "MCP" in refusal.message


@pytest.mark.parametrize("mode", ["stateless", "sessions"])
def test_client_reads_what_a_server_of_the_sdk_offers(mode: str) -> None:
    server = MCPServer("Foreign")

    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b

    @server.resource("notes://all", mime_type="text/markdown")
    def notes() -> str:
        return "# Notes"

    @server.resource("notes://{name}")
    def note(name: str) -> bytes:
        return name.encode() * 2

    @server.prompt()
    def ask(topic: str) -> list[UserMessage | AssistantMessage]:
        return [UserMessage(f"What about {topic}?"), AssistantMessage("Much.")]

    app = server.streamable_http_app(stateless_http=mode == "stateless")
    with run_app(app) as url, connect_sync(f"{url}/mcp", protocol="mcp") as remote:
        listed = remote.list_resources()
        assert not isinstance(listed, Problem)
        assert [(one.uri, one.media_type, one.is_template) for one in listed] == [
            ("notes://all", "text/markdown", False),
            ("notes://{name}", "text/plain", True),
        ]
        assert remote.read_resource("notes://all") == Value("# Notes")
        read = remote.read_resource("notes://ab")
        assert isinstance(read, Value)
        assert read_content(read.value).data == b"abab"
        reply = remote.get_prompt("ask", {"topic": "tea"})
        assert isinstance(reply, Value)
        assert [one["role"] for one in reply.value["messages"]] == ["user", "assistant"]


def test_invalid_resource_definitions_are_refused() -> None:
    kit = Toolkit("Faulty")
    with pytest.raises(DefinitionError, match="not a valid URI"):
        kit.resource("app")(lambda: "")
    with pytest.raises(DefinitionError, match=", but no parameter has that name"):

        @kit.resource("a://{x}")
        def lacking() -> str:
            return ""

    with pytest.raises(DefinitionError, match="'y' is not a variable"):

        @kit.resource("a://{x}")
        def asking(x: str, y: str) -> str:
            return x + y

    with pytest.raises(DefinitionError, match="in parts"):

        @kit.resource("a://b")
        def parts() -> Iterator[str]:
            yield ""

    with pytest.raises(DefinitionError, match="users enter prompt arguments as text, which 'names' cannot accept"):

        @kit.prompt
        def listing(names: list[str]) -> str:
            return ""

    with pytest.raises(DefinitionError, match="no option 'safe'"):

        @kit.prompt(safe=True)  # type: ignore[call-overload]  # the case
        def safe() -> str:
            return ""

    @kit.resource("a://b")
    def first() -> str:
        return ""

    with pytest.raises(DefinitionError, match="second resource"):

        @kit.resource("a://b")
        def second() -> str:
            return ""

    assert [one.uri for one in kit.catalog().features.resources] == ["a://b"]


def test_reader_gets_the_context_of_its_caller() -> None:
    kit = Toolkit("Who")

    @kit.resource("who://me")
    async def me(context: Context) -> str:
        return context.principal

    @kit.prompt
    def fail() -> str:
        raise ToolError("Not today.")

    app = asgi(kit, api_keys=(ApiKey(key=Secret("a" * 32), name="ada"),))
    with background(app) as url, connect_sync(url, protocol="mcp", api_key="a" * 32) as remote:
        assert remote.read_resource("who://me") == Value("key:ada")
        failed = remote.get_prompt("fail")
        assert isinstance(failed, Problem)
        assert failed.message == "Not today."


def test_official_client_reads_what_an_upstream_lists_with_characters_beyond_ascii() -> None:
    server = MCPServer("Foreign")
    plain = "notes://r\u00e9sum\u00e9 1/\u6587"

    @server.resource(plain)
    def note() -> str:
        return "Read."

    async def read_all(url: str) -> list[str]:
        async with Client(f"{url}/mcp") as client:
            (listed,) = (await client.list_resources()).resources
            assert listed.uri == quote(plain, safe=":/")  # some clients discard a list with another URI
            found = [await client.read_resource(uri) for uri in (listed.uri, plain)]
        return [str(getattr(one.contents[0], "text", "")) for one in found]

    with run_app(server.streamable_http_app()) as there:
        upstream = connect_without_user(f"{there}/mcp", Session(), protocol="mcp", agree=lambda _: True)
        with background(asgi(upstream)) as url:
            assert anyio.run(read_all, url) == ["Read.", "Read."]


GREETING = "notes://gr\u00fc\u00dfe/{id}"
SPACED = "notes://my notes/{id}/{part}"
LINKED = "notes://other/\u00e4 b"
ESCAPED = "notes://escaped/%C3%A4%20b"


class ExactServer:
    """An MCP server that reads each URI as it is written, and notes it."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        match method:
            case "initialize":
                offer: dict[str, Any] = {"tools": {}, "resources": {}}
                server = {"name": "exact", "version": "1"}
                return {"protocolVersion": "2025-11-25", "capabilities": offer, "serverInfo": server}
            case "tools/list":
                hints = {"readOnlyHint": True}
                return {"tools": [{"name": "link", "inputSchema": {"type": "object"}, "annotations": hints}]}
            case "tools/call":
                return {"content": [{"type": "resource_link", "uri": uri, "name": "n"} for uri in (LINKED, ESCAPED)]}
            case "resources/list":
                return {"resources": []}
            case "resources/templates/list":
                return {"resourceTemplates": [{"uriTemplate": uri, "name": uri[:9]} for uri in (GREETING, SPACED)]}
            case "resources/read":
                uri = params["uri"]
                self.read.append(uri)
                is_known = uri in (LINKED, ESCAPED) or uri.startswith((GREETING[:-4], SPACED[:17]))
                return {"contents": [{"uri": uri, "text": uri}]} if is_known else None
            case _:
                return None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        message = await receive()
        body: bytes = message.get("body", b"")
        while message.get("more_body"):
            message = await receive()
            body += message.get("body", b"")
        asked = json.loads(body) if body else {}
        result = self.answer(asked.get("method", ""), asked.get("params", {}))
        end = {"error": {"code": -32002, "message": "unknown"}} if result is None else {"result": result}
        reply = json.dumps({"jsonrpc": "2.0", "id": asked.get("id"), **end}).encode()
        status = 405 if scope["method"] != "POST" else 200 if "id" in asked else 202
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": reply if status == 200 else b""})


@pytest.mark.parametrize("is_prefixed", [False, True])
def test_upstream_is_asked_for_its_own_uris_of_templates_and_links(*, is_prefixed: bool) -> None:
    exact = ExactServer()

    async def read_all(url: str) -> list[str]:
        async with Client(f"{url}/mcp") as client:
            templates = [one.uri_template for one in (await client.list_resource_templates()).resource_templates]
            (tool,) = (one.name for one in (await client.list_tools()).tools if one.name.endswith("link"))
            links = [str(one.uri) for one in (await client.call_tool(tool, {})).content if one.type == "resource_link"]
            assert all(uri.isascii() for uri in templates)
            written = [one.replace("{id}", "7").replace("{part}", "%2F") for one in templates] + links
            # As the clients write it that take each URI for a URL.
            found = [await client.read_resource(quote(uri, safe=":/+%")) for uri in written]
        return [str(getattr(one.contents[0], "text", "")) for one in found]

    with background(exact) as there:
        upstream = connect_without_user(f"{there}/mcp", Session(), protocol="mcp", agree=lambda _: True)
        merged = merge_toolboxes([upstream, FunctionToolbox(Toolkit("Own"))], names={0: "far"})
        with background(asgi(merged if is_prefixed else upstream)) as url:
            found = anyio.run(read_all, url)
    wanted = [GREETING.replace("{id}", "7"), "notes://my notes/7/%2F", LINKED, ESCAPED]
    assert found == wanted
    assert exact.read[:2] == wanted[:2], "a template says how its server writes a URI"


def build_completing_server(*, completes: bool) -> MCPServer:
    server = MCPServer("Foreign")

    @server.resource("notes://{name}")
    def note(name: str) -> str:
        return name

    @server.prompt()
    def ask(topic: str, place: str) -> str:
        return f"{topic} {place}"

    async def complete(
        ref: PromptReference | ResourceTemplateReference,
        argument: CompletionArgument,
        context: CompletionContext | None,
    ) -> Completion:
        known = (context.arguments or {}) if context else {}
        of = ref.name if isinstance(ref, PromptReference) else ref.uri
        if argument.value == "many":
            return Completion(values=[str(number) for number in range(100)], total=250, has_more=True)
        return Completion(values=[f"{of} {argument.name}={argument.value} {known}", "hid\u202eden", "x" * 300])

    if completes:
        server.completion()(complete)
    return server


@pytest.mark.parametrize("completes", [True, False])
def test_official_client_completes_arguments_of_the_servers_behind_a_gateway(completes: bool) -> None:
    prompt = PromptReference(type="ref/prompt", name="far_ask")
    template = ResourceTemplateReference(type="ref/resource", uri="far+notes://{name}")

    async def use(url: str) -> None:
        async with Client(f"{url}/mcp") as client:
            known = {"topic": "tea"}
            first = (await client.complete(prompt, {"name": "place", "value": "k"}, known)).completion
            second = (await client.complete(template, {"name": "name", "value": "t"})).completion
            many = (await client.complete(prompt, {"name": "topic", "value": "many"})).completion
            if not completes:
                assert first.values == second.values == many.values == []
                return
            assert first.values == ["ask place=k {'topic': 'tea'}"]
            assert second.values == ["notes://{name} name=t {}"]
            assert (len(many.values), many.total, many.has_more) == (100, 250, True)
            for unknown in ("ask", "near_ask"):
                with pytest.raises(MCPError, match="There is no prompt"):
                    await client.complete(PromptReference(type="ref/prompt", name=unknown), {"name": "a", "value": ""})

    with run_app(build_completing_server(completes=completes).streamable_http_app()) as far:
        upstream = connect_without_user(f"{far}/mcp", Session(), protocol="mcp", agree=lambda _: True)
        gateway = merge_toolboxes([upstream, FunctionToolbox(build_shop())], names={0: "far"})
        with background(asgi(gateway)) as url:
            anyio.run(use, url)


def test_caller_without_the_scopes_completes_nothing_of_an_upstream() -> None:
    prompt = PromptReference(type="ref/prompt", name="far_ask")
    keys = (
        ApiKey(key=Secret("a" * 32), name="guest", scopes=frozenset()),
        ApiKey(key=Secret("b" * 32), name="boss", scopes=frozenset({"far"})),
    )

    async def use(url: str, key: str) -> None:
        http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"})
        async with http, Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client:
            if key == "a" * 32:
                with pytest.raises(MCPError, match="scopes far"):
                    await client.complete(prompt, {"name": "place", "value": "k"})
            else:
                completed = await client.complete(prompt, {"name": "place", "value": "k"})
                assert completed.completion.values == ["ask place=k {}"]

    with run_app(build_completing_server(completes=True).streamable_http_app()) as far:
        upstream = connect_without_user(f"{far}/mcp", Session(), protocol="mcp", agree=lambda _: True)
        gateway = merge_toolboxes([upstream, FunctionToolbox(build_shop())], names={0: "far"}, scopes={0: ["far"]})
        with background(asgi(gateway, api_keys=keys)) as url:
            for key in ("a" * 32, "b" * 32):
                anyio.run(use, url, key)
