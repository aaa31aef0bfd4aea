"""Build the header fields of the pages of a server: a strict policy, and no storing unless a page says so."""
# D-25

from __future__ import annotations

from typing import Final

from toolwire.core.http import Headers
from toolwire.framing.html_page import build_policy

_OTHER: Final = (
    (b"content-type", b"text/html; charset=utf-8"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
)
NO_STORE: Final = (b"cache-control", b"no-store")


def build_page_headers(*, is_live: bool = False, shows_media: bool = False) -> Headers:
    """Return the fields of a page.

    ``is_live``: its script asks this server how a call stands. ``shows_media``: it shows an image or a sound that a
    tool returned; only there may a page do that.
    """
    policy = build_policy(script="'self'", is_live=is_live, shows_media=shows_media)
    return ((b"content-security-policy", policy.encode()), *_OTHER)
