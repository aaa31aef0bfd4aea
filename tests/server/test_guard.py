"""Who may speak to a server at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.model import Kind, Problem
from toolwire.server.guard import Guard, Keys

LOOPBACK = "127.0.0.1"


def kind(guard: Guard, address: object, host: bytes | None, origin: bytes | None = None) -> Kind | None:
    pairs = {b"host": host, b"origin": origin}
    problem = guard.refusal(address, {name: value for name, value in pairs.items() if value is not None})
    return None if problem is None else problem.kind


@pytest.mark.requirement("D-24")
@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "localhost"])
@pytest.mark.parametrize(
    "host", [b"localhost", b"LOCALHOST:9627", b"127.0.0.1:1", b"127.1.2.3", b"[::1]", b"[::1]:9627"]
)
def test_loopback_answers_to_loopback_names(address: str, host: bytes) -> None:
    assert kind(Guard(), address, host) is None


@pytest.mark.requirement("D-24")
@pytest.mark.parametrize(
    "host",
    [None, b"", b"evil.example", b"localhost.evil.example", b"evil.example:9627", b"127.0.0.1.evil.example", b"0.0.0.0",
     b"localhost:", b"localhost:9627:1", b"localhost@evil.example", b"127.0.0.1\n", b"127.1", b"[::1", b"::1",
     b"192.168.0.1", b"\xff", b"localhost."],
)  # fmt: skip
def test_loopback_answers_to_no_other_name(host: bytes | None) -> None:
    assert kind(Guard(), LOOPBACK, host) is Kind.MISDIRECTED


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
def test_only_pages_of_this_machine_may_call_loopback(origin: bytes | None, allowed: bool) -> None:
    assert kind(Guard(), LOOPBACK, b"localhost", origin) is (None if allowed else Kind.FORBIDDEN)


def test_a_name_and_an_origin_can_be_added() -> None:
    guard = Guard(hosts=["Tools.example"], origins=["https://App.example"])
    assert kind(guard, LOOPBACK, b"tools.example:8443", b"https://app.example") is None
    assert kind(guard, LOOPBACK, b"localhost", b"http://localhost") is None
    assert kind(guard, "10.0.0.5", b"tools.example", b"https://app.example") is None
    assert kind(guard, "10.0.0.5", b"localhost") is Kind.MISDIRECTED
    assert kind(guard, "10.0.0.5", b"tools.example", b"http://localhost") is Kind.FORBIDDEN


def test_a_server_that_is_not_on_loopback_takes_any_name_unless_told() -> None:
    assert kind(Guard(), "10.0.0.5", b"anything", b"https://anything") is None
    assert kind(Guard(), "", None) is None


def test_what_was_found_good_stays_good_and_nothing_else_does() -> None:
    guard = Guard()
    for number in range(600):
        assert kind(guard, LOOPBACK, b"localhost:%d" % number) is None
        assert kind(guard, LOOPBACK, b"evil%d.example" % number) is Kind.MISDIRECTED
    assert kind(guard, LOOPBACK, b"localhost:1") is None
    assert kind(guard, LOOPBACK, b"localhost:1", b"http://evil.example") is Kind.FORBIDDEN


@given(st.binary(max_size=30), st.none() | st.binary(max_size=30))
def test_any_host_and_origin_are_judged(host: bytes, origin: bytes | None) -> None:
    assert kind(Guard(), LOOPBACK, host, origin) in (None, Kind.MISDIRECTED, Kind.FORBIDDEN)


@pytest.mark.requirement("OXP-012")
def test_without_keys_everybody_is_anonymous() -> None:
    keys = Keys(())
    assert not keys
    assert keys.principal({b"authorization": b"Bearer whatever"}) == "anonymous"


@pytest.mark.requirement("S-7")
@pytest.mark.parametrize(
    "fields",
    [
        {b"authorization": b"Bearer K1"},
        {b"authorization": b"bearer  K1 "},
        {b"authorization": b"K1"},
        {b"x-api-key": b"K1"},
        {b"oxp-api-key": b"K1"},
    ],
)
def test_a_key_is_taken_from_where_clients_put_it(fields: dict[bytes, bytes]) -> None:
    principal = Keys(["K0", "K1"]).principal(fields)
    assert isinstance(principal, str)
    assert principal.startswith("key-")
    assert "K1" not in principal


@pytest.mark.requirement("S-7", "D-27")
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {b"authorization": b""},
        {b"authorization": b"Bearer "},
        {b"authorization": b"Bearer K2"},
        {b"authorization": b"Basic K1"},
        {b"authorization": b"Bearer K1 K1"},
        {b"x-api-key": b"k1"},
        {b"x-api-key": b""},
        {b"x-api-key": b"\xff"},
        {b"authorization": b"wrong", b"x-api-key": b"K1"},
    ],
)
def test_no_key_and_a_wrong_key_are_refused_without_repeating_it(fields: dict[bytes, bytes]) -> None:
    keys = Keys(["K1"])
    problem = keys.principal(fields)
    assert isinstance(problem, Problem)
    assert problem.kind is Kind.UNAUTHORIZED
    assert "K2" not in problem.message
    assert "K1" not in repr(vars(keys))


def test_different_keys_are_different_principals() -> None:
    keys = Keys(["K1", "K2"])
    assert keys.principal({b"x-api-key": b"K1"}) != keys.principal({b"x-api-key": b"K2"})
