"""Images, audio and files in results: on every wire, to the official MCP client, and from a server of its SDK."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from anthropic.types import ToolUseBlock
from mcp import Client
from mcp.server.mcpserver import Audio as SdkAudio
from mcp.server.mcpserver import Image as SdkImage
from mcp.server.mcpserver import MCPServer
from mcp.types import BlobResourceContents, EmbeddedResource, ResourceLink

from toolwire import Answer, Audio, File, Image, Question, Toolkit, asgi, connect, connect_sync, read_content
from toolwire.adapters import anthropic
from toolwire.cli import main
from toolwire.testing import background

from .conftest import run_app

FORM = {"type": "image", "data": "AA==", "media_type": "image/png", "name": ""}
PNG = bytes(range(256))  # its base64 has the two letters that the alphabet for URLs has not
CHART, SOUND = Image(PNG, "image/png"), Audio(b"RIFF", "audio/wav")
LARGE = Image(PNG * 1_000, "image/png")
NOTE = File(b"a note", "text/plain", "a note.txt")
WIRES = ("openapi", "opentool", "otc", "mcp")

pytestmark = pytest.mark.requirement("MC-07", "FU-17")


def allow(question: Question) -> Answer:
    return Answer(allowed=True)


def studio() -> Toolkit:
    kit = Toolkit("Studio", version="1.0.0", description="Pictures and sounds.")

    @kit.tool(approval="auto")
    def chart() -> Image:
        """Draw a chart."""
        return CHART

    @kit.tool(approval="auto")
    def speak() -> Audio:
        """Say something."""
        return SOUND

    @kit.tool(approval="auto")
    def pack() -> list[str | Image | File]:
        """Return all there is."""
        return ["all", CHART, NOTE]

    @kit.tool(approval="auto")
    def paint() -> list[str | Image]:
        """Return a large image."""
        return [LARGE]

    @kit.tool(approval="auto")
    def guess():  # type: ignore[no-untyped-def]  # the case
        """Return an image without saying so before."""
        return CHART

    return kit


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with background(asgi(studio())) as url:
        yield url


@pytest.mark.parametrize("wire", WIRES)
def test_content_is_equal_in_every_protocol(site: str, wire: str) -> None:
    with connect_sync(site, protocol=wire, approve=allow) as remote:
        values = {name: read_content(remote.call(name).unwrap()) for name in ("chart", "speak", "guess")}
        packed = read_content(remote.call("pack").unwrap())
    assert values == {"chart": CHART, "speak": SOUND, "guess": CHART}
    assert packed == ["all", CHART, NOTE]


@pytest.mark.parametrize("wire", WIRES)
def test_large_image_is_not_truncated_like_text(site: str, wire: str) -> None:
    with connect_sync(site, protocol=wire, approve=allow) as remote:
        result = remote.call("paint")
    assert read_content(result.unwrap()) in ([LARGE], LARGE)  # MCP does not tell a list of one from the one


@pytest.mark.parametrize("inner", WIRES)
def test_a_gateway_passes_content_on(site: str, inner: str) -> None:
    async def call(outer: str) -> list[object]:
        async with connect(site, protocol=inner, approve=allow) as near:
            with background(asgi(near)) as url:
                async with connect(url, protocol=outer, approve=allow) as far:
                    return [read_content((await far.call(name)).unwrap()) for name in ("chart", "pack", "guess")]

    for outer in WIRES:
        assert anyio.run(call, outer) == [CHART, ["all", CHART, NOTE], CHART], outer


def test_the_official_client_reads_blocks(site: str) -> None:
    async def talk() -> tuple[list[Any], list[Any], list[Any], list[Any]]:
        async with Client(f"{site}/mcp") as client:
            chart, sound, pack = [(await client.call_tool(name, {})).content for name in ("chart", "speak", "pack")]
            return chart, sound, pack, (await client.list_tools()).tools

    (image,), (sound,), (text, _, note), tools = anyio.run(talk)
    assert (image.type, image.mime_type, b64decode(image.data, validate=True)) == ("image", "image/png", PNG)
    assert (sound.type, sound.mime_type, b64decode(sound.data)) == ("audio", "audio/wav", b"RIFF")
    assert text.text == "all"
    assert (note.resource.uri, b64decode(note.resource.blob)) == ("attachment:a%20note.txt", b"a note")
    assert [tool.name for tool in tools if tool.output_schema] == ["guess"]


def test_a_server_of_the_official_sdk_is_read() -> None:
    server = MCPServer("Studio")

    @server.tool()
    def draw() -> list:  # type: ignore[type-arg]
        """Draw."""
        blob = EmbeddedResource(
            type="resource",
            resource=BlobResourceContents(uri="file:///tmp/report.pdf", mime_type="application/pdf", blob="AA=="),
        )
        link = ResourceLink(type="resource_link", uri="file:///b", name="b")
        return ["drawn", SdkImage(data=PNG, format="png"), SdkAudio(data=b"RIFF", format="wav"), blob, link]

    with (
        run_app(server.streamable_http_app()) as url,
        connect_sync(f"{url}/mcp", approve=allow) as remote,
    ):
        text, image, sound, file, link = read_content(remote.call("draw").unwrap())
    assert (text, image, sound) == ("drawn", CHART, SOUND)
    assert file == File(b"\0", "application/pdf", "report.pdf")
    assert (link["type"], link["uri"]) == ("resource_link", "file:///b")


LINK = {"type": "resource_link", "uri": "https://a.example/x.pdf", "name": "x", "mimeType": "application/pdf"}
EMBEDDED = {"type": "resource", "resource": {"uri": "note:1", "mimeType": "text/plain", "text": "a note"}}


def linking() -> Toolkit:
    kit = Toolkit("Library")

    @kit.tool(approval="auto")
    def search() -> list[str | dict[str, Any]]:
        """Return a text, a link and a text of another document."""
        return ["found", LINK, EMBEDDED]

    @kit.tool(approval="auto")
    def find() -> dict[str, Any]:
        """Return a link."""
        return LINK

    return kit


@pytest.mark.parametrize("inner", [None, *WIRES])
def test_links_and_embedded_texts_are_blocks_of_mcp_and_data_elsewhere(inner: str | None) -> None:
    async def read(url: str) -> None:
        async with Client(f"{url}/mcp") as client:
            text, link, embedded = (await client.call_tool("search", {})).content
            assert text.text == "found"
            assert (link.type, link.uri, link.name, link.mime_type) == tuple(LINK.values())
            assert (embedded.type, embedded.resource.uri, embedded.resource.text) == ("resource", "note:1", "a note")
            (only,) = (await client.call_tool("find", {})).content
            assert only.uri == LINK["uri"]
        for wire in WIRES:
            async with connect(url, protocol=wire, approve=allow) as far:
                assert (await far.call("search")).unwrap() == ["found", LINK, EMBEDDED]
                assert (await far.call("find")).unwrap() == LINK

    async def run() -> None:
        with background(asgi(linking())) as url:
            if inner is None:
                await read(url)
                return
            async with connect(url, protocol=inner, approve=allow) as near:
                with background(asgi(near)) as outer:
                    await read(outer)

    anyio.run(run)


@pytest.mark.parametrize("wire", WIRES)
def test_model_receives_a_description_of_content_without_bytes(site: str, wire: str) -> None:
    call = ToolUseBlock(id="t1", name="pack", input={}, type="tool_use")
    with connect_sync(site, protocol=wire, approve=allow) as remote:
        text = str(anthropic.run_tool_call_sync(remote, call)["content"])
    assert "The tool returned an image (image/png, 256 bytes), which cannot be shown here." in text
    assert "The tool returned a file (text/plain, 6 bytes), which cannot be shown here." in text
    assert "AAECAw" not in text


@pytest.mark.parametrize("wire", WIRES)
def test_command_line_describes_returned_content(site: str, wire: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["call", site, "chart", "--agree", "--yes", "--protocol", wire]) == 0
    assert capsys.readouterr().out == "The tool returned an image (image/png, 256 bytes), which cannot be shown here.\n"
    assert main(["call", site, "chart", "--agree", "--yes", "--protocol", wire, "--json"]) == 0
    assert read_content(json.loads(capsys.readouterr().out)["value"]) == CHART


def test_invalid_media_type_of_content_is_refused() -> None:
    for wrong in ("png", "image/png\r\nx: y", "", "image/png; a=b"):
        with pytest.raises(ValueError, match="is not a valid media type"):
            File(b"", wrong)
    with pytest.raises(ValueError, match="is not a media type of image/"):
        Image(b"", "text/html")


def test_media_type_of_a_file_follows_its_name(tmp_path: Path) -> None:
    path = tmp_path / "dot.png"
    path.write_bytes(PNG)
    assert Image.from_path(path) == Image(PNG, "image/png", "dot.png")
    assert repr(Image.from_path(path)) == "Image(media_type='image/png', name='dot.png')"


def test_data_that_only_resembles_content_stays_data() -> None:
    for value in (
        {"type": "image", "data": "AA==", "media_type": "image/png"},
        {**FORM, "more": 1},
        {**FORM, "name": 1},
    ):
        assert read_content(value) is value
    for value in ({**FORM, "data": "?"}, {**FORM, "media_type": "text/html"}, {**FORM, "type": "video"}, 1, [1]):
        assert read_content(value) is value
    assert read_content([FORM] * 101)[0] is FORM
