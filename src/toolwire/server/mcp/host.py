"""Hold one MCP host of up to 2025-11-25 that stays connected: what it declared, and the questions that it must answer.

The application answers a call that needs its user with a question and a state, as the revision of 2026-07-28 has it.
For an older host that question becomes a request of the server, and the call is made again with the host's answer.
"""
# MC-09, MC-10, CC-05

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from toolwire.core.codec import NO_REMOTE_CHANGES, RemoteChanges
from toolwire.core.http import JSON_HEADERS, Response
from toolwire.core.model import DEFAULT_LOG_LEVEL, LOG_LEVELS, Json, Kind
from toolwire.core.server_features import ServerFeatures
from toolwire.framing import jsontext, sse
from toolwire.framing.jsonrpc import INVALID_PARAMS
from toolwire.framing.jsontext import get_object, get_text
from toolwire.protocols.mcp.consent_question import CONSENT
from toolwire.protocols.mcp.elicitation import URL_REQUIRED
from toolwire.protocols.mcp.resource_subscriptions import (
    SUBSCRIBE,
    UNSUBSCRIBE,
    UPDATED,
    ResourceSubscriptions,
    can_subscribe,
)
from toolwire.protocols.mcp.revision import (
    CAPABILITIES_META,
    INTERNAL_ERROR,
    LOG_LEVEL_META,
    PROBLEM_META,
    RESOURCE_NOT_FOUND,
    UNANSWERED_META,
)
from toolwire.server.http.exchange import Exchange, Message, Scope

Write: TypeAlias = Callable[[bytes], Awaitable[None]]
"""Send one message to the host. Awaiting it applies back-pressure."""

Post: TypeAlias = Callable[[bytes], Awaitable[Response]]
"""Give one message to the application, and return its response."""

Serve: TypeAlias = Callable[[Scope, Exchange], Awaitable[None]]
"""Answer one request, as an application does."""

MAX_ROUNDS: Final = 12
"""The questions of a tool, at most ten, and that for consent, which may come twice if its answer came too late."""
CANCELLED: Final = "notifications/cancelled"
COMPLETED: Final = "notifications/elicitation/complete"
SET_LEVEL: Final = "logging/setLevel"
FORM: Final = "form"

_ASKING: Final = ("tools/call", "prompts/get", "resources/read")
_QUESTION: Final = b'"resultType":"input_required"'
_UNCONFIRMED: Final = f'"{Kind.UNCONFIRMED}"'.encode()
_NO_ANSWER: Final[Mapping[str, Json]] = {"action": "cancel"}


class McpHost:
    """What one host declared, the level of its log, the resources it watches, and the questions that wait for it.

    ``wait_s`` is how long a question waits for its answer, in seconds; after that the user counts as one who cancels.
    ``first_wait_s`` is that time until the host has answered a question. ``mark`` is a part of the ids of questions.
    With ``pong_s``, a ping goes before a question until the host has answered one. A host that answers neither within
    so many seconds got neither, as behind a proxy that keeps a stream until it ends.

    A host that left a question without an answer, and has never answered one, is not asked in this way again: it
    declares what it does not show. Its user decides elsewhere, and is asked as much as before.
    """

    def __init__(
        self,
        capabilities: Mapping[str, Json] | None = None,
        *,
        wait_s: float | None = None,
        first_wait_s: float | None = None,
        pong_s: float | None = None,
        mark: str = "",
    ) -> None:
        self.capabilities: Mapping[str, Json] = {} if capabilities is None else capabilities
        # A host that sets no level gets what its user may want to see.
        self.log_level: str = DEFAULT_LOG_LEVEL
        self.subscriptions: ResourceSubscriptions = ResourceSubscriptions()
        self._wait_s = wait_s
        self._first_wait_s = wait_s if first_wait_s is None else first_wait_s
        self._pong_s = pong_s
        self._mark = f"toolwire-{mark}"
        self._has_answered = False
        # The ways of asking, form or url, that brought no answer.
        self._unanswered: set[str] = set()
        self._asked: dict[str, asyncio.Future[Mapping[str, Json]]] = {}
        self._number = 0

    def take_answer(self, message: Mapping[str, Json]) -> bool:
        """Give an answer of the host to the question that waits for it, and return whether there is one."""
        id_, result = str(message.get("id")), get_object(message, "result")
        if result and id_.startswith(self._mark):  # too late for its call or not: the host shows questions
            self._has_answered = True
        waiting = self._asked.pop(id_, None)
        if waiting is not None and not waiting.done():
            # An error means that the host could not ask its user.
            waiting.set_result(result)
        return waiting is not None

    def cancel_questions(self) -> None:
        """End all questions that wait, as if the user had cancelled them."""
        for waiting in self._asked.values():
            if not waiting.done():
                waiting.set_result(_NO_ANSWER)

    async def answer(
        self,
        message: Mapping[str, Json],
        body: bytes,
        post: Post,
        write: Write,
        find_features: Callable[[], ServerFeatures],
    ) -> Response:
        """Return the answer of the application to ``message``, a request of the host, which has the text ``body``.

        The user of the host is asked meanwhile if need be. ``find_features`` returns what the host may see.
        """
        if message.get("method") == SET_LEVEL:
            return self._set_level(message)
        is_request = "id" in message
        if (
            is_request
            and message.get("method") in (SUBSCRIBE, UNSUBSCRIBE)
            and can_subscribe(features := find_features())
        ):
            return self._subscribe(message, features)
        params = message.get("params", {})
        if message.get("method") not in _ASKING or not isinstance(params, dict):
            return await post(body)
        given, params = params, self._declare_capabilities(params)
        response = await post(jsontext.write({**message, "params": params}))
        for _ in range(MAX_ROUNDS):
            asked = _read_question(response)
            if asked is None:
                return response
            requests = get_object(asked, "inputRequests")
            responses = {name: await self._ask(one, write) for name, one in requests.items()}
            if CONSENT in requests and FORM in self._list_silent():
                # The same call again, of a host without forms: its answer says where the user decides.
                params = self._declare_capabilities(given)
                response = await post(jsontext.write({**message, "params": params}))
                continue
            again = {**params, "requestState": asked.get("requestState"), "inputResponses": responses}
            response = await post(jsontext.write({**message, "params": again}))
            for page in _list_finished_pages(requests, responses, response):
                await write(jsontext.write({"jsonrpc": "2.0", "method": COMPLETED, "params": {"elicitationId": page}}))
        if _read_question(response) is None:
            return response
        return build_error(message.get("id"), INTERNAL_ERROR, "The tool asks more questions than a call allows.")

    async def refuse_with_pages(self, message: Mapping[str, Json], body: bytes, post: Post) -> Response:
        """Return the answer to ``message``, whose response can be no stream, so that nothing is asked on the way.

        The pages that the user must open first are an error, after which the host sends the request again.
        """
        # MC-09: of 2025-11-25 alone
        declared, params = get_object(self.capabilities, "elicitation"), message.get("params", {})
        if message.get("method") not in _ASKING or "url" not in declared or not isinstance(params, dict):
            return await post(body)
        meta = {**get_object(params, "_meta"), CAPABILITIES_META: {"elicitation": {"url": {}}}}
        response = await post(jsontext.write({**message, "params": {**params, "_meta": meta}}))
        asked = _read_question(response)
        if asked is None:
            return response
        pages = [get_object(one, "params") for one in get_object(asked, "inputRequests").values()]
        text = "The user must open a page first. Then send the same call again."
        error: Json = {"code": URL_REQUIRED, "message": text, "data": {"elicitations": pages}}
        return _build_response({"jsonrpc": "2.0", "id": message.get("id"), "error": error})

    def _set_level(self, message: Mapping[str, Json]) -> Response:
        level = get_object(message, "params").get("level")
        if level not in LOG_LEVELS:
            return build_error(message.get("id"), INVALID_PARAMS, f'"level" must be one of {", ".join(LOG_LEVELS)}.')
        self.log_level = str(level)
        return _build_response({"jsonrpc": "2.0", "id": message.get("id"), "result": {}})

    def _subscribe(self, message: Mapping[str, Json], features: ServerFeatures) -> Response:
        uri = get_object(message, "params").get("uri")
        if message.get("method") == UNSUBSCRIBE:
            self.subscriptions.remove(uri)
        elif (problem := self.subscriptions.add(uri, features)) is not None:
            is_unknown = problem.details.get("reason") == "unknown_resource"
            code = RESOURCE_NOT_FOUND if is_unknown else INVALID_PARAMS
            return build_error(message.get("id"), code, problem.message)
        return _build_response({"jsonrpc": "2.0", "id": message.get("id"), "result": {}})

    def _declare_capabilities(self, params: Mapping[str, Json]) -> dict[str, Json]:
        """Return the parameters with what newer hosts send with each call: capabilities, and the level of the log."""
        # Only questions: the server uses no other capability of a host.
        used: dict[str, Json] = {name: one for name, one in self.capabilities.items() if name == "elicitation"}
        meta = {**get_object(params, "_meta"), LOG_LEVEL_META: self.log_level}
        if silent := self._list_silent():
            modes = get_object(self.capabilities, "elicitation") or {FORM: {}}
            shown: Json = {name: one for name, one in modes.items() if name not in silent}
            used = {"elicitation": shown} if shown else {}
            if FORM in silent:
                meta[UNANSWERED_META] = True
        return {**params, "_meta": {**meta, CAPABILITIES_META: used}}

    def _list_silent(self) -> set[str]:
        """Return the ways of asking that the host declares, and seems not to show its user."""
        # QF-07
        return set() if self._has_answered else self._unanswered

    async def _ask(self, request: Json, write: Write) -> Json:
        """Send a question to the host as a request of the server, and return its answer."""
        self._number += 1
        id_ = f"{self._mark}{self._number}"
        ping = f"{id_}-ping"
        waiting, pong = self._expect_answer(id_), self._expect_answer(ping)
        asked = request if isinstance(request, dict) else {}
        mode = get_text(get_object(asked, "params"), "mode") or FORM
        pong_s = None if self._has_answered else self._pong_s
        try:
            if pong_s is not None:  # first, because a host that shows a question may answer nothing else meanwhile
                await write(jsontext.write({"jsonrpc": "2.0", "id": ping, "method": "ping"}))
            await write(jsontext.write({"jsonrpc": "2.0", "id": id_, **asked}))
            async with asyncio.timeout(self._wait_s if self._has_answered else self._first_wait_s):
                if pong_s is not None:
                    async with asyncio.timeout(pong_s):
                        await asyncio.wait((waiting, pong), return_when=asyncio.FIRST_COMPLETED)
                answer = dict(await waiting)
            if not answer:
                self._unanswered.add(mode)
            return answer or dict(_NO_ANSWER)
        except asyncio.CancelledError:
            # A host that shows no question gives the call up when its own time is over.
            self._unanswered.add(mode)
            raise
        except TimeoutError:
            self._unanswered.add(mode)
            params = {"requestId": id_, "reason": "The time to answer has expired."}
            await write(jsontext.write({"jsonrpc": "2.0", "method": CANCELLED, "params": params}))
            return dict(_NO_ANSWER)
        finally:
            self._asked.pop(id_, None)
            self._asked.pop(ping, None)

    def _expect_answer(self, id_: str) -> asyncio.Future[Mapping[str, Json]]:
        waiting: asyncio.Future[Mapping[str, Json]] = asyncio.get_running_loop().create_future()
        self._asked[id_] = waiting
        return waiting


def _read_question(response: Response) -> dict[str, Json] | None:
    """Return the result in ``response`` if it is a question to the user of the host."""
    if _QUESTION not in response.body:  # nearly always: a result is read once, and that may be a large one
        return None
    data = jsontext.read(response.body)
    result = get_object(data, "result") if isinstance(data, dict) else {}
    asked = result.get("inputRequests")
    return dict(result) if isinstance(asked, dict) and asked else None


def _list_finished_pages(requests: Mapping[str, Json], responses: Mapping[str, Json], response: Response) -> list[str]:
    """Return the ids of the pages that the user opened and is done with, now that the call has got ``response``."""
    # MC-09: of 2025-11-25 alone, whose questions have ids; the host can then take its own note of the page away.
    opened = [
        page
        for name, one in requests.items()
        if (page := _read_page_id(one)) and get_object(responses, name).get("action") == "accept"
    ]
    if not opened or _is_unconfirmed(response):
        return []
    again = {_read_page_id(one) for one in get_object(_read_question(response) or {}, "inputRequests").values()}
    return [page for page in opened if page not in again]


def _read_page_id(request: Json) -> str:
    """Return the id of a request to open a page, or an empty text if it asks something else."""
    return get_text(get_object(request, "params"), "elicitationId") if isinstance(request, dict) else ""


def _is_unconfirmed(response: Response) -> bool:
    """Return whether the call in ``response`` still needs the decision of its user."""
    if _UNCONFIRMED not in response.body:  # nearly always, and a result may be large
        return False
    data = jsontext.read(response.body)
    result = get_object(data, "result") if isinstance(data, dict) else {}
    return get_object(get_object(result, "_meta"), PROBLEM_META).get("kind") == Kind.UNCONFIRMED


def build_error(id_: Json, code: int, text: str, status: int = 200) -> Response:
    """Return a JSON-RPC error."""
    return _build_response({"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": text}}, status)


def write_updates(
    subscriptions: ResourceSubscriptions, features: ServerFeatures, remote: RemoteChanges = NO_REMOTE_CHANGES
) -> list[bytes]:
    """Return the messages that tell which of the watched resources have changed, here or in other processes."""
    changed = subscriptions.find_changed(features, remote)
    return [jsontext.write({"jsonrpc": "2.0", "method": UPDATED, "params": {"uri": uri}}) for uri in changed]


def _build_response(message: Json, status: int = 200) -> Response:
    return Response(status, JSON_HEADERS, jsontext.write(message))


class InnerExchange(Exchange):
    """A request to the application that does not come from a socket, and its response.

    ``take_piece`` gets each piece of a stream. ``response`` is the response, whose body is empty if it was a stream.
    """

    has_connection = False

    def __init__(self, body: bytes, take_piece: Callable[[bytes], Awaitable[None]]) -> None:
        self.response: Response = Response(500, JSON_HEADERS)
        self._body: bytes | None = body
        self._take_piece = take_piece
        self._pieces: list[bytes] = []
        self._is_stream = False
        self._ended = asyncio.Event()

    def take_body(self) -> bytes | None:
        """Return the whole body."""
        body, self._body = self._body, None
        return body

    def try_send_response(self, response: Response, /) -> bool:
        """Keep the response."""
        self.response = response
        self._ended.set()
        return True

    def cancel_on_disconnect(self) -> None:
        """Do nothing: the task of the call is cancelled by its owner."""

    def ignore_disconnect(self) -> None:
        """Do nothing."""

    def is_disconnected(self) -> bool:
        """Return False: there is no connection."""
        return False

    async def receive(self) -> Message:
        """Return the message, and after the response the end of the exchange."""
        body = self.take_body()
        if body is not None:
            return {"type": "http.request", "body": body, "more_body": False}
        await self._ended.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Take a part of the response; pieces of a stream are passed on as they come."""
        if message["type"] == "http.response.start":
            headers = tuple(message.get("headers", ()))
            kinds = [value for name, value in headers if name.lower() == b"content-type"]
            self._is_stream = bool(kinds) and kinds[0].startswith(b"text/event-stream")
            self.response = Response(message["status"], headers)
            return
        if self._is_stream:
            await self._take_piece(message.get("body", b""))
        else:
            self._pieces.append(message.get("body", b""))
        if not message.get("more_body", False):
            self.response = self.response._replace(body=b"".join(self._pieces))
            self._ended.set()


async def post_message(serve: Serve, scope: Scope, body: bytes, write: Write, most: int) -> Response:
    """Give a message to an application, write what it streams before its answer, and return its response.

    An event has at most ``most`` bytes. Whoever sends the response decides between JSON and a stream.
    """
    decoder, last = sse.Decoder(most), b""  # an answer of our own has the size that its tool gave it

    async def take_piece(piece: bytes) -> None:
        nonlocal last
        for event in decoder.feed(piece):
            data = event.data.encode()
            message = jsontext.read(data)
            if isinstance(message, dict) and "method" in message:
                await write(data)  # at once: the next event may come much later
            else:
                last = data  # the answer: the user may have to be asked before it is sent

    inner = InnerExchange(body, take_piece)
    await serve(scope, inner)
    return Response(inner.response.status, JSON_HEADERS, last) if last else inner.response
