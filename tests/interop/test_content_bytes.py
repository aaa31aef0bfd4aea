"""One image, sound or file that a tool returns is bytes with their media type over OpenAPI, and content again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import anyio
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from toolwire import Audio, File, Image, ResultLimits, Toolkit, asgi, connect, connect_sync, merge_toolboxes
from toolwire.core.content import MAX_EMBEDDED_BYTES
from toolwire.testing import background

from .conftest import run_app

PNG = b"\x89PNG" + bytes(range(256))
FILES = {
    "json": File(b'{"a": 1}', "application/json", "a.json"),
    "problem": File(b'{"title": "no"}', "application/problem+json"),
    "text": File(b"gr\xc3\xbcn", "text/plain", "gr\u00fcn; \u201eso\u201c.txt"),
    "page": File(b"<script>alert(1)</script>", "text/html", "page.html"),
    "image": File(PNG, "image/png"),
    "stream": File(b"data: 1\n\n", "text/event-stream"),
    "nothing": File(b""),
}
WIRES = ("openapi", "opentool", "otc", "mcp")

pytestmark = pytest.mark.requirement("MC-07")


def studio() -> Toolkit:
    kit = Toolkit("Studio")

    @kit.tool(approval="auto", safe=True)
    def chart() -> Image:
        """Draw a chart."""
        return Image(PNG, "image/png", "chart.png")

    @kit.tool(approval="per-call")
    def drawing() -> Image:
        """Draw with lines."""
        return Image(b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml")

    @kit.tool(approval="per-call")
    async def speak() -> Audio:
        """Say something."""
        return Audio(b"RIFF", "audio/wav")

    @kit.tool(approval="per-call")
    def export(kind: str) -> File:
        """Export a file."""
        return FILES[kind]

    @kit.tool(approval="auto")
    def pack() -> list[str | Image]:
        """Return a text and an image."""
        return ["one", Image(PNG, "image/png")]

    @kit.tool(approval="auto")
    def find(name: str) -> Image | None:
        """Return an image, if there is one."""
        return Image(PNG, "image/png") if name else None

    return kit


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with background(asgi(studio())) as url:
        yield url


def fetch(url: str, arguments: dict[str, str] | None = None) -> tuple[bytes, dict[str, str]]:
    """Return the body and the header fields of a response, as any client of HTTP gets them."""
    body = None if arguments is None else json.dumps(arguments).encode()
    with urlopen(Request(url, body, {"content-type": "application/json"}), timeout=20) as response:
        return response.read(), {name.lower(): value for name, value in response.headers.items()}


def get_operation(url: str, tool: str) -> tuple[str, dict[str, Any]]:
    """Return the method of a tool and its operation in the document."""
    ((method, operation),) = json.loads(fetch(f"{url}/openapi.json")[0])["paths"][f"/api/{tool}"].items()
    return method, operation


def call(url: str, tool: str, **arguments: str) -> tuple[bytes, dict[str, str]]:
    """Call a tool as its operation says."""
    if get_operation(url, tool)[0] == "post":
        return fetch(f"{url}/api/{tool}", arguments)
    return fetch(f"{url}/api/{tool}?{urlencode(arguments)}")


def test_any_client_of_http_gets_the_bytes_with_their_type(site: str) -> None:
    body, fields = call(site, "chart")
    assert (body, fields["content-type"]) == (PNG, "image/png")
    assert fields["content-disposition"] == "inline; filename*=UTF-8''chart.png"
    body, fields = call(site, "speak")
    assert (body, fields["content-type"]) == (b"RIFF", "audio/wav")
    body, fields = call(site, "export", kind="text")
    assert (body.decode(), fields["content-type"]) == ("gr\u00fcn", "text/plain")


@pytest.mark.requirement("D-25")
@pytest.mark.parametrize(("tool", "arguments"), [("drawing", {}), ("export", {"kind": "page"})])
def test_no_bytes_of_a_tool_run_as_a_page_of_the_server(site: str, tool: str, arguments: dict[str, str]) -> None:
    _, fields = call(site, tool, **arguments)
    assert fields["content-disposition"].startswith("attachment")
    assert fields["content-security-policy"] == "default-src 'none'; sandbox"
    assert fields["x-content-type-options"] == "nosniff"


def test_the_document_says_the_media_type(site: str) -> None:
    for tool, kind in (("chart", "image/*"), ("speak", "audio/*"), ("export", "*/*")):
        assert get_operation(site, tool)[1]["responses"]["200"]["content"] == {kind: {}}
    for tool in ("pack", "find"):
        assert list(get_operation(site, tool)[1]["responses"]["200"]["content"]) == ["application/json"]
    older = json.loads(fetch(f"{site}/openapi.json?openapi=3.0")[0])["paths"]["/api/chart"]["get"]
    assert older["responses"]["200"]["content"] == {"image/*": {"schema": {"type": "string", "format": "binary"}}}


@pytest.mark.parametrize("wire", WIRES)
def test_every_file_is_the_same_on_every_wire(site: str, wire: str) -> None:
    with connect_sync(site, protocol=wire, approve=lambda _: True) as remote:
        found = {kind: remote.read_content(remote.call("export", {"kind": kind}).unwrap()) for kind in FILES}
        assert remote.read_content(remote.call("pack").unwrap()) == ["one", Image(PNG, "image/png")]
        assert remote.read_content(remote.call("find", {"name": "a"}).unwrap()) == Image(PNG, "image/png")
        assert remote.call("find", {"name": ""}).unwrap() is None
    if wire == "mcp":  # whose block has a URI, and so always a name
        found = {kind: File(file.data, file.media_type, FILES[kind].name) for kind, file in found.items()}
    assert found == FILES


def test_a_large_image_stays_with_the_program_under_a_handle(site: str) -> None:
    limits = ResultLimits(bytes=100)
    with connect_sync(site, protocol="openapi", approve=lambda _: True, caps=limits) as remote:
        value = remote.call("chart").unwrap()
        assert value == {"media_type": "image/png", "bytes_len": len(PNG), "resource": value["resource"]}
        assert remote.read_content(value) == Image(PNG, "image/png")
        assert remote.read_content({**value, "resource": "resource:unknown"})["bytes_len"] == len(PNG)


@pytest.mark.parametrize("inner", WIRES)
def test_a_gateway_passes_bytes_on_as_bytes(site: str, inner: str) -> None:
    async def run() -> None:
        async with connect(site, protocol=inner, approve=lambda _: True) as near:
            with background(asgi(near)) as url:
                body, fields = await anyio.to_thread.run_sync(lambda: call(url, "chart"))
                assert (body, fields["content-type"]) == (PNG, "image/png")
                body, fields = await anyio.to_thread.run_sync(lambda: call(url, "export", kind="json"))
                assert (body, fields["content-type"]) == (b'{"a": 1}', "application/json")

    anyio.run(run)


DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "Photos", "version": "1"},
    "x-llm": {"defaultApproval": "auto"},
    "paths": {
        f"/{name}": {"get": {"operationId": name, "x-llm": {}, "responses": {"200": {"content": {kind: {}}}}}}
        for name, kind in (("cat", "image/png"), ("purr", "audio/wav"), ("film", "application/zip"))
    },
}


@pytest.fixture(scope="module")
def photos() -> Iterator[str]:
    """A site that is no server of ours."""
    routes = [
        Route("/openapi.json", lambda _: JSONResponse(DOCUMENT)),
        Route("/cat", lambda _: Response(PNG, media_type="image/png")),
        Route("/purr", lambda _: Response(b"RIFF", media_type="audio/wav")),
        Route("/film", lambda _: Response(b"x" * (MAX_EMBEDDED_BYTES + 1), media_type="application/zip")),
    ]
    with run_app(Starlette(routes=routes)) as url:
        yield url


def test_a_program_reads_the_bytes_of_any_api(photos: str) -> None:
    with connect_sync(photos, protocol="openapi", approve=lambda _: True) as remote:
        assert remote.read_content(remote.call("cat").unwrap()) == Image(PNG, "image/png")
        assert remote.read_content(remote.call("purr").unwrap()) == Audio(b"RIFF", "audio/wav")
        film = remote.call("film").unwrap()
        assert remote.read_content(film) == film  # too large, so it stays a handle


@pytest.mark.parametrize("outer", WIRES)
@pytest.mark.parametrize("merged", [False, True])
def test_a_gateway_passes_on_the_bytes_of_any_api(photos: str, site: str, outer: str, merged: bool) -> None:
    async def run() -> None:
        async with (
            connect(photos, protocol="openapi", approve=lambda _: True) as near,
            connect(site, approve=lambda _: True) as other,
        ):
            with background(asgi(merge_toolboxes([near, other]) if merged else near)) as url:
                async with connect(url, protocol=outer, approve=lambda _: True) as far:
                    assert far.read_content((await far.call("cat")).unwrap()) == Image(PNG, "image/png")

    anyio.run(run)
