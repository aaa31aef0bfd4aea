"""Who may speak to this server at all: Host and Origin on loopback.

Rules:
- A server on a loopback address answers only to loopback names: a page of another site that was rebound to
  127.0.0.1 gets nothing. [D-24]
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from toolwire.core.model import Kind, Problem

from .callers import Fields

_LOOPBACK_HOST = re.compile(r"(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?", re.ASCII | re.IGNORECASE)
_LOOPBACK_ADDRESS = re.compile(r"127(?:\.\d{1,3}){3}|::1|::ffff:127(?:\.\d{1,3}){3}|localhost", re.ASCII)
_MAX_ALLOWED = 256


class HostGuard:
    """Remembers which pairs of Host and Origin were found good, so that a usual request costs one look."""

    def __init__(self, *, hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> None:
        self._hosts = frozenset(host.lower() for host in hosts)
        self._origins = frozenset(origin.lower() for origin in origins)
        self._allowed: set[tuple[object, ...]] = set()

    def check_host(self, address: object, fields: Fields) -> Problem | None:
        """Return why a request to ``address`` (where the socket listens) is refused, or None. [D-24]"""
        seen = (address, fields.get(b"host"), fields.get(b"origin"))
        if seen in self._allowed:
            return None
        problem = self._check_names(str(address), _decode(seen[1]), _decode(seen[2]))
        if problem is None and len(self._allowed) < _MAX_ALLOWED:
            self._allowed.add(seen)
        return problem

    def _check_names(self, address: str, host: str, origin: str) -> Problem | None:
        loopback = _LOOPBACK_ADDRESS.fullmatch(address) is not None
        if (loopback or self._hosts) and not self._host_allowed(host, loopback):
            return Problem(
                kind=Kind.MISDIRECTED,
                message="This server does not answer to that host name; call it by the name it was started with.",
            )
        if origin and (loopback or self._origins) and not self._origin_allowed(origin, loopback):
            return Problem(kind=Kind.FORBIDDEN, message="Pages of that origin may not call this server.")
        return None

    def _host_allowed(self, host: str, loopback: bool) -> bool:  # noqa: FBT001 - private, named at both calls
        if host in self._hosts or host.rpartition(":")[0] in self._hosts:
            return True
        return loopback and _LOOPBACK_HOST.fullmatch(host) is not None

    def _origin_allowed(self, origin: str, loopback: bool) -> bool:  # noqa: FBT001 - private, named at both calls
        if origin in self._origins:
            return True
        scheme, _, host = origin.partition("://")
        return loopback and scheme in ("http", "https") and _LOOPBACK_HOST.fullmatch(host) is not None

    def check_cross_site(self, address: object, fields: Fields) -> Problem | None:
        """Return the refusal of a call that a page of another site makes a browser send without an Origin.

        An image or a link may do so with GET; on loopback no other site has business with a tool. [D-22, D-24]
        """
        site = fields.get(b"sec-fetch-site")
        if site is None or site in (b"same-origin", b"none") or _LOOPBACK_ADDRESS.fullmatch(str(address)) is None:
            return None
        if fields.get(b"origin") is not None:
            return None  # the origin was looked at already
        return Problem(kind=Kind.FORBIDDEN, message="Pages of other sites may not call the tools of this server.")


def _decode(value: bytes | None) -> str:
    return "" if value is None else value.decode("latin-1").lower()
