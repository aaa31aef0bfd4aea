"""Check a URL before its name is resolved: return the target to connect to, or why it is refused.

Rules:
- One parser checks and connects. A host that it reads differently from how it is written is refused, so ``127.1``,
  ``0x7f000001``, full-width dots and the like reach nothing.
- Only https is allowed, and http to this machine under its plain names, and to private addresses of origins that the
  user allows by name.
- The calls of one connection go to its own origin, and to those that the user allows.
"""

# XL-010, D-05, D-11: no spelling of a URL gets around these checks. D-07: a document can name any server, and only the
# user can trust it.

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from toolwire.core.model import Problem
from toolwire.core.url_origin import MAX_URL

from .addresses import NetworkReach, is_address_allowed, is_loopback, read_address
from .failures import forbidden_target, invalid_request
from .urls import Url, parse_url, replace_path

_URL = re.compile(rf"[!-\[\]-~]{{1,{MAX_URL}}}")  # visible ASCII without the backslash
_PARTS = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)")
_AUTHORITY = re.compile(r"(?P<host>[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_CHARACTERS = (
    "This URL is empty, or contains a space, a backslash, a control character or a non-ASCII character. "
    "Percent-encode such characters."
)
_TOO_LONG = f"This URL is longer than {MAX_URL:,} characters. Send less data in it."
_USER = "This URL contains a user name or password. Remove it, and send credentials separately."
_NOT_VALID = "Invalid URL: cannot read its host or port."
_NO_HOST = "Invalid URL: its host is missing or contains an invalid character."
_HTTP_NOT_HERE = (
    "http is only for this machine (localhost, 127.0.0.1, [::1]): write https:// instead,"
    " or allow the origin with allow_http (--allow-http) if it is in your private network."
)


class Target(NamedTuple):
    """Where a request is sent. ``address`` is the host if that is an IP address, and None if it is a name.

    ``authority`` and ``request_target`` are those of ``url``, made once for all requests to it.
    """

    url: Url
    origin: str
    host: str
    port: int
    reach: NetworkReach
    address: str | None
    authority: str
    request_target: str


class _OriginTarget(NamedTuple):
    """The parts of a target that all URLs of one origin share."""

    url: Url
    origin: str
    host: str
    port: int
    reach: NetworkReach
    address: str | None
    authority: str


def admit(text: str, private: frozenset[str] = frozenset()) -> Target | Problem:
    """Return the target of the URL ``text``, or why it is refused.

    The https origins in ``private`` may have private addresses; its http origins may have no others. Names are not
    resolved here.
    """
    if _URL.fullmatch(text) is None:
        return invalid_request(_CHARACTERS if len(text) <= MAX_URL else _TOO_LONG, "url")
    start = _PARTS.match(text)
    place = _admit_origin(start[0] if start is not None else text, private)
    if isinstance(place, Problem):
        return place
    url = replace_path(place.url, text[start.end() :] if start is not None else "")
    return Target(url, *place[1:], url.request_target)


@lru_cache(maxsize=4096)  # most calls go to the origin of the call before
def _admit_origin(start: str, private: frozenset[str]) -> _OriginTarget | Problem:
    """Return the target of the origin ``start``: the scheme, host and port of a URL, and nothing after them."""
    url = read_url(start)
    if isinstance(url, Problem):
        return url
    origin, host, address = url.origin, url.host, url.address
    # Port 0 lets the system choose a port; no server is there.
    if not url.port:
        return invalid_request("Invalid URL: its port is 0.", "url")
    reach = _find_reach(origin, host, address, private)
    if url.scheme == "http" and reach is NetworkReach.PUBLIC:
        return forbidden_target(f"{origin} was not contacted: {_HTTP_NOT_HERE}")
    if address is not None and not is_address_allowed(address, reach):
        return refuse_address(origin, reach)
    return _OriginTarget(url, origin, host, url.port, reach, address, url.authority)


def refuse_address(origin: str, reach: NetworkReach) -> Problem:
    """Return the Problem of an origin that has an address outside ``reach``."""
    why = "it leads to a private or special address. Allow it by name if it is yours (allow_private, --allow-private)."
    if reach is NetworkReach.PRIVATE_ONLY:
        why = "its address is not in a private network, and http is not protected on the way: write https:// instead."
    return forbidden_target(f"{origin} was not contacted: {why}")


def allow_origins_in_private_networks(allow_private: Iterable[str], allow_http: Iterable[str]) -> frozenset[str]:
    """Return the origins that may have private addresses: https ones, and http ones if ``allow_http`` names them.

    Raises:
        ValueError: one is not an origin, or ``allow_http`` has an https one.
    """
    secure = {origin for origin in map(origin_of, allow_private) if origin.startswith("https:")}
    plain = set(map(origin_of, allow_http))
    for origin in plain:
        if not origin.startswith("http:"):
            raise ValueError(f"{origin} uses https. Allow it with allow_private (--allow-private)")
    return frozenset(secure | plain)


def origin_of(text: str) -> str:
    """Return the origin ``text`` in its usual spelling, without the default port of its scheme.

    Raises:
        ValueError: it is not an http or https origin, or has something after it.
    """
    url = read_url(text)
    if isinstance(url, Problem):
        raise ValueError(f"not a valid origin, such as https://example.com: {url.message}")
    if text.count("/") != 2 or "?" in text or "#" in text:
        raise ValueError(f"write only the origin, {url.origin}")
    return url.origin


def read_url(text: str) -> Url | Problem:
    """Return ``text`` as an http or https URL, or the Problem that its host is not written plainly."""
    host = _plain_host(text)
    if isinstance(host, Problem):
        return host
    try:
        url = parse_url(text)
    except ValueError:
        return invalid_request(_NOT_VALID, "url")
    # The text shows one host and the parser would connect to another: the user must not be misled.
    if url.host != host:
        return forbidden_target(
            f"The host in this URL is written in an unusual form. If you mean {url.host}, write that."
        )
    return url


def _plain_host(text: str) -> str | Problem:
    """Return the host of the URL ``text`` as written, in lower case."""
    if _URL.fullmatch(text) is None:
        return invalid_request(_CHARACTERS if len(text) <= MAX_URL else _TOO_LONG, "url")
    parts = _PARTS.match(text)
    if parts is None:
        return invalid_request("This URL is incomplete. Write it with its scheme, such as https://example.com.", "url")
    scheme, authority = parts["scheme"].lower(), _AUTHORITY.fullmatch(parts["authority"])
    if scheme not in ("http", "https"):
        return forbidden_target(f"{scheme[:20]}: URLs are not supported. Use https.")
    if authority is None:
        return invalid_request(_USER if "@" in parts["authority"] else _NO_HOST, "url")
    return authority["host"].lower()


def _find_reach(origin: str, host: str, address: str | None, private: frozenset[str]) -> NetworkReach:
    literal = read_address(address) if address is not None else None
    if host == "localhost" or (literal is not None and is_loopback(literal)):
        return NetworkReach.LOOPBACK
    if origin not in private:
        return NetworkReach.PUBLIC
    return NetworkReach.PRIVATE if origin.startswith("https:") else NetworkReach.PRIVATE_ONLY


AllowOrigins: TypeAlias = Iterable[str] | Callable[[str], bool]
"""Other origins than the site's own: their names, or a function that is asked once for each, with its name."""


class AllowedOrigins:
    """The site's own origin, those that are allowed by name, and those that the user agreed to.

    Raises:
        ValueError: one of ``allowed`` is no origin like ``https://example.com``.
    """

    __slots__ = ("_ask", "_decisions")

    def __init__(self, home: str, allowed: AllowOrigins = ()) -> None:
        self._decisions = {home: True}
        self._ask: Callable[[str], bool] | None = None
        if callable(allowed):
            self._ask = allowed
        else:
            self._decisions.update((origin_of(origin), True) for origin in allowed)

    def allow(self, home: str) -> None:
        """Allow the origin ``home``, which the document of a file names as its server."""
        self._decisions[home] = True

    def __contains__(self, origin: object) -> bool:
        if not isinstance(origin, str) or not origin:
            return False
        # The user is asked once for each origin, also if the answer is no.
        is_allowed = self._decisions.get(origin)
        if is_allowed is None:
            is_allowed = self._decisions[origin] = self._ask is not None and self._ask(origin) is True
        return is_allowed
