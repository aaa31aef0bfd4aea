"""Open Tool Calling: the RFC, its successor OXP 1.0, and the shapes of the libraries that grew from them."""

from typing import TYPE_CHECKING

from toolwire.core.codec import Codec
from toolwire.core.lazy_import import import_lazily

from .server import refuse, routes

if TYPE_CHECKING:
    from .client import find, plan_of, send, target
else:
    find, plan_of, send, target = import_lazily(f"{__name__}.client", "find", "plan_of", "send", "target")

CODEC = Codec(
    name="otc",
    title="Open Tool Calling",
    routes=routes,
    refuse=refuse,
    find=find,
    send=send,
    target=target,
    plan=plan_of,
)

__all__ = ["CODEC"]
