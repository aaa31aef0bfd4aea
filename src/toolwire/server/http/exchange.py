"""ASGI's words, and what a server of our own can do faster than two of its messages: a body and an answer at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias, cast

from toolwire.core.http import Response

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

CLOSE = (b"connection", b"close")
"""The header field of a response that is the last of its connection."""

LISTEN_AFTER_S = 0.05
"""How long a call runs before its client's disconnection is listened for, where that takes a task, in seconds."""


class Exchange:
    """One request and its answer: ``receive`` and ``send`` are those of ASGI. [decision 0048]

    An application that is given one, or these very methods of one, is next to the connection, with nothing between them
    that wants to see messages; only then may it use the rest. (No abstract class: to recognise one costs too much.)
    """

    receive: Any  # a Receive and a Send; uvicorn's own have narrower types for what they take and give
    send: Any

    def take_body(self) -> bytes | None:
        """Return the body where it is there, whole; None where it must be received."""
        raise NotImplementedError

    def try_send_response(self, response: Response) -> bool:
        """Send ``response`` whole; return False, having sent nothing, where that takes the messages of ASGI."""
        raise NotImplementedError

    def cancel_on_disconnect(self) -> None:
        """Cancel the current task if the client disconnects before ``keep`` is called."""
        raise NotImplementedError

    def ignore_disconnect(self) -> None:
        """Let the current task go on from now on, whatever the client does."""
        raise NotImplementedError

    def is_disconnected(self) -> bool:
        """Return whether the client has disconnected, as far as that is known."""
        raise NotImplementedError


class MessageExchange(Exchange):
    """An exchange with somebody else's server, or with something between: all of it takes messages."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self.receive = receive
        self.send = send
        self._timer: asyncio.TimerHandle | None = None
        self._listener: asyncio.Task[None] | None = None
        self._disconnected = False

    def take_body(self) -> bytes | None:
        """Return None: a body is received."""
        return None

    def try_send_response(self, response: Response) -> bool:  # noqa: ARG002 - nothing of it is looked at
        """Return False: an answer is sent."""
        return False

    def cancel_on_disconnect(self) -> None:
        """See ``Exchange``. Most calls end before anybody listens, and so need no task for that."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        if task is not None:
            self._timer = loop.call_later(LISTEN_AFTER_S, self._start_listener, task)

    def ignore_disconnect(self) -> None:
        """See ``Exchange``."""
        if self._timer is not None:
            self._timer.cancel()
        if self._listener is not None:
            self._listener.cancel()
            self._listener = None

    def is_disconnected(self) -> bool:
        """See ``Exchange``."""
        return self._disconnected

    def _start_listener(self, task: asyncio.Task[Any]) -> None:
        self._listener = asyncio.get_running_loop().create_task(self._cancel_when_disconnected(task))

    async def _cancel_when_disconnected(self, task: asyncio.Task[Any]) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        if self._listener is not None:
            self._disconnected = True
            task.cancel()


def get_exchange(receive: Any, send: Any) -> Exchange:
    """Return the exchange that these are the methods of, or one by messages where they are not of one."""
    owner, of_receive = (getattr(method, "__self__", None) for method in (send, receive))
    of_one = isinstance(owner, Exchange) and of_receive is owner
    return cast("Exchange", owner) if of_one else MessageExchange(receive, send)
