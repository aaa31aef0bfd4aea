"""Define ASGI's types, and an exchange that takes a body and sends a response faster than ASGI messages do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from toolwire.core.http import Response

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

CLOSE = (b"connection", b"close")
"""The header field of a response that is the last of its connection."""

STDIO_EXTENSION = "toolwire.stdio"
"""The extension in the ASGI scope of a request that came on standard input."""

LISTEN_AFTER_S = 0.05
"""How long a call runs before a task listens for the disconnection of its client, in seconds."""


class Exchange:
    """One request and its response: ``receive`` and ``send`` of ASGI, and shorter ways to do the same.

    An application may use the shorter ways if it was given an exchange, or the very methods ``receive`` and ``send`` of
    one: then no middleware is between them that must see messages.
    """

    # Decision 0048. This is no abstract class, because isinstance() of those takes several times as long.

    receive: Any  # a Receive and a Send: attributes in one subclass, methods in the other
    send: Any
    has_connection: bool = True
    """Whether the response goes to a connection of its own, which a proxy may end if nothing is sent for long."""

    def take_body(self) -> bytes | None:
        """Return the body if all of it has arrived, else None."""
        raise NotImplementedError

    def try_send_response(self, response: Response, /) -> bool:
        """Send ``response`` at once; return False, without sending anything, if ASGI messages must be used."""
        raise NotImplementedError

    def cancel_on_disconnect(self) -> None:
        """Cancel the current task if the client disconnects before ``ignore_disconnect`` is called."""
        raise NotImplementedError

    def ignore_disconnect(self) -> None:
        """Let the current task continue, even if the client disconnects."""
        raise NotImplementedError

    def is_disconnected(self) -> bool:
        """Return whether the client is known to have disconnected."""
        raise NotImplementedError


class MessageExchange(Exchange):
    """An exchange on another ASGI server, or behind a middleware: it uses ASGI messages only."""

    def __init__(self, receive: Receive, send: Send) -> None:
        """Exchange messages by ``receive`` and ``send`` of an ASGI server or middleware."""
        self.receive = receive
        self.send = send
        self._timer: asyncio.TimerHandle | None = None
        self._listener: asyncio.Task[None] | None = None
        self._disconnected = False

    def take_body(self) -> bytes | None:
        """Return None: the body must be received."""
        return None

    def try_send_response(self, _response: Response, /) -> bool:
        """Return False: the response must be sent by messages."""
        return False

    def cancel_on_disconnect(self) -> None:
        """See ``Exchange``."""
        # Most calls end before the timer does, and so need no task that listens.
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
    """Return the exchange whose methods ``receive`` and ``send`` are; if they are not, a new one that uses them."""
    owner = getattr(send, "__self__", None)
    # A middleware that replaces one of the two must see its messages, so both must be of the same exchange.
    is_own = getattr(receive, "__self__", None) is owner
    return owner if is_own and isinstance(owner, Exchange) else MessageExchange(receive, send)
