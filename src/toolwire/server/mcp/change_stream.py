"""Tell a client that listens when the catalog changes, in this process or in another one of the same state."""
# MC-06, ST-01

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Generator, Hashable
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from toolwire.core.catalog import Catalog
from toolwire.core.codec import NO_REMOTE_CHANGES, RemoteChanges, Subscription
from toolwire.core.model import Kind, Problem
from toolwire.framing import sse
from toolwire.protocols.mcp.remote_changes import read_remote_changes
from toolwire.server.http.exchange import Exchange, Scope
from toolwire.server.http.messages import send_response
from toolwire.server.http.response_stream import (
    CHECK_S,
    KEEP_ALIVE_S,
    MAX_STREAM_S,
    IsStillAuthorized,
    send_until_disconnect,
)
from toolwire.validation import Scopes, filter_visible

POLL_S: Final = 0.5
"""How often the catalog is polled for changes, in seconds; a poll is one comparison of identities."""

MAX_WAITING: Final = 1_000
"""How many changes in other processes wait for one stream; with more, all that it watches counts as changed."""

MAX_STREAMS: Final = 1_000
MAX_STREAMS_A_CALLER: Final = 50

_FULL = Problem(
    kind=Kind.OVERLOADED,
    message="Too many streams are open. Close one, or try again later.",
    can_retry=True,
    retry_after_ms=60_000,
)


class CallerView(NamedTuple):
    """What a caller with ``scopes`` may see of a catalog, for as long as ``is_still_authorized`` says if it is given.

    ``find_own`` returns the catalog of a caller who is offered other tools than the rest, and ``narrow`` what the rules
    for the caller leave of a catalog.
    """

    scopes: Scopes
    is_still_authorized: IsStillAuthorized | None = None
    find_own: Callable[[], Catalog] | None = None
    narrow: Callable[[Catalog], Catalog] | None = None

    def find_catalog(self, catalog: Catalog) -> Catalog:
        """Return what is offered to the caller, whatever their scopes: ``catalog``, or a list of their own."""
        return catalog if self.find_own is None else self.find_own()

    def __call__(self, catalog: Catalog) -> Catalog:
        """Return the part of ``catalog`` that the caller may see: the same object where that is all."""
        features = self.find_catalog(catalog)
        return filter_visible(features if self.narrow is None else self.narrow(features), self.scopes)

    def permits(self, scopes: frozenset[str]) -> bool:
        """Return whether the caller may see what needs ``scopes``."""
        return self.scopes is None or scopes <= self.scopes


class McpClient(NamedTuple):
    """Who sends a request. ``owner`` is whose its sessions are: two programs that act for one user have their own.

    ``quota_key`` is the key under which its sessions and streams are counted, and ``view`` what it may see.
    """

    owner: Hashable
    quota_key: Hashable
    view: CallerView


class _WaitingChanges:
    """What other processes have told, and one stream has not yet looked at."""

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        self.has_gap = False

    def take(self, view: CallerView) -> RemoteChanges:
        """Return it as the changes of which a caller hears, once."""
        names, has_gap = self.names, self.has_gap
        if not names and not has_gap:
            return NO_REMOTE_CHANGES
        self.names, self.has_gap = {}, False
        return read_remote_changes(names, view.permits, has_gap=has_gap)


class ChangeStreams:
    """The streams of one application. ``find_catalog`` returns what is offered now."""

    def __init__(self, find_catalog: Callable[[], Catalog], is_draining: Callable[[], bool]) -> None:
        self._find_catalog = find_catalog
        self._is_draining = is_draining
        self._open: Counter[Hashable] = Counter()
        self._waiting: set[_WaitingChanges] = set()

    @property
    def has_readers(self) -> bool:
        """Whether any stream is open."""
        return bool(self._waiting)

    def report_changes(self, names: Collection[str], *, has_gap: bool) -> None:
        """Tell all streams what changed in another process; ``has_gap``: more has changed, and it is not known what."""
        for one in self._waiting:
            one.names.update(dict.fromkeys(names))
            one.has_gap |= has_gap
            if len(one.names) > MAX_WAITING:  # its client does not read
                one.names, one.has_gap = {}, True

    @contextmanager
    def track_changes(self, view: CallerView) -> Generator[Callable[[], RemoteChanges], None, None]:
        """Give a function that returns what has changed in other processes since its last call, or since now."""
        waiting = _WaitingChanges()
        self._waiting.add(waiting)
        try:
            yield lambda: waiting.take(view)
        finally:
            self._waiting.discard(waiting)

    async def run(
        self,
        scope: Scope,
        exchange: Exchange,
        subscription: Subscription,
        client: McpClient,
        *,
        ended: asyncio.Event | None = None,
    ) -> None:
        """Send what ``subscription`` writes for each change, until the client leaves or the server stops.

        One caller has at most 50 streams, and all together have at most 1,000. ``ended`` ends the stream when it is
        set.
        """
        owner, view = client.quota_key, client.view
        if self._open.total() >= MAX_STREAMS or self._open[owner] >= MAX_STREAMS_A_CALLER:
            await send_response(scope, exchange, subscription.refuse(_FULL))
            return
        self._open[owner] += 1
        ended = asyncio.Event() if ended is None else ended
        # From here on, and not only from the first turn of the task: nothing that changes meanwhile is missed.
        with self.track_changes(view) as take_changes:
            sending = self._send_changes(exchange, subscription, view, take_changes, ended)
            try:
                await send_until_disconnect(exchange, sending)
            finally:
                self._open[owner] -= 1
                if not self._open[owner]:
                    del self._open[owner]

    async def _send_changes(
        self,
        exchange: Exchange,
        subscription: Subscription,
        view: CallerView,
        take_changes: Callable[[], RemoteChanges],
        ended: asyncio.Event,
    ) -> None:
        send, loop = exchange.send, asyncio.get_running_loop()
        # What is compared first is what was offered before the client heard that it is listened to.
        whole = view.find_catalog(self._find_catalog())
        seen = view(whole)
        await send({"type": "http.response.start", "status": 200, "headers": list(subscription.headers)})
        await send({"type": "http.response.body", "body": subscription.opening(seen), "more_body": True})
        begun = last_sent = checked = loop.time()
        while not self._is_draining() and not ended.is_set() and loop.time() - begun < MAX_STREAM_S:
            with suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), POLL_S)
            if view.is_still_authorized is not None and loop.time() - checked >= CHECK_S:
                checked = loop.time()
                if not await view.is_still_authorized():  # D-38: who has lost their access hears of nothing more
                    break
            data, changes = b"", take_changes()
            if (now := view.find_catalog(self._find_catalog())) is not whole or changes is not NO_REMOTE_CHANGES:
                whole, before, seen = now, seen, seen if now is whole else view(now)
                data = subscription.frame(before, seen, changes)
            if subscription.frame_updates is not None:
                data += subscription.frame_updates(seen, changes)
            if not data and loop.time() - last_sent >= KEEP_ALIVE_S:
                data = sse.COMMENT  # a comment: a proxy keeps the connection, and a client that is gone is noticed
            if data:
                last_sent = loop.time()
                await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": subscription.closing})
