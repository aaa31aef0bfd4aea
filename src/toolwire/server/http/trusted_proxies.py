"""Take the address of a client, and how it came, from the fields that a trusted proxy in front adds to its request.

Rules:
- Any client can send these fields, so they count only on connections from an address that the operator names.
- The address is the last one of the field that is no trusted proxy itself: what stands before it is what a client sent.
- The scheme and the host are those that the same proxy wrote, the outermost that is trusted.
- If ``Forwarded`` and an ``X-Forwarded`` field say two things, neither counts: one of them is a client's own.
- A ``Forwarded`` that breaks its grammar counts as none: a quote that a client opens could hide what a proxy adds.
- A host is taken only where ``Host`` is an address or a word without a dot, as proxies write it: a web page that gives
  this machine a name of its own (DNS rebinding) cannot claim another one.
"""
# CR-02, AT-37

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final

from toolwire.core.errors import DefinitionError

# Possessive, and matched at one place after the other: linear on any text.
_SEPARATORS: Final = re.compile(r"[\s,;]*+")
_PARAMETER: Final = re.compile(
    r"""([!#$%&'*+.^_`|~0-9A-Za-z-]++)\s*+=\s*+(?:"((?:[^"\\]|\\.)*+)"|([^\s;,"]*+))(?=[\s,;]|\Z)"""
)
_WITH_PORT: Final = re.compile(r"(?:\[([^\]]+)\]|([0-9.]+))(?::[0-9]{1,5})?\Z")
_MAX_ENTRIES: Final = 50
_LISTS: Final = {"for": b"x-forwarded-for", "proto": b"x-forwarded-proto", "host": b"x-forwarded-host"}


_HOST: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::[0-9]{1,5})?\Z")
_NAME_OF_A_PROXY: Final = re.compile(r"[A-Za-z0-9_-]{1,63}(?::[0-9]{1,5})?\Z")
UNIX: Final = "unix"
"""The name of the proxies that connect to a Unix socket: they have no address, and the system says who may connect."""
UNIX_PREFIX: Final = f"{UNIX}:"
"""What a host begins with that is the path of a Unix socket."""


class TrustedProxies:
    """The addresses and networks of the proxies in front of a server."""

    def __init__(self, names: Iterable[str]) -> None:
        """Read addresses and networks, such as ``10.0.0.5`` and ``10.0.0.0/8``, and ``unix``.

        Raises:
            DefinitionError: a name is none of these.
        """
        self._networks: list[IPv4Network | IPv6Network] = []
        self._trusts_unix = False
        for name in names:
            if name.strip() == UNIX:
                self._trusts_unix = True
                continue
            try:
                self._networks.append(ip_network(name.strip(), strict=False))
            except ValueError as error:
                text = "give an IP address such as 10.0.0.5, a network such as 10.0.0.0/8, or unix for a Unix socket."
                raise DefinitionError(f"Invalid trusted proxy {name[:60]}: {text}") from error

    def trusts(self, host: str | None) -> bool:
        """Return whether ``host`` is the address of a trusted proxy; None is a client of a Unix socket."""
        if host is None:
            return self._trusts_unix
        address = _read_address(host)
        return address is not None and any(address in one for one in self._networks)

    def apply(self, scope: dict[str, Any]) -> None:
        """Set the client, the scheme and the host of ``scope``, a request that came from a trusted proxy."""
        fields = _join_fields(scope["headers"])
        found = (self._choose(_read_forwarded(fields.get(b"forwarded", ""))), self._choose(_read_lists(fields)))
        if client := _agree(one.get("for", "") for one in found):
            scope["client"] = (client, 0)
        if (scheme := _agree(one.get("proto", "").lower() for one in found)) in ("http", "https"):
            scope["scheme"] = scheme
        if host := _agree(one.get("host", "").lower() for one in found):
            scope["headers"] = _replace_host(scope["headers"], host)

    def _choose(self, hops: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
        """Return what the outermost trusted proxy says: ``for``, ``proto`` and ``host``, as far as it is known.

        ``hops`` are what each proxy says, the last one's last. What the outermost does not say, the next one may.
        """
        known: dict[str, str] = {}
        for hop in reversed(hops[-_MAX_ENTRIES:]):
            known = {**known, **hop}
            address = _read_address(hop["for"]) if "for" in hop else None
            if address is None and "for" in hop:
                break  # a word that hides an address, or nonsense: nobody knows who wrote what is before it
            if address is not None and not any(address in one for one in self._networks):
                return {**known, "for": str(address)}
        # Nobody but proxies is named, so the last one's word counts.
        return {name: value for hop in hops[-1:] for name, value in hop.items() if name != "for"}


def _agree(values: Iterable[str]) -> str:
    """Return the one value of ``values``, besides empty ones; empty if they are several."""
    named = {one for one in values if one}
    return named.pop() if len(named) == 1 else ""


def _replace_host(headers: Iterable[tuple[bytes, bytes]], host: str) -> Iterable[tuple[bytes, bytes]]:
    """Return ``headers`` with ``host`` in place of the name that a proxy has for this server."""
    given = [value.decode("latin-1") for name, value in headers if name == b"host"]
    if len(given) != 1 or _HOST.match(host) is None:
        return headers
    if _NAME_OF_A_PROXY.match(given[0]) is None and _read_address(given[0]) is None:
        return headers
    return [(name, host.encode("ascii") if name == b"host" else value) for name, value in headers]


def _read_address(text: str) -> IPv4Address | IPv6Address | None:
    found = _WITH_PORT.match(text)
    try:
        address = ip_address((found[1] or found[2]) if found is not None else text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _join_fields(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, str]:
    """Return the fields that proxies add, each as one text: RFC 9110 lets a field come in several lines."""
    found: dict[bytes, str] = {}
    for name, value in headers:
        if name == b"forwarded" or name in _LISTS.values():
            text = value.decode("latin-1")
            found[name] = f"{found[name]},{text}" if name in found else text
    return found


def _read_lists(fields: Mapping[bytes, str]) -> list[dict[str, str]]:
    """Return what each proxy says in the ``X-Forwarded`` fields.

    A list that has another length than that of the addresses says nothing about each of them: its last value counts.
    """
    lists = {
        name: [part.strip() for part in fields.get(field, "").split(",") if part.strip()]
        for name, field in _LISTS.items()
    }
    count = len(lists["for"]) or 1
    hops: list[dict[str, str]] = [{} for _ in range(count)]
    for name, values in lists.items():
        if len(values) == count:
            for hop, value in zip(hops, values, strict=True):
                hop[name] = value
        elif values:
            for hop in hops:
                hop[name] = values[-1]
    return hops


def _read_forwarded(text: str) -> list[dict[str, str]]:
    """Return what each proxy says in ``Forwarded``, in order; nothing if it is invalid (RFC 7239)."""
    found: list[dict[str, str]] = [{}]
    at = _skip_separators(text, 0)
    while at < len(text):
        match = _PARAMETER.match(text, at)
        if match is None:
            return []
        name, value = match[1].lower(), match[2] if match[2] is not None else match[3]
        if name in found[-1]:
            return []  # RFC 7239, 4: each parameter once
        found[-1][name] = value
        at = _skip_separators(text, match.end())
        if "," in text[match.end() : at]:
            found.append({})
    return [{name: one[name] for name in _LISTS if name in one} for one in found if one]


def _skip_separators(text: str, at: int) -> int:
    match = _SEPARATORS.match(text, at)
    return at if match is None else match.end()
