"""OpenAPI with ``x-llm``: any web API, with a word on consent for each operation."""

from typing import TYPE_CHECKING

from toolwire.core.codec import Codec
from toolwire.core.later import later

from .places import NAME
from .server import refuse, routes

if TYPE_CHECKING:
    from .client import places, send, target
    from .discovery import find
else:
    send, target, places = later(f"{__name__}.client", "send", "target", "places")
    (find,) = later(f"{__name__}.discovery", "find")

CODEC = Codec(
    name=NAME,
    title="OpenAPI + x-llm",
    routes=routes,
    refuse=refuse,
    find=find,
    send=send,
    target=target,
    places=places,
    choose=find,
    default_limits=True,
)

__all__ = ["CODEC"]
