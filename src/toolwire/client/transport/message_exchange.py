"""Pair the messages of a server that sends them all on one channel with the requests that wait for them.

A program on standard input and output is such a server, and one of the HTTP+SSE transport of MCP.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from toolwire.core.http import JSON_HEADERS, Headers, Request, Response
from toolwire.core.model import Json, Problem
from toolwire.framing import jsontext
from toolwire.framing.jsonrpc import METHOD_NOT_FOUND
from toolwire.protocols.mcp.revision import ELICITATION, LISTEN, LISTENED, NOTICES, SESSION_HEADER

from .failures import bad_response

MIB: Final = 1024 * 1024
MAX_UNREAD: Final = 16 * MIB
"""How many bytes of messages wait for the reader of one request."""
MAX_UNSOLICITED: Final = 16 * MIB
"""How many bytes a server may send between two answers that no request waits for."""
MAX_JUNK: Final = 1_000
"""How many texts between two answers may be something else than a message."""
ACCEPTED: Final = Response(202)
NO_STREAM: Final = Response(405, ((b"allow", b"POST"),))
NO_SESSION: Final = Response(404)
CANCELLED: Final = "notifications/cancelled"
_LISTENING: Final = "GET"
_CHANGED: Final = frozenset((*NOTICES.values(), LISTENED))


class ExchangeEnd(NamedTuple):
    """The end of an exchange: ``answer``, or the ``problem`` or ``response`` that says why there is none."""

    problem: Problem | None = None
    answer: bytes = b""
    response: Response | None = None


Deliver: TypeAlias = Callable[[bytes | ExchangeEnd], None]
"""Takes each message for a request, then the end. It is called from other threads and must not block."""


@dataclass(eq=False, slots=True)
class MessageExchange:
    """One request that waits for its answer. The reader of its messages calls ``count_read`` for each."""

    id: Json
    number: int
    method: str
    token: Json
    deliver: Deliver
    table: ExchangeTable
    unread: int = 0
    headers: Headers = JSON_HEADERS
    is_taken: bool = True
    """Whether the server has taken the request, as far as its transport can know."""

    def count_read(self, message: bytes) -> None:
        """Take ``message`` off what waits for the reader."""
        self.unread -= len(message)


class MessageServer(Protocol):
    """A server that answers on one channel. Its functions may block, and any thread may call them."""

    @property
    def name(self) -> str:
        """What messages call the server."""
        ...

    def begin(self, request: Request, deliver: Deliver) -> MessageExchange | Response | Problem:
        """Send ``request``. Return its exchange, or the response where none is awaited."""
        ...

    def cancel(self, exchange: MessageExchange) -> None:
        """Stop waiting for the answer of ``exchange``, and tell the server."""
        ...

    def stop(self) -> None:
        """End the channel; the next request opens it again."""
        ...

    def close(self) -> None:
        """End the channel; no request opens it again."""
        ...


class ExchangeTable:
    """The exchanges of one channel that are under way. Its owner calls it under one lock.

    ``name`` is what messages call the server, and ``session`` the id of the session that ``initialize`` opens. What
    arrives on the channel is in ``units``, such as lines.
    """

    def __init__(self, name: str, session: int, units: str) -> None:
        self._name, self._session, self._units = name, str(session).encode(), units
        self._number = self._unsolicited = self._junk = 0
        self._opening = b""
        self.pending: dict[int, MessageExchange] = {}

    def begin(self, message: dict[str, Json], method: str, deliver: Deliver) -> MessageExchange | Response:
        """Return the exchange of the request ``message``, which is sent with the exchange's number as its id.

        Concurrent calls may each find that their session has ended. A channel is opened once, so a second
        ``initialize`` gets the answer to the first.
        """
        is_opening = method == "initialize"
        headers = (*JSON_HEADERS, (SESSION_HEADER, self._session)) if is_opening else JSON_HEADERS
        if is_opening and self._opening:
            return Response(200, headers, _write_for(jsontext.read(self._opening), message["id"]))
        self._number += 1
        token = jsontext.get_object(jsontext.get_object(message, "params"), "_meta").get("progressToken")
        # A number of our own as the id: several callers can choose the same id at the same time.
        exchange = MessageExchange(message["id"], self._number, method, token, deliver, self, headers=headers)
        self.pending[exchange.number] = exchange
        return exchange

    def listen(self, deliver: Deliver) -> MessageExchange:
        """Return an exchange without a request, to which the notices of changed lists go: the GET of a session."""
        self._number += 1
        exchange = MessageExchange(_LISTENING, self._number, _LISTENING, None, deliver, self)
        self.pending[exchange.number] = exchange
        deliver(b"")  # an event without data: the channel is open
        return exchange

    def remove(self, exchange: MessageExchange) -> bool:
        """Forget ``exchange``; return whether the server worked on it."""
        return self.pending.pop(exchange.number, None) is not None and exchange.method != _LISTENING

    def clear(self) -> list[MessageExchange]:
        """Forget all exchanges whose requests the server has taken, and return them."""
        pending = [one for one in self.pending.values() if one.is_taken]
        for exchange in pending:
            del self.pending[exchange.number]
        return pending

    def find_cancelled(self, message: dict[str, Json]) -> list[MessageExchange] | None:
        """Return the exchanges that the notification ``message`` cancels, or None if it is another message."""
        if message.get("method") != CANCELLED:
            return None
        wanted = jsontext.get_object(message, "params").get("requestId")
        return [one for one in self.pending.values() if one.id == wanted]

    def receive(self, data: Json, size: int) -> list[dict[str, Json]]:
        """Give the message or the array of messages ``data`` to those who wait, and return what the server must get.

        ``size`` is the number of its bytes.

        Raises:
            ValueError: the server has sent too much that nothing waits for; the text says what.
        """
        replies = [self._receive(message, size) for message in (data if isinstance(data, list) else [data])]
        return [reply for reply in replies if reply is not None]

    def _receive(self, message: Any, size: int) -> dict[str, Json] | None:
        if not isinstance(message, dict):
            self._junk += 1
            if self._junk > MAX_JUNK:
                raise ValueError(f"more than {MAX_JUNK:,} {self._units} that are not messages")
            return None
        exchange = self._find(message)
        if exchange is not None:
            return self._deliver(exchange, message)
        self._unsolicited += size
        if self._unsolicited > MAX_UNSOLICITED:
            raise ValueError(f"more than {MAX_UNSOLICITED:,} bytes that answer no request")
        return _build_reply(message, is_of_several=any(one.method == "tools/call" for one in self.pending.values()))

    def _find(self, message: dict[str, Any]) -> MessageExchange | None:
        """Return the exchange that ``message`` belongs to, or None if no request waits for it."""
        method, id_ = message.get("method"), message.get("id")
        if not isinstance(method, str):
            # Not isinstance(): True is an int that equals 1, and must not find a request.
            return self.pending.get(id_) if type(id_) is int else None
        if id_ is not None:
            # A question of the server belongs to the call that it works on; with several, nothing says to which.
            calls = [one for one in self.pending.values() if one.method == "tools/call"]
            return calls[0] if len(calls) == 1 else None
        token = jsontext.get_object(message, "params").get("progressToken")
        if token is None:
            listening = (_LISTENING, LISTEN) if method in _CHANGED else ()
            return next((one for one in self.pending.values() if one.method in listening), None)
        return next((one for one in self.pending.values() if one.token == token), None)

    def _deliver(self, exchange: MessageExchange, message: dict[str, Any]) -> dict[str, Json] | None:
        """Give ``message`` to its exchange: an answer has the caller's id.

        If the reader has left too much unread, the exchange ends, and the server must get the cancellation.
        """
        is_answer = "method" not in message
        text = _write_for(message, exchange.id) if is_answer else jsontext.write(message)
        exchange.unread += len(text)
        if exchange.unread > MAX_UNREAD:
            self.remove(exchange)
            sentence = f"{self._name} sent more than {MAX_UNREAD:,} bytes before they could be read."
            exchange.deliver(ExchangeEnd(bad_response(sentence, "too_large")))
            return build_cancellation(exchange)
        if not is_answer:
            exchange.deliver(text)
            return None
        self.remove(exchange)
        self._unsolicited = self._junk = 0
        if exchange.method == "initialize" and "result" in message:
            self._opening = text
        exchange.deliver(ExchangeEnd(answer=text))
        return None


def build_cancellation(exchange: MessageExchange) -> dict[str, Json]:
    """Return the notification that the caller does not wait for ``exchange`` any more."""
    params: Json = {"requestId": exchange.number, "reason": "The caller is no longer waiting."}
    return {"jsonrpc": "2.0", "method": CANCELLED, "params": params}


def _build_reply(message: dict[str, Any], *, is_of_several: bool) -> dict[str, Json] | None:
    """Return the reply to a request of the server that belongs to no call, or to one of several calls.

    None if ``message`` is no request.
    """
    method, id_ = message.get("method"), message.get("id")
    if not isinstance(method, str) or id_ is None:
        return None
    answer: dict[str, Json] = {"jsonrpc": "2.0", "id": id_}
    text = f"This client does not support {method[:100]!r}."
    if is_of_several and method == ELICITATION:
        text = "Several calls are running, so it is unknown whose user to ask. Make this call again, by itself."
    refusal: Json = {"code": METHOD_NOT_FOUND, "message": text}
    return {**answer, "result": {}} if method == "ping" else {**answer, "error": refusal}


def _write_for(message: Json, id_: Json) -> bytes:
    """Return the answer ``message`` as that to the request ``id_``."""
    return jsontext.write({**message, "id": id_} if isinstance(message, dict) else {})
