"""Read streams item by item: server-sent events, JSON Lines (ndjson) and JSON sequences.

Rules:
- The first bytes decide the format: a record separator, the start of a JSON value, or a field of an event.
- An item is read as JSON if possible, else as text. An item has at most 1 MiB.
- Listeners get every item; the result contains as many as the limits allow, and is else marked.
"""
# XL-106, D-13, XL-103

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from toolwire.core.model import Json, Problem, Progress
from toolwire.core.resources import ResultLimits
from toolwire.framing import jsontext, sse, truncate_json

_SEPARATOR = b"\x1e"
_START_OF_JSON = frozenset(b'{["-0123456789tfn')
_UTF_8_MARK = b"\xef\xbb\xbf"


class StreamLimitReached(ValueError):  # it ends a stream that has brought enough
    """The limit of items has been reached; the stream is stopped."""


class _Item(NamedTuple):
    event: str
    text: str


class StreamReader:
    """Reads one stream. ``begun``: some bytes have arrived; ``truncated``: not all items are kept."""

    def __init__(self, caps: ResultLimits, clean: Callable[[Json], Json]) -> None:
        self._caps, self._clean = caps, clean
        self._decoder: _Records | _Events | None = None
        self._room = caps.bytes - 2
        self._count = 0
        self.items: list[Json] = []
        self.has_begun: bool = False
        self.is_truncated: bool = False

    def feed(self, piece: bytes) -> Iterator[Progress]:
        """Yield each item that ``piece`` completes.

        Raises:
            ValueError: an item is too large.
            StreamLimitReached: the stream has more items than the limit.
        """
        self.has_begun = True
        if self._decoder is None:
            piece = piece.removeprefix(_UTF_8_MARK).lstrip(b" \t\r\n")
            if not piece:
                return
            self._decoder = _choose_decoder(piece)
        for item in self._decoder.feed(piece):
            yield self._add_item(item)

    def end(self) -> None:
        """Add the last item if only the separator after it is missing."""
        for item in self._decoder.end() if self._decoder is not None else ():
            self._add_item(item)

    def _add_item(self, item: _Item) -> Progress:
        if self._count >= self._caps.items:
            self.is_truncated = True
            raise StreamLimitReached(f"more than {self._caps.items:,} items were received")
        self._count += 1
        value = self._clean(_read_value(item.text))
        cost = truncate_json.count_characters(value) + 1
        # After the first item that does not fit none is kept, so that the result is a beginning without gaps.
        if cost <= self._room and not self.is_truncated:
            self.items.append(value)
            self._room -= cost
        else:
            self.is_truncated = True
        return Progress(value, item.event)


def _read_value(text: str) -> Json:
    data = jsontext.read(text.encode())
    return text if isinstance(data, Problem) else data


def _choose_decoder(start: bytes) -> _Records | _Events:
    if start[:1] == _SEPARATOR:
        return _Records(_SEPARATOR)
    # The bytes decide: many servers send lines of JSON with the media type of events, and the other way round.
    return _Records(b"\n") if start[0] in _START_OF_JSON else _Events()


class _Records:
    """Items between separators: lines, or the records of a JSON sequence."""

    __slots__ = ("_pending", "_separator", "_waiting")

    def __init__(self, separator: bytes) -> None:
        self._separator = separator
        self._pending: list[bytes] = []
        self._waiting = 0

    def feed(self, piece: bytes) -> Iterator[_Item]:
        *whole, rest = piece.split(self._separator)
        if whole:
            # Pieces are joined once for each record: adding each to a growing text would be quadratic.
            whole[0] = b"".join((*self._pending, whole[0]))
            self._pending, self._waiting = [], 0
        self._pending.append(rest)
        self._waiting += len(rest)
        for record in whole:
            yield from self._item(record)
        if self._waiting > sse.MAX_EVENT:
            raise ValueError(f"an item is larger than {sse.MAX_EVENT} bytes")

    def end(self) -> Iterator[_Item]:
        return self._item(b"".join(self._pending))

    def _item(self, record: bytes) -> Iterator[_Item]:
        record = record.strip()
        if len(record) > sse.MAX_EVENT:
            raise ValueError(f"an item is larger than {sse.MAX_EVENT} bytes")
        if record:
            yield _Item("data", record.decode("utf-8", "replace"))


class _Events:
    """Server-sent events; one without a name is called ``data``."""

    __slots__ = ("_decoder",)

    def __init__(self) -> None:
        self._decoder = sse.Decoder()

    def feed(self, piece: bytes) -> Iterator[_Item]:
        for event in self._decoder.feed(piece):
            yield _Item("data" if event.name == "message" else event.name, event.data)

    def end(self) -> tuple[_Item, ...]:
        return ()  # an event without its empty line was cut off, and its specification drops it
