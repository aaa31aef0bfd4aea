"""OpenTool: a JSON document of functions, called by JSON-RPC over HTTP under ``/opentool``."""

from toolwire.core.codec import Codec

from .client import find, send, target
from .server import refuse, routes

CODEC = Codec(
    name="opentool",
    title="OpenTool 1.1.0",
    routes=routes,
    refuse=refuse,
    find=find,
    send=send,
    target=target,
)
