"""Build servers and gateways from records and files. Importing this package loads none of its modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolwire.core.lazy_import import export_lazily

if TYPE_CHECKING:
    from .gateway import open_gateway
    from .options import RemoteOptions, TokenOptions
    from .serve_settings import CallerSettings, ServeSettings, UpstreamSettings

__all__ = ["CallerSettings", "RemoteOptions", "ServeSettings", "TokenOptions", "UpstreamSettings", "open_gateway"]

_HOME = {
    **dict.fromkeys(("CallerSettings", "ServeSettings", "UpstreamSettings"), "serve_settings"),
    **dict.fromkeys(("RemoteOptions", "TokenOptions"), "options"),
    "open_gateway": "gateway",
}
__getattr__, __dir__ = export_lazily(__name__, _HOME)
