"""Recognise the names and addresses of this machine."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address


def is_loopback_host(host: str | None) -> bool:
    """Return whether ``host`` is this machine: ``localhost``, a name below it, or a loopback address."""
    name = (host or "").lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return False
    within = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return any(one.is_loopback or one.is_unspecified for one in (address, within) if one is not None)
