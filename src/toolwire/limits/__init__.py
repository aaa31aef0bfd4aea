"""Limit how often a tool is called, on the client and on the server. Imports only ``core`` and ``framing``."""

from .limit_check import build_rate_check
from .throttle import CLIENT_DEFAULTS, NO_DEFAULTS, ClientRateLimits, Throttle
from .window import MemoryWindows, Windows

__all__ = [
    "CLIENT_DEFAULTS",
    "NO_DEFAULTS",
    "ClientRateLimits",
    "MemoryWindows",
    "Throttle",
    "Windows",
    "build_rate_check",
]
