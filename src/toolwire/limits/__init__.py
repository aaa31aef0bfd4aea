"""Limit how often a tool is called, on the client and on the server. Imports only ``core`` and ``framing``."""

from .caller_rules import (
    EFFECTS,
    NO_BOUND,
    USER_PREFIX,
    CallerRules,
    Effect,
    RulesByCaller,
    ToolBound,
    ToolBundle,
    list_rule_names,
    read_user_name,
)
from .limit_check import CONSEQUENCES, LocalRates, RatesFail, build_rate_check
from .throttle import CLIENT_DEFAULTS, NO_DEFAULTS, ClientRateLimits, Throttle
from .window import MemoryWindows, Windows

__all__ = [
    "CLIENT_DEFAULTS",
    "CONSEQUENCES",
    "EFFECTS",
    "NO_BOUND",
    "NO_DEFAULTS",
    "USER_PREFIX",
    "CallerRules",
    "ClientRateLimits",
    "Effect",
    "LocalRates",
    "MemoryWindows",
    "RatesFail",
    "RulesByCaller",
    "Throttle",
    "ToolBound",
    "ToolBundle",
    "Windows",
    "build_rate_check",
    "list_rule_names",
    "read_user_name",
]
