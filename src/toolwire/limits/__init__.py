"""Limit how often a tool is called, on the client and on the server. Imports only ``core`` and ``framing``."""

from .caller_rules import USER_PREFIX, CallerRules, RulesByCaller, list_rule_names, read_user_name
from .limit_check import build_rate_check
from .outage import CONSEQUENCES, LocalRates, RatesFail
from .throttle import CLIENT_DEFAULTS, NO_DEFAULTS, ClientRateLimits, Throttle
from .window import MemoryWindows, Windows

__all__ = [
    "CLIENT_DEFAULTS",
    "CONSEQUENCES",
    "NO_DEFAULTS",
    "USER_PREFIX",
    "CallerRules",
    "ClientRateLimits",
    "LocalRates",
    "MemoryWindows",
    "RatesFail",
    "RulesByCaller",
    "Throttle",
    "Windows",
    "build_rate_check",
    "list_rule_names",
    "read_user_name",
]
