"""Write a tool once and serve it over every open tool protocol. Paste a URL and use its tools, with consent.

Importing this loads neither a web framework nor an HTTP client: each name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolwire.core.lazy_import import export_lazily
from toolwire.core.version import __version__ as __version__

if TYPE_CHECKING:
    from .client import (
        Cache,
        Handle,
        Remote,
        Selection,
        Session,
        SyncHandle,
        SyncRemote,
        build_key_fetcher,
        connect,
        connect_sync,
        open_stored_session,
    )
    from .consent import ClientRules, DefinitionLock, Preferences, read_lock
    from .core.call_status import CallPage, CallStatus, LongCallState
    from .core.check import Answer, Question
    from .core.codec import ConnectError
    from .core.content import Audio, File, Image, read_content
    from .core.errors import DefinitionError, ToolError, ToolwireError
    from .core.grant_bounds import GrantBounds
    from .core.model import (
        Approval,
        Authorization,
        CallError,
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
    from .core.no_user_input import NoUserInput
    from .core.resources import Resource, ResultLimits
    from .core.server_features import PromptDefinition, PromptMessage, ResourceDefinition, SkillDefinition
    from .core.toolbox import Toolbox
    from .core.user_input import InputRequest, InputResponse
    from .define import Depends, Toolkit
    from .gateway import merge_toolboxes
    from .limits import ClientRateLimits
    from .server import ApiKey, App, ServerLimits, ServerOptions, asgi
    from .validation import GrantPage, GrantPages

_HOME = {
    **dict.fromkeys(("Cache", "Handle", "Remote", "Selection", "Session", "SyncHandle", "SyncRemote"), "client"),
    **dict.fromkeys(("build_key_fetcher", "connect", "connect_sync", "open_stored_session"), "client"),
    **dict.fromkeys(("ClientRules", "DefinitionLock", "Preferences", "read_lock"), "consent"),
    **dict.fromkeys(("CallPage", "CallStatus", "LongCallState"), "core.call_status"),
    **dict.fromkeys(("Answer", "Question"), "core.check"),
    "ConnectError": "core.codec",
    **dict.fromkeys(("Audio", "File", "Image", "read_content"), "core.content"),
    **dict.fromkeys(("DefinitionError", "ToolError", "ToolwireError"), "core.errors"),
    "GrantBounds": "core.grant_bounds",
    **dict.fromkeys(("Approval", "Authorization", "CallError", "Context", "Cost", "Kind"), "core.model"),
    **dict.fromkeys(
        ("Problem", "Progress", "RateLimit", "Requirements", "Result", "Secret", "Tool", "Value"), "core.model"
    ),
    **dict.fromkeys(
        ("PromptDefinition", "PromptMessage", "ResourceDefinition", "SkillDefinition"), "core.server_features"
    ),
    **dict.fromkeys(("ResultLimits", "Resource"), "core.resources"),
    "Toolbox": "core.toolbox",
    **dict.fromkeys(("InputRequest", "InputResponse"), "core.user_input"),
    "NoUserInput": "core.no_user_input",
    **dict.fromkeys(("Depends", "Toolkit"), "define"),
    "merge_toolboxes": "gateway",
    "ClientRateLimits": "limits",
    **dict.fromkeys(("ApiKey", "App", "ServerLimits", "ServerOptions", "asgi"), "server"),
    **dict.fromkeys(("GrantPage", "GrantPages"), "validation"),
}

__all__ = [
    "Answer",
    "ApiKey",
    "App",
    "Approval",
    "Audio",
    "Authorization",
    "Cache",
    "CallError",
    "CallPage",
    "CallStatus",
    "ClientRateLimits",
    "ClientRules",
    "ConnectError",
    "Context",
    "Cost",
    "DefinitionError",
    "DefinitionLock",
    "Depends",
    "File",
    "GrantBounds",
    "GrantPage",
    "GrantPages",
    "Handle",
    "Image",
    "InputRequest",
    "InputResponse",
    "Kind",
    "LongCallState",
    "NoUserInput",
    "Preferences",
    "Problem",
    "Progress",
    "PromptDefinition",
    "PromptMessage",
    "Question",
    "RateLimit",
    "Remote",
    "Requirements",
    "Resource",
    "ResourceDefinition",
    "Result",
    "ResultLimits",
    "Secret",
    "Selection",
    "ServerLimits",
    "ServerOptions",
    "Session",
    "SkillDefinition",
    "SyncHandle",
    "SyncRemote",
    "Tool",
    "ToolError",
    "Toolbox",
    "Toolkit",
    "ToolwireError",
    "Value",
    "asgi",
    "build_key_fetcher",
    "connect",
    "connect_sync",
    "merge_toolboxes",
    "open_stored_session",
    "read_content",
    "read_lock",
]

__getattr__, __dir__ = export_lazily(__name__, _HOME)
