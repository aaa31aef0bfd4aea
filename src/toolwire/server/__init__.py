"""A Toolbox served over every protocol at once: the ASGI application, and the process that runs it.

Importing this loads no server: each name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolwire.core.interpreter import pause_collection
from toolwire.core.lazy_import import export_lazily

if TYPE_CHECKING:
    from toolwire.core.http import Headers, Response
    from toolwire.framing.html_page import load_style

    from .access.api_keys import ApiKey
    from .access.callers import (
        AnonymousCallers,
        Caller,
        Callers,
        CombinedCallers,
        Fields,
        build_scope_challenge,
        read_credential,
    )
    from .app import App
    from .build import asgi
    from .limits import ServerLimits
    from .options import ServerOptions

__all__ = [
    "AnonymousCallers",
    "ApiKey",
    "App",
    "Caller",
    "Callers",
    "CombinedCallers",
    "Fields",
    "Headers",
    "Response",
    "ServerLimits",
    "ServerOptions",
    "asgi",
    "build_scope_challenge",
    "load_style",
    "read_credential",
]

_HOME = {
    **dict.fromkeys(("AnonymousCallers", "Caller", "Callers", "CombinedCallers", "Fields"), "access.callers"),
    **dict.fromkeys(("build_scope_challenge", "read_credential"), "access.callers"),
    **dict.fromkeys(("Headers", "Response"), "toolwire.core.http"),
    "load_style": "toolwire.framing.html_page",
    "ApiKey": "access.api_keys",
    "App": "app",
    "ServerLimits": "limits",
    "ServerOptions": "options",
    "asgi": "build",
}
_load, __dir__ = export_lazily(__name__, _HOME)


def __getattr__(name: str) -> Any:
    # Imported objects stay alive. The garbage collector would only scan them several times.
    with pause_collection():
        return _load(name)
