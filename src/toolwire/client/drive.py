"""The two drivers: the only places where a conversation meets the network and a person."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias, TypeVar

from toolwire.core.check import Answer, Question
from toolwire.core.codec import Flow
from toolwire.core.http import Request, Response
from toolwire.core.model import Problem

T = TypeVar("T")

Approver: TypeAlias = Callable[[Question], Answer | bool | Awaitable[Answer | bool]]
"""Asks the person: is given the Question, returns an Answer or just yes or no. It may be a coroutine function."""

UNASKED = Answer(allowed=False)
"""The answer where there is no way to ask: no. [XL-053]"""


class Door(Protocol):
    """The network, asynchronous."""

    async def send(self, request: Request) -> Response | Problem:
        """Return what came back, or the Problem of not reaching the server."""
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...


class SyncDoor(Protocol):
    """The network, blocking."""

    def send(self, request: Request) -> Response | Problem:
        """Return what came back, or the Problem of not reaching the server."""
        ...

    def close(self) -> None:
        """Close every connection."""
        ...


async def arun(flow: Flow[T], door: Door, approve: Approver | None) -> T:
    """Return the value of ``flow``: its requests go through ``door``, its questions to ``approve``."""
    said: Response | Problem | Answer | None = None
    try:
        while True:
            asked = flow.send(said)
            said = await door.send(asked) if isinstance(asked, Request) else await _aask(asked, approve)
    except StopIteration as stop:
        value: T = stop.value
        return value
    finally:
        flow.close()


def run(flow: Flow[T], door: SyncDoor, approve: Approver | None) -> T:
    """Return the value of ``flow``, blocking. ``approve`` must be a plain function here."""
    said: Response | Problem | Answer | None = None
    try:
        while True:
            asked = flow.send(said)
            said = door.send(asked) if isinstance(asked, Request) else _ask(asked, approve)
    except StopIteration as stop:
        value: T = stop.value
        return value
    finally:
        flow.close()


async def _aask(question: Question, approve: Approver | None) -> Answer:
    if approve is None:
        return UNASKED
    said = approve(question)
    return _answer(await said if inspect.isawaitable(said) else said)


def _ask(question: Question, approve: Approver | None) -> Answer:
    if approve is None:
        return UNASKED
    said = approve(question)
    if inspect.isawaitable(said):
        if inspect.iscoroutine(said):
            said.close()
        raise TypeError("a blocking connection needs an approve that is a plain function")
    return _answer(said)


def _answer(said: object) -> Answer:
    """Only an Answer that allows, or True itself, is a yes."""
    if isinstance(said, Answer):
        return said
    return Answer(allowed=said is True)
