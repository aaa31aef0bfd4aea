"""OpenAPI with ``x-llm``: any web API, with a word on consent for each operation."""

from toolwire.core.codec import Codec

from .client import send, target
from .discovery import find
from .operations import NAME
from .server import refuse, routes

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
