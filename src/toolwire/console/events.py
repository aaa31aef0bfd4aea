"""Tell the open pages of a console that something has changed, as server-sent events.

Rules:
- One task looks at the stores once a second, for all pages together, and only while a page is open.
- An event names what changed and holds no data: the page is fetched again, with all its checks.
- At most 600 streams are open; a stream that is not read takes no memory beyond its own.
"""
# CO-02

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

import anyio.to_thread

MAX_STREAMS: Final = 600
POLL_INTERVAL_S: Final = 1.0
BEAT_S: Final = 20.0
"""A comment that keeps proxies from closing a stream where nothing changes."""

_log = logging.getLogger("toolwire.console")

TopicReaders = Mapping[str, Callable[[], object]]
"""For each topic, a function that returns something that is equal as long as nothing changes. They run in a thread."""


class ChangeFeed:
    """The open event streams of one console."""

    def __init__(
        self, read_topics: Callable[[], Mapping[str, object]], *, poll_interval_s: float = POLL_INTERVAL_S
    ) -> None:
        self._read_topics = read_topics
        self._poll_interval_s = poll_interval_s
        self._waiting: set[asyncio.Future[str]] = set()
        self._count = 0
        self._task: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def count(self) -> int:
        """How many streams are open."""
        return self._count

    @property
    def is_full(self) -> bool:
        """Whether no further stream can be opened."""
        return self._count >= MAX_STREAMS

    async def open_stream(self) -> None:
        """Count one more stream. From the return on, it hears of each change. End it with ``close_stream``."""
        self._count += 1
        self._loop = asyncio.get_running_loop()
        if self._task is None or self._task.done():
            self._ready = asyncio.Event()
            self._task = self._loop.create_task(self._poll_until(self._ready))
        await self._ready.wait()

    def close_stream(self) -> None:
        """Count one stream less, and stop looking without any."""
        self._count -= 1
        if not self._count and self._task is not None:
            self._task.cancel()
            self._task = None

    def wait_for_change(self) -> asyncio.Future[str]:
        """Return a future of the topics that change next, separated by spaces."""
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        return future

    def notify(self, topic: str) -> None:
        """Tell all pages that ``topic`` has changed. It can be called in any thread."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop has ended, and so have all pages
                loop.call_soon_threadsafe(self._notify, topic)

    def _notify(self, topics: str) -> None:
        for future in [one for one in self._waiting if not one.done()]:
            future.set_result(topics)

    async def _poll_until(self, ready: asyncio.Event) -> None:
        before = await self._poll()
        ready.set()
        while True:
            await asyncio.sleep(self._poll_interval_s)
            now = await self._poll()
            if changed := [topic for topic in now.keys() | before.keys() if now.get(topic) != before.get(topic)]:
                self._notify(" ".join(changed))
            before = now

    async def _poll(self) -> Mapping[str, object]:
        try:
            return await anyio.to_thread.run_sync(self._read_topics)
        except Exception:  # noqa: BLE001 - a store that cannot be read now is looked at again
            _log.debug("looking for news failed", exc_info=True)
            return {}


def read_all_topics(readers: TopicReaders) -> dict[str, object]:
    """Return what each function returns now, by topic; one that fails is left out."""
    found: dict[str, object] = {}
    for topic, reader in readers.items():
        try:
            found[topic] = reader()
        except Exception:  # noqa: BLE001 - a store that cannot be read now is looked at again
            _log.debug("looking for news of %s failed", topic, exc_info=True)
    return found
