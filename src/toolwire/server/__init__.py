"""A Toolbox served on every wire at once: the ASGI application, and the process that runs it."""

from .access.api_keys import ApiKey
from .app import App
from .asgi import asgi
from .limits import ServerLimits

__all__ = ["ApiKey", "App", "ServerLimits", "asgi"]
