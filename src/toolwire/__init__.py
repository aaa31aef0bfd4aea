"""toolwire: write a tool once, serve it on every open wire; paste a URL, get tools, with consent.

Importing this loads neither a web framework nor an HTTP client: each name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client import Remote, SyncRemote, connect, connect_sync
    from .consent import Preferences
    from .core.check import Answer, Question
    from .core.errors import ConnectError, DefinitionError, ToolError, ToolwireError
    from .core.model import (
        Approval,
        Authorization,
        Context,
        Cost,
        Kind,
        Problem,
        Progress,
        RateLimit,
        Requirements,
        Result,
        Secret,
        Tool,
        Value,
    )
    from .core.resources import Caps, Resource
    from .core.toolbox import Toolbox
    from .define import Toolkit
    from .gateway import merged
    from .server import App, Limits, asgi

__version__ = "0.1.0"

_HOME = {
    **dict.fromkeys(("Remote", "SyncRemote", "connect", "connect_sync"), "client"),
    "Preferences": "consent",
    **dict.fromkeys(("Answer", "Question"), "core.check"),
    **dict.fromkeys(("ConnectError", "DefinitionError", "ToolError", "ToolwireError"), "core.errors"),
    **dict.fromkeys(("Approval", "Authorization", "Context", "Cost", "Kind", "Problem", "Progress"), "core.model"),
    **dict.fromkeys(("RateLimit", "Requirements", "Result", "Secret", "Tool", "Value"), "core.model"),
    **dict.fromkeys(("Caps", "Resource"), "core.resources"),
    "Toolbox": "core.toolbox",
    "Toolkit": "define",
    "merged": "gateway",
    **dict.fromkeys(("App", "Limits", "asgi"), "server"),
}

__all__ = [
    "Answer",
    "App",
    "Approval",
    "Authorization",
    "Caps",
    "ConnectError",
    "Context",
    "Cost",
    "DefinitionError",
    "Kind",
    "Limits",
    "Preferences",
    "Problem",
    "Progress",
    "Question",
    "RateLimit",
    "Remote",
    "Requirements",
    "Resource",
    "Result",
    "Secret",
    "SyncRemote",
    "Tool",
    "ToolError",
    "Toolbox",
    "Toolkit",
    "ToolwireError",
    "Value",
    "asgi",
    "connect",
    "connect_sync",
    "merged",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'toolwire' has no attribute {name!r}")
    value = getattr(import_module(f"toolwire.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
