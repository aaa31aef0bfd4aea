"""A Toolbox served on every wire at once: the ASGI application, and the process that runs it."""

from .app import App
from .asgi import asgi
from .keys import ApiKey
from .limits import Limits

__all__ = ["ApiKey", "App", "Limits", "asgi"]
