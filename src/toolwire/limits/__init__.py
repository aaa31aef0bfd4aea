"""How often something may be called: windows that count, the client's own throttle, and the server's check."""

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
