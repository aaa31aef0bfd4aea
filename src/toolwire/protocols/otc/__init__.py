"""Open Tool Calling: the RFC, its successor OXP 1.0, and the shapes of the libraries that grew from them."""

from toolwire.core.codec import Codec

from .client import find, send, target
from .server import refuse, routes

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
