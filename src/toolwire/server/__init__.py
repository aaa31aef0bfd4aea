"""A Toolbox served on every wire at once: the ASGI application, and the process that runs it."""

from .asgi import App, asgi
from .limits import Limits

__all__ = ["App", "Limits", "asgi"]
