"""The Model Context Protocol over streamable HTTP: no sessions, one JSON answer for each POST."""

from __future__ import annotations

from toolwire.core.codec import Codec

from .client import find, insist, send, target
from .server import refuse, routes

CODEC = Codec(
    name="mcp",
    title="Model Context Protocol",
    routes=routes,
    refuse=refuse,
    find=find,
    insist=insist,
    send=send,
    target=target,
)
