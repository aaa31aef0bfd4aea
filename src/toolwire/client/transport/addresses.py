"""Decide which IP addresses the client may connect to.

Rules:
- Only known addresses are allowed. An address that cannot be parsed, has a zone, or is unassigned is refused.
- An address that embeds an IPv4 address (mapped, NAT64, 6to4, Teredo, ISATAP) must be allowed by that one too.
- The addresses of cloud metadata services are never allowed: they give out the credentials of the machine.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address


class NetworkReach(Enum):
    """How far into the user's own network a URL may lead."""

    PUBLIC = "public"
    PRIVATE = "public or private"
    PRIVATE_ONLY = "private"
    LOOPBACK = "loopback"


_LOOPBACK = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))
_PRIVATE = (
    IPv4Network("10.0.0.0/8"),
    IPv4Network("172.16.0.0/12"),
    IPv4Network("192.168.0.0/16"),
    IPv4Network("100.64.0.0/10"),
    IPv6Network("fc00::/7"),
)
# AWS, ECS, Alibaba, Azure, Oracle; then the IPv6 addresses of Google, Oracle, Scaleway, Akamai and Alibaba.
_METADATA = frozenset(
    ip_address(text)
    for text in (
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd20:ce::254",
        "fd00:c1::a9fe:a9fe",
        "fd00:42::42",
        "fd00:a9fe:a9fe::1",
        "fd00:100::100:200",
    )
)
# What AWS serves its machines over IPv6: metadata, credentials of EKS pods, DNS, time.
_AWS_SERVICES = IPv6Network("fd00:ec2::/32")
# Only this part of IPv6 is assigned to public hosts.
_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
# Special ranges that some supported Pythons still call global.
_NOT_GLOBAL = (
    IPv4Network("192.88.99.0/24"),
    IPv6Network("2001:db8::/32"),
    IPv6Network("3fff::/20"),
)


@lru_cache(maxsize=1024)  # each call to a host that is an address parses it
def read_address(text: str) -> Address | None:
    """Return the address in ``text``, or None if it is none, is spelled unusually, or has a zone."""
    if "%" in text:
        return None
    try:
        return ip_address(text)
    except ValueError:
        return None


def is_loopback(address: Address) -> bool:
    """Return whether ``address`` is in 127.0.0.0/8 or is ::1; an address that embeds one of them is not."""
    return any(address in network for network in _LOOPBACK)


@lru_cache(maxsize=1024)
def is_address_allowed(text: str, reach: NetworkReach) -> bool:
    """Return whether the client may connect to the address ``text`` within ``reach``."""
    # D-05: a URL from a document must not lead into the user's network.
    address = read_address(text)
    if address is None or _is_metadata(address):
        return False
    if reach is NetworkReach.LOOPBACK:
        return is_loopback(address)
    if reach is not NetworkReach.PUBLIC and any(address in network for network in _PRIVATE):
        return True
    return reach is not NetworkReach.PRIVATE_ONLY and _is_public(address)


def _is_metadata(address: Address) -> bool:
    """Return whether a service that gives out credentials is at ``address``, or at one that it carries."""
    if address in _METADATA or address in _AWS_SERVICES:
        return True
    # Of IPv4, such services are at link-local addresses.
    if isinstance(address, IPv4Address):
        return address.is_link_local
    return any(map(_is_metadata, _find_embedded_ipv4(address)))


def _is_public(address: Address) -> bool:
    if _is_metadata(address) or any(address in network for network in _NOT_GLOBAL):
        return False
    if isinstance(address, IPv4Address):
        return address.is_global and not address.is_multicast and not address.is_reserved
    if address.ipv4_mapped is not None:
        return _is_public(address.ipv4_mapped)
    # The translator sends the packet to the embedded IPv4 address.
    if address in _NAT64:
        return _is_public(_last_four_bytes(address))
    is_global = address.is_global or address.sixtofour is not None  # private to older Pythons, whatever it carries
    return address in _UNICAST and is_global and all(_is_public(inner) for inner in _find_embedded_ipv4(address))


def _find_embedded_ipv4(address: IPv6Address) -> list[IPv4Address]:
    """Return the IPv4 addresses that a tunnel at ``address`` leads to."""
    carried = list(address.teredo or ())
    if address.sixtofour is not None:
        carried.append(address.sixtofour)
    if int(address) >> 32 & 0xFDFF_FFFF == 0x0000_5EFE:  # ISATAP, for local and for global addresses
        carried.append(_last_four_bytes(address))
    return carried


def _last_four_bytes(address: IPv6Address) -> IPv4Address:
    return IPv4Address(int(address) & 0xFFFF_FFFF)
