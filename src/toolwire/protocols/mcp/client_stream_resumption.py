"""Fetch the answer to a call whose stream ended early, with a GET from the last received event on (2025-11-25).

Rules:
- Only if the server's events have IDs, which means that it stores them.
- The requested delay is respected, up to a minute. A stream is closed as soon as the answer has arrived, because it can
  be endless.
- This is part of the allowed call. Only the last event's ID is sent.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from toolwire.core.codec import Flow, listen, pause
from toolwire.core.http import Request, Response
from toolwire.core.model import Problem
from toolwire.framing import sse

from . import post_message
from .post_message import McpClientSession
from .revision import SESSION_HEADER, VERSION_HEADER
from .stream_reader import STREAM, Listener

MAX_STREAMS: Final = 10
MAX_WAIT_S: Final = 60.0

_WAIT_MS: Final = 1_000
_MAX_ID_LENGTH: Final = 8_192  # it is sent in a header field


class _ResumePoint(NamedTuple):
    """Where a stream ended: its last event's ID, and how long to wait before the next stream."""

    last_id: str
    wait_s: float


def complete_stream(session: McpClientSession, response: Response, id_: str | int) -> Flow[Response | Problem]:
    """Return ``response``. If it is a stream without the answer to ``id_``, return the stream that continues it.

    At most ten streams are opened for it.
    """
    last_id = ""
    for _ in range(MAX_STREAMS):
        left = _find_resume_point(response, id_, last_id)
        if left is None:
            break
        last_id = left.last_id
        yield from pause(left.wait_s)
        listener = Listener(session, id_, leave=True)
        answer = yield from listen(_build_resume_request(session, last_id), listener.read_piece)
        if not listener.has_begun and not (isinstance(answer, Response) and post_message.is_stream(answer)):
            return answer
        response = Response(200, (STREAM,), listener.build_body())
    return response


def _find_resume_point(response: Response, id_: str | int, last_id: str) -> _ResumePoint | None:
    """Return where to continue, or None if the answer has arrived or there is no event ID.

    ``last_id`` is the previous streams' last event ID. It counts if this stream has none.
    """
    if response.status != 200 or not post_message.is_stream(response):
        return None
    if any(post_message.is_answer(message, id_) for message in post_message.iterate_messages(response)):
        return None
    events = sse.Decoder(post_message.MAX_EVENT_BYTES)
    try:
        for _ in events.feed(response.body):
            pass
    except ValueError:
        return None
    last_id = events.last_id or last_id
    if not last_id or len(last_id) > _MAX_ID_LENGTH or not last_id.isprintable() or not last_id.isascii():
        return None
    wait_ms = _WAIT_MS if events.retry_ms is None else events.retry_ms
    return _ResumePoint(last_id, min(wait_ms / 1_000, MAX_WAIT_S))


def _build_resume_request(session: McpClientSession, last_id: str) -> Request:
    headers = [
        (b"accept", b"text/event-stream"),
        (b"last-event-id", last_id.encode()),
        (VERSION_HEADER, session.version.encode()),
    ]
    if session.id:
        headers.append((SESSION_HEADER, session.id))
    return Request("GET", session.endpoint, headers)
