"""ASGI's words, and what a server of our own can do faster than two of its messages: a body and an answer at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias, cast

from toolwire.core.http import Response

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]


class Exchange:
    """One request and its answer: ``receive`` and ``send`` are those of ASGI. [decision 0048]

    An application that is given one, or these very methods of one, is next to the connection, with nothing between them
    that wants to see messages; only then may it use the rest. (No abstract class: to recognise one costs too much.)
    """

    receive: Any  # a Receive and a Send; uvicorn's own have narrower types for what they take and give
    send: Any

    def arrived(self) -> bytes | None:
        """Return the body where it is there, whole; None where it must be received."""
        raise NotImplementedError

    def answered(self, response: Response) -> bool:
        """Send ``response`` whole; return False, having sent nothing, where that takes the messages of ASGI."""
        raise NotImplementedError


class Messages(Exchange):
    """An exchange with somebody else's server, or with something between: all of it takes messages."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self.receive = receive
        self.send = send

    def arrived(self) -> bytes | None:
        """Return None: a body is received."""
        return None

    def answered(self, response: Response) -> bool:  # noqa: ARG002 - nothing of it is looked at
        """Return False: an answer is sent."""
        return False


def exchange_of(receive: Any, send: Any) -> Exchange:
    """Return the exchange that these are the methods of, or one by messages where they are not of one."""
    owner, of_receive = (getattr(method, "__self__", None) for method in (send, receive))
    of_one = isinstance(owner, Exchange) and of_receive is owner
    return cast("Exchange", owner) if of_one else Messages(receive, send)
