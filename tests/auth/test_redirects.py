"""Which redirect URIs may be registered, and which one that comes is the registered one."""

import pytest

from toolwire.auth.redirect_uris import (
    choose_registered,
    display_host,
    form_action_source,
    matches_registered,
    read_redirect_uri,
)
from toolwire.auth.request_parameters import OAuthError

WEB = "https://app.example/callback"
LOOP = "http://127.0.0.1/callback"
LOOP6 = "http://[::1]/callback"
LOCAL = "http://localhost:3000/callback"
PRIVATE = "com.example.app:/callback"

ROWS = [
    (WEB, WEB, True),
    (WEB, WEB + "/", False),
    (WEB, "https://app.example/Callback", False),
    (WEB, "https://APP.example/callback", False),
    (WEB, "HTTPS://app.example/callback", False),
    (WEB, "http://app.example/callback", False),
    (WEB, "https://app.example:443/callback", False),
    (WEB, "https://app.example/callback?x=1", False),
    (WEB, "https://app.example/callback#x", False),
    (WEB, "https://app.example/callback/../callback", False),
    (WEB, "https://app.example/%63allback", False),
    (WEB, "https://app.example.evil.example/callback", False),
    (WEB, "https://app.example@evil.example/callback", False),
    (WEB, "https://evil.example/https://app.example/callback", False),
    (LOOP, "http://127.0.0.1:51004/callback", True),
    (LOOP, LOOP, True),
    (LOOP, "http://127.0.0.1:0/callback", False),
    (LOOP, "http://127.0.0.1:99999/callback", False),
    (LOOP, "http://127.0.0.1:51004/other", False),
    (LOOP, "http://127.0.0.1.evil.example/callback", False),
    (LOOP, "http://127.0.0.1:51004@evil.example/callback", False),
    (LOOP, "http://localhost:51004/callback", False),
    (LOOP, "https://127.0.0.1:51004/callback", False),
    (LOOP6, "http://[::1]:51004/callback", True),
    (LOCAL, "http://localhost:51004/callback", True),
    (LOCAL, "http://localhost@evil.example/callback", False),
    (LOCAL, "http://localhost.evil.example:3000/callback", False),
    (PRIVATE, PRIVATE, True),
    (PRIVATE, "com.example.app:/other", False),
]


@pytest.mark.requirement("AS-02", "D-28", "R18")
@pytest.mark.parametrize(("registered", "given", "same"), ROWS)
def test_redirect_matches_the_registered_uri_except_a_loopback_port(registered: str, given: str, same: bool) -> None:
    assert matches_registered(registered, given) is same
    assert isinstance(choose_registered([registered], given), OAuthError) is not same


@pytest.mark.requirement("AS-02")
@pytest.mark.parametrize(
    "uri",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "myapp:/callback",
        "http://app.example/callback",
        "http://127.0.0.1.evil.example/callback",
        "https://user@app.example/callback",
        "https://app.example/callback#fragment",
        "https://app.example/ callback",
        "https://app.example\\@evil.example/callback",
        "https://*.example/callback",
        "https:///callback",
        "//app.example/callback",
        "https://app.example/" + "a" * 2_000,
        "https://app.example/\r\nset-cookie: a=b",
        "https://аpp.example/callback",
        "",
    ],
)
def test_unsafe_redirect_uri_cannot_be_registered(uri: str) -> None:
    assert isinstance(read_redirect_uri(uri), OAuthError)


@pytest.mark.requirement("AS-02", "AS-17")
@pytest.mark.parametrize(
    ("uri", "shown", "source"),
    [
        (WEB, "app.example", "https://app.example"),
        (LOOP, "127.0.0.1", "http://127.0.0.1:*"),
        (LOOP6, "[::1]", "http:"),
        (LOCAL, "localhost", "http://localhost:*"),
        (PRIVATE, "an app on this device (com.example.app)", "com.example.app:"),
        ("https://app.example:8443?next=https://evil.example", "app.example", "https://app.example:8443"),
    ],
)
def test_consent_page_displays_the_redirect_host_and_may_submit_to_it(uri: str, shown: str, source: str) -> None:
    assert read_redirect_uri(uri) == uri
    assert (display_host(uri), form_action_source(uri)) == (shown, source)


def test_missing_redirect_uses_the_only_registered_one_unless_it_is_loopback() -> None:
    assert choose_registered([WEB], "") == WEB
    assert isinstance(choose_registered([WEB, PRIVATE], ""), OAuthError)
    assert isinstance(choose_registered([LOOP], ""), OAuthError)
