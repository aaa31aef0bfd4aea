"""Every spelling of an origin gives one answer; a text that parsers read differently has no origin."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import toolwire
from toolwire.client.transport.url_policy import Target, admit
from toolwire.client.transport.urls import parse_url
from toolwire.core.url_origin import get_authority, get_host, get_origin, has_same_origin, read_origin

SOURCE = Path(toolwire.__file__).parent
HOSTS = st.one_of(
    st.sampled_from(
        ["a.example", "A.Example", "localhost", "127.0.0.1", "[::1]", "[2001:DB8:0::1]", "b\u00fccher.example"]
    ),
    st.from_regex(r"[a-z][a-z0-9-]{0,10}(\.[a-z][a-z0-9-]{0,10}){0,2}", fullmatch=True),
)
USERS = st.sampled_from(["", "u@", "u:p@", "u%40x:p@", ":@", "u@x:p@"])
SUFFIXES = st.sampled_from(["", "/", "/x", "/x?y=@b.example", "?q", "#f", "/\\b.example"])


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://a.example", "https://a.example"),
        ("HTTPS://A.Example:443/x", "https://a.example"),
        ("http://a.example:80", "http://a.example"),
        ("https://a.example:80", "https://a.example:80"),
        ("https://a.example:08443/x", "https://a.example:8443"),
        ("https://a.example:/x", "https://a.example"),
        ("https://u:p@a.example/x", "https://a.example"),
        ("https://b.example@a.example", "https://a.example"),
        ("https://a.example?@b.example", "https://a.example"),
        ("https://a.example#@b.example", "https://a.example"),
        ("https://[2001:DB8:0:0::1]:443/", "https://[2001:db8::1]"),
        ("https://[::ffff:7f00:1]:8443/", "https://[::ffff:7f00:1]:8443"),
        ("https://127.0.0.1:9000/", "https://127.0.0.1:9000"),
        ("https://b\u00fccher.example/", "https://xn--bcher-kva.example"),
        ("https://XN--BCHER-KVA.example/", "https://xn--bcher-kva.example"),
        ("https://a.example./x", "https://a.example."),
    ],
)
def test_each_spelling_of_an_origin_is_normalized_to_one_origin(url: str, origin: str) -> None:
    assert get_origin(url) == origin
    assert origin.endswith(get_authority(url))
    assert get_host(url) in origin


@pytest.mark.parametrize(
    "url",
    [
        "",
        "a.example",
        "//a.example",
        "/x",
        "https:a.example",
        "https:/a.example",
        "https:///a.example",
        "https://",
        "https://u@",
        "https://a.example\\@b.example",
        "https:\\\\a.example",
        " https://a.example",
        "https://a.example\t.b",
        "https://a\nb.example",
        "https://a b.example",
        "https://a\x00.example",
        "https://u:p/w@a.example",
        "https://a.example:65536",
        "https://a.example:-1",
        "https://a..b",
        "https://.a",
        "https://127.1",
        "https://0x7f000001",
        "https://2130706433",
        "https://127.0.0.1.",
        "https://[::1",
        "https://[::1%25eth0]",
        "https://[g::1]",
        "https://a\uff0fb.example",
        "https://\u2100.example",
        "ftp://a.example",
        "file:///etc/hosts",
        "javascript:alert(1)",
    ],
)
def test_ambiguous_url_has_no_origin(url: str) -> None:
    assert read_origin(url) is None
    assert (get_origin(url), get_authority(url), get_host(url)) == ("", "", "")
    assert not has_same_origin(url, url)


@given(st.sampled_from(["https", "http"]), USERS, HOSTS, st.sampled_from([None, 1, 80, 443, 8443, 65535]), SUFFIXES)
def test_user_info_path_and_query_do_not_change_the_origin(
    scheme: str, user: str, host: str, port: int | None, suffix: str
) -> None:
    bare = f"{scheme}://{host}" if port is None else f"{scheme}://{host}:{port}"
    origin = get_origin(f"{scheme}://{user}{host}{bare.removeprefix(f'{scheme}://{host}')}{suffix}")
    assert origin == get_origin(bare) != ""
    assert get_origin(origin) == origin


@given(
    st.one_of(
        st.text(max_size=40), st.builds("{}{}{}{}".format, st.just("https://"), USERS, HOSTS, st.text(max_size=20))
    )
)
@example("https://a.example\\@b.example")
def test_client_connects_only_to_the_parsed_origin(url: str) -> None:
    target = admit(url, frozenset())
    if isinstance(target, Target):
        assert get_origin(url) == target.origin
    try:
        parsed = parse_url(url)
    except ValueError:
        return
    assert get_origin(parsed.origin) == parsed.origin
    if get_origin(url):
        assert get_origin(url) == parsed.origin


@given(st.text(max_size=60))
def test_any_text_has_a_normalized_origin_or_none(url: str) -> None:
    origin = get_origin(url)
    assert origin == "" or re.fullmatch(r"https?://[a-z0-9_.:\[\]-]+", origin)


def test_no_other_module_parses_origins() -> None:
    cuts = re.compile(r"""split\(["']/["']\)\[:3\]|\.netloc\b""")
    allowed = {
        "server/oauth/protected_app.py",  # compares the Origin field with the Host field
        "protocols/mcp/post_message.py",  # shows a URL without its query
        "protocols/mcp/client.py",  # replaces the path of a URL
        "testing/wire.py",  # builds a Host field
        "integrations/fastapi.py",  # the parsed URL of the framework
        "integrations/starlette_routes.py",
        "integrations/sign_in.py",  # a page of the application has no host, and a request of its own a Host field
    }
    found = {
        str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if cuts.search(path.read_text(encoding="utf-8"))
    }
    assert found <= allowed


@pytest.mark.requirement("RE-03")
@pytest.mark.parametrize("written", ["::ffff:127.0.0.1", "::FFFF:7f00:1", "0:0:0:0:0:ffff:7f00:0001"])
def test_an_ipv6_address_that_holds_an_ipv4_one_has_one_spelling_in_every_python(written: str) -> None:
    assert get_origin(f"https://[{written}]") == "https://[::ffff:7f00:1]"
    assert get_origin("https://[::ffff:0.0.0.0]") == "https://[::ffff:0:0]"
    assert get_origin("https://[::ffff:255.1.0.9]") == "https://[::ffff:ff01:9]"
