"""Hold one session of an MCP host in this process: whose it is, what the host declared, and what of it runs here."""
# MC-10

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable, Mapping
from typing import Final

from toolwire.core.catalog import Catalog
from toolwire.core.codec import NO_REMOTE_CHANGES, RemoteChanges
from toolwire.core.model import Json, Problem
from toolwire.core.server_features import ServerFeatures
from toolwire.framing import jsontext
from toolwire.framing.jsontext import get_text
from toolwire.protocols.mcp import change_notices
from toolwire.protocols.mcp.list_choice import ALL
from toolwire.protocols.mcp.resource_subscriptions import UPDATED
from toolwire.protocols.mcp.revision import LIST_META, NOTICES
from toolwire.server.limits import ServerLimits

from .event_stream import EventStream
from .host import McpHost, write_updates

ELICITATION: Final = "elicitation"
"""What a host declares that can ask its user."""

LISTENING: Final = 0
"""The number of the stream on which a client listens; calls have numbers from 1."""
MAX_NOTICES: Final = 120
"""Room for one notice of each resource that a session may watch, and for those of lists."""


class McpSession:
    """One session. ``node`` is the name of this process, where several processes share the sessions."""

    def __init__(
        self,
        key: bytes,
        owner: Hashable,
        quota_key: Hashable,
        capabilities: Mapping[str, Json],
        limits: ServerLimits,
        *,
        seen: Catalog | None = None,
        node: str = "",
    ) -> None:
        loop = asyncio.get_running_loop()
        self.key = key
        self.owner = owner
        self.quota_key = quota_key
        self.began: float = loop.time()
        self.used: float = self.began
        self.prefix: bytes = f"{node}-".encode() if node else b""
        # Whether the host can be asked in it. A host that cannot be asked can do without a session.
        self.asks: bool = ELICITATION in capabilities
        # FI-01: which list of tools its model has; the one of an older version had all tools.
        self.tool_list: bytes = (get_text(capabilities, LIST_META) or ALL).encode()
        mark = f"{node}-" if node else ""
        self.host: McpHost = McpHost(capabilities, wait_s=limits.answer_s, pong_s=limits.answer_s / 30, mark=mark)
        self.running: dict[bytes, asyncio.Task[None]] = {}
        self.streams: dict[int, EventStream] = {}
        self.next_number = LISTENING + 1
        self.listening: asyncio.Event | None = None
        # What the host was told of: the tools as it knows them, and the last notices with their numbers.
        self.seen = seen
        self.notices: deque[tuple[int, bytes]] = deque(maxlen=MAX_NOTICES)
        self.noticed: int = 0
        # Only where several processes share the session: when it was last looked for, the number of the last update
        # that was looked at, and the resources of which the host is to be told.
        self.found_at: float = self.began
        self.position = 0
        self.updated: dict[str, None] = {}
        self.listens_since = 0

    @property
    def is_busy(self) -> bool:
        """Whether something of the session runs here."""
        return bool(self.running) or self.listening is not None

    def is_over(self, now: float, limits: ServerLimits) -> bool:
        """Return whether the session was not used for too long, or is too old."""
        is_idle = not self.is_busy and now - self.used > limits.session_idle_s
        return is_idle or now - self.began > limits.session_s

    def end(self) -> None:
        """Cancel what runs, and end the stream on which the client listens."""
        self.host.cancel_questions()
        for task in list(self.running.values()):
            task.cancel()
        if self.listening is not None:
            self.listening.set()

    def cancel_call(self, id_: bytes) -> bool:
        """Cancel the request with the id ``id_``, JSON text, and return whether it runs here."""
        running = self.running.get(id_)
        if running is not None:
            running.cancel()
        return running is not None

    def has_sent(self, notice: int) -> bool:
        """Return whether this process has sent the notice with this number, and all after it are kept."""
        oldest = self.notices[0][0] if self.notices else self.noticed + 1
        return 0 < notice <= self.noticed and oldest <= notice + 1

    def add_notice(self, before: Catalog, now: Catalog, notified: RemoteChanges = NO_REMOTE_CHANGES) -> bytes:
        """Return the events that tell of the changes between two catalogs, or in other processes, and keep them."""
        changed = {name for name in NOTICES if notified.has_list(name)}
        return self.add_list_notices(change_notices.find_changed(before, now) | changed, now)

    def add_list_notices(self, changed: frozenset[str], now: Catalog) -> bytes:
        """Return the events that tell that the lists ``changed`` are now as in ``now``, and keep them."""
        self.seen = now
        events = b""
        for name, method in NOTICES.items():
            if name in changed:
                events += self._store_notice(jsontext.write({"jsonrpc": "2.0", "method": method}))
        return events

    def add_updates(self, now: Catalog, _: RemoteChanges) -> bytes:
        """Return the events that tell of changed resources to which the host has subscribed, and keep them."""
        return b"".join(self._store_notice(one) for one in write_updates(self.host.subscriptions, now.features))

    def take_updates(self, now: Catalog, _: RemoteChanges = NO_REMOTE_CHANGES) -> bytes:
        """Return the events that tell of the resources in ``updated`` that the host may see, and keep them."""
        if not self.updated:  # twice a second
            return b""
        uris, self.updated = self.updated, {}
        return b"".join(self._store_notice(_write_update(uri)) for uri in uris if _may_see(uri, now.features))

    def _store_notice(self, message: bytes) -> bytes:
        self.noticed += 1
        event = b"id: %b%d-%d\ndata: %b\n\n" % (self.prefix, LISTENING, self.noticed, message)
        self.notices.append((self.noticed, event))
        return event


def _write_update(uri: str) -> bytes:
    return jsontext.write({"jsonrpc": "2.0", "method": UPDATED, "params": {"uri": uri}})


def _may_see(uri: str, features: ServerFeatures) -> bool:
    return not isinstance(features.find_resource(uri), Problem)
