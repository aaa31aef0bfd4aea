"""Open Tool Calling: the RFC, its successor OXP 1.0, and the shapes of the libraries that grew from them."""

from typing import TYPE_CHECKING

from toolwire.core.codec import Codec
from toolwire.core.later import later

from .server import refuse, routes

if TYPE_CHECKING:
    from .client import find, send, target
else:
    find, send, target = later(f"{__name__}.client", "find", "send", "target")

CODEC = Codec(
    name="otc",
    title="Open Tool Calling",
    routes=routes,
    refuse=refuse,
    find=find,
    send=send,
    target=target,
)

__all__ = ["CODEC"]
