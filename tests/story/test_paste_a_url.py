"""Paste a URL, get tools: what it speaks is found out, and the answer is the same whatever that is."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import pytest

import toolwire
from toolwire import ConnectError, Kind, Problem, Toolkit, Value, connect, connect_sync
from toolwire.protocols import BUILTIN
from toolwire.testing.loopback import background

PROTOCOLS = [codec.name for codec in BUILTIN]


def library() -> Toolkit:
    toolkit = Toolkit("Library")

    @toolkit.tool(approval="auto")
    def find(title: str, pages: int | None = None) -> dict[str, str | int | None]:
        """Find a book."""
        return {"title": title, "pages": pages, "shelf": "ä→☃"}

    return toolkit


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with background(toolwire.asgi(library())) as url:
        yield url


@pytest.mark.requirement("XL-089")
def test_one_call_turns_a_url_into_tools(site: str) -> None:
    async def use() -> None:
        async with connect(site) as remote:
            assert [tool.name for tool in remote.tools] == ["find"]
            assert (await remote.call("find", {"title": "Moby-Dick"})).ok

    anyio.run(use)
    with connect_sync(site) as remote:
        assert [tool.name for tool in remote.tools] == ["find"]
        assert remote.call("find", {"title": "Moby-Dick"}).ok


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_result_is_equal_over_every_protocol(site: str, protocol: str) -> None:
    with connect_sync(site, protocol=protocol, agree=lambda _: True) as remote:
        assert remote.protocol == protocol
        assert [tool.id for tool in remote.tools] == ["Library.find@1.0.0"]
        result = remote.call("find", {"title": "„Ω“ & <b>", "pages": 3})
        assert result == Value({"title": "„Ω“ & <b>", "pages": 3, "shelf": "ä→☃"})
        assert remote.call("find", {"title": ""}) == Value({"title": "", "pages": None, "shelf": "ä→☃"})
        unknown = remote.call("lose", {"title": "Moby-Dick"})
        assert isinstance(unknown, Problem)
        assert (unknown.kind, "Available tools: find" in unknown.message) == (Kind.UNKNOWN_TOOL, True)


@pytest.mark.requirement("XL-006")
@pytest.mark.parametrize("path", ["", "/", "/a/page.html", "/.well-known/llm.json", "/openapi.json"])
def test_any_pasted_url_of_a_site_is_recognized(site: str, path: str) -> None:
    for url in (f"{site}{path}", f"{site.removeprefix('http://')}{path}"):
        with connect_sync(url) as remote:
            assert [tool.name for tool in remote.tools] == ["find"]


@pytest.mark.parametrize(
    ("path", "protocol"),
    [
        ("/opentool", "opentool"),
        ("/opentool/load", "opentool"),
        ("/tools", "otc"),
        ("/tools/call", "otc"),
        ("/mcp", "mcp"),
    ],
)
def test_protocol_url_of_a_site_is_recognized(site: str, path: str, protocol: str) -> None:
    with connect_sync(f"{site}{path}", protocol=protocol, agree=lambda _: True) as remote:
        assert [tool.name for tool in remote.tools] == ["find"]


@pytest.mark.requirement("XL-001", "XL-005")
def test_every_probe_is_recorded_and_the_first_document_wins(site: str) -> None:
    with connect_sync(site) as remote:
        assert remote.protocol == "openapi"
        looks = [(probe.url.removeprefix(site), probe.status, probe.accepted) for probe in remote.probes]
    assert looks == [("/.well-known/llm.json", 200, False), ("/openapi.json", 200, True)]


def test_unreachable_server_is_reported_in_one_sentence() -> None:
    with (
        pytest.raises(ConnectError, match=r"http://127\.0\.0\.1:1 could not be reached") as error,
        connect_sync("http://127.0.0.1:1"),
    ):
        pass
    assert [probe.status for probe in error.value.probes][:1] == [None]


def test_unknown_protocol_name_raises_value_error() -> None:
    with pytest.raises(ValueError, match="openapi, opentool, otc, mcp"):
        connect("http://127.0.0.1:1", protocol="soap", agree=lambda _: True)
