"""Keep what a request of a caller says beside its call: where the gateway was reached, and the caller's token.

Both are set by ``GatewayApp`` and read while the call runs. The token goes to an authorization server alone, and only
if an upstream wants it exchanged.
"""
# GW-02, GW-03

from __future__ import annotations

from contextvars import ContextVar

from toolwire.core.model import Secret

CALLER_TOKEN: ContextVar[Secret | None] = ContextVar("toolwire_caller_token", default=None)
"""The token of the request, if a gateway exchanges tokens."""

BASE_URL: ContextVar[str] = ContextVar("toolwire_base_url", default="")
"""The URL at which the caller reached the gateway, without a slash at its end."""
