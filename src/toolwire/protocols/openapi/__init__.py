"""OpenAPI with ``x-llm``: any web API, with a word on consent for each operation."""

from typing import TYPE_CHECKING

from toolwire.core.codec import Codec
from toolwire.core.lazy_import import import_lazily

from .document.paths import NAME
from .server import refuse, routes

if TYPE_CHECKING:
    from .client import places, plan_of, send, target
    from .discovery import find
else:
    send, target, places, plan_of = import_lazily(f"{__name__}.client", "send", "target", "places", "plan_of")
    (find,) = import_lazily(f"{__name__}.discovery", "find")

CODEC = Codec(
    name=NAME,
    title="OpenAPI + x-llm",
    routes=routes,
    refuse=refuse,
    find=find,
    send=send,
    target=target,
    places=places,
    plan=plan_of,
    find_selected=find,
    safe_by_method=True,
    default_limits=True,
)

__all__ = ["CODEC"]
