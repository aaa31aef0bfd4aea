"""Read the answer to one request as a stream: pass progress on, and answer what the server asks meanwhile.

Rules:
- ``ping`` is answered, and ``elicitation/create`` by the user where they can be asked. Whatever else a server asks was
  not declared to be there, and is refused as JSON-RPC does.
- At most 100 answers are sent for one stream, and at most 16 MiB of it are taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from toolwire.core.codec import Flow, Listen, StreamItem
from toolwire.core.http import Request, Response
from toolwire.core.model import Json, Kind, Problem
from toolwire.core.user_input import InputRequest
from toolwire.framing import jsontext, sse
from toolwire.framing.input_form import FormError
from toolwire.framing.input_words import read_input_request, write_input_response
from toolwire.framing.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND

from . import elicitation, post_message, progress
from .post_message import Session
from .revision import STATELESS

MOST_BYTES: Final = 16 * 1024 * 1024
MOST_REPLIES: Final = 100
STREAM: Final = (b"content-type", b"text/event-stream")


class Listener:
    """Hears the stream that answers the request ``id_``. ``body`` is what was heard, ``answered`` whether it is there.

    Nothing is read after an event beyond the limit of its size; then ``has_large_event`` is True. With ``leave`` the
    stream is left as soon as the answer is there.
    """

    def __init__(self, session: Session, id_: str | int, *, leave: bool = False, log_level: str = "") -> None:
        self._log_level = log_level
        self.body: bytearray = bytearray()
        self.answered: bool = False
        self._session = session
        self._id = id_
        self._leave = leave
        self._events: sse.Decoder | None = None
        self.has_large_event: bool = False
        self._replies = 0

    def hear(self, piece: bytes) -> Iterator[StreamItem]:
        """Yield the progress, the replies to the server and the questions to the user that ``piece`` calls for.

        Raises:
            ValueError: it is enough: the answer is there, or too much else is.
        """
        self.body += piece
        if len(self.body) > MOST_BYTES:
            raise ValueError(f"it is larger than {MOST_BYTES:,} bytes")
        if self.has_large_event:
            return
        if self._events is None:  # most answers are no stream
            self._events = sse.Decoder()
        try:
            events = list(self._events.feed(piece))
        except ValueError:  # an event beyond the limit: what came before it stands
            self.has_large_event = True
            return
        for event in events:
            for message in post_message.list_messages(event.data.encode("utf-8", "replace")):
                yield from self._message(message)
        if self.answered and self._leave:
            raise ValueError("it has answered")

    def _message(self, message: dict[str, Json]) -> Iterator[StreamItem]:
        method, id_ = message.get("method"), message.get("id")
        if not isinstance(method, str):
            self.answered = self.answered or post_message.is_answer(message, self._id)
        elif id_ is not None:
            self._replies += 1
            if self._replies > MOST_REPLIES:
                raise ValueError(f"the server asks more than {MOST_REPLIES} questions of its own")
            yield reply_to_server(self._session, method, id_, message)
        elif method == "notifications/progress":
            params = jsontext.get_object(message, "params")
            if params.get("progressToken") == self._id:
                yield progress.read(params)
        elif method == progress.LOG_METHOD and self._log_level:
            told = progress.read_log(jsontext.get_object(message, "params"), self._log_level)
            if told is not None:
                yield told


def reply_to_server(session: Session, method: str, id_: Json, message: dict[str, Json]) -> Request | InputRequest:
    """Return the reply to a request of the server, or what the user must be asked first."""
    if method == "ping":
        return post_message.write_reply(session, id_, None)
    if method != elicitation.METHOD or not session.can_ask or session.version == STATELESS:
        return post_message.write_reply(session, id_, _refusal(method))
    try:
        return read_input_request(
            jsontext.get_object(message, "params"),
            lambda response: post_message.write_reply(session, id_, None, write_input_response(response)),
        )
    except FormError as error:
        refusal: dict[str, Json] = {"code": INVALID_PARAMS, "message": f"This cannot be asked: {error}."}
        return post_message.write_reply(session, id_, refusal)


def fetch_answer(
    request: Request, session: Session, id_: str | int, *, is_brief: bool = False, log_level: str = ""
) -> Flow[Response | Problem]:
    """Return the whole response to ``request``; what its stream asks and tells is dealt with while it comes.

    With ``is_brief`` it has the time of a plain request, also where the user can be asked. Messages of the server's log
    are reported from ``log_level`` on; none if that is empty.
    """
    listener = Listener(session, id_, log_level=log_level)
    # A user takes longer to answer than a server, so a call in which they may be asked has the time of a stream.
    came: Response | Problem = yield Listen(request, listener.hear, is_brief=is_brief or not session.can_ask)
    if isinstance(came, Problem):
        return Response(200, (STREAM,), bytes(listener.body)) if listener.answered else came
    if listener.has_large_event and not listener.answered:
        text = f"The server's answer cannot be read: an event of its stream is larger than {sse.MAX_EVENT:,} bytes."
        return Problem(kind=Kind.BAD_ANSWER, message=text, details={"reason": "too_large"})
    return came._replace(body=bytes(listener.body)) if listener.body else came


def _refusal(method: str) -> dict[str, Json]:
    return {"code": METHOD_NOT_FOUND, "message": f"This client does not offer {method[:100]!r}."}
