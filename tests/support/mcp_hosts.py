"""The clients of known MCP hosts, and the capabilities that they declare."""

from __future__ import annotations

from typing import Any

from toolwire.protocols.mcp.host_profiles import HOST_PROFILES, YES, HostProfile

CLIENTS = [(name, client) for name, profile in HOST_PROFILES.items() for client in profile.clients]


def declare(profile: HostProfile) -> dict[str, Any]:
    """Return the capabilities of a client of the host."""
    modes = {"form": profile.forms, "url": profile.pages}
    shown: dict[str, Any] = {mode: {} for mode, fact in modes.items() if fact is not None and fact.says == YES}
    return {"roots": {"listChanged": True}, **({"elicitation": shown} if shown else {})}
