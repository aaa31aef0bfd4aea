"""The Model Context Protocol over streamable HTTP: no sessions, one JSON answer for each POST."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolwire.core.codec import Codec
from toolwire.core.later import later

from .server import refuse, routes

if TYPE_CHECKING:
    from .client import cancel, find, insist, places, send, target
else:
    names = ("cancel", "find", "insist", "places", "send", "target")
    cancel, find, insist, places, send, target = later(f"{__name__}.client", *names)

CODEC = Codec(
    name="mcp",
    title="Model Context Protocol",
    routes=routes,
    refuse=refuse,
    find=find,
    insist=insist,
    send=send,
    target=target,
    places=places,
    cancel=cancel,
)
