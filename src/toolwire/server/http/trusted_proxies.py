"""Take the address of a client, and how it came, from the fields that a trusted proxy in front adds to its request.

Rules:
- Any client can send these fields, so they count only on connections from an address that the operator names.
- The address is the last one of the field that is no trusted proxy itself: what stands before it is what a client sent.
- If ``Forwarded`` and ``X-Forwarded-For`` name two addresses, neither counts: one of them is a client's own.
- A ``Forwarded`` that breaks its grammar counts as none: a quote that a client opens could hide what a proxy adds.
"""
# CR-02, AT-37

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
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


class TrustedProxies:
    """The addresses and networks of the proxies in front of a server."""

    def __init__(self, names: Iterable[str]) -> None:
        """Read addresses and networks, such as ``10.0.0.5`` and ``10.0.0.0/8``.

        Raises:
            DefinitionError: a name is neither.
        """
        self._networks: list[IPv4Network | IPv6Network] = []
        for name in names:
            try:
                self._networks.append(ip_network(name.strip(), strict=False))
            except ValueError as error:
                text = f"Invalid trusted proxy {name[:60]}: give an IP address such as 10.0.0.5, or 10.0.0.0/8."
                raise DefinitionError(text) from error

    def trusts(self, host: str) -> bool:
        """Return whether ``host`` is the address of a trusted proxy."""
        address = _read_address(host)
        return address is not None and any(address in one for one in self._networks)

    def apply(self, scope: dict[str, Any]) -> None:
        """Set the client and the scheme of ``scope``, a request that came from a trusted proxy."""
        fields = _join_fields(scope["headers"])
        forwarded = _read_forwarded(fields.get(b"forwarded", ""))
        listed = [part.strip() for part in fields.get(b"x-forwarded-for", "").split(",") if part.strip()]
        named = [found for found in (self._find_client(forwarded["for"]), self._find_client(listed)) if found]
        if named and len(set(named)) == 1:
            scope["client"] = (named[0], 0)
        schemes = [*forwarded["proto"][-1:], *fields.get(b"x-forwarded-proto", "").split(",")[-1:]]
        known = {one.strip().lower() for one in schemes if one.strip()}
        if len(known) == 1 and known <= {"http", "https"}:
            scope["scheme"] = known.pop()

    def _find_client(self, addresses: Sequence[str]) -> str:
        """Return the last of ``addresses`` that is no trusted proxy, or an empty text if it is none."""
        for text in reversed(addresses[-_MAX_ENTRIES:]):
            address = _read_address(text)
            if address is None:
                return ""
            if not any(address in one for one in self._networks):
                return str(address)
        return ""


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
        if name in (b"forwarded", b"x-forwarded-for", b"x-forwarded-proto"):
            text = value.decode("latin-1")
            found[name] = f"{found[name]},{text}" if name in found else text
    return found


def _read_forwarded(text: str) -> dict[str, list[str]]:
    """Return the values of ``for`` and ``proto`` in ``Forwarded``, in order; none if it is invalid (RFC 7239)."""
    found: dict[str, list[str]] = {"for": [], "proto": []}
    at = _skip_separators(text, 0)
    while at < len(text):
        match = _PARAMETER.match(text, at)
        if match is None:
            return {"for": [], "proto": []}
        name = match[1].lower()
        if name in found:
            found[name].append(match[2] if match[2] is not None else match[3])
        at = _skip_separators(text, match.end())
    return found


def _skip_separators(text: str, at: int) -> int:
    match = _SEPARATORS.match(text, at)
    return at if match is None else match.end()
