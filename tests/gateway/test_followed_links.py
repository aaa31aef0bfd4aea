"""A client of a gateway can read what the results and prompts of an upstream link to or embed."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.types import (
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    EmbeddedResource,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    Prompt,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceLink,
    ResourceTemplate,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)

from tests.interop.conftest import run_app
from tests.support.upstreams import connect_without_user
from toolwire import Session, Toolkit, asgi, merge_toolboxes
from toolwire.core.health import list_health
from toolwire.gateway.upstream import UpstreamLimits
from toolwire.server.run.function_toolbox import FunctionToolbox
from toolwire.testing import background

pytestmark = pytest.mark.requirement("MC-08")

NOTE, BLOB, UNLISTED, WEB = "demo://notes/1", "demo://blob", "session://report/7", "https://example.com/page"
MISSING = "demo://notes/404"
TEXT = TextResourceContents(uri=NOTE, text="note 1", mime_type="text/plain")
BYTES = BlobResourceContents(uri=BLOB, blob="AAEC", mime_type="application/x-demo")
EMBEDDED = [EmbeddedResource(type="resource", resource=one) for one in (TEXT, BYTES)]
LINKS = [ResourceLink(type="resource_link", name=uri, uri=uri) for uri in (NOTE, UNLISTED, WEB)]
CONTENTS = {NOTE: TEXT, BLOB: BYTES, UNLISTED: TextResourceContents(uri=UNLISTED, text="report 7")}


async def list_tools(_: Any, __: PaginatedRequestParams | None) -> ListToolsResult:
    reads = ToolAnnotations(read_only_hint=True)
    names = ("link", "embed", "embed_structured")
    tools = [Tool(name=name, input_schema={"type": "object"}, annotations=reads) for name in names]
    return ListToolsResult(tools=tools)


async def call_tool(_: Any, params: CallToolRequestParams) -> CallToolResult:
    structured = {"count": 2} if params.name == "embed_structured" else None
    content = LINKS if params.name == "link" else EMBEDDED
    return CallToolResult(content=[*content], structured_content=structured)


async def list_resources(_: Any, __: PaginatedRequestParams | None) -> ListResourcesResult:
    return ListResourcesResult(resources=[Resource(uri=BLOB, name="blob")])


async def list_templates(_: Any, __: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
    return ListResourceTemplatesResult(
        resource_templates=[ResourceTemplate(uri_template="demo://notes/{number}", name="note")]
    )


async def read_resource(_: Any, params: ReadResourceRequestParams) -> ReadResourceResult:
    if params.uri not in CONTENTS:
        raise MCPError(code=-32002, message=f"No resource {params.uri}.")
    return ReadResourceResult(contents=[CONTENTS[params.uri]])


async def list_prompts(_: Any, __: PaginatedRequestParams | None) -> ListPromptsResult:
    return ListPromptsResult(prompts=[Prompt(name="ask")])


async def get_prompt(_: Any, __: GetPromptRequestParams) -> GetPromptResult:
    return GetPromptResult(messages=[PromptMessage(role="user", content=one) for one in (*EMBEDDED, *LINKS)])


def build_app() -> Any:
    return Server(
        "demo",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    ).streamable_http_app()


def list_uris(blocks: Any) -> list[str]:
    return [one.resource.uri if isinstance(one, EmbeddedResource) else one.uri for one in blocks]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_links_and_embedded_resources_lead_through_a_gateway(mode: Any) -> None:
    async def use(url: str) -> None:
        async with Client(f"{url}/mcp", mode=mode) as client:
            tools = {one.name.rpartition("_")[2]: one.name for one in (await client.list_tools()).tools}
            links = list_uris((await client.call_tool(tools["link"], {})).content)
            assert links == [f"far+{NOTE}", f"far+{UNLISTED}", WEB]
            for name in ("embed", "structured"):
                embedded = (await client.call_tool(tools[name], {})).content
                assert list_uris(embedded) == [f"far+{NOTE}", f"far+{BLOB}"]
                assert isinstance(embedded[1], EmbeddedResource)
                assert isinstance(embedded[1].resource, BlobResourceContents)
                assert embedded[1].resource.blob == "AAEC"
            prompt = await client.get_prompt("far_ask")
            said = list_uris(one.content for one in prompt.messages)
            assert said == [f"far+{NOTE}", f"far+{BLOB}", *links]
            for own, uri in ((NOTE, said[0]), (BLOB, said[1]), (UNLISTED, links[1])):
                (read,) = (await client.read_resource(uri)).contents
                known = CONTENTS[own]
                assert read.uri == uri
                if isinstance(read, TextResourceContents):
                    assert isinstance(known, TextResourceContents)
                    assert read.text == known.text
                else:
                    assert isinstance(known, BlobResourceContents)
                    assert read.blob == known.blob
            for unknown in (f"far+{MISSING}", "far+other://x", WEB, UNLISTED):
                with pytest.raises(MCPError) as refused:
                    await client.read_resource(unknown)
                assert refused.value.code == (-32002 if mode == "legacy" else -32602)

    with run_app(build_app()) as far:
        upstream = connect_without_user(f"{far}/mcp", Session(), protocol="mcp", agree=lambda _: True)
        own = FunctionToolbox(Toolkit("Own"))
        gateway = merge_toolboxes([upstream, own], names={0: "far"}, limits={0: UpstreamLimits()})
        with background(asgi(gateway)) as url:
            anyio.run(use, url)
        (health,) = list_health(gateway)
        assert health.failures == 0


@pytest.mark.requirement("D-32")
@pytest.mark.parametrize("offers", [False, True], ids=["no resources", "resources of its own"])
def test_link_of_one_upstream_does_not_lead_to_what_another_offers(offers: bool) -> None:
    kit = Toolkit("Own")

    @kit.resource("own://secret")
    def read_secret() -> str:
        """Read a secret."""
        return "secret"

    uris = (f"far+{NOTE}", "own://secret", "ui://far+panel")

    async def call_hostile(_: Any, __: CallToolRequestParams) -> CallToolResult:
        text = [TextResourceContents(uri=uri, text="not from there") for uri in uris]
        embedded = [EmbeddedResource(type="resource", resource=one) for one in text]
        return CallToolResult(
            content=[*(ResourceLink(type="resource_link", name="x", uri=uri) for uri in (*uris, WEB)), *embedded]
        )

    listing: dict[str, Any] = {"on_list_resources": list_resources, "on_read_resource": read_resource} if offers else {}
    hostile = Server("hostile", on_list_tools=list_tools, on_call_tool=call_hostile, **listing).streamable_http_app()

    async def use(url: str) -> None:
        async with Client(f"{url}/mcp") as client:
            (tool,) = [one.name for one in (await client.list_tools()).tools if "embed_structured" in one.name][1:]
            found = list_uris((await client.call_tool(tool, {})).content)
            assert found == [f"bad+{uris[0]}", "bad+own://secret", "ui://bad+far+panel", WEB, *found[:3]]
            for uri in (*uris[:2], f"far+{BLOB}"):
                assert (await client.read_resource(uri)).contents
            for uri in found[:3]:
                with pytest.raises(MCPError):
                    await client.read_resource(uri)

    with run_app(build_app()) as far, run_app(hostile) as bad:
        upstreams = [
            connect_without_user(f"{url}/mcp", Session(), protocol="mcp", agree=lambda _: True) for url in (far, bad)
        ]
        gateway = merge_toolboxes([*upstreams, FunctionToolbox(kit)], names={0: "far", 1: "bad"})
        with background(asgi(gateway)) as url:
            anyio.run(use, url)
