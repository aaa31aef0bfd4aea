"""The Model Context Protocol over streamable HTTP: no sessions, one JSON answer for each POST."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolwire.core.codec import Codec
from toolwire.core.lazy_import import import_lazily

from .server import refuse, routes

if TYPE_CHECKING:
    from .client import cancel, end_session, find, find_by_post, insist, places, send, target
else:
    names = ("cancel", "end_session", "find", "find_by_post", "insist", "places", "send", "target")
    cancel, end_session, find, find_by_post, insist, places, send, target = import_lazily(f"{__name__}.client", *names)

CODEC = Codec(
    name="mcp",
    title="Model Context Protocol",
    routes=routes,
    refuse=refuse,
    find=find,
    find_explicit=insist,
    find_by_post=find_by_post,
    send=send,
    target=target,
    places=places,
    cancel=cancel,
    end_session=end_session,
)
