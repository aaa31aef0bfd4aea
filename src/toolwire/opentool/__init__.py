"""OpenTool for Python: the client, the server, the tool and the document, by the names of the other SDKs.

What serves is loaded when it is first used, so that a client needs nothing of a server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolwire.core.lazy_import import export_lazily
from toolwire.protocols.opentool.objects import (
    NOTHING,
    Function,
    Info,
    OpenTool,
    Parameter,
    Return,
    Schema,
    Server,
)

from .client import OpenToolClient, SyncOpenToolClient
from .description import OpenToolJsonLoader, Tool
from .document_check import check_against
from .exceptions import (
    ErrorNullException,
    FunctionNotSupportedException,
    InvalidArgumentsException,
    OpenToolException,
    OpenToolServerCallException,
    OpenToolServerNoAccessException,
    OpenToolServerUnauthorizedException,
    ResponseNullException,
    ToolBreakException,
)
from .messages import FunctionCall, ToolReturn, Version

if TYPE_CHECKING:
    from .command import main
    from .serve_object import build_toolbox
    from .server import OpenToolServer

_HOME = {"OpenToolServer": "server", "main": "command", "build_toolbox": "serve_object"}

__all__ = [
    "NOTHING",
    "ErrorNullException",
    "Function",
    "FunctionCall",
    "FunctionNotSupportedException",
    "Info",
    "InvalidArgumentsException",
    "OpenTool",
    "OpenToolClient",
    "OpenToolException",
    "OpenToolJsonLoader",
    "OpenToolServer",
    "OpenToolServerCallException",
    "OpenToolServerNoAccessException",
    "OpenToolServerUnauthorizedException",
    "Parameter",
    "ResponseNullException",
    "Return",
    "Schema",
    "Server",
    "SyncOpenToolClient",
    "Tool",
    "ToolBreakException",
    "ToolReturn",
    "Version",
    "build_toolbox",
    "check_against",
    "main",
]

__getattr__, __dir__ = export_lazily(__name__, _HOME)
