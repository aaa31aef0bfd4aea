"""Where the transport to the network does not lead, whatever a URL or a resolver says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from toolwire.client.transport.limits import TransportLimits
from toolwire.client.transport.request_rules import RequestRules, ResolveHost, SendRequest
from toolwire.core.http import Request, Response
from toolwire.core.model import Kind, Problem

# Every name leads to this machine: what is not stopped before arrives at the listener.
HOSTS = [
    "127.1",
    "127.0.1",
    "0",
    "0.0.0.0",
    "2130706433",
    "0x7f000001",
    "0x7f.0.0.1",
    "0X7F.1",
    "0177.0.0.1",
    "017700000001",
    "127.0.0.01",
    "127.000.000.001",
    "0127.0.0.1",
    "127.0.0.1.",
    "1.0.0.127.in-addr.arpa",
    "127。0。0。1",
    "\uff11\uff12\uff17.0.0.1",
    "①②⑦.⓪.⓪.①",
    "127%2e0%2e0%2e1",
    "127.0.0.%31",
    "loc%61lhost",
    "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
    "localhost.",
    "localhost.localdomain",
    "localhost.evil.example",
    "evil.localhost",
    "localtest.me",
    "127.0.0.1.nip.io",
    "evil.example",
    "evil.example.",
    "metadata.google.internal",
    "instance-data",
    "kubernetes.default.svc",
    "host.docker.internal",
    "router.lan",
    "under_score.example",
    "-.example",
    "..",
    "a..b",
    "1.2.3.4.5",
    "256.256.256.256",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::ffff:0:127.0.0.1]",
    "[::127.0.0.1]",
    "[::7f00:1]",
    "[0:0:0:0:0:0:0:1]",
    "[0000::1]",
    "[::0001]",
    "[::1%25lo]",
    "[::1%lo]",
    "[fe80::1%25eth0]",
    "[fe80::1]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b::a9fe:a9fe]",
    "[2002:7f00:1::]",
    "[2002:a9fe:a9fe::1]",
    "[2001:0:7f00:1::]",
    "[2606:4700::5efe:7f00:1]",
    "[ff02::1]",
    "[v1.127.0.0.1]",
    "[127.0.0.1]",
    "10.0.0.5",
    "172.16.0.1",
    "192.168.0.1",
    "100.64.0.1",
    "169.254.169.254",
    "169.254.170.2",
    "100.100.100.200",
    "168.63.129.16",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "198.18.0.1",
    "224.0.0.1",
    "255.255.255.255",
]
USERINFO = ["user@", "user:pass@", "@", ":@", "8.8.8.8@", "https%3A@", "8.8.8.8:443@"]
SCHEMES = ["ftp", "file", "gopher", "ws", "wss", "data", "javascript", "unix", "HTTP+unix", "dict", "ldap"]


def to_this_machine(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


def is_refused(answer: Response | Problem) -> bool:
    return (
        isinstance(answer, Problem)
        and answer.details["sent"] is False
        and answer.details["reason"] in ("blocked", "url")
    )


@pytest.mark.requirement("D-05", "XL-010")
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("host", HOSTS)
def test_no_spelling_of_a_host_reaches_loopback_or_a_private_network(
    listen: Any, open_network: Any, scheme: str, host: str
) -> None:
    listener = listen()
    answer = open_network(resolve=to_this_machine).send(Request("GET", f"{scheme}://{host}:{listener.port}/"))
    assert is_refused(answer)
    assert listener.connections == 0


@pytest.mark.requirement("D-05")
@pytest.mark.parametrize("userinfo", USERINFO)
def test_url_with_user_info_is_refused_without_repeating_it(listen: Any, open_network: Any, userinfo: str) -> None:
    listener = listen()
    answer = open_network(resolve=to_this_machine).send(Request("GET", f"http://{userinfo}127.0.0.1:{listener.port}/"))
    assert is_refused(answer)
    assert "pass" not in repr(answer).replace("password", "")
    assert listener.connections == 0


@pytest.mark.requirement("XL-010")
@pytest.mark.parametrize("scheme", SCHEMES)
def test_only_http_and_https_urls_are_requested(listen: Any, open_network: Any, scheme: str) -> None:
    listener = listen()
    answer = open_network(resolve=to_this_machine).send(Request("GET", f"{scheme}://127.0.0.1:{listener.port}/"))
    assert is_refused(answer)
    assert listener.connections == 0


@pytest.mark.requirement("XL-010")
def test_http_to_a_remote_host_is_refused_before_dns_lookup(open_network: Any) -> None:
    looked_up: list[str] = []

    def resolve(host: str, port: int) -> Sequence[str]:
        looked_up.append(host)
        return ["8.8.8.8"]

    answer = open_network(resolve=resolve).send(Request("GET", "http://example.invalid/tools?key=hidden"))
    assert answer.kind is Kind.UNREACHABLE
    assert answer.details == {"reason": "blocked", "sent": False}
    assert "http://example.invalid" in answer.message
    assert "hidden" not in repr(answer)
    assert not looked_up


@pytest.mark.requirement("XL-010")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "LocalHost"])
def test_http_is_allowed_for_plain_loopback_names(listen: Any, open_network: Any, host: str) -> None:
    listener = listen()
    answer = open_network(resolve=to_this_machine).send(Request("GET", f"http://{host}:{listener.port}/tools"))
    assert answer.status == 200
    assert listener.requests[0].headers["host"] == f"{host.lower()}:{listener.port}"


@pytest.mark.requirement("D-05")
@pytest.mark.parametrize(
    "addresses",
    [["127.0.0.1", "8.8.8.8"], ["8.8.8.8", "127.0.0.1"], ["127.0.0.1", "10.0.0.5"], ["::ffff:127.0.0.1"], ["nonsense"]],
)
@pytest.mark.parametrize("host", ["localhost", "evil.example"])
def test_one_forbidden_address_of_a_host_refuses_the_request(
    listen: Any, open_network: Any, host: str, addresses: list[str]
) -> None:
    listener = listen()
    answer = open_network(resolve=lambda host, port: addresses).send(Request("GET", f"https://{host}:{listener.port}/"))
    assert is_refused(answer)
    assert listener.connections == 0


@pytest.mark.requirement("D-06")
def test_connection_uses_the_address_that_was_checked(listen: Any, open_network: Any) -> None:
    """The system would find localhost at 127.0.0.1; the transport goes where its own look-up said."""
    listener = listen(host="127.0.0.2")
    transport = open_network(resolve=lambda host, port: ["127.0.0.2"])
    assert transport.send(Request("GET", f"http://localhost:{listener.port}/")).status == 200
    assert listener.requests[0].headers["host"] == f"localhost:{listener.port}"


def test_each_url_of_a_host_is_connected_to_at_its_own_port(listen: Any, open_network: Any) -> None:
    """The first port that a name was reached at is not where its other URLs go."""
    listener = listen()
    transport = open_network(resolve=to_this_machine)
    transport.send(Request("GET", f"http://localhost:{listener.port}/first"))
    transport.send(Request("GET", "http://localhost/second"), total_s=1.0)
    assert [seen.line for seen in listener.requests] == ["GET /first HTTP/1.1"]


def hops(exchange: RequestRules, url: str, found: Callable[[], Sequence[str]]) -> list[str]:
    """Return the addresses that a GET of ``url`` would connect to. Each connection is answered with a 200."""
    steps = exchange.steps(Request("GET", url), None)
    dialled: list[str] = []
    received: Any = None
    while True:
        try:
            step = steps.send(received)
        except StopIteration:
            return dialled
        if isinstance(step, SendRequest):
            dialled.append(step.address)
        received = Response(200) if isinstance(step, SendRequest) else found()


@pytest.mark.requirement("D-06")
def test_host_that_resolves_to_loopback_later_is_not_connected_to() -> None:
    now = 0.0
    answers = iter([["8.8.8.8"], ["127.0.0.1"]])
    exchange = RequestRules(limits=TransportLimits(pin_s=60), clock=lambda: now)
    assert hops(exchange, "https://rebinding.example/", lambda: next(answers)) == ["8.8.8.8"]
    now = 59.0
    assert hops(exchange, "https://rebinding.example/", lambda: next(answers)) == ["8.8.8.8"]
    now = 61.0
    assert hops(exchange, "https://rebinding.example/", lambda: next(answers)) == []
    assert list(answers) == []


@pytest.mark.requirement("D-05")
def test_private_origin_is_reachable_only_if_that_origin_is_allowed() -> None:
    exchange = RequestRules(limits=TransportLimits(), allow_private=["https://10.0.0.5:8443", "https://nas.example"])
    at_home = ["192.168.1.7"]
    assert hops(exchange, "https://10.0.0.5:8443/", list) == ["10.0.0.5"]
    assert hops(exchange, "https://nas.example/", lambda: at_home) == ["192.168.1.7"]
    assert hops(exchange, "https://nas.example:443/", lambda: at_home) == ["192.168.1.7"]
    assert hops(exchange, "https://10.0.0.5/", list) == []
    assert hops(exchange, "https://10.0.0.6:8443/", list) == []
    assert hops(exchange, "https://nas.example:8443/", lambda: at_home) == []
    assert hops(exchange, "https://other.example/", lambda: at_home) == []
    assert hops(exchange, "http://nas.example/", lambda: at_home) == []


@pytest.mark.requirement("D-05")
@pytest.mark.parametrize(
    "address", ["127.0.0.1", "::1", "169.254.169.254", "fd00:ec2::254", "100.100.100.200", "0.0.0.0"]
)
def test_allowed_private_origin_cannot_resolve_to_loopback_or_metadata(address: str) -> None:
    exchange = RequestRules(limits=TransportLimits(), allow_private=["https://nas.example"])
    assert hops(exchange, "https://nas.example/", lambda: [address]) == []


@pytest.mark.parametrize(
    "text", ["10.0.0.5", "https://a.example/x", "https://a.example/", "https://u@a.example", "ftp://a", "https://127.1"]
)
def test_invalid_allowed_origin_is_refused_at_once(text: str) -> None:
    with pytest.raises(ValueError, match="origin"):
        RequestRules(limits=TransportLimits(), allow_private=[text])


def test_next_address_is_tried_if_nothing_was_sent_and_is_remembered(listen: Any, open_network: Any) -> None:
    looked_up: list[str] = []

    def resolve(host: str, port: int) -> Sequence[str]:
        looked_up.append(host)
        return ["127.0.0.3", "127.0.0.1"]

    listener = listen()
    transport = open_network(resolve=resolve)
    assert [transport.send(Request("GET", f"http://localhost:{listener.port}/")).status for _ in range(3)] == [200] * 3
    assert looked_up == ["localhost"]
    assert listener.connections == 1


def test_unreachable_server_is_resolved_again() -> None:
    exchange = RequestRules(limits=TransportLimits())
    lookups = 0
    for _ in range(2):
        steps = exchange.steps(Request("GET", "https://moving.example/"), None)
        assert isinstance(next(steps), ResolveHost)
        lookups += 1
        assert isinstance(steps.send(["8.8.8.8"]), SendRequest)
        gone = Problem(kind=Kind.UNREACHABLE, message="gone", details={"reason": "refused", "sent": False})
        with pytest.raises(StopIteration):
            steps.send(gone)
    assert lookups == 2


def test_number_of_remembered_origins_is_bounded() -> None:
    exchange = RequestRules(limits=TransportLimits())
    for number in range(600):
        assert hops(exchange, f"https://site{number}.example/", lambda: ["8.8.8.8"]) == ["8.8.8.8"]
    assert len(exchange._pins) <= 256
