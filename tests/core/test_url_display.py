"""URLs for people: the site, the path and the names of the query, and no secret."""

from __future__ import annotations

import pytest

from toolwire.core.codec import Probe
from toolwire.core.http import Request
from toolwire.core.url_display import show_url, show_urls

RANDOM = "9f8a7c6b5d4e3f2a1b0c"


@pytest.mark.requirement("D-26")
@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://a.example/x?api_key=k&page=2", "https://a.example/x?api_key=***&page=2"),
        ("https://u:p@a.example:8443/x#token=k", "https://a.example:8443/x"),
        ("https://u:p/w?o#r@a.example/x", "https://a.example/x"),
        ("https://a.example/?API-Key=k;Access_Token=k", "https://a.example/?API-Key=***;Access_Token=***"),
        ("https://a.example/?api%5Fkey=k", "https://a.example/?api%5Fkey=***"),
        (
            "https://b.example/f?X-Amz-Credential=c&X-Amz-Date=20260101T000000Z&X-Amz-Signature=s",
            "https://b.example/f?X-Amz-Credential=***&X-Amz-Date=20260101T000000Z&X-Amz-Signature=***",
        ),
        (f"https://a.example/?v={RANDOM}", "https://a.example/?v=***"),
        (f"https://a.example/?{RANDOM}", "https://a.example/?***"),
        ("https://a.example/?cursor=eyJhbGciOiJIUzI1NiJ9.e30.x", "https://a.example/?cursor=***"),
        ("https://a.example/?q=a+few+words&lang=en-GB", "https://a.example/?q=a+few+words&lang=en-GB"),
        (
            "https://a.example/?city=san-francisco&from=2026-01-01",
            "https://a.example/?city=san-francisco&from=2026-01-01",
        ),
        ("https://a.example/?next=https://u:p@b.example/", "https://a.example/?next=https://b.example/"),
        ("https://[bad/?token=k", "https://[bad/?token=***"),
        ("https://[::1]:80/?token=k", "https://[::1]:80/?token=***"),
        ("/calls?token=k", "/calls?token=***"),
        ("", ""),
    ],
)
def test_displayed_url_hides_its_secrets(url: str, shown: str) -> None:
    assert show_url(url) == shown


@pytest.mark.requirement("D-26")
def test_displayed_sentence_hides_secrets_of_its_urls() -> None:
    assert show_urls("See https://u:p@a.example/?key=k, or 'https://b.example/?sig=k'.") == (
        "See https://a.example/?key=***, or 'https://b.example/?sig=***'."
    )


@pytest.mark.requirement("D-26")
def test_repr_of_request_and_probe_hides_keys() -> None:
    url = "https://u:canary@a.example/?api_key=canary"
    assert "canary" not in repr(Request("GET", url, ((b"authorization", b"Bearer canary"),), b"canary"))
    assert "canary" not in repr(Probe("otc", url, 200, "it is one"))


@pytest.mark.requirement("D-26")
def test_secrets_of_a_url_inside_a_file_path_are_hidden() -> None:
    assert show_urls("/a/https:/u:p@b.example/?token=k is not a file") == "/a/https:/b.example/?token=*** is not a file"
    assert show_urls("C:/Users/a@b") == "C:/Users/a@b"
