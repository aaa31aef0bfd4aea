"""A Toolbox served on every wire at once: the ASGI application, and the process that runs it."""

from toolwire.core.gc_pause import pause_collection

# What is imported stays alive, and the collector would look at all of it several times.
with pause_collection():
    from .access.api_keys import ApiKey
    from .app import App
    from .asgi import asgi
    from .limits import ServerLimits
    from .options import ServerOptions

__all__ = ["ApiKey", "App", "ServerLimits", "ServerOptions", "asgi"]
