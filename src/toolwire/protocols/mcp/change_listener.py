"""Listen to an MCP server that reports changes in its lists, and asks the user, outside of calls.

Since 2026-07-28, this is ``subscriptions/listen``, for changes only. In a session up to 2025-11-25, it is a GET, on
which the server can also ask.
"""
# MC-06, MC-09

from __future__ import annotations

from collections.abc import Iterator

from toolwire.core.codec import Flow, Listen, Peer, StreamItem
from toolwire.core.http import Request, Response
from toolwire.core.model import LISTENING_EVENT, Json, Problem, Progress
from toolwire.framing import sse

from . import post_message
from .client import renew_session
from .post_message import Conversation, McpClientSession
from .revision import LISTEN, NOTICES, SESSION_HEADER, STATELESS, VERSION_HEADER
from .stream_reader import MAX_REPLIES, reply_to_server

_ID = "changes"
_CHANGED = frozenset(NOTICES.values())


def asks_while_listening(peer: Peer) -> bool:
    """Return whether the server can ask the user on the stream of ``listen_for_changes``."""
    conversation: Conversation = peer.memo
    session = conversation.session
    return bool(session.id) and session.can_ask and session.version != STATELESS


def listen_for_changes(peer: Peer) -> Flow[bool]:
    """Report each change that the server announces as progress until its stream ends. Pass its questions on.

    Return False if the server does not announce changes, so that listening again is pointless.
    """
    conversation: Conversation = peer.memo
    session = conversation.session
    if session.version != STATELESS:
        return (yield from _listen_in_session(conversation, session))
    if "listChanged" not in session.server_capabilities:
        return False
    wanted: dict[str, Json] = {"notifications": dict.fromkeys(NOTICES, True)}
    response: Response | Problem = yield Listen(
        post_message.write(session, LISTEN, wanted, _ID), _ChangeReader(session).read_chunk
    )
    return isinstance(response, Problem) or response.status == 200


def _listen_in_session(conversation: Conversation, session: McpClientSession) -> Flow[bool]:
    if not session.id:
        return False
    # Listen even if the server declares no changes. Some servers announce them anyway, and the stream has other uses.
    headers = (
        (b"accept", b"text/event-stream"),
        (VERSION_HEADER, session.version.encode()),
        (SESSION_HEADER, session.id),
    )
    conversation.has_listener = True  # before the response, because the lists can be fetched again meanwhile
    try:
        response: Response | Problem = yield Listen(
            Request("GET", session.endpoint, headers), _ChangeReader(session).read_chunk
        )
    finally:
        conversation.has_listener = False
    if not isinstance(response, Problem) and response.status == 404:
        # The session has ended. A call can have opened the next one meanwhile.
        return conversation.session is not session or (yield from renew_session(conversation, session)) is None
    return isinstance(response, Problem) or response.status == 200


class _ChangeReader:
    """Reads a stream's events. Several changes in one chunk count as one."""

    def __init__(self, session: McpClientSession) -> None:
        self._session = session
        self._events = sse.Decoder()
        self._replies = 0
        self._is_begun = False

    def read_chunk(self, chunk: bytes) -> Iterator[StreamItem]:
        """Yield one progress if ``chunk`` completes a change notification, and the responses to the server's requests.

        The first chunk means that the server has accepted the stream. That is also reported.

        Raises:
            ValueError: an event is larger than the limit, or the server asks too many questions.
        """
        if not self._is_begun:
            self._is_begun = True
            yield Progress(None, LISTENING_EVENT)
        changed = ""
        for event in self._events.feed(chunk):
            for message in post_message.list_messages(event.data.encode("utf-8", "replace")):
                method, id_ = message.get("method"), message.get("id")
                if not isinstance(method, str):
                    continue
                if id_ is not None:
                    self._replies += 1
                    if self._replies > MAX_REPLIES:
                        raise ValueError(f"the server asks more than {MAX_REPLIES} questions of its own")
                    yield reply_to_server(self._session, method, id_, message)
                elif method in _CHANGED:
                    changed = method
        if changed:
            yield Progress(changed)
