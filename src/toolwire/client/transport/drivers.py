"""Drive flows: send their requests over a transport, and put their questions to an approver."""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from typing import Any, Protocol, TypeAlias, TypeVar, TypeVarTuple

import anyio
import anyio.to_thread

from toolwire.core.check import Answer, Question
from toolwire.core.codec import BlockingTask, Flow, FlowEnd, Listen, Pause, StreamItem, resume_flow
from toolwire.core.http import Request, Response
from toolwire.core.interpreter import switch_threads_often
from toolwire.core.model import Kind, Problem, Progress
from toolwire.core.toolbox import Notify, ignore_progress
from toolwire.core.user_input import (
    CANCELLED,
    DECLINED,
    MAX_ATTEMPTS,
    InputProvider,
    InputRequest,
    InputResponse,
    read_reply,
)

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

Approver: TypeAlias = Callable[[Question], Answer | bool | Awaitable[Answer | bool]]
"""Asks the user a Question and returns an Answer, True or False. It may be a coroutine function."""

NO_APPROVER = Answer(allowed=False)
"""The answer if no approver is configured: no."""  # XL-053: without a way to ask, nothing is allowed

PieceHandler: TypeAlias = Callable[[bytes], Awaitable[Problem | None]]
"""Takes each piece of a stream. The next piece is read after it returns. A Problem ends the exchange."""

SyncPieceHandler: TypeAlias = Callable[[bytes], Problem | None]
Pieces: TypeAlias = Generator[bytes, Problem | None, Response | Problem]
"""Yields the pieces of a stream on demand, can be sent a Problem to end it, and returns the response."""

SyncNotify: TypeAlias = Callable[[Progress], None]

Sleep: TypeAlias = Callable[[float], Awaitable[None]]
"""Waits for some seconds."""

SyncSleep: TypeAlias = Callable[[float], None]

MAX_PAUSE_S = 600.0
"""The longest pause of a flow; a longer one is cut."""

BRIEF_S = 0.5
"""The time limit for telling a server that a call is cancelled or a session has ended."""


class Transport(Protocol):
    """What sends requests, asynchronously."""

    async def send(self, request: Request) -> Response | Problem:
        """Return the response, or the Problem that the server was not reached."""
        ...

    async def listen(self, request: Request, on_piece: PieceHandler, *, brief: bool = False) -> Response | Problem:
        """Return the response; a stream of events is given to ``on_piece`` piece by piece and not kept.

        A ``brief`` exchange has the time of ``send``.
        """
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...


class SyncTransport(Protocol):
    """What sends requests, blocking."""

    def send(self, request: Request) -> Response | Problem:
        """Return the response, or the Problem that the server was not reached."""
        ...

    def listen(self, request: Request, on_piece: SyncPieceHandler, *, brief: bool = False) -> Response | Problem:
        """Return the response; a stream of events is given to ``on_piece`` piece by piece and not kept.

        A ``brief`` exchange has the time of ``send``.
        """
        ...

    def close(self) -> None:
        """Close every connection."""
        ...


class SyncStreamingTransport(Protocol):
    """What sends requests, blocking, and lets the caller read a stream at its own pace."""

    def send(self, request: Request) -> Response | Problem:
        """Return the response, or the Problem that the server was not reached."""
        ...

    def pieces(self, request: Request) -> Pieces:
        """Yield a stream of events piece by piece, and return the response."""
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
    provide_input: InputProvider | None = None,
) -> T:
    """Run ``flow`` and return its value.

    - ``transport``: sends the requests.
    - ``approve``: answers the questions.
    - ``notify``: receives progress.
    - ``provide_input``: answers what a server asks the user during a call.
    - ``in_thread``: run each step of the flow in a worker thread, for a flow that parses large documents.
    - ``cancel``: builds the message that cancels the flow's last request. It is sent if this task is cancelled.
    """
    reply: Any = None
    sent: Request | None = None
    try:
        while True:
            asked: Any = await _run_in_thread(resume_flow, flow, reply) if in_thread else flow.send(reply)
            if isinstance(asked, Request):
                sent = _find_cancelled_request(sent, asked)
                reply = await transport.send(asked)
            elif isinstance(asked, Listen):
                sent = _find_cancelled_request(sent, asked.request)
                reply = await _listen_async(asked, transport, notify, provide_input)
            elif isinstance(asked, (Question, InputRequest)):
                reply = await _ask_user_async(asked, approve, provide_input)
            elif isinstance(asked, BlockingTask):
                reply = await _run_in_thread(asked.run)
            elif isinstance(asked, FlowEnd):
                returned: T = asked.value
                return returned
            else:
                reply = None
                await _pass_on(asked, notify, sleep)
    except StopIteration as stop:
        value: T = stop.value
        return value
    except anyio.get_cancelled_exc_class():
        # MC-06: the server would otherwise go on with a call whose result is not wanted any more.
        if cancel is not None and sent is not None:
            await send_briefly(transport, cancel(sent))
        raise
    finally:
        # The flow's own cleanup runs now, also after an error or a cancellation, and not when it is collected.
        with suppress(ValueError):  # it is running: a step in a thread outlasts a cancellation by asyncio
            flow.close()


async def _pass_on(step: Pause | Progress, notify: Notify, sleep: Sleep) -> None:
    if isinstance(step, Progress):
        await notify(step)
    else:
        # A server chooses the pause, so it is cut to what a caller can bear.
        await sleep(min(step.seconds, MAX_PAUSE_S))


async def _run_in_thread(work: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
    """Return ``work(*arguments)`` from a worker thread, which leaves the event loop its turns."""
    with switch_threads_often():
        return await anyio.to_thread.run_sync(work, *arguments)


def _find_cancelled_request(before: Request | None, request: Request) -> Request:
    """Return the request to cancel: a GET only fetches the rest of the response to the request before it."""
    # A GET after a POST reads the rest of the stream that the POST began.
    return before if before is not None and request.method == "GET" else request


async def send_briefly(transport: Transport, message: Request | None) -> None:
    """Send ``message``, if there is one, within ``BRIEF_S`` seconds, even if this task is cancelled."""
    if message is not None:
        # The shield lets the message out although the task is being cancelled.
        with anyio.move_on_after(BRIEF_S, shield=True):
            await transport.send(message)


def run(
    flow: Flow[T],
    transport: SyncTransport,
    approve: Approver | None = None,
    notify: SyncNotify | None = None,
    *,
    sleep: SyncSleep = time.sleep,
    provide_input: InputProvider | None = None,
) -> T:
    """Run ``flow`` and return its value, blocking. The functions must not be coroutine functions."""
    reply: Any = None
    try:
        while True:
            asked = flow.send(reply)
            if isinstance(asked, Request):
                reply = transport.send(asked)
            elif isinstance(asked, Listen):
                reply = _listen(asked, transport, notify, provide_input)
            elif isinstance(asked, Pause):
                sleep(min(asked.seconds, MAX_PAUSE_S))
                reply = None
            elif isinstance(asked, InputRequest):
                reply = ask_input(asked, provide_input)
            elif isinstance(asked, BlockingTask):
                reply = asked.run()
            elif isinstance(asked, Progress):
                reply = None
                if notify is not None:
                    notify(asked)
            else:
                reply = _ask(asked, approve)
    except StopIteration as stop:
        value: T = stop.value
        return value
    finally:
        # As in arun(): the cleanup of the flow runs now.
        flow.close()


def stream_progress(
    flow: Flow[T], transport: SyncStreamingTransport, *, sleep: SyncSleep = time.sleep
) -> Generator[Progress, None, T]:
    """Run ``flow``, yield its progress on demand, and return its value. Closing the generator ends the exchange."""
    reply: Any = None
    try:
        while True:
            asked = flow.send(reply)
            if isinstance(asked, Request):
                reply = transport.send(asked)
            elif isinstance(asked, Listen):
                reply = yield from _stream_pieces(asked, transport.pieces(asked.request), transport)
            elif isinstance(asked, Pause):
                sleep(min(asked.seconds, MAX_PAUSE_S))
                reply = None
            elif isinstance(asked, BlockingTask):
                reply = asked.run()
            elif isinstance(asked, Progress):
                reply = yield asked
            else:
                # The caller reads the generator step by step and has no approver.
                reply = DECLINED if isinstance(asked, InputRequest) else NO_APPROVER
    except StopIteration as stop:
        value: T = stop.value
        return value
    finally:
        flow.close()


def consume_pieces(pieces: Pieces, on_piece: SyncPieceHandler) -> Response | Problem:
    """Give each of ``pieces`` to ``on_piece``, and return the response."""
    reply: Problem | None = None
    try:
        while True:
            reply = on_piece(pieces.send(reply))
    except StopIteration as stop:
        response: Response | Problem = stop.value
        return response
    finally:
        pieces.close()


def _stream_pieces(
    asked: Listen, pieces: Pieces, transport: SyncStreamingTransport
) -> Generator[Progress, None, Response | Problem]:
    reply: Problem | None = None
    try:
        while True:
            try:
                piece = pieces.send(reply)
            except StopIteration as stop:
                response: Response | Problem = stop.value
                return response
            understood = _parse_piece(asked, piece)
            reply = understood if isinstance(understood, Problem) else None
            if not isinstance(understood, Problem):
                for one in understood:
                    if isinstance(one, Progress):
                        yield one
                    else:
                        transport.send(one if isinstance(one, Request) else one.respond(DECLINED))
    finally:
        pieces.close()


async def _listen_async(
    asked: Listen, transport: Transport, notify: Notify, provide_input: InputProvider | None
) -> Response | Problem:
    async def on_piece(piece: bytes) -> Problem | None:
        items = _parse_piece(asked, piece)
        if isinstance(items, Problem):
            return items
        for item in items:
            if isinstance(item, Progress):
                await notify(item)
            elif isinstance(item, Request):
                await transport.send(item)
            else:
                await transport.send(item.respond(await _ask_input_async(item, provide_input)))
        return None

    return await transport.listen(asked.request, on_piece, brief=asked.is_brief)


def _listen(
    asked: Listen, transport: SyncTransport, notify: SyncNotify | None, provide_input: InputProvider | None
) -> Response | Problem:
    def on_piece(piece: bytes) -> Problem | None:
        items = _parse_piece(asked, piece)
        if isinstance(items, Problem):
            return items
        for item in items:
            if not isinstance(item, Progress):
                transport.send(item if isinstance(item, Request) else item.respond(ask_input(item, provide_input)))
            elif notify is not None:
                notify(item)
        return None

    return transport.listen(asked.request, on_piece, brief=asked.is_brief)


def _parse_piece(asked: Listen, piece: bytes) -> list[StreamItem] | Problem:
    try:
        return list(asked.read_chunk(piece))
    except ValueError as error:
        return Problem(kind=Kind.BAD_ANSWER, message=f"Cannot read the server's stream: {error}.")


async def _ask_user_async(
    asked: Question | InputRequest, approve: Approver | None, provide_input: InputProvider | None
) -> Answer | InputResponse:
    if isinstance(asked, Question):
        return await _ask_async(asked, approve)
    return await _ask_input_async(asked, provide_input)


async def _ask_async(question: Question, approve: Approver | None) -> Answer:
    if approve is None:
        return NO_APPROVER
    # An approver can be a plain function or a coroutine function, so its reply is awaited only if it can be.
    reply = approve(question)
    return _read_answer(await reply if inspect.isawaitable(reply) else reply)


def _ask(question: Question, approve: Approver | None) -> Answer:
    if approve is None:
        return NO_APPROVER
    return _read_answer(_refuse_coroutine(approve(question), "approve"))


async def _ask_input_async(asked: InputRequest, provide_input: InputProvider | None) -> InputResponse:
    """Return what the user entered; what does not fit is asked for again, up to three times in all."""
    for _ in range(MAX_ATTEMPTS):
        if provide_input is None:
            return DECLINED
        reply = provide_input(asked)
        read = read_reply(asked, await reply if inspect.isawaitable(reply) else reply)
        if isinstance(read, InputResponse):
            return read
        asked = read
    return CANCELLED


def ask_input(asked: InputRequest, provide_input: InputProvider | None) -> InputResponse:
    """Return what the user entered, blocking; what does not fit is asked for again, up to three times in all."""
    for _ in range(MAX_ATTEMPTS):
        if provide_input is None:
            return DECLINED
        read = read_reply(asked, _refuse_coroutine(provide_input(asked), "provide_input"))
        if isinstance(read, InputResponse):
            return read
        asked = read
    return CANCELLED


def _refuse_coroutine(reply: T, name: str) -> T:
    if inspect.isawaitable(reply):
        # An unawaited coroutine would only show up as a warning at the end of the program.
        if inspect.iscoroutine(reply):
            reply.close()
        raise TypeError(f"a blocking connection needs a plain function for {name}")
    return reply


def _read_answer(reply: object) -> Answer:
    """Return ``reply`` as an Answer. Only an Answer that allows, or True itself, is a yes."""
    if isinstance(reply, Answer):
        return reply
    return Answer(allowed=reply is True)
