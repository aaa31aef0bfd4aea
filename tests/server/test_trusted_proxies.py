"""The address of a client behind a proxy: named by the proxies that the operator trusts, and by nobody else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from toolwire.console import Console, ConsoleSource
from toolwire.core.errors import DefinitionError
from toolwire.server.http.trusted_proxies import TrustedProxies
from toolwire.testing.loopback import background

PROXIES = TrustedProxies(["10.0.0.0/8", "2001:db8::5"])


def build_scope(*headers: tuple[str, str], client: str = "10.0.0.5") -> dict[str, Any]:
    return {
        "client": (client, 4000),
        "scheme": "http",
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
    }


def apply(*headers: tuple[str, str], client: str = "10.0.0.5") -> tuple[str, str]:
    scope = build_scope(*headers, client=client)
    if PROXIES.trusts(client):
        PROXIES.apply(scope)
    return scope["client"][0], scope["scheme"]


@pytest.mark.requirement("AT-37")
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([("x-forwarded-for", "198.51.100.7")], "198.51.100.7"),
        ([("x-forwarded-for", "1.2.3.4, 198.51.100.7")], "198.51.100.7"),
        ([("x-forwarded-for", "198.51.100.7, 10.1.1.1")], "198.51.100.7"),
        ([("x-forwarded-for", "198.51.100.7"), ("x-forwarded-for", "10.1.1.1")], "198.51.100.7"),
        ([("x-forwarded-for", "198.51.100.7:4711")], "198.51.100.7"),
        ([("x-forwarded-for", "[2001:db8:9::7]:4711")], "2001:db8:9::7"),
        ([("x-forwarded-for", "::ffff:198.51.100.7")], "198.51.100.7"),
        ([("forwarded", 'for=198.51.100.7;proto=https, for="[2001:db8::5]"')], "198.51.100.7"),
        ([("forwarded", 'For="[2001:db8:9::7]:4711"')], "2001:db8:9::7"),
        ([("forwarded", "for=198.51.100.7"), ("x-forwarded-for", "198.51.100.7")], "198.51.100.7"),
        ([("forwarded", "for=198.51.100.7;by=_x;host=a.example , for=10.1.1.1")], "198.51.100.7"),
        # A quote that a client opened hides nothing that its proxy added, in one line or two.
        ([("forwarded", 'for=1.2.3.4;a=", for="[2001:db8:9::7]"')], "10.0.0.5"),
        ([("forwarded", 'for=1.2.3.4;a="'), ("forwarded", 'for="[2001:db8:9::7]"')], "10.0.0.5"),
        ([("forwarded", 'a="for=1.2.3.4'), ("x-forwarded-for", "198.51.100.7")], "198.51.100.7"),
        ([("forwarded", 'a="\\", for=1.2.3.4", for=198.51.100.7')], "198.51.100.7"),
        ([("forwarded", "for=1.2.3.4 for 198.51.100.7")], "10.0.0.5"),
        # A client's own words: neither counts.
        ([("forwarded", "for=1.2.3.4"), ("x-forwarded-for", "198.51.100.7")], "10.0.0.5"),
        ([("x-forwarded-for", "unknown")], "10.0.0.5"),
        ([("x-forwarded-for", "198.51.100.7, nonsense")], "10.0.0.5"),
        ([("forwarded", "for=_hidden")], "10.0.0.5"),
        ([("x-forwarded-for", "")], "10.0.0.5"),
        ([("x-forwarded-for", "10.9.9.9")], "10.0.0.5"),
        ([], "10.0.0.5"),
    ],
)
def test_last_address_that_is_no_proxy_is_the_client(headers: list[tuple[str, str]], expected: str) -> None:
    assert apply(*headers)[0] == expected


@pytest.mark.requirement("AT-37", "D-34")
def test_nobody_else_names_an_address_or_a_scheme() -> None:
    headers = (("x-forwarded-for", "198.51.100.7"), ("x-forwarded-proto", "https"))
    assert apply(*headers, client="203.0.113.9") == ("203.0.113.9", "http")
    assert apply(*headers) == ("198.51.100.7", "https")
    assert apply(("x-forwarded-proto", "gopher"))[1] == "http"
    assert apply(("x-forwarded-proto", "https"), ("forwarded", "proto=http"))[1] == "http"


@pytest.mark.requirement("CR-02")
@pytest.mark.parametrize(
    ("host", "headers", "expected"),
    [
        ("127.0.0.1:9627", [("x-forwarded-host", "Tools.example:8443")], "tools.example:8443"),
        ("toolwire", [("x-forwarded-host", "tools.example")], "tools.example"),
        ("[::1]:9627", [("forwarded", 'for=198.51.100.7;host="[2001:db8:9::7]:8443"')], "[2001:db8:9::7]:8443"),
        ("toolwire", [("forwarded", "host=tools.example"), ("x-forwarded-host", "tools.example")], "tools.example"),
        # A page that gives this machine a name of its own claims no other one.
        ("evil.example", [("x-forwarded-host", "127.0.0.1:9627")], "evil.example"),
        ("evil.example.", [("forwarded", "host=localhost")], "evil.example."),
        # A client's own words, and what is no host
        ("toolwire", [("forwarded", "host=a.example"), ("x-forwarded-host", "b.example")], "toolwire"),
        ("toolwire", [("x-forwarded-host", "tools.example/path")], "toolwire"),
        ("toolwire", [("x-forwarded-host", "a.example:123456")], "toolwire"),
        ("toolwire", [("x-forwarded-host", "")], "toolwire"),
    ],
)
def test_host_is_taken_where_a_proxy_replaced_it(host: str, headers: list[tuple[str, str]], expected: str) -> None:
    scope = build_scope(("host", host), *headers)
    PROXIES.apply(scope)
    assert [value.decode() for name, value in scope["headers"] if name == b"host"] == [expected]


@pytest.mark.requirement("CR-02")
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        # What a client sent stands before what the first trusted proxy wrote, and what the others wrote behind.
        ([("forwarded", "for=1.2.3.4;proto=http, for=198.51.100.7;proto=https, for=10.1.1.1;proto=http")], "https"),
        ([("x-forwarded-for", "1.2.3.4, 198.51.100.7"), ("x-forwarded-proto", "http, https")], "https"),
        ([("x-forwarded-for", "198.51.100.7, 10.1.1.1"), ("x-forwarded-proto", "https, http")], "https"),
        ([("x-forwarded-for", "1.2.3.4, 198.51.100.7, 10.1.1.1"), ("x-forwarded-proto", "http, https")], "https"),
        ([("x-forwarded-for", "198.51.100.7, 10.1.1.1"), ("x-forwarded-proto", "https")], "https"),
        ([("forwarded", "for=198.51.100.7, for=10.1.1.1;proto=https")], "https"),
        ([("forwarded", "for=_a;proto=https, for=_b;proto=http")], "http"),
        ([("forwarded", "for=198.51.100.7;proto=https;proto=http")], "http"),
    ],
)
def test_scheme_is_the_word_of_the_outermost_trusted_proxy(headers: list[tuple[str, str]], expected: str) -> None:
    assert apply(*headers)[1] == expected


@pytest.mark.requirement("CR-02")
def test_clients_of_a_unix_socket_are_trusted_by_name_alone() -> None:
    assert TrustedProxies(["unix"]).trusts(None)
    assert not TrustedProxies(["unix"]).trusts("127.0.0.1")
    assert not PROXIES.trusts(None)


@pytest.mark.requirement("AT-37", "D-34")
@pytest.mark.parametrize(
    "text", ["a" * 1_000_000, " " * 1_000_000, 'a="' * 300_000, "a=" * 500_000, "for=1," * 150_000]
)
def test_field_of_any_text_is_read_at_once(text: str) -> None:
    # With a pattern that takes the square of its length this would run for an hour.
    assert apply(("forwarded", text), ("x-forwarded-for", text))[0] == "10.0.0.5"


@pytest.mark.requirement("AT-37")
@pytest.mark.parametrize("name", ["proxy.example", "10.0.0.0/33", "", "*"])
def test_proxy_is_named_by_its_address(name: str) -> None:
    with pytest.raises(DefinitionError, match="Invalid trusted proxy"):
        TrustedProxies([name])


async def tell(scope: Any, _receive: Any, send: Any) -> None:
    """Answer with the address of the client and the scheme."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        text = f"{scope['client'][0]} {scope['scheme']}"
        await send({"type": "http.response.body", "body": text.encode()})


@pytest.mark.requirement("AT-37")
@pytest.mark.parametrize(
    ("trusted", "expected"),
    [(["127.0.0.1"], "198.51.100.7 https"), (["10.0.0.5"], "127.0.0.1 http"), ([], "127.0.0.1 http")],
)
def test_server_takes_the_address_of_each_request_from_its_proxy_alone(trusted: list[str], expected: str) -> None:
    headers = {"x-forwarded-for": "1.2.3.4, 198.51.100.7", "x-forwarded-proto": "https"}
    with background(tell, trusted_proxies=trusted) as url, httpx2.Client() as client:
        assert client.get(url, headers=headers).text == expected
        assert client.get(url).text == "127.0.0.1 http", "on the same connection"
        assert client.get(url, headers=headers).text == expected


@pytest.mark.requirement("AT-37")
def test_wrong_keys_of_one_client_behind_a_proxy_do_not_count_for_another(tmp_path: Path) -> None:
    asked: list[str] = []

    async def sign_in(key: str) -> str | None:
        asked.append(key)
        return "ops" if key == "right" else None

    console = Console(ConsoleSource(place=tmp_path / "state"), sign_in)
    with background(console, trusted_proxies=["127.0.0.1"]) as url, httpx2.Client() as client:

        def try_key(key: str, address: str) -> int:
            headers = {"x-forwarded-for": address}
            return client.post(f"{url}/sign-in", data={"key": key, "next": "/"}, headers=headers).status_code

        assert {try_key(f"k{number}", "198.51.100.7") for number in range(12)} == {403}
        assert try_key("right", "198.51.100.7") == 403
        assert try_key("right", "198.51.100.8") == 303
        console.drain()
    assert len(asked) == 11
