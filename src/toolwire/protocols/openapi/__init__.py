"""OpenAPI with ``x-llm``: any web API, with a word on consent for each operation."""

from typing import TYPE_CHECKING

from toolwire.core.codec import Codec
from toolwire.core.later import later

from .places import NAME
from .server import refuse, routes

if TYPE_CHECKING:
    from .client import send, target
    from .discovery import find
else:
    send, target = later(f"{__name__}.client", "send", "target")
    (find,) = later(f"{__name__}.discovery", "find")

CODEC = Codec(
    name=NAME,
    title="OpenAPI + x-llm",
    routes=routes,
    refuse=refuse,
    find=find,
    send=send,
    target=target,
    choose=find,
    default_limits=True,
)

__all__ = ["CODEC"]
