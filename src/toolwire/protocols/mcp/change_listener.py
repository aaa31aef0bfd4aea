"""Listen to an MCP server that tells of changes in its lists."""
# MC-06

from __future__ import annotations

from collections.abc import Iterator

from toolwire.core.codec import Flow, Listen, Peer, StreamItem
from toolwire.core.http import Response
from toolwire.core.model import Json, Problem, Progress
from toolwire.framing import sse

from . import post_message
from .change_notices import METHOD, NOTICES
from .post_message import Conversation
from .revision import STATELESS

_ID = "changes"
_CHANGED = frozenset(NOTICES.values())


def listen_for_changes(peer: Peer) -> Flow[bool]:
    """Report each change that the server tells of, as progress, until its stream ends.

    Return False if the server does not tell of changes: then there is nothing to listen to again.
    """
    conversation: Conversation = peer.memo
    session = conversation.session
    if session.version != STATELESS or "listChanged" not in session.offers:
        return False
    wanted: dict[str, Json] = {"notifications": dict.fromkeys(NOTICES, True)}
    response: Response | Problem = yield Listen(
        post_message.write(session, METHOD, wanted, _ID), _ChangeReader().read_chunk
    )
    return isinstance(response, Problem) or response.status == 200


class _ChangeReader:
    """Reads the events of one stream. Several changes in one piece count as one."""

    def __init__(self) -> None:
        self._events = sse.Decoder()

    def read_chunk(self, chunk: bytes) -> Iterator[StreamItem]:
        """Yield one progress if ``chunk`` completes the notice of a change.

        Raises:
            ValueError: an event is larger than the limit.
        """
        changed = ""
        for event in self._events.feed(chunk):
            for message in post_message.list_messages(event.data.encode("utf-8", "replace")):
                method = message.get("method")
                if isinstance(method, str) and method in _CHANGED:
                    changed = method
        if changed:
            yield Progress(changed)
