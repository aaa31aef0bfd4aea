"""Find the forward proxy for a request in the environment, and ask the proxy for a tunnel.

Rules:
- ``HTTPS_PROXY``, ``HTTP_PROXY``, ``ALL_PROXY`` and ``NO_PROXY`` are read in upper and lower case; lower case wins.
- This machine and literal private addresses are always reached directly.
- The user name and password of a proxy are sent to the proxy only.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from toolwire.core.model import Problem, Secret

from .addresses import NetworkReach, is_address_allowed, read_address
from .failures import unreachable
from .url_policy import Target

_HOST = re.compile(r"[a-z0-9_.:-]+")
_EXCEPTION = re.compile(r"(?:\*?\.)?(?P<host>\[[0-9a-f:.]+\]|[^:]+)(?::(?P<port>[0-9]{1,5}))?")
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})[ \r\n]")
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_MAX_HEAD = 64 * 1024
_SERVER_ERROR = 500


class Proxy(NamedTuple):
    """A forward proxy. ``name`` is the start of a sentence about it, with the variable that names it."""

    host: str
    port: int
    name: str
    authorization: Secret | None


class _Exception(NamedTuple):
    """One entry of ``NO_PROXY``; a ``port`` of 0 means each port."""

    host: str
    port: int
    network: IPv4Network | IPv6Network | None


class Proxies:
    """The proxies by the scheme of a URL, and the hosts that are reached without one."""

    __slots__ = ("_by_scheme", "_exceptions")

    def __init__(self, by_scheme: Mapping[str, Proxy | Problem], exceptions: str = "") -> None:
        self._by_scheme = by_scheme
        self._exceptions = [_read_exception(entry) for entry in re.split(r"[\s,]+", exceptions.lower()) if entry]

    def find(self, target: Target) -> Proxy | Problem | None:
        """Return the proxy for ``target``, None to connect directly, or why its proxy cannot be used."""
        proxy = self._by_scheme.get(target.url.scheme)
        if proxy is None or target.reach is NetworkReach.LOOPBACK or self._is_exception(target):
            return None
        if target.address is not None and not is_address_allowed(target.address, NetworkReach.PUBLIC):
            return None
        return proxy

    def _is_exception(self, target: Target) -> bool:
        host = target.host.removesuffix(".")
        address = read_address(target.address) if target.address is not None else None
        return any(
            port in (0, target.port)
            and (name in ("*", host) or host.endswith(f".{name}") or bool(network and address and address in network))
            for name, port, network in self._exceptions
        )


def read_proxies(environment: Mapping[str, str] = os.environ) -> Proxies | None:
    """Return the proxies that ``environment`` names, or None if it names none."""
    # A copy: on Windows, os.environ finds HTTP_PROXY under its lower-case name too.
    values = dict(environment)
    if "REQUEST_METHOD" in values:
        values.pop("HTTP_PROXY", None)  # in a CGI program, the header Proxy of any client sets it
    by_scheme: dict[str, Proxy | Problem] = {}
    for scheme in ("https", "http"):
        for name in (f"{scheme}_proxy", "all_proxy"):
            variable = name if name in values else name.upper()
            if scheme not in by_scheme and (text := values.get(variable, "").strip()):
                by_scheme[scheme] = _read_proxy(variable, text)
    return Proxies(by_scheme, values.get("no_proxy", values.get("NO_PROXY", ""))) if by_scheme else None


def write_connect(target: Target, proxy: Proxy) -> bytes:
    """Return the request for a tunnel through ``proxy`` to ``target``."""
    place = f"{target.host}:{target.port}"
    secret = "" if proxy.authorization is None else f"proxy-authorization: {proxy.authorization.reveal()}\r\n"
    return f"CONNECT {place} HTTP/1.1\r\nhost: {place}\r\n{secret}\r\n".encode("latin-1")


def read_connect_reply(data: bytes, target: Target, proxy: Proxy) -> Problem | bool:
    """Return True if the tunnel is open, False if ``data`` is incomplete, or why the proxy opened no tunnel."""
    end = _HEAD_END.search(data)
    if end is None and len(data) <= _MAX_HEAD:
        return False
    status = _STATUS.match(data)
    # A TLS server does not speak first, so data after the head is no part of a tunnel.
    if end is None or status is None or (status[1] < b"300" and end.end() != len(data)):
        return unreachable(f"{proxy.name} did not answer with HTTP.", "proxy", sent=False)
    return status[1].startswith(b"2") or proxy_refusal(target, proxy, int(status[1]))


def proxy_refusal(target: Target, proxy: Proxy, status: int) -> Problem:
    """Return the Problem of a proxy that answered with ``status`` instead of connecting to ``target``."""
    if status == 407:
        why = "did not accept the user name and password in the variable."
        if proxy.authorization is None:
            why = "requires a user name and password: write http://USER:PASSWORD@HOST:PORT in the variable."
        return unreachable(f"{proxy.name} {why}", "proxy", sent=False)
    # The server may be back soon; a proxy that forbids it will forbid it again.
    reason = "refused" if status >= _SERVER_ERROR else "proxy"
    return unreachable(f"{proxy.name} did not connect to {target.origin}: status {status}.", reason, sent=False)


def connect_end(proxy: Proxy) -> Problem:
    """Return the Problem of a proxy that closed the connection instead of answering."""
    return unreachable(f"{proxy.name} closed the connection without an answer.", "closed", sent=False)


def _read_proxy(variable: str, text: str) -> Proxy | Problem:
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, port = parts.hostname or "", parts.port or 80
    except ValueError:
        host, port, parts = "", 0, urlsplit("")
    # A password with a plain slash would be read as a host and a path, and a message would show its start.
    if _HOST.fullmatch(host) is None or "@" in f"{parts.path}{parts.query}{parts.fragment}":
        text = f"The proxy in {variable} cannot be read: write http://HOST:PORT, with a percent-encoded password."
        return unreachable(text, "proxy", sent=False)
    name = f"The proxy {f'[{host}]' if ':' in host else host}:{port} ({variable})"
    if parts.scheme != "http":
        return unreachable(f"{name} is not supported: its URL must begin with http://.", "proxy", sent=False)
    if parts.username is None:
        return Proxy(host, port, name, None)
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return Proxy(host, port, name, Secret(f"Basic {b64encode(pair.encode(errors='surrogateescape')).decode()}"))


def _read_exception(entry: str) -> _Exception:
    parts = _EXCEPTION.fullmatch(entry)
    # An IPv6 address without brackets has colons, and no port.
    host, port = (parts["host"], int(parts["port"] or 0)) if parts is not None else (entry, 0)
    host = host.strip("[].")
    try:
        return _Exception(host, port, ip_network(host, strict=False))
    except ValueError:
        return _Exception(host, port, None)
