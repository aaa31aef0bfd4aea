"""Keep the events of one stream until they are read, and some of them after that, so that a client can come back.

Rules:
- One reader at a time: a new one ends the reading of the one before, whose connection may be dead.
- A writer waits while more than 64 KiB are unread. What was read is kept up to 64 KiB.
- An event is named by the numbers of its stream and of itself, after the name of the process if several share the
  sessions. All of it means nothing in another session.
"""
# MC-10

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from toolwire.framing import sse
from toolwire.server.http.response_stream import KEEP_ALIVE_S

MAX_UNREAD: Final = 64 * 1024
MAX_READ: Final = 64 * 1024


class _Event(NamedTuple):
    number: int
    data: bytes


class EventStream:
    """The events of one stream. ``is_open`` means that it was begun, ``is_over`` that no event follows."""

    def __init__(self, number: int, *, is_primed: bool, prefix: bytes = b"") -> None:
        """Begin the stream ``number`` of its session; with ``is_primed`` the first event is only an id.

        ``prefix`` is what the ids of its events begin with.
        """
        self._prefix = prefix
        self.number = number
        self.is_open: bool = False
        self.is_over: bool = False
        self._is_primed = is_primed
        self._events: deque[_Event] = deque()
        self._last = 0
        self._read = 0
        self._unread_bytes = self._read_bytes = 0
        self._reader = 0
        self._readers = 0
        self._changed = asyncio.Event()

    @property
    def has_reader(self) -> bool:
        """Whether a client reads the stream now."""
        return self._reader != 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written so far."""
        return self._last == 0

    @property
    def size(self) -> int:
        """The bytes that are kept."""
        return self._unread_bytes + self._read_bytes

    async def write(self, message: bytes) -> None:
        """Add ``message`` as an event, once the reader has come near enough."""
        while self._unread_bytes > MAX_UNREAD and not self.is_over:
            await self._changed.wait()
        if not self.is_over:
            self._add(message)

    def end(self, message: bytes = b"") -> None:
        """Add ``message``, if there is one, as the last event."""
        if not self.is_over:
            if message:
                self._add(message)
            self.is_over = True
            self._notify()

    def open(self) -> None:
        """Begin the stream before its first message, so that a client learns where it can go on."""
        if self.is_empty and self._is_primed:
            self._store(b"")
        self.is_open = True

    async def wait_for_event(self) -> None:
        """Return when something was written, or nothing will be."""
        while self.is_empty and not self.is_over:
            await self._changed.wait()

    def can_read_after(self, number: int) -> bool:
        """Return whether all events after ``number`` are still kept."""
        oldest = self._events[0].number if self._events else self._last + 1
        return oldest - 1 <= number <= self._last

    async def read(self, after: int, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Give each event after ``after`` to ``send``, as they come, until the stream is over or has another reader."""
        self._readers += 1
        self._reader = own = self._readers
        self._count_read(after)  # the client has these, whatever became of the connection that brought them
        try:
            while self._reader == own:
                event = self._find_next(after)
                if event is not None:
                    await send(event.data)
                    after = event.number
                    self._count_read(after)
                elif self.is_over:
                    return
                else:
                    await self._wait_or_comment(send)
        finally:
            if self._reader == own:
                self._reader = 0

    async def _wait_or_comment(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        try:
            async with asyncio.timeout(KEEP_ALIVE_S):
                await self._changed.wait()
        except TimeoutError:
            await send(sse.COMMENT)  # a proxy keeps the connection, and a client that is gone is noticed

    def _find_next(self, after: int) -> _Event | None:
        index = after + 1 - self._events[0].number if self._events else 0
        return self._events[index] if index < len(self._events) else None

    def _add(self, message: bytes) -> None:
        self.open()
        self._store(message)
        self._notify()

    def _store(self, message: bytes) -> None:
        self._last += 1
        data = b"id: %b%d-%d\ndata: %b\n\n" % (self._prefix, self.number, self._last, message)
        self._events.append(_Event(self._last, data))
        self._unread_bytes += len(data)

    def _count_read(self, number: int) -> None:
        for event in self._events:
            if self._read < event.number <= number:
                self._unread_bytes -= len(event.data)
                self._read_bytes += len(event.data)
        self._read = max(self._read, number)
        while self._read_bytes > MAX_READ and len(self._events) > 1:
            self._read_bytes -= len(self._events.popleft().data)
        self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
