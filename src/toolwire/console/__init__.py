"""Show an operator in a browser what toolwire does: questions, permissions, decisions, connections and calls."""

from toolwire.core.health import UpstreamHealth

from .app import Console
from .caller_inbox import add_caller_inbox
from .sessions import OneTimeKey, SignInKey
from .source import CallRow, ConnectionRow, ConsoleSource, LimitRow, NewUpstream, ToolRow, UpstreamChanges

__all__ = [
    "CallRow",
    "ConnectionRow",
    "Console",
    "ConsoleSource",
    "LimitRow",
    "NewUpstream",
    "OneTimeKey",
    "SignInKey",
    "ToolRow",
    "UpstreamChanges",
    "UpstreamHealth",
    "add_caller_inbox",
]
