"""Serve and call tools as operations of an OpenAPI document; ``x-llm`` in it declares consent for each operation.

The rooms, each of which may import only those before it: ``document`` reads documents, ``schema`` converts their
schemas, ``request`` builds requests, ``response`` reads responses, ``tools`` makes tools of operations.
"""

from typing import TYPE_CHECKING

from toolwire.core.codec import Codec, LongCallMethods
from toolwire.core.lazy_import import import_lazily

from .document.paths import NAME
from .server import build_routes, refuse

if TYPE_CHECKING:
    from .accepted_calls import cancel, list_calls, read
    from .client import describe_places, describe_plan, describe_target, send
    from .discovery import find
else:
    send, describe_target, describe_places, describe_plan = import_lazily(
        f"{__name__}.client", "send", "describe_target", "describe_places", "describe_plan"
    )
    read, cancel, list_calls = import_lazily(f"{__name__}.accepted_calls", "read", "cancel", "list_calls")
    (find,) = import_lazily(f"{__name__}.discovery", "find")

CODEC = Codec(
    name=NAME,
    title="OpenAPI + x-llm",
    routes=build_routes,
    refuse=refuse,
    find=find,
    send=send,
    target=describe_target,
    places=describe_places,
    plan=describe_plan,
    find_selected=find,
    long_calls=LongCallMethods(read, cancel, list_calls),
    safe_by_method=True,
    default_limits=True,
)

__all__ = ["CODEC"]
