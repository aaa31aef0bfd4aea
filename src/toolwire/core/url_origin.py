"""Read the origin of a URL: scheme, host and port, in one spelling for the whole project.

Rules:
- User name and password are no part of an origin. A port that is the scheme's own is left out.
- The host is in lower-case ASCII: an internationalized name is in its ``xn--`` form, an IPv6 address in its short form.
- A text that two URL parsers could read differently has no origin: it holds a backslash, a space or a control
  character before its path, has no ``//``, or writes an IPv4 address in an unusual way, such as ``127.1``.
- For every URL that the client connects to, this is the origin that it connects to.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import NamedTuple

DEFAULT_PORTS = {"http": 80, "https": 443}

MAX_URL = 32 * 1024
"""The most characters of a URL that the client requests."""

_MAX_PORT = 65_535
_START = re.compile(r"(?P<scheme>[A-Za-z]{4,5})://(?P<authority>[^/?#]*)")
_AUTHORITY = re.compile(
    r"(?P<user>[^\x00-\x20\x7f\\]*@)?"
    # A host of letters, digits, ``_``, ``.``, ``-`` and all beyond ASCII. Their complement compiles in less time.
    r"(?P<host>[^\x00-,/:-@\[-^`{-\x7f]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{0,5}))?"
)
_ANY_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_LOOPBACK_HOST = re.compile(r"(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?:[:/?#]|\Z)", re.ASCII | re.IGNORECASE)
_ASCII_HOST = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?")
_IP_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


class Origin(NamedTuple):
    """The origin of an http or https URL. An IPv6 ``host`` is in brackets; ``port`` is always a number."""

    scheme: str
    host: str
    port: int
    has_user_info: bool = False

    @property
    def authority(self) -> str:
        """The host, and the port if it is not the scheme's own."""
        return self.host if self.port == DEFAULT_PORTS[self.scheme] else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}"


def complete_url(text: str) -> str:
    """Return ``text`` as a URL. Without a scheme it gets https, or http if the host is this machine."""
    # XL-006: a user pastes what a browser shows.
    text = text.strip()
    if _ANY_SCHEME.match(text):
        return text
    return ("http://" if _LOOPBACK_HOST.match(text) else "https://") + text


def read_origin(url: str) -> Origin | None:
    """Return the origin of ``url``, or ``None`` if it is no http or https URL with a readable host and port."""
    start = _START.match(url)
    return None if start is None else _read_start(start["scheme"].lower(), start["authority"])


def get_origin(url: str) -> str:
    """Return the origin of ``url`` as text, such as ``https://example.com``; ``""`` if it has none."""
    start = _START.match(url)
    return "" if start is None else _write_start(start["scheme"].lower(), start["authority"])


def get_authority(url: str) -> str:
    """Return host and port of ``url``, such as ``example.com:8443``; ``""`` if it has no origin."""
    origin = read_origin(url)
    return "" if origin is None else origin.authority


def get_host(url: str) -> str:
    """Return the host of ``url``, an IPv6 address without brackets; ``""`` if the URL has no origin."""
    origin = read_origin(url)
    return "" if origin is None else origin.host.strip("[]")


def has_same_origin(url: str, other: str) -> bool:
    """Return whether both URLs have an origin, and it is the same one."""
    origin = get_origin(url)
    return origin != "" and origin == get_origin(other)


# Most calls go where the last one went. The key holds no path and no query.
@lru_cache(maxsize=4096)
def _read_start(scheme: str, authority: str) -> Origin | None:
    parts = _AUTHORITY.fullmatch(authority)
    if scheme not in DEFAULT_PORTS or parts is None:
        return None
    port = int(parts["port"]) if parts["port"] else DEFAULT_PORTS[scheme]
    host = _normalize_host(parts["host"])
    if not host or port > _MAX_PORT:
        return None
    return Origin(scheme, host, port, has_user_info=parts["user"] is not None)


@lru_cache(maxsize=4096)
def _write_start(scheme: str, authority: str) -> str:
    origin = _read_start(scheme, authority)
    return "" if origin is None else str(origin)


def _normalize_host(host: str) -> str:
    """Return ``host`` in its one spelling, or ``""`` if it is not a host."""
    if host.startswith("["):
        try:
            return f"[{_write_ipv6(IPv6Address(host[1:-1]))}]"
        except AddressValueError:
            return ""
    host = _encode_host(host).lower()
    if _ASCII_HOST.fullmatch(host) is None:
        return ""
    # A browser reads a host that ends in a number as an IPv4 address.
    if _IP_NUMBER.fullmatch(host.removesuffix(".").rpartition(".")[2]) and not _is_ipv4(host):
        return ""
    return host


def _write_ipv6(address: IPv6Address) -> str:
    """Return the short form of ``address``, which is the same in every version of Python."""
    # RE-03: Python 3.13 writes an address that holds an IPv4 one with dots; browsers write it in hexadecimal.
    if address.ipv4_mapped is None:
        return address.compressed
    high, low = divmod(int(address.ipv4_mapped), 1 << 16)
    return f"::ffff:{high:x}:{low:x}"


def _is_ipv4(host: str) -> bool:
    try:
        return str(IPv4Address(host)) == host
    except AddressValueError:
        return False


def _encode_host(host: str) -> str:
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        # Python implements IDNA 2003 and refuses some names that exist today. Those are in plain Punycode.
        return ".".join(map(_encode_label, host.split(".")))


def _encode_label(label: str) -> str:
    return label if label.isascii() else "xn--" + label.encode("punycode", "replace").decode()
