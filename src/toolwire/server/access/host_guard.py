"""Check Host and Origin of requests.

Rules:
- A server on a loopback address answers to loopback names only. A web page whose own host name resolves to 127.0.0.1
  (DNS rebinding) is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from toolwire.core.errors import DefinitionError
from toolwire.core.model import Kind, Problem
from toolwire.core.url_origin import has_same_origin

from .callers import Fields

_LOOPBACK_HOST = re.compile(r"(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?", re.ASCII | re.IGNORECASE)
_LOOPBACK_ADDRESS = re.compile(r"127(?:\.\d{1,3}){3}|::1|::ffff:127(?:\.\d{1,3}){3}|localhost", re.ASCII)
_HOST_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
_PORT = re.compile(r":\d{1,5}\Z", re.ASCII)
_MAX_ALLOWED = 256
_NAMES_A_HOST = re.compile(r"[^\s/?#@*]+")
_NAMES_AN_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#@*]+|null", re.ASCII | re.IGNORECASE)


class HostGuard:
    """Checks Host and Origin. It remembers allowed pairs, so that a usual request costs one set lookup."""

    def __init__(self, *, hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> None:
        """Allow ``hosts`` and ``origins`` in addition to this machine's.

        Raises:
            DefinitionError: a host or an origin is written in a form that can never match a request.
        """
        self._hosts = _read_names(hosts, "hosts", _NAMES_A_HOST, "tools.example.com, without https:// and a path")
        self._origins = _read_names(origins, "origins", _NAMES_AN_ORIGIN, "https://app.example.com, without a path")
        self._allowed: set[tuple[object, ...]] = set()

    def check_host(self, address: object, fields: Fields) -> Problem | None:
        """Return the refusal of a request, or None. The socket listens at ``address``."""
        # D-24
        pair = (address, fields.get(b"host"), fields.get(b"origin"))
        if pair in self._allowed:
            return None
        problem = self._check_names(str(address), _decode(pair[1]), _decode(pair[2]))
        # Refused pairs are not remembered: an attacker could send any number of them.
        if problem is None and len(self._allowed) < _MAX_ALLOWED:
            self._allowed.add(pair)
        return problem

    def _check_names(self, address: str, host: str, origin: str) -> Problem | None:
        loopback = _LOOPBACK_ADDRESS.fullmatch(address) is not None
        if (loopback or self._hosts) and not self._is_host_allowed(host, loopback=loopback):
            return _build_misdirection(host)
        if (
            origin
            and (loopback or self._origins)
            and not self._is_origin_allowed(origin, loopback=loopback)
            and not self._is_own_page(host, origin)
        ):
            return Problem(kind=Kind.FORBIDDEN, message="Pages of that origin are not allowed to call this server.")
        return None

    def _is_own_page(self, host: str, origin: str) -> bool:
        """Return whether the request comes from one of this server's own pages, at a name that the operator allowed."""
        # Behind a proxy that terminates TLS, the forms of our pages come from https.
        scheme = origin.partition("://")[0]
        is_page = scheme in ("http", "https") and has_same_origin(origin, f"{scheme}://{host}")
        return is_page and self._is_name_allowed(host)

    def _is_name_allowed(self, host: str) -> bool:
        return host in self._hosts or host.rpartition(":")[0] in self._hosts

    def _is_host_allowed(self, host: str, *, loopback: bool) -> bool:
        if self._is_name_allowed(host):
            return True
        return loopback and _LOOPBACK_HOST.fullmatch(host) is not None

    def _is_origin_allowed(self, origin: str, *, loopback: bool) -> bool:
        if origin in self._origins:
            return True
        scheme, _, host = origin.partition("://")
        return loopback and scheme in ("http", "https") and _LOOPBACK_HOST.fullmatch(host) is not None

    def find_own_host(self, server: object, host: str) -> str:
        """Return ``host``, the Host field of a request, if it is an address of this server, else ``""``.

        It must be an allowed name exactly as the operator wrote it, or the socket that received the request (``server``
        in ASGI).
        """
        # AT-34: the sender chooses the Host field, so it counts only if something else confirms it.
        host = host.lower()
        if host in self._hosts:
            return host
        address, port = server if isinstance(server, (tuple, list)) else ("", None)
        if not port:
            return ""
        address = str(address).lower()
        name, _, given = host.rpartition(":") if _PORT.search(host) else (host, "", "80 443")
        is_here = _LOOPBACK_ADDRESS.fullmatch(address) is not None and _LOOPBACK_HOST.fullmatch(host) is not None
        return host if str(port) in given.split() and (is_here or name.strip("[]") == address) else ""

    def check_cross_site(self, address: object, fields: Fields) -> Problem | None:
        """Return the refusal of a call that a browser sent without an Origin for another site's page, or None.

        Images and links send such GET requests. On loopback, no page of another site may call a tool.
        """
        # D-22, D-24
        site = fields.get(b"sec-fetch-site")
        if site is None or site in (b"same-origin", b"none") or _LOOPBACK_ADDRESS.fullmatch(str(address)) is None:
            return None
        if fields.get(b"origin") is not None:
            return None  # check_host has checked the origin
        return Problem(kind=Kind.FORBIDDEN, message="Pages of other sites are not allowed to call this server's tools.")


def _read_names(names: Iterable[str], option: str, valid: re.Pattern[str], example: str) -> frozenset[str]:
    if isinstance(names, str):  # its characters would each count as a name
        raise DefinitionError(f"{option} is a list: write {option}=[{names[:100]!r}].")
    given: tuple[Any, ...] = tuple(names)
    for name in given:
        if not isinstance(name, str) or valid.fullmatch(name) is None:
            raise DefinitionError(f"{str(name)[:100]!r} is not a valid value for {option}. Write {example}.")
    return frozenset(name.lower() for name in given)


def _build_misdirection(host: str) -> Problem:
    # Repeat only text that can be a host name. An attacker could have written the rest.
    name = _PORT.sub("", host)
    is_name = _HOST_NAME.fullmatch(name) is not None
    named_host, shown = (f"the host name {name}", name) if is_name else ("that host name", "NAME")
    message = (
        f"This server does not accept the host name {named_host}. Allow it with --allow-host {shown}, or "
        "asgi(..., hosts=[...])."
    )
    return Problem(kind=Kind.MISDIRECTED, message=message)


def _decode(value: bytes | None) -> str:
    return "" if value is None else value.decode("latin-1").lower()
