"""A Toolbox served on every wire at once: the ASGI application, and the process that runs it.

Importing this loads no server: each name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolwire.core.gc_pause import pause_collection
from toolwire.core.lazy_import import export_lazily

if TYPE_CHECKING:
    from .access.api_keys import ApiKey
    from .app import App
    from .build import asgi
    from .limits import ServerLimits
    from .options import ServerOptions

__all__ = ["ApiKey", "App", "ServerLimits", "ServerOptions", "asgi"]

_HOME = {
    "ApiKey": "access.api_keys",
    "App": "app",
    "ServerLimits": "limits",
    "ServerOptions": "options",
    "asgi": "build",
}
_load, __dir__ = export_lazily(__name__, _HOME)


def __getattr__(name: str) -> Any:
    # What is imported stays alive, and the collector would look at all of it several times.
    with pause_collection():
        return _load(name)
