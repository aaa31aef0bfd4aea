"""Who may speak to a server at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.model import Kind
from toolwire.server.access.host_guard import HostGuard

LOOPBACK = "127.0.0.1"


def kind(guard: HostGuard, address: object, host: bytes | None, origin: bytes | None = None) -> Kind | None:
    pairs = {b"host": host, b"origin": origin}
    problem = guard.check_host(address, {name: value for name, value in pairs.items() if value is not None})
    return None if problem is None else problem.kind


@pytest.mark.requirement("D-24")
@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "localhost"])
@pytest.mark.parametrize(
    "host", [b"localhost", b"LOCALHOST:9627", b"127.0.0.1:1", b"127.1.2.3", b"[::1]", b"[::1]:9627"]
)
def test_loopback_server_accepts_loopback_host_names(address: str, host: bytes) -> None:
    assert kind(HostGuard(), address, host) is None


@pytest.mark.requirement("D-24")
@pytest.mark.parametrize(
    "host",
    [None, b"", b"evil.example", b"localhost.evil.example", b"evil.example:9627", b"127.0.0.1.evil.example", b"0.0.0.0",
     b"localhost:", b"localhost:9627:1", b"localhost@evil.example", b"127.0.0.1\n", b"127.1", b"[::1", b"::1",
     b"192.168.0.1", b"\xff", b"localhost."],
)  # fmt: skip
def test_loopback_server_refuses_other_host_names(host: bytes | None) -> None:
    assert kind(HostGuard(), LOOPBACK, host) is Kind.MISDIRECTED


@pytest.mark.requirement("D-24")
@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        (None, True),
        (b"http://localhost:3000", True),
        (b"https://127.0.0.1", True),
        (b"http://[::1]:5173", True),
        (b"null", False),
        (b"http://evil.example", False),
        (b"http://localhost.evil.example", False),
        (b"file://localhost", False),
        (b"localhost", False),
        (b"http://localhost/", False),
        (b"chrome-extension://localhost", False),
    ],
)
def test_only_local_pages_may_call_a_loopback_server(origin: bytes | None, allowed: bool) -> None:
    assert kind(HostGuard(), LOOPBACK, b"localhost", origin) is (None if allowed else Kind.FORBIDDEN)


def test_host_and_origin_can_be_added_to_the_allowed_ones() -> None:
    guard = HostGuard(hosts=["Tools.example"], origins=["https://App.example"])
    assert kind(guard, LOOPBACK, b"tools.example:8443", b"https://app.example") is None
    assert kind(guard, LOOPBACK, b"localhost", b"http://localhost") is None
    assert kind(guard, "10.0.0.5", b"tools.example", b"https://app.example") is None
    assert kind(guard, "10.0.0.5", b"localhost") is Kind.MISDIRECTED
    assert kind(guard, "10.0.0.5", b"tools.example", b"http://localhost") is Kind.FORBIDDEN


@pytest.mark.requirement("D-24", "D-22")
def test_pages_of_the_server_itself_may_call_it_at_a_name_that_is_allowed() -> None:
    # a proxy takes https and passes http on to a loopback address: forms of the page at / come with its origin
    guard = HostGuard(hosts=["tools.example"])
    for host, origin in (
        (b"tools.example", b"https://tools.example"),
        (b"Tools.example:8443", b"https://tools.example:8443"),
    ):
        assert kind(guard, LOOPBACK, host, origin) is None
    for host, origin in (
        (b"tools.example", b"https://tools.example:8443"),
        (b"tools.example", b"https://app.tools.example"),
        (b"tools.example", b"https://evil.example"),
        (b"tools.example", b"null"),
        (b"localhost", b"https://tools.example"),
    ):
        assert kind(guard, LOOPBACK, host, origin) is Kind.FORBIDDEN
    assert kind(HostGuard(), LOOPBACK, b"evil.example", b"http://evil.example") is Kind.MISDIRECTED


def test_public_server_accepts_any_host_unless_configured() -> None:
    assert kind(HostGuard(), "10.0.0.5", b"anything", b"https://anything") is None
    assert kind(HostGuard(), "", None) is None


def test_host_guard_cache_keeps_allowed_hosts_correct() -> None:
    guard = HostGuard()
    for number in range(600):
        assert kind(guard, LOOPBACK, b"localhost:%d" % number) is None
        assert kind(guard, LOOPBACK, b"evil%d.example" % number) is Kind.MISDIRECTED
    assert kind(guard, LOOPBACK, b"localhost:1") is None
    assert kind(guard, LOOPBACK, b"localhost:1", b"http://evil.example") is Kind.FORBIDDEN


@given(st.binary(max_size=30), st.none() | st.binary(max_size=30))
def test_host_guard_judges_any_host_and_origin(host: bytes, origin: bytes | None) -> None:
    assert kind(HostGuard(), LOOPBACK, host, origin) in (None, Kind.MISDIRECTED, Kind.FORBIDDEN)
