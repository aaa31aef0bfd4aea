"""The two drivers: the only places where a conversation meets the network and a user."""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import anyio
import anyio.to_thread

from toolwire.core.check import Answer, Question
from toolwire.core.codec import Flow, Listen, Pause
from toolwire.core.http import Request, Response
from toolwire.core.model import Kind, Problem, Progress
from toolwire.core.toolbox import Notify, ignore_progress

T = TypeVar("T")

Approver: TypeAlias = Callable[[Question], Answer | bool | Awaitable[Answer | bool]]
"""Asks the user: is given the Question, returns an Answer or just yes or no. It may be a coroutine function."""

NO_APPROVER = Answer(allowed=False)
"""The answer where no approver is configured: no. [XL-053]"""


PieceHandler: TypeAlias = Callable[[bytes], Awaitable[Problem | None]]
"""Takes each piece of a stream; awaiting it is the back-pressure. A Problem ends the exchange."""

SyncPieceHandler: TypeAlias = Callable[[bytes], Problem | None]
Pieces: TypeAlias = Generator[bytes, Problem | None, Response | Problem]
"""Yields the pieces of a stream as they are asked for, is sent a Problem to end it, and returns what came back."""

SyncNotify: TypeAlias = Callable[[Progress], None]

Sleep: TypeAlias = Callable[[float], Awaitable[None]]
"""Waits for some seconds."""

SyncSleep: TypeAlias = Callable[[float], None]

MAX_PAUSE_S = 600.0
"""The longest wait; one that is longer is cut."""


BRIEF_S = 0.5
"""How long it may take to tell a server that a call is cancelled or a session is over."""


class Transport(Protocol):
    """The network, asynchronous."""

    async def send(self, request: Request) -> Response | Problem:
        """Return what came back, or the Problem of not reaching the server."""
        ...

    async def listen(self, request: Request, hear: PieceHandler, *, brief: bool = False) -> Response | Problem:
        """Return what came back; a stream of events is given to ``hear`` piece by piece instead of kept.

        A ``brief`` exchange has the time of ``send``.
        """
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...


class SyncTransport(Protocol):
    """The network, blocking."""

    def send(self, request: Request) -> Response | Problem:
        """Return what came back, or the Problem of not reaching the server."""
        ...

    def listen(self, request: Request, hear: SyncPieceHandler, *, brief: bool = False) -> Response | Problem:
        """Return what came back; a stream of events is given to ``hear`` piece by piece instead of kept.

        A ``brief`` exchange has the time of ``send``.
        """
        ...

    def close(self) -> None:
        """Close every connection."""
        ...


class SyncStreamingTransport(Protocol):
    """The network, blocking, for whoever takes a stream at their own pace."""

    def send(self, request: Request) -> Response | Problem:
        """Return what came back, or the Problem of not reaching the server."""
        ...

    def pieces(self, request: Request) -> Pieces:
        """Yield a stream of events piece by piece, and return what came back."""
        ...


async def arun(
    flow: Flow[T],
    transport: Transport,
    approve: Approver | None = None,
    notify: Notify = ignore_progress,
    *,
    sleep: Sleep = anyio.sleep,
    in_thread: bool = False,
    cancel: Callable[[Request], Request | None] | None = None,
) -> T:
    """Run ``flow`` and return its value.

    Requests go to ``transport``, questions to ``approve``, progress to ``notify``. With ``in_thread`` each step of the
    flow runs in a worker thread: for a flow that parses large documents. ``cancel`` builds the message that cancels the
    last request of the flow; it is sent if this task is cancelled.
    """
    said: Response | Problem | Answer | None = None
    sent: Request | None = None
    try:
        while True:
            asked = await _step_in_thread(flow, said) if in_thread else flow.send(said)
            if isinstance(asked, _FlowResult):
                returned: T = asked.value
                return returned
            if isinstance(asked, Request):
                sent = _find_cancelled_request(sent, asked)
                said = await transport.send(asked)
            elif isinstance(asked, Listen):
                sent = _find_cancelled_request(sent, asked.request)
                said = await _listen_async(asked, transport, notify)
            elif isinstance(asked, Pause):
                await sleep(min(asked.seconds, MAX_PAUSE_S))
                said = None
            else:
                said = await _ask_async(asked, approve)
    except StopIteration as stop:
        value: T = stop.value
        return value
    except anyio.get_cancelled_exc_class():
        if cancel is not None and sent is not None:
            await send_briefly(transport, cancel(sent))
        raise
    finally:
        flow.close()


def _find_cancelled_request(before: Request | None, request: Request) -> Request:
    """Return the request that a cancellation is about: a GET only fetches the rest of an answer to the one before."""
    return before if before is not None and request.method == "GET" else request


async def send_briefly(transport: Transport, message: Request | None) -> None:
    """Send ``message``, if there is one, as far as that goes within a moment, also where this task is cancelled."""
    if message is not None:
        with anyio.move_on_after(BRIEF_S, shield=True):
            await transport.send(message)


class _FlowResult(Generic[T]):
    """What a flow returned, from a thread: no StopIteration may leave one."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value


async def _step_in_thread(flow: Flow[T], said: Response | Problem | Answer | None) -> Any:
    """Return what ``flow`` asks for next, or a ``_FlowResult`` with its value."""

    def step() -> Any:
        try:
            return flow.send(said)
        except StopIteration as stop:
            return _FlowResult(stop.value)

    return await anyio.to_thread.run_sync(step)


def run(
    flow: Flow[T],
    transport: SyncTransport,
    approve: Approver | None = None,
    notify: SyncNotify | None = None,
    *,
    sleep: SyncSleep = time.sleep,
) -> T:
    """Return the value of ``flow``, blocking. ``approve`` and ``notify`` must be plain functions here."""
    said: Response | Problem | Answer | None = None
    try:
        while True:
            asked = flow.send(said)
            if isinstance(asked, Request):
                said = transport.send(asked)
            elif isinstance(asked, Listen):
                said = _listen(asked, transport, notify)
            elif isinstance(asked, Pause):
                sleep(min(asked.seconds, MAX_PAUSE_S))
                said = None
            else:
                said = _ask(asked, approve)
    except StopIteration as stop:
        value: T = stop.value
        return value
    finally:
        flow.close()


def stream_progress(
    flow: Flow[T], transport: SyncStreamingTransport, *, sleep: SyncSleep = time.sleep
) -> Generator[Progress, None, T]:
    """Yield the progress of ``flow`` as it is asked for, and return its value; closing it ends the exchange."""
    said: Response | Problem | Answer | None = None
    try:
        while True:
            asked = flow.send(said)
            if isinstance(asked, Request):
                said = transport.send(asked)
            elif isinstance(asked, Listen):
                said = yield from _stream_pieces(asked, transport.pieces(asked.request), transport)
            elif isinstance(asked, Pause):
                sleep(min(asked.seconds, MAX_PAUSE_S))
                said = None
            else:
                said = NO_APPROVER
    except StopIteration as stop:
        value: T = stop.value
        return value
    finally:
        flow.close()


def consume_pieces(pieces: Pieces, hear: SyncPieceHandler) -> Response | Problem:
    """Return what ``pieces`` returns, after giving each of them to ``hear``."""
    said: Problem | None = None
    try:
        while True:
            said = hear(pieces.send(said))
    except StopIteration as stop:
        came: Response | Problem = stop.value
        return came
    finally:
        pieces.close()


def _stream_pieces(
    asked: Listen, pieces: Pieces, transport: SyncStreamingTransport
) -> Generator[Progress, None, Response | Problem]:
    said: Problem | None = None
    try:
        while True:
            try:
                piece = pieces.send(said)
            except StopIteration as stop:
                came: Response | Problem = stop.value
                return came
            understood = _parse_piece(asked, piece)
            said = understood if isinstance(understood, Problem) else None
            if not isinstance(understood, Problem):
                for one in understood:
                    if isinstance(one, Request):
                        transport.send(one)
                    else:
                        yield one
    finally:
        pieces.close()


async def _listen_async(asked: Listen, transport: Transport, notify: Notify) -> Response | Problem:
    async def hear(piece: bytes) -> Problem | None:
        heard = _parse_piece(asked, piece)
        if isinstance(heard, Problem):
            return heard
        for said in heard:
            if isinstance(said, Request):
                await transport.send(said)
            else:
                await notify(said)
        return None

    return await transport.listen(asked.request, hear, brief=asked.is_brief)


def _listen(asked: Listen, transport: SyncTransport, notify: SyncNotify | None) -> Response | Problem:
    def hear(piece: bytes) -> Problem | None:
        heard = _parse_piece(asked, piece)
        if isinstance(heard, Problem):
            return heard
        for said in heard:
            if isinstance(said, Request):
                transport.send(said)
            elif notify is not None:
                notify(said)
        return None

    return transport.listen(asked.request, hear, brief=asked.is_brief)


def _parse_piece(asked: Listen, piece: bytes) -> list[Progress | Request] | Problem:
    try:
        return list(asked.read_chunk(piece))
    except ValueError as error:
        return Problem(kind=Kind.BAD_ANSWER, message=f"The server sent a stream that cannot be read: {error}.")


async def _ask_async(question: Question, approve: Approver | None) -> Answer:
    if approve is None:
        return NO_APPROVER
    said = approve(question)
    return _read_answer(await said if inspect.isawaitable(said) else said)


def _ask(question: Question, approve: Approver | None) -> Answer:
    if approve is None:
        return NO_APPROVER
    said = approve(question)
    if inspect.isawaitable(said):
        if inspect.iscoroutine(said):
            said.close()
        raise TypeError("a blocking connection needs an approve that is a plain function")
    return _read_answer(said)


def _read_answer(said: object) -> Answer:
    """Only an Answer that allows, or True itself, is a yes."""
    if isinstance(said, Answer):
        return said
    return Answer(allowed=said is True)
