"""Keep the token of a caller's request while its call runs, as ``GatewayFront`` sets it.

The token goes to an authorization server alone, and only if an upstream wants it exchanged.
"""
# GW-02

from __future__ import annotations

from contextvars import ContextVar

from toolwire.core.model import Secret

CALLER_TOKEN: ContextVar[Secret | None] = ContextVar("toolwire_caller_token", default=None)
"""The token of the request, if a gateway exchanges tokens."""
