"""Parse http and https URLs as browsers do (WHATWG), as far as a client that sends only ASCII needs it.

The parser returns one canonical form of each URL. The code that checks a URL and the code that connects use the same
value, so they cannot read one text differently.
"""

from __future__ import annotations

import re
import socket
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import NamedTuple

_DEFAULT_PORTS = {"http": 80, "https": 443}
_MAX_PORT = 65535
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_AUTHORITY = re.compile(r"(?P<host>[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{0,5}))?")
_HOST_AND_REST = re.compile(r"/*([^/?#]*)(.*)")
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_DOT = re.compile(r"\.|%2[eE]")
_MAY_HAVE_DOTS = re.compile(r"/(?:\.|%2[eE])")
_ENCODED_IN_PATH = re.compile('[ "<>`{}]')
# Browsers also encode an apostrophe here. A parameter with allowReserved is sent with it as it is, so it stays.
_ENCODED_IN_QUERY = re.compile('[ "<>]')
# As the URL standard of WHATWG says: tabs and line breaks are removed anywhere, spaces and control characters at both
# ends.
_IGNORED = str.maketrans("", "", "\t\n\r")
_ENDS = "".join(map(chr, range(0x21)))


class Url(NamedTuple):
    """One http or https URL in canonical form, without user name, password and fragment.

    ``address`` is the host if that is an IP address, and None if it is a name.
    """

    scheme: str
    host: str
    port: int
    address: str | None
    path: str
    query: str | None

    @property
    def authority(self) -> str:
        """The host, with the port unless it is the default of the scheme."""
        return self.host if self.port == _DEFAULT_PORTS[self.scheme] else f"{self.host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port, such as ``https://example.com``."""
        return f"{self.scheme}://{self.authority}"

    @property
    def request_target(self) -> str:
        """The path and query, as in the first line of a request."""
        return self.path if self.query is None else f"{self.path}?{self.query}"


def parse_url(text: str) -> Url:
    """Return the absolute URL ``text``.

    Raises:
        ValueError: it is not an http or https URL, or its host or port cannot be read.
    """
    scheme = _SCHEME.match(text)
    if scheme is None or scheme[1].lower() not in _DEFAULT_PORTS:
        raise ValueError("neither http nor https")
    return _parse_after_scheme(scheme[1].lower(), text[scheme.end() :])


def replace_path(base: Url, rest: str) -> Url:
    """Return the URL with the origin of ``base`` and with ``rest`` (path, query and fragment) after the host."""
    before, mark, query = rest.partition("#")[0].partition("?")
    path, query_text = _normalize_path(before) or "/", _ENCODED_IN_QUERY.sub(_encode, query) if mark else None
    # Each call passes here, and ``_replace`` takes three times as long.
    return Url(base.scheme, base.host, base.port, base.address, path, query_text)


def find_scheme(location: str) -> str:
    """Return the scheme of ``location`` in lower case, or ``""`` if it is relative."""
    scheme = _SCHEME.match(location.strip(_ENDS).translate(_IGNORED))
    return "" if scheme is None else scheme[1].lower()


def has_user(location: str) -> bool:
    """Return whether ``location`` has a user name or password before its host."""
    before_query = re.split(r"[?#]", location, maxsplit=1)[0].replace("\\", "/")
    match = re.match(r"[^/]*//+([^/]*)", before_query)
    return match is not None and "@" in match[1]


def resolve_location(base: Url, location: str) -> Url:
    """Return the URL of ``location``, resolved against ``base``.

    Raises:
        ValueError: it is not an http or https URL.
    """
    text = location.strip(_ENDS).translate(_IGNORED)
    text, _, _ = text.partition("#")
    before, mark, query = text.partition("?")
    # Browsers read a backslash as a slash, so a redirect can use it to hide another host.
    before = before.replace("\\", "/")
    text = before + mark + query
    scheme = _SCHEME.match(before)
    if scheme is not None:
        name = scheme[1].lower()
        if name not in _DEFAULT_PORTS:
            raise ValueError("neither http nor https")
        text = text[scheme.end() :]
        before = before[scheme.end() :]
        if name != base.scheme or before.startswith("//"):
            return _parse_after_scheme(name, text)
    if before.startswith("//"):
        return _parse_after_scheme(base.scheme, text)
    wanted = _ENCODED_IN_QUERY.sub(_encode, query) if mark else None
    if not before:
        return base._replace(query=wanted if mark else base.query)
    path = before if before.startswith("/") else base.path[: base.path.rindex("/") + 1] + before
    return base._replace(path=_normalize_path(path), query=wanted)


def _parse_after_scheme(scheme: str, rest: str) -> Url:
    """Return the URL whose text after ``scheme:`` is ``rest``. Any number of slashes may come before the host."""
    match = _HOST_AND_REST.fullmatch(rest)
    if match is None:
        raise ValueError("it contains a line break")
    authority, after = match.groups()
    parts = _AUTHORITY.fullmatch(authority.rpartition("@")[2])
    if parts is None:
        raise ValueError("its host is missing or cannot be read")
    host, address = _read_host(parts["host"].lower())
    port = int(parts["port"]) if parts["port"] else _DEFAULT_PORTS[scheme]
    if port > _MAX_PORT:
        raise ValueError("no such port")
    return replace_path(Url(scheme, host, port, address, "/", None), after)


def _read_host(host: str) -> tuple[str, str | None]:
    """Return ``host`` in canonical form, and its address if it is one."""
    if host.startswith("["):
        try:
            address = IPv6Address(host[1:-1]).compressed
        except AddressValueError as error:
            raise ValueError("not an IPv6 address") from error
        return f"[{address}]", address
    labels = host.removesuffix(".").split(".")
    if _NUMBER.fullmatch(labels[-1]):  # as browsers do: a host that ends in a number is an IPv4 address
        try:
            address = str(IPv4Address(socket.inet_aton(host.removesuffix("."))))
        except OSError as error:
            raise ValueError("not an IPv4 address") from error
        return address, address
    for label in labels:
        if not label:
            raise ValueError("an empty label in the host name")
        # A broken punycode label is displayed as text by some programs and rejected by others.
        if label.startswith("xn--"):
            _check_punycode(label)
    return host, None


def _check_punycode(label: str) -> None:
    try:
        decoded = label[4:].encode().decode("punycode")
    except UnicodeError as error:
        raise ValueError("not a valid internationalized name") from error
    if not decoded or decoded.isascii():
        raise ValueError("not a valid internationalized name")


def _normalize_path(path: str) -> str:
    """Return ``path`` without dot segments, with percent-encoding where it is required."""
    path = _ENCODED_IN_PATH.sub(_encode, path)
    if _MAY_HAVE_DOTS.search(path) is None:
        return path
    segments_left: list[str] = []
    segments = path.split("/")[1:]
    for number, segment in enumerate(segments, 1):
        plain = _DOT.sub(".", segment) if len(segment) <= len("%2e%2e") else segment
        if plain not in (".", ".."):
            segments_left.append(segment)
            continue
        if plain == ".." and segments_left:
            segments_left.pop()
        if number == len(segments):
            segments_left.append("")
    return "/" + "/".join(segments_left)


def _encode(character: re.Match[str]) -> str:
    return f"%{ord(character[0]):02X}"
