"""Pause reading while a connection has enough to do, and writing while its peer reads slowly."""

from __future__ import annotations

import asyncio
from collections.abc import Sized


class FlowControl:
    """The flow control of one connection.

    ``pipeline`` is the connection's queue of requests that wait for their turn; nothing is read while it holds
    ``max_pipelined`` of them. ``unread`` holds bytes that arrived and were not parsed yet.
    """

    def __init__(self, transport: asyncio.Transport, pipeline: Sized, max_pipelined: int) -> None:
        self.read_paused: bool = False
        self.write_paused: bool = False
        self.unread = b""
        self._transport = transport
        self._pipeline = pipeline
        self._max_pipelined = max_pipelined
        self._writable = asyncio.Event()
        self._writable.set()

    def is_full(self) -> bool:
        """Return whether as many requests wait as may."""
        return bool(self.unread) or len(self._pipeline) >= self._max_pipelined

    def has_waiting(self) -> bool:
        """Return whether a request, or bytes that may hold one, wait for earlier responses."""
        return bool(self._pipeline or self.unread)

    def pause_reading(self) -> None:
        """Stop reading from the socket."""
        if not self.read_paused:
            self.read_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the socket again, unless enough requests wait already."""
        # A connection that reads notices at once that its client has gone, so it pauses only while it must.
        if self.read_paused and not self.is_full():
            self.read_paused = False
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        """Let ``wait_until_writable`` wait from now on."""
        self.write_paused = True
        self._writable.clear()

    def resume_writing(self) -> None:
        """Wake everything that waits in ``wait_until_writable``."""
        self.write_paused = False
        self._writable.set()

    async def wait_until_writable(self) -> None:
        """Wait until the peer has read enough of what was sent, or has gone."""
        await self._writable.wait()
