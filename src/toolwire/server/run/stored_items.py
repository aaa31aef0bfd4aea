"""Keep the items of a stream for its result, within limits, or only count them where nobody needs the list."""
# GR-02

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from toolwire.core.ledger import CallEnding, build_ending, get_state
from toolwire.core.model import LOG_EVENT, PROGRESS_EVENT, Call, Json, Kind, Problem, Progress, Result, Tool, Value
from toolwire.core.toolbox import Notify
from toolwire.framing import jsontext

MAX_ITEMS: Final = 10_000
"""The most items of one stream: a generator that never ends must not run for ever."""

MAX_ITEM_BYTES: Final = 64 << 20
"""The most bytes of JSON that the items of one result may have."""

MAX_RECORDED_BYTES: Final = 4 << 20
"""The most bytes of the items that are kept for a call ledger, which keeps no larger result of one call."""

_NO_ITEMS = (PROGRESS_EVENT, LOG_EVENT)


class StoredItems:
    """The items of one stream of the tool ``name``. With ``takes_items`` they are only counted."""

    def __init__(self, name: str, *, takes_items: bool) -> None:
        self._name = name
        self._takes_items = takes_items
        self._count = self._bytes = 0
        self._items: list[Json] = []

    def add(self, item: Json) -> Problem | None:
        """Keep ``item``; return the Problem that ends the stream if it is one too many."""
        if self._count == MAX_ITEMS:
            return self._refuse(f"{MAX_ITEMS:,} items.")
        self._count += 1
        if self._takes_items:
            return None
        self._bytes += measure_item(item)
        if self._bytes > MAX_ITEM_BYTES:
            self._items.clear()
            return self._refuse(
                f"{MAX_ITEM_BYTES >> 20} MiB of items, which is the limit for one result. "
                "Call it over OpenTool's /streamCall without an idempotency key: that has no such limit."
            )
        self._items.append(item)
        return None

    def build_result(self) -> Value:
        """Return the list of all items; an empty one if they were only counted."""
        return Value(self._items)

    def _refuse(self, text: str) -> Problem:
        return Problem(kind=Kind.TOOL_FAILED, message=f"{self._name} sent more than {text}")


class RecordedItems:
    """Passes the items of a stream on, and keeps a beginning that is large enough for a call ledger."""

    def __init__(self, notify: Notify) -> None:
        self._notify = notify
        self._items: list[Json] = []
        self._bytes = 0

    async def notify(self, progress: Progress) -> None:
        """Keep ``progress`` if it is an item, and pass it on."""
        if progress.event not in _NO_ITEMS:
            self._bytes += measure_item(progress.value)
            if self._bytes <= MAX_RECORDED_BYTES:
                self._items.append(progress.value)
            else:
                self._items.clear()
        await self._notify(progress)

    def build_ending(self, tool: Tool, result: Result) -> CallEnding | None:
        """Return the ending to record for a call of ``tool`` that ended with ``result`` after these items."""
        if isinstance(result, Problem) or not self._bytes:
            return build_ending(tool, result)
        if self._bytes <= MAX_RECORDED_BYTES:
            return build_ending(tool, Value(self._items, result.notes))
        why = f"its {self._bytes:,} bytes of items were too large to keep"
        loss = Problem(kind=Kind.INTERNAL, message=f"The call has already run and is not run again, but {why}.")
        return CallEnding(get_state(result), loss, pinned=True)


def measure_item(item: Any) -> int:
    """Return how many bytes ``item`` has as JSON, or about as many for a text; 0 if it is no JSON."""
    if type(item) is str:
        return len(item) + 2
    try:
        return len(jsontext.write(item))
    except (TypeError, ValueError, RecursionError):
        return 0


def store_items(call: Call) -> Call:
    """Return ``call`` so that its result lists all items of its stream."""
    return call._replace(context=replace(call.context, takes_items=False)) if call.context.takes_items else call
