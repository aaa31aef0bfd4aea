"""Read the answer to one request as a stream: pass progress on, and answer what the server asks meanwhile.

Rules:
- ``ping`` is answered, and ``elicitation/create`` by the user where they can be asked. Whatever else a server asks was
  not declared to be there, and is refused as JSON-RPC does.
- At most 100 answers are sent for one stream, and one message of it has at most 16 MiB.
- Of a stream only the answer is kept: all that a tool sends before it has been passed on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from toolwire.core.codec import Flow, Listen, StreamItem
from toolwire.core.http import Request, Response
from toolwire.core.model import Json, Kind, Problem
from toolwire.core.user_input import InputRequest
from toolwire.framing import jsontext, sse
from toolwire.framing.form_schema import FormError
from toolwire.framing.input_messages import read_input_request, write_input_response
from toolwire.framing.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND

from . import post_message, progress
from .post_message import MAX_EVENT_BYTES, McpClientSession
from .revision import ELICITATION, STATELESS

MAX_REPLIES: Final = 100
STREAM: Final = (b"content-type", b"text/event-stream")
_HEAD: Final = 200  # characters, in which a notification names its method
_NO_SESSION: Final = (
    "The server asks for input during the call, but has no session in which an answer could reach it. "
    "Run the server with sessions: in the Python SDK, without stateless_http."
)
_TOO_LARGE: Final = (
    f"Cannot read the answer: this client accepts at most {MAX_EVENT_BYTES:,} bytes in one message of an "
    "MCP stream. The result of a tool that streams repeats all its items there. If the server also "
    "speaks OpenTool, call the tool over OpenTool, which sends each item once."
)


class Listener:
    """Hears the stream that answers the request ``id_``. ``answered`` is whether the answer is there.

    ``has_begun`` is whether anything was heard. Nothing is read after an event beyond the limit of its size; then
    ``has_large_event`` is True. With ``leave`` the stream is left as soon as the answer is there. ``needs_session``
    is whether it was left because the server asks a question whose answer cannot reach it.
    """

    def __init__(self, session: McpClientSession, id_: str | int, *, leave: bool = False, log_level: str = "") -> None:
        self._log_level = log_level
        self.has_begun: bool = False
        self.answered: bool = False
        self._session = session
        self._id = id_
        self._leave = leave
        self._events: sse.Decoder | None = None
        self._stored: list[str] = []
        self._stored_size = 0
        self.has_large_event: bool = False
        self.needs_session: bool = False
        self._replies = 0

    def read_piece(self, piece: bytes) -> Iterator[StreamItem]:
        """Yield the progress, the replies to the server and the questions to the user that ``piece`` calls for.

        Raises:
            ValueError: it is enough: the answer is there, or too much else is.
        """
        self.has_begun = True
        if self.has_large_event:
            return
        if self._events is None:  # most answers are no stream
            self._events = sse.Decoder(MAX_EVENT_BYTES)
        try:
            events = list(self._events.feed(piece))
        except ValueError:  # one beyond the limit: what came before it stands
            self.has_large_event = True
            return
        for event in events:
            if _is_large_answer(event.data):
                self._store(event.data)
                continue
            for message in post_message.list_messages(event.data.encode("utf-8", "replace")):
                yield from self._message(message, event.data)
        if self.answered and self._leave:
            raise ValueError("it has answered")

    @property
    def may_have_answer(self) -> bool:
        """Whether what is kept is the answer, or is too large to be looked at here."""
        return self.answered or bool(self._stored)

    def build_body(self) -> bytes:
        """Return the answer as a stream of one event, and where to go on with a stream that has none."""
        if self._events is None:
            return b""
        if not self.may_have_answer and not self.has_large_event:
            with suppress(ValueError):  # the end of its last event is one that some servers leave out
                for event in self._events.feed(b"\n\n"):
                    self._store(event.data)
        last_id, retry_ms = self._events.last_id, self._events.retry_ms
        place = (f"id: {last_id}\n" if last_id else "") + ("" if retry_ms is None else f"retry: {retry_ms}\n")
        frames = ["".join(f"data: {line}\n" for line in text.split("\n")) for text in self._stored] or [""]
        return (place + "".join(f"{frame}\n" for frame in frames)).encode("utf-8", "replace")

    def _store(self, text: str) -> None:
        self._stored_size += len(text)
        if self._stored_size > MAX_EVENT_BYTES:
            raise ValueError(f"its answers are larger than {MAX_EVENT_BYTES:,} bytes")
        self._stored.append(text)

    def _message(self, message: dict[str, Json], text: str) -> Iterator[StreamItem]:
        method, id_ = message.get("method"), message.get("id")
        if not isinstance(method, str):
            if not self.answered and post_message.is_answer(message, self._id):
                self.answered = True
                self._store(text)
        elif id_ is not None:
            self._replies += 1
            if self._replies > MAX_REPLIES:
                raise ValueError(f"the server asks more than {MAX_REPLIES} questions of its own")
            if method == ELICITATION and _is_unreachable(self._session, id_):
                self.needs_session = True
                raise ValueError("its question cannot be answered")
            yield reply_to_server(self._session, method, id_, message)
        elif method == "notifications/progress":
            params = jsontext.get_object(message, "params")
            if params.get("progressToken") == self._id:
                yield progress.read(params)
        elif method == progress.LOG_METHOD and self._log_level:
            entry = progress.read_log(jsontext.get_object(message, "params"), self._log_level)
            if entry is not None:
                yield entry


def reply_to_server(
    session: McpClientSession, method: str, id_: Json, message: dict[str, Json]
) -> Request | InputRequest:
    """Return the reply to a request of the server, or what the user must be asked first."""
    if method == "ping":
        return post_message.write_reply(session, id_, None)
    if method != ELICITATION or not session.can_ask or session.version == STATELESS:
        return post_message.write_reply(session, id_, _refusal(method))
    try:
        return read_input_request(
            jsontext.get_object(message, "params"),
            lambda response: post_message.write_reply(session, id_, None, write_input_response(response)),
        )
    except FormError as error:
        refusal: dict[str, Json] = {
            "code": INVALID_PARAMS,
            "message": (f"The server's question cannot be shown: {error}."),
        }
        return post_message.write_reply(session, id_, refusal)


def fetch_answer(
    request: Request, session: McpClientSession, id_: str | int, *, is_brief: bool = False, log_level: str = ""
) -> Flow[Response | Problem]:
    """Return the whole response to ``request``; what its stream asks and tells is dealt with while it comes.

    With ``is_brief`` it has the time of a plain request, also where the user can be asked. Messages of the server's log
    are reported from ``log_level`` on; none if that is empty.
    """
    listener = Listener(session, id_, log_level=log_level)
    # A user takes longer to answer than a server, so a call in which they may be asked has the time of a stream.
    response: Response | Problem = yield Listen(request, listener.read_piece, is_brief=is_brief or not session.can_ask)
    if listener.needs_session:
        return Problem(kind=Kind.BAD_ANSWER, message=_NO_SESSION)
    if isinstance(response, Problem):
        return Response(200, (STREAM,), listener.build_body()) if listener.may_have_answer else response
    if listener.has_large_event and not listener.may_have_answer:
        return Problem(kind=Kind.BAD_ANSWER, message=_TOO_LARGE, details={"reason": "too_large"})
    return response._replace(body=listener.build_body()) if listener.has_begun else response


def _is_unreachable(session: McpClientSession, id_: Json) -> bool:
    """Return whether the answer to the question ``id_`` cannot reach who asks.

    I-32: without sessions, an SDK builds a server for each request, and its first question is number 0. Nobody else
    knows of that question. A server that all requests share asks under another number, but for its very first one.
    """
    return not session.id and session.version != STATELESS and id_ == 0


def _is_large_answer(text: str) -> bool:
    """Return whether an event is so large that reading it here would keep the event loop, and no notification."""
    return len(text) > jsontext.LARGE_BYTES and '"method"' not in text[:_HEAD]


def _refusal(method: str) -> dict[str, Json]:
    return {"code": METHOD_NOT_FOUND, "message": f"This client does not support {method[:100]!r}."}
