"""A client in a network with a forward proxy: tunnels, refusals, exceptions, and what the proxy never learns."""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from uvicorn import Config

import toolwire
from tests.certificates import write_certificate
from tests.programs import find_free_port
from tests.support.forward_proxy import ForwardProxy, run_forward_proxy
from tests.support.started_server import wait_until_answered
from toolwire import ConnectError, Toolkit, Value, connect, connect_sync
from toolwire.client.transport.network import Network, SyncNetwork
from toolwire.client.transport.proxies import read_proxies
from toolwire.client.transport.url_policy import Target, admit
from toolwire.core.http import Request, Response
from toolwire.core.model import Kind, Problem, Secret
from toolwire.hosting import open_gateway
from toolwire.server.http.prompt_server import PromptServer
from toolwire.testing.loopback import background

NAME = "tools.invalid"
"""A name that no resolver knows (RFC 6761), so only the proxy does."""
LOGIN = "ann:s3cr3t/p%ss"
QUOTED = "ann:s3cr3t%2Fp%25ss"


def resolve(host: str, port: int) -> Sequence[str]:
    """Know a public server and a private one, as a resolver in a company may."""
    known = {"public.example": ["8.8.8.8"], "inside.example": ["10.0.0.5"], "proxy.example": ["127.0.0.1"]}
    if host not in known:
        raise OSError("no such name")
    return known[host]


def serve_tls(listen: Any, folder: Path, name: str, answer: Any) -> tuple[Any, Path]:
    """Start a listener over TLS with a certificate for ``name``; return it and the certificate."""
    cert, key = write_certificate(folder, name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return listen(answer, tls=context), cert


@pytest.mark.parametrize("host", ["public.example", "unknown.example", "8.8.8.8"])
@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
def test_https_goes_through_one_tunnel_and_only_the_proxy_gets_its_password(
    listen: Any,
    open_network: Any,
    encode_response: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    host: str,
    variable: str,
) -> None:
    with run_forward_proxy(LOGIN) as proxy:
        address = (host,) if host == "8.8.8.8" else ()
        cert, key = write_certificate(tmp_path, host, *address)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        listener = listen(encode_response(b"safe"), tls=context)
        monkeypatch.setenv(variable, f"http://{QUOTED}@proxy.example:{proxy.port}/")
        origin = f"https://{host}:{listener.port}"
        transport = open_network(resolve=resolve, ca_file=cert, credentials={origin: [("x-key", Secret("k3y"))]})
        for _ in range(2):
            answer = transport.send(Request("GET", f"{origin}/tools?secret=1"))
            assert isinstance(answer, Response), answer
            assert answer.body == b"safe"
        assert proxy.lines == [f"CONNECT {host}:{listener.port} HTTP/1.1"]
        assert "k3y" not in proxy.heads[0]
        assert len(listener.requests) == 2
        assert all("proxy-authorization" not in seen.headers for seen in listener.requests)
        assert listener.requests[0].line == "GET /tools?secret=1 HTTP/1.1"


def test_certificate_is_checked_behind_the_proxy(
    listen: Any, open_network: Any, encode_response: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener, cert = serve_tls(listen, tmp_path, "other.example", encode_response(b"safe"))
    with run_forward_proxy() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.place)  # without a scheme, as curl takes it
        answer = open_network(resolve=resolve, ca_file=cert).send(
            Request("GET", f"https://public.example:{listener.port}/")
        )
        assert isinstance(answer, Problem)
        assert (answer.details["reason"], answer.details["sent"]) == ("tls", False)
        assert proxy.lines == [f"CONNECT public.example:{listener.port} HTTP/1.1"]
        assert not listener.requests


def test_http_is_sent_to_the_proxy_with_the_whole_url(
    listen: Any, open_network: Any, encode_response: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = listen(encode_response(b"fine"))
    origin = f"http://inside.example:{listener.port}"
    with run_forward_proxy(LOGIN) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://{QUOTED}@{proxy.place}")
        transport = open_network(resolve=resolve, allow_http=[origin])
        assert transport.send(Request("POST", f"{origin}/a?b=1", (), b"body")).body == b"fine"
        assert proxy.lines == [f"POST {origin}/a?b=1 HTTP/1.1"]
        assert "proxy-authorization" not in listener.requests[0].headers
        monkeypatch.setenv("HTTP_PROXY", f"http://ann:wrong@{proxy.place}")
        answer = open_network(resolve=resolve, allow_http=[origin]).send(Request("GET", origin))
        assert isinstance(answer, Problem)
        assert "did not accept the user name and password" in answer.message


@pytest.mark.requirement("D-05")
def test_http_is_not_sent_through_a_public_proxy(open_network: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://public.example:3128")
    origin = "http://inside.example:80"
    answer = open_network(resolve=resolve, allow_http=[origin]).send(Request("GET", origin))
    assert "the address of its proxy is not in a private network" in answer.message
    unknown = "http://unknown.example"
    answer = open_network(resolve=resolve, allow_http=[unknown]).send(Request("GET", unknown))
    assert (answer.details["reason"], answer.details["sent"]) == ("dns", False)


@pytest.mark.requirement("D-05", "D-06")
@pytest.mark.parametrize(
    "url", ["https://inside.example/", "https://10.0.0.5/", "https://169.254.169.254/", "http://public.example/"]
)
def test_address_rules_hold_before_the_proxy(open_network: Any, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    with run_forward_proxy() as proxy:
        for name in ("HTTP_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, f"http://{proxy.place}")
        answer = open_network(resolve=resolve).send(Request("GET", url))
        assert isinstance(answer, Problem)
        assert (answer.details["reason"], answer.details["sent"]) == ("blocked", False)
        assert not proxy.heads


@pytest.mark.parametrize(
    ("options", "said", "reason"),
    [
        ({"login": LOGIN}, "did not accept the user name and password in the variable.", "proxy"),
        ({"status": 403}, "did not connect to https://public.example: status 403.", "proxy"),
        ({"status": 502}, "did not connect to https://public.example: status 502.", "refused"),
        ({"raw": b""}, "closed the connection without an answer.", "closed"),
        ({"raw": b"HTTP/1.1 200 OK\r\n"}, "closed the connection without an answer.", "closed"),
        ({"raw": b"SSH-2.0-x\r\n\r\n"}, "did not answer with HTTP.", "proxy"),
        ({"raw": b"HTTP/1.1 200 OK\r\n\r\nmore"}, "did not answer with HTTP.", "proxy"),
        ({"raw": b"HTTP/1.1 200 OK\r\n" + b"x: 1\r\n" * 20_000}, "did not answer with HTTP.", "proxy"),
    ],
)
def test_refusal_names_the_proxy_and_its_variable_and_not_the_password(
    open_network: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    options: Any,
    said: str,
    reason: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    with run_forward_proxy(**options) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://bob:hunter2@{proxy.place}")
        transport = open_network(resolve=resolve)
        answer = transport.send(Request("GET", "https://public.example/?key=hidden"))
        assert isinstance(answer, Problem)
        assert answer.message == f"The proxy {proxy.place} (HTTPS_PROXY) {said}"
        assert (answer.kind, answer.details) == (Kind.UNREACHABLE, {"reason": reason, "sent": False})
        assert len(proxy.heads) == 1
        proxies = transport.network._exchange._proxies
        shown = f"{answer!r} {caplog.text} {proxies.find(admit('https://public.example'))!r}"
        assert "hunter2" not in shown
        assert "aHVudGVyMg" not in shown
        assert "Ym9iOmh1bnRlcjI" not in shown


def test_refusal_is_reported_though_the_proxy_has_another_address(
    open_network: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run_forward_proxy(status=403) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://proxy.example:{proxy.port}")
        addresses = {"proxy.example": ["127.0.0.1", "127.0.0.2"]}  # nothing listens at the second
        transport = open_network(resolve=lambda host, port: addresses.get(host, ["8.8.8.8"]))
        answer = transport.send(Request("GET", "https://public.example"))
        assert answer.message.endswith("did not connect to https://public.example: status 403.")


def test_proxy_that_wants_a_password_or_is_gone_is_named(open_network: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_forward_proxy(LOGIN) as proxy:
        monkeypatch.setenv("https_proxy", f"http://{proxy.place}")
        answer = open_network(resolve=resolve).send(Request("GET", "https://public.example"))
        assert answer.message == (
            f"The proxy {proxy.place} (https_proxy) requires a user name and password: "
            "write http://USER:PASSWORD@HOST:PORT in the variable."
        )
    port = find_free_port()
    for place, said in ((f"127.0.0.1:{port}", "refused the connection."), ("gone.example:3128", "was not found.")):
        monkeypatch.setenv("https_proxy", f"http://{place}")
        answer = open_network(resolve=resolve).send(Request("GET", "https://public.example"))
        assert answer.message.startswith(f"The proxy {place} (https_proxy) {said}")
        assert answer.details["sent"] is False


def test_silent_proxy_is_given_up_in_time(listen: Any, open_network: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = listen(lambda _: [None])
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{silent.port}")
    answer = open_network(resolve=resolve).send(Request("GET", "https://public.example"), total_s=0.3)
    assert answer.message == f"The proxy 127.0.0.1:{silent.port} (https_proxy) did not answer in time."
    assert answer.details == {"reason": "timeout", "sent": False}
    assert silent.deserted.wait(10)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("socks5://ann:hunter2@proxy:1080", "The proxy proxy:1080 (ALL_PROXY) is not supported"),
        ("https://ann:hunter2@proxy", "The proxy proxy:80 (ALL_PROXY) is not supported"),
        ("http://hunter2:1234/x@proxy:3128", "The proxy in ALL_PROXY cannot be read"),
        ("http://hunter2:1234#x@proxy:3128", "The proxy in ALL_PROXY cannot be read"),
        ("http://hunter2:99999", "The proxy in ALL_PROXY cannot be read"),
        ("http://[hunter2", "The proxy in ALL_PROXY cannot be read"),
    ],
)
def test_unusable_proxy_matters_only_to_a_server_behind_it(
    listen: Any, open_network: Any, monkeypatch: pytest.MonkeyPatch, value: str, said: str
) -> None:
    monkeypatch.setenv("ALL_PROXY", value)
    transport = open_network(resolve=resolve)
    assert transport.send(Request("GET", listen().origin)).status == 200
    answer = transport.send(Request("GET", "https://public.example"))
    assert answer.message.startswith(said)
    assert "hunter2" not in repr(answer)
    assert answer.details == {"reason": "proxy", "sent": False}


def find(url: str, **environment: str) -> Any:
    """Return the name of the proxy for ``url``, or None for a direct connection."""
    proxies = read_proxies(environment)
    target = admit(url, frozenset({"http://nas.example", "http://10.0.0.5", "https://10.0.0.5"}))
    assert isinstance(target, Target), target
    proxy = None if proxies is None else proxies.find(target)
    return proxy if proxy is None else proxy.name  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("no_proxy", "direct", "proxied"),
    [
        ("*", ["https://a.example", "https://8.8.8.8"], []),
        ("a.example", ["https://a.example", "https://a.example:1", "https://x.a.example."], ["https://xa.example"]),
        (".a.example", ["https://a.example", "https://x.A.example"], ["https://xa.example"]),
        ("*.a.example", ["https://x.a.example"], ["https://xa.example"]),
        ("b.example, a.example:8443 ,,", ["https://a.example:8443", "https://b.example"], ["https://a.example"]),
        ("8.8.8.8 9.9.9.9", ["https://8.8.8.8", "https://9.9.9.9"], ["https://8.8.4.4"]),
        ("8.8.0.0/16", ["https://8.8.4.4"], ["https://9.9.9.9", "https://a.example"]),
        ("2600::/16,[2a00::1]:443", ["https://[2600::9]", "https://[2a00::1]"], ["https://[2a00::1]:1"]),
        ("2a00::1", ["https://[2a00::1]:1"], ["https://[2a00::2]"]),
        ("", [], ["https://a.example"]),
    ],
)
def test_no_proxy_names_hosts_ports_and_networks(no_proxy: str, direct: list[str], proxied: list[str]) -> None:
    for variable in ("no_proxy", "NO_PROXY"):
        environment = {"HTTPS_PROXY": "http://p:1", variable: no_proxy}
        assert [url for url in direct if find(url, **environment) is not None] == []
        assert [url for url in proxied if find(url, **environment) is None] == []


def test_host_in_no_proxy_is_looked_up_and_reached_without_the_proxy(
    open_network: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run_forward_proxy(status=403) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.place)
        monkeypatch.setenv("NO_PROXY", ".unknown.example")
        transport = open_network(resolve=resolve)
        answer = transport.send(Request("GET", "https://a.unknown.example"))
        assert answer.message == "https://a.unknown.example was not found. Check the host name."
        assert not proxy.heads
        assert transport.send(Request("GET", "https://other.example")).details["reason"] == "proxy"
        assert len(proxy.heads) == 1


def test_variables_are_read_as_other_clients_read_them() -> None:
    https, http = "https://a.example", "http://nas.example"
    assert find(https) is None
    assert find(https, HTTP_PROXY="p:1") is None
    assert find(http, HTTPS_PROXY="p:1") is None
    assert find(https, HTTPS_PROXY="p:1", https_proxy="q:2") == "The proxy q:2 (https_proxy)"
    assert find(https, HTTPS_PROXY="p:1", ALL_PROXY="q:2") == "The proxy p:1 (HTTPS_PROXY)"
    assert find(https, HTTPS_PROXY="", all_proxy="http://[::1]") == "The proxy [::1]:80 (all_proxy)"
    assert find(http, HTTP_PROXY="p:1") == "The proxy p:1 (HTTP_PROXY)"
    assert find(https, HTTPS_PROXY="http://a:\udcff@p:1") == "The proxy p:1 (HTTPS_PROXY)"  # a byte that is not UTF-8
    # A CGI program gets the header "Proxy" of any client in HTTP_PROXY.
    assert find(http, HTTP_PROXY="p:1", REQUEST_METHOD="GET") is None
    assert find(http, HTTP_PROXY="p:1", http_proxy="q:2", REQUEST_METHOD="GET") == "The proxy q:2 (http_proxy)"
    for url in ("http://localhost:1", "http://127.0.0.1", "https://[::1]", "http://10.0.0.5", "https://10.0.0.5"):
        assert find(url, ALL_PROXY="p:1") is None, url


def test_proxy_is_read_once_for_each_network(listen: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_forward_proxy(status=403) as proxy:
        before = SyncNetwork(resolve=resolve)
        monkeypatch.setenv("HTTPS_PROXY", proxy.place)
        after = SyncNetwork(resolve=resolve)
        monkeypatch.delenv("HTTPS_PROXY")
        assert isinstance(after.send(Request("GET", "https://public.example")), Problem)
        assert len(proxy.heads) == 1
        assert before._exchange._proxies is None


@pytest.mark.parametrize(("host", "counted"), [("public.example", "8.8.8.8"), ("unknown.example", "127.0.0.1")])
def test_fetches_behind_a_proxy_are_counted_by_server_where_it_is_known(
    monkeypatch: pytest.MonkeyPatch, host: str, counted: str
) -> None:
    addresses: list[str] = []

    async def may_connect(address: str) -> bool:
        addresses.append(address)
        return False

    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    network = Network(resolve=resolve, may_connect=may_connect)
    answer = asyncio.run(network.send(Request("GET", f"https://{host}")))
    assert isinstance(answer, Problem)
    assert addresses == [counted]


def make_site() -> Any:
    """Return a site with all protocols, and an old path of its OpenAPI document."""
    kit = Toolkit("Desk")

    @kit.tool(approval="auto")
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @kit.tool(approval="auto")
    async def count(n: int) -> AsyncIterator[int]:
        """Count to n."""
        for number in range(n):
            yield number

    app = toolwire.asgi(kit, hosts=[NAME])

    async def site(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] == "/old.json":
            await send({"type": "http.response.start", "status": 307, "headers": [(b"location", b"/openapi.json")]})
            await send({"type": "http.response.body", "body": b""})
        else:
            await app(scope, receive, send)

    return site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Serve the site over TLS under a name that only the proxy knows; give its URL and certificate."""
    cert, key = write_certificate(tmp_path_factory.mktemp("site"), NAME)
    port = find_free_port()
    config = Config(
        make_site(),
        port=port,
        log_config=None,
        ssl_certfile=str(cert),
        ssl_keyfile=str(key),
        timeout_graceful_shutdown=1,
    )
    server = PromptServer(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until_answered(f"https://127.0.0.1:{port}/")
    yield f"https://{NAME}:{port}", cert
    server.should_exit = True
    thread.join(10)


@contextmanager
def proxied(monkeypatch: pytest.MonkeyPatch) -> Iterator[ForwardProxy]:
    """Run a proxy with a password that the environment names."""
    with run_forward_proxy(LOGIN) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://{QUOTED}@{proxy.place}")
        yield proxy


@pytest.mark.parametrize(
    ("protocol", "path"), [("mcp", "/mcp"), ("openapi", "/old.json"), ("opentool", "/"), ("otc", "/")]
)
def test_pasted_url_works_behind_a_proxy(
    site: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, protocol: Any, path: str
) -> None:
    url, cert = site
    with proxied(monkeypatch) as proxy:
        with connect_sync(url + path, protocol=protocol, ca_file=cert, agree=bool) as remote:
            assert remote.call("add", {"a": 1, "b": 2}) == Value(3)

        async def call() -> object:
            async with connect(url + path, protocol=protocol, ca_file=cert, agree=bool) as remote:
                return await remote.call("add", {"a": 1, "b": 2})

        assert asyncio.run(call()) == Value(3)
        assert set(proxy.lines) == {f"CONNECT {url.removeprefix('https://')} HTTP/1.1"}


def test_stream_arrives_through_the_proxy(site: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    url, cert = site
    got: list[object] = []
    with proxied(monkeypatch), connect_sync(url, protocol="opentool", ca_file=cert, agree=bool) as remote:
        result = remote.call("count", {"n": 50}, notify=lambda progress: got.append(progress.value))
    assert result == Value(list(range(50)))
    assert got == list(range(50))


def test_connecting_says_that_the_proxy_refuses(site: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    url, cert = site
    with run_forward_proxy(LOGIN) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://ann:hunter2@{proxy.place}")
        with pytest.raises(ConnectError) as caught, connect_sync(url, ca_file=cert):
            pass
        assert f"the proxy {proxy.place} (HTTPS_PROXY) did not accept the user name" in str(caught.value)
        assert "hunter2" not in f"{caught.value!r} {caught.value}"


def test_gateway_reaches_its_upstream_through_the_proxy(
    site: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, cert = site
    file = tmp_path / "toolwire.toml"
    upstream = f'target = "{url}/mcp"\nca-file = "{cert}"\nprotocol = "mcp"'
    file.write_text(f'state = "{tmp_path / "state"}"\nconsent = "refuse"\n[upstreams.desk]\n{upstream}\n')
    with proxied(monkeypatch) as proxy:
        with background(open_gateway(file)) as base, connect_sync(base, approve=lambda _: True) as remote:
            assert remote.call("add", {"a": 1, "b": 2}) == Value(3)
        assert set(proxy.lines) == {f"CONNECT {url.removeprefix('https://')} HTTP/1.1"}
