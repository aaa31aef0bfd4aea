"""Speak Open Tool Calling: the RFC, its successor OXP 1.0, and the dialects of the libraries around them."""

from typing import TYPE_CHECKING

from toolwire.core.codec import Codec, LongCallMethods
from toolwire.core.lazy_import import import_lazily

from .server import refuse, routes

if TYPE_CHECKING:
    from toolwire.framing.calls_resource import cancel_beside, list_beside, read_beside

    from .client import describe_plan, describe_target, find, send
else:
    resource = "toolwire.framing.calls_resource"
    read_beside, cancel_beside, list_beside = import_lazily(resource, "read_beside", "cancel_beside", "list_beside")
    find, describe_plan, send, describe_target = import_lazily(
        f"{__name__}.client", "find", "describe_plan", "send", "describe_target"
    )

CODEC = Codec(
    name="otc",
    title="Open Tool Calling",
    routes=routes,
    refuse=refuse,
    find=find,
    send=send,
    long_calls=LongCallMethods(read_beside, cancel_beside, list_beside),
    target=describe_target,
    plan=describe_plan,
)

__all__ = ["CODEC"]
