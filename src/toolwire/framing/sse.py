"""Write server-sent events, and read them from chunks of any size."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator
from typing import NamedTuple

MAX_EVENT = 1 << 20
COMMENT = b": \n\n"
"""What a reader skips. It keeps a proxy from ending a stream on which nothing happens."""
_RETRY_DIGITS = 9


class Event(NamedTuple):
    """One event: its name (``message`` where none was given) and its data, lines joined by a newline."""

    name: str
    data: str


def write(name: str, data: bytes) -> bytes:
    """Return one frame, exactly ``event:NAME`` and ``data:DATA``; ``data`` holds no line break."""
    #
    return b"event:" + name.encode() + b"\ndata:" + data + b"\n\n"


class Decoder:
    """Decode chunks of a stream, cut anywhere, into events. A byte order mark before the first one is left out.

    ``last_id`` names the last event that has an id, ``""`` before that; ``retry_ms`` is how long the server wants a
    reader to wait before it comes back, None where it did not say.

    Raises:
        ValueError: from ``feed``, when one event is larger than ``max_event`` bytes.
    """

    def __init__(self, max_event: int = MAX_EVENT) -> None:
        self._max_event = max_event
        self.last_id: str = ""
        self._id = ""
        self.retry_ms: int | None = None
        self._pending: list[bytes] = []  # pieces of a line, joined once: chunks may be of one byte
        self._waiting = 0
        self._name = ""
        self._data: list[str] = []
        self._size = 0
        self._after_cr = False
        self._is_first = True

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Yield each event that ``chunk`` completes, in order."""
        if not chunk:
            return
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")
        self._after_cr = chunk.endswith(b"\r")
        *lines, rest = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        if lines:
            lines[0] = b"".join((*self._pending, lines[0]))
            self._pending, self._waiting = [], 0
        self._pending.append(rest)
        self._waiting += len(rest)
        for line in lines:
            event = self._read_line(line)
            if event is not None:
                yield event
        if self._size + self._waiting > self._max_event:
            raise ValueError(f"an event is larger than {self._max_event} bytes")

    def _read_line(self, line: bytes) -> Event | None:
        if self._is_first:  # I-33
            self._is_first = False
            line = line.removeprefix(BOM_UTF8)
        if not line:
            event = Event(self._name or "message", "\n".join(self._data)) if self._data else None
            self._name, self._data, self._size, self.last_id = "", [], 0, self._id
            return event
        self._size += len(line)
        if self._size > self._max_event:
            raise ValueError(f"an event is larger than {self._max_event} bytes")
        field, _, value = line.partition(b":")
        text = value.removeprefix(b" ").decode("utf-8", "replace")
        if field == b"event":
            self._name = text
        elif field == b"data":
            self._data.append(text)
        elif field == b"id" and "\0" not in text:
            self._id = text
        elif field == b"retry" and text.isascii() and text.isdigit() and len(text) <= _RETRY_DIGITS:
            self.retry_ms = int(text)
        return None
