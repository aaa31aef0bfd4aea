"""Keep what is too long for the model of an MCP host: it gets the first part, and reads the rest with ``read_result``.

Rules:
- A handle is a random word, and only the caller whose call returned the result can use it.
- Results are kept for an hour, and 64 MiB of them: the oldest go first. They are where MCP sessions are shared, so that
  any worker can read them, else in memory. A handle in memory names its process, so that another one can say why it
  does not know it.
- The result of a call that may write cannot be had again. Where results are shared, it is kept as long as a recorded
  call, and no other replaces it: without room for it, it goes out whole.
- A result whose call may be read later as a whole, that of a long call, is not cut, and neither are bytes.
"""
# QF-10: the rules above.

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from secrets import token_hex, token_urlsafe
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeAlias

from anyio import to_thread

from toolwire.core.catalog import Catalog
from toolwire.core.content import has_content
from toolwire.core.json_pointer import MISSING
from toolwire.core.model import Call, Json, Kind, Problem, Result, Value
from toolwire.core.resources import DEFAULT_RESULT_LIMITS, Resource
from toolwire.core.toolbox import Notify, StoresResources, Toolbox, ignore_progress
from toolwire.framing import jsontext
from toolwire.framing.long_result import (
    HANDLE_START,
    CutRule,
    cut_result,
    find_reading_name,
    is_reading,
    mark_part,
    read_part,
    says_more,
    split_text,
)

if TYPE_CHECKING:  # loads sqlite3
    from toolwire.stores.sessions.session_rows import ResultRows

_OPEN_S: Final = 60.0
"""How long a large result stays open after it was read: to read its JSON takes as long as many parts."""

STORED_S: Final = 3_600.0
MAX_BYTES: Final = 64 * 1024 * 1024
_HANDLE_BYTES: Final = 18
_PROCESS_BYTES: Final = 6
_log = logging.getLogger("toolwire")


ResultStore: TypeAlias = "MemoryResults | ResultRows"
"""Keeps results by a digest of their handles and their callers; each method raises ConnectionError if it cannot."""


class MemoryResults:
    """The results of one process. ``clock`` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.process: str = token_hex(_PROCESS_BYTES)
        self._stored: OrderedDict[bytes, tuple[float, bytes]] = OrderedDict()
        self._bytes = 0
        self._clock = clock
        self._lock = Lock()

    def store(self, key: bytes, body: bytes, _keep_s: float = 0.0) -> bool:
        """Keep ``body`` under ``key``; the oldest go if there is no more room."""
        now = self._clock()
        with self._lock:
            self._stored[key] = now, body
            self._bytes += len(body)
            while self._bytes > MAX_BYTES or next(iter(self._stored.values()))[0] < now - STORED_S:
                self._bytes -= len(self._stored.popitem(last=False)[1][1])
        return True

    def find(self, key: bytes) -> bytes | None:
        """Return what is under ``key``, or None."""
        with self._lock:
            stored_at, body = self._stored.get(key, (0.0, None))
        return None if body is None or stored_at < self._clock() - STORED_S else body


class LongResults:
    """A Toolbox that answers calls of ``read_result``, and cuts what other calls return to the models of MCP hosts."""

    def __init__(self, toolbox: Toolbox, characters: int | None, store: ResultStore, keep_s: float) -> None:
        """Cut what is longer than ``characters``; if that is None, what the host's profile and ``CutRule`` say.

        A result that cannot be had again is kept for ``keep_s`` seconds.
        """
        self._toolbox, self._store, self._keep_s = toolbox, store, keep_s
        self._rule: Final = CutRule(characters is None, not isinstance(store, MemoryResults))
        self._read_characters = characters or DEFAULT_RESULT_LIMITS.characters
        self._open: tuple[bytes, Json] | None = None
        self._closing: asyncio.TimerHandle | None = None
        self._prefix: Final = f"{HANDLE_START}{store.process}:" if isinstance(store, MemoryResults) else HANDLE_START

    def catalog(self) -> Catalog:
        """Return the tools of the other Toolbox."""
        return self._toolbox.catalog()

    def resource(self, handle: str, /) -> Resource | None:
        """Return the bytes of a handle, or None if there are none."""
        return self._toolbox.resource(handle) if isinstance(self._toolbox, StoresResources) else None

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        """Run ``call`` and return its result, or the first part of it."""
        if is_reading(call.tool):
            result = await to_thread.run_sync(self._read, call)
            self._close_later()
            return result
        result = await self._toolbox.run(call, notify)
        characters = call.context.part_characters
        if not characters or isinstance(result, Problem) or call.tool.long or has_content(result.value):
            return result
        body = jsontext.write(result.value)
        if len(body) <= characters or len(body.decode()) <= characters:
            return result
        if not self._rule.apply_to(self.catalog()).may_cut(call.tool):
            return result
        return await to_thread.run_sync(self._cut, call, result, body)

    def _cut(self, call: Call, result: Value, body: bytes) -> Value:
        handle = f"{self._prefix}{token_urlsafe(_HANDLE_BYTES)}"
        if len(body) > MAX_BYTES or (self._rule.by_default and says_more(result)):
            return result
        keep_s = 0.0 if call.tool.safe or call.tool.claimed_safe else self._keep_s
        try:
            if not self._store.store(_make_key(call, handle), body, keep_s):
                return result
        except ConnectionError as error:  # the call has run, so its result goes out whole
            _log.warning("a long result cannot be kept: %s", error)
            return result
        name = find_reading_name(self.catalog(), self._rule)
        return mark_part(cut_result(result.value, call.context.part_characters, name, handle))

    def _close_later(self) -> None:
        """Forget the open result once nobody has read it for a while."""
        if self._closing is not None:
            self._closing.cancel()
        self._closing = asyncio.get_running_loop().call_later(_OPEN_S, setattr, self, "_open", None)

    def _load(self, key: bytes, characters: int) -> Json | Problem:
        """Return the result under ``key`` as data, or ``MISSING``; a large one stays open, because it is read again."""
        if self._open is not None and self._open[0] == key:
            return self._open[1]
        body = self._store.find(key)
        if body is None:
            return MISSING
        whole = jsontext.read(body)
        if len(body) >= jsontext.LARGE_BYTES and not isinstance(whole, Problem):
            whole = split_text(whole, characters) if isinstance(whole, str) else whole
            self._open = key, whole
        return whole

    def _read(self, call: Call) -> Result:
        handle, characters = call.arguments.get("handle"), call.context.part_characters or self._read_characters
        try:
            found = self._load(_make_key(call, handle), characters) if isinstance(handle, str) else MISSING
        except ConnectionError as error:
            _log.warning("a long result cannot be read: %s", error)
            return Problem(kind=Kind.UNREACHABLE, message="The result cannot be read now. Try again.", can_retry=True)
        whole = self._explain_miss(str(handle)) if found is MISSING else found
        part = whole if isinstance(whole, Problem) else read_part(whole, call.arguments, characters)
        return part if isinstance(part, Problem) else Value({"result": part.value, "notes": part.notes})

    def _explain_miss(self, handle: str) -> Problem:
        """Return why ``handle`` leads to no result."""
        if handle.startswith(self._prefix) or not _OF_PROCESS.fullmatch(handle):
            return _UNKNOWN
        # Anyone can write such a handle, so it decides nothing but the sentence.
        _log.warning("a long result was asked for that is in the memory of another process: %s", _SHARE)
        return _ELSEWHERE


_OF_PROCESS: Final = re.compile(r"result:[0-9a-f]{12}:.+")
_SHARE: Final = "the replicas of a server need a shared --state, or --result-limit 0 to return each result whole."
_ELSEWHERE: Final = Problem(
    kind=Kind.INVALID_ARGUMENTS,
    message=(
        "The result is in the memory of another process of this server, or the server was restarted. If the call only "
        f"reads, make it again. For the operator: {_SHARE}"
    ),
)
_UNKNOWN: Final = Problem(
    kind=Kind.INVALID_ARGUMENTS,
    message=(
        "No result with this handle is stored: it is older than an hour, or newer results replaced it. If the call "
        "only reads, make it again."
    ),
)


def _make_key(call: Call, handle: str) -> bytes:
    """Return what a result is kept under: the handle of another caller leads nowhere."""
    return sha256(f"{call.context.principal}\0{handle}".encode("utf-8", "replace")).digest()
