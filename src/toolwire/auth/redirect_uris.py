"""Check and choose redirect URIs.

Rules:
- Redirect URIs are compared as exact strings, never parsed into something equal.
- The one exception is the port of an http loopback address, which a native app cannot know beforehand.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolwire.core.url_origin import get_origin

from .request_parameters import OAuthError, invalid_request

_MAX_CHARACTERS = 2_000
_TEXT = re.compile(r"[!$%&'()+,./0-9:;=?@A-Z_a-z~\[\]-]+")  # no fragment, no backslash, no wildcard
_LOOPBACK = re.compile(r"http://(?P<host>127\.0\.0\.1|\[::1\]|localhost)(?::(?P<port>[0-9]{1,5}))?(?P<rest>[/?].*)?")
_HTTPS = re.compile(r"https://(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?:[/?].*)?")
_PRIVATE = re.compile(r"(?P<scheme>[a-z][a-z0-9+-]*(?:\.[a-z0-9+-]+)+):/[^@]*")


def read_redirect_uri(text: str) -> str | OAuthError:
    """Return ``text`` if a client may register it: https, http on loopback, or a private scheme with a dot."""
    # AS-02
    if len(text) > _MAX_CHARACTERS or _TEXT.fullmatch(text) is None:
        return invalid_request("A redirect URI contains a fragment or an invalid character.")
    if _LOOPBACK.fullmatch(text) or _HTTPS.fullmatch(text) or _PRIVATE.fullmatch(text):
        return text
    return invalid_request(
        "A redirect URI must use https, http on a loopback address, or a private scheme that contains a dot."
    )


def is_loopback_uri(uri: str) -> bool:
    """Return whether ``uri`` leads to this very machine, where any program may listen."""
    return _LOOPBACK.fullmatch(uri) is not None


def matches_registered(registered: str, given: str) -> bool:
    """Return whether ``given`` is ``registered``: the same text, but for the port of a loopback address."""
    # AS-02
    if registered == given:
        return True
    ours, theirs = _LOOPBACK.fullmatch(registered), _LOOPBACK.fullmatch(given)
    if ours is None or theirs is None or _TEXT.fullmatch(given) is None:
        return False
    port = theirs["port"]
    if port is not None and not 0 < int(port) < 65_536:
        return False
    return (ours["host"], ours["rest"]) == (theirs["host"], theirs["rest"])


def choose_registered(registered: Sequence[str], given: str) -> str | OAuthError:
    """Return the redirect URI: ``given`` if it is registered, or the only registered one."""
    # AS-01, AS-02
    if not given:
        if len(registered) == 1 and not is_loopback_uri(registered[0]):
            return registered[0]
        return invalid_request("redirect_uri is missing.")
    if len(given) > _MAX_CHARACTERS or not any(matches_registered(uri, given) for uri in registered):
        return invalid_request("redirect_uri is not one that this app has registered.")
    return given


def display_host(uri: str) -> str:
    """Return the host of ``uri``, or its private scheme, to show to the user."""
    for pattern in (_LOOPBACK, _HTTPS):
        match = pattern.fullmatch(uri)
        if match is not None:
            return match["host"]
    private = _PRIVATE.fullmatch(uri)
    return f"an app on this device ({private['scheme']})" if private is not None else ""


def form_action_source(uri: str) -> str:
    """Return what a Content-Security-Policy must let a form lead to, so that its answer may redirect to ``uri``."""
    match = _LOOPBACK.fullmatch(uri)
    if match is not None:
        return "http:" if match["host"] == "[::1]" else f"http://{match['host']}:*"
    private = _PRIVATE.fullmatch(uri)
    if private is not None:
        return f"{private['scheme']}:"
    return get_origin(uri)
