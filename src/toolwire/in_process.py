"""Make an application of what ``connect`` is given instead of a URL: a Toolbox, a module, or an ASGI application.

This module is above client and server, because it serves an application inside the process of the client. It may
import ``server`` and what is below. ``client.connection.connect`` loads it by its name, only if the target is not a
URL.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any, TypeGuard, cast

from toolwire.client.transport.in_process import takes_arguments
from toolwire.core.errors import DefinitionError
from toolwire.core.toolbox import Toolbox
from toolwire.define import Toolkit
from toolwire.server import asgi


def build_app(target: object) -> Callable[[Any, Any, Any], Awaitable[None]]:
    """Return the ASGI application for ``target``.

    Raises:
        DefinitionError: it is none of these, or a module with no toolkit or with several.
    """
    if isinstance(target, ModuleType):
        return asgi(_find_toolbox(target))
    if _is_toolbox(target):
        return asgi(target)
    if takes_arguments(target, 3):
        return cast("Callable[[Any, Any, Any], Awaitable[None]]", target)
    kind = target.__name__ if isinstance(target, type) else type(target).__name__
    if takes_arguments(target, 2):
        raise DefinitionError(
            f"connect needs an ASGI application, but {kind} seems to be a WSGI application. Wrap it in "
            "toolwire.integrations.wsgi.publish_tools or a2wsgi.WSGIMiddleware."
        )
    raise DefinitionError(f"connect needs a URL, a Toolkit, a module with one, or an ASGI application, not {kind}.")


def _is_toolbox(value: object) -> TypeGuard[Toolkit | Toolbox]:
    return isinstance(value, Toolkit) or (isinstance(value, Toolbox) and not isinstance(value, type))


def _find_toolbox(module: ModuleType) -> Toolkit | Toolbox:
    found = {name: value for name, value in vars(module).items() if _is_toolbox(value)}
    if len(found) != 1:
        names = f"several toolkits ({', '.join(sorted(found))})" if found else "no toolkit"
        raise DefinitionError(f"The module {module.__name__} contains {names}. Pass the toolkit itself to connect.")
    return found.popitem()[1]
