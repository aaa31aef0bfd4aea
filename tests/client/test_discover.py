"""From a pasted text to what a server speaks."""

from typing import Any

import pytest

from tests.support.conformance import build_kit
from tests.support.wire import HERE, CannedTransport, SyncAppTransport
from toolwire.client.discovery.discover import Discovery, discover, find_codecs
from toolwire.client.transport.drivers import run
from toolwire.core.http import Response
from toolwire.core.model import Kind, Problem
from toolwire.core.url_origin import complete_url, get_origin
from toolwire.protocols import BUILTIN
from toolwire.server import asgi


def look(transport: Any, url: str = HERE, **options: Any) -> Discovery:
    return run(discover(url, **options), transport, None)


@pytest.mark.requirement("XL-006")
@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("recipes.app", "https://recipes.app"),
        (" recipes.app/tools \n", "https://recipes.app/tools"),
        ("recipes.app:8443", "https://recipes.app:8443"),
        ("localhost", "http://localhost"),
        ("LocalHost:9627", "http://LocalHost:9627"),
        ("127.0.0.1:9627/mcp", "http://127.0.0.1:9627/mcp"),
        ("[::1]:9627", "http://[::1]:9627"),
        ("localhost.evil.example", "https://localhost.evil.example"),
        ("127.0.0.1.evil.example", "https://127.0.0.1.evil.example"),
        ("http://recipes.app", "http://recipes.app"),
        ("ftp://recipes.app", "ftp://recipes.app"),
        ("", "https://"),
    ],
)
def test_url_without_scheme_is_https_except_http_on_loopback(text: str, url: str) -> None:
    assert complete_url(text) == url


@pytest.mark.parametrize(
    ("url", "site"),
    [
        ("https://a.example/x?y#z", "https://a.example"),
        ("https://user:secret@a.example:8443/x", "https://a.example:8443"),
        ("http://[::1]:9627/", "http://[::1]:9627"),
    ],
)
def test_a_site_is_shown_by_scheme_host_and_port(url: str, site: str) -> None:
    assert get_origin(url) == site


@pytest.mark.requirement("XL-001", "XL-005")
def test_discovery_stops_at_the_first_protocol_found() -> None:
    transport = SyncAppTransport(asgi(build_kit()))
    found = look(transport)
    transport.close()
    assert found.peer is not None
    assert found.peer.protocol == BUILTIN[0].name
    assert found.others == ()
    assert "mcp" not in {probe.protocol for probe in found.probes}
    assert found.probes[0].url == f"{HERE}/.well-known/llm.json"
    assert found.probes[-1].accepted


def test_survey_continues_with_the_other_protocols() -> None:
    transport = SyncAppTransport(asgi(build_kit()))
    found = look(transport, survey=True)
    transport.close()
    assert found.peer is not None
    assert [found.peer.protocol, *(peer.protocol for peer in found.others)] == [codec.name for codec in BUILTIN]


@pytest.mark.parametrize("name", [codec.name for codec in BUILTIN])
def test_discovery_can_be_limited_to_one_protocol(name: str) -> None:
    transport = SyncAppTransport(asgi(build_kit()))
    found = look(transport, protocol=name)
    transport.close()
    assert found.peer is not None
    assert found.peer.protocol == name
    assert {probe.protocol for probe in found.probes} == {name}


@pytest.mark.requirement("XL-005", "C-8", "XL-014")
@pytest.mark.parametrize("path", ["", "/", "/tools", "/mcp", "/opentool/version", "/somewhere/else"])
def test_discovery_records_every_probe_and_fetches_no_url_twice(path: str) -> None:
    transport = CannedTransport(lambda _: Response(404))
    found = look(transport, HERE + path)
    assert found.peer is None
    assert {probe.protocol for probe in found.probes} == {codec.name for codec in BUILTIN}
    gets = [request.url for request in transport.sent if request.method == "GET"]
    assert len(gets) == len(set(gets))
    first_post = next((at for at, request in enumerate(transport.sent) if request.method != "GET"), len(transport.sent))
    assert all(request.method != "GET" for request in transport.sent[first_post:])
    assert not any(name in (b"authorization", b"cookie") for request in transport.sent for name, _ in request.headers)


@pytest.mark.requirement("XL-005")
@pytest.mark.parametrize("answer", [Response(500), Problem(kind=Kind.UNREACHABLE, message="No.")])
def test_discovery_continues_after_a_server_error(answer: Response | Problem) -> None:
    found = look(CannedTransport(lambda _: answer))
    assert {probe.protocol for probe in found.probes} == {codec.name for codec in BUILTIN}
    assert not any(probe.accepted for probe in found.probes)


@pytest.mark.parametrize(
    "url", ["", "https://", "https://[", "http://[::1", "https://a b/", "\x00", "https://" + "x" * 40_000]
)
def test_no_url_is_an_exception(url: str) -> None:
    refused = Problem(kind=Kind.MALFORMED, message="This is not a URL.")
    found = look(CannedTransport(lambda _: refused), url)
    assert found.peer is None


def test_unknown_protocol_name_is_refused() -> None:
    assert find_codecs(None) == BUILTIN
    with pytest.raises(ValueError, match="Unknown protocol 'gopher'\\. Choose from openapi, opentool, otc, mcp"):
        find_codecs("gopher")
