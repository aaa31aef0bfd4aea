"""Keep bytes that are too large or too binary for a model, under handles that the model may pass on.

Rules:
- Only the host creates handles. A text that a model invents leads to no file and to no other user's bytes.
- If there is no more room, the oldest bytes are dropped first.
"""
# D-35: the rules above.

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import blake2b
from threading import Lock

HANDLE_PREFIX = "resource:"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultLimits:
    """The limits for reading a result, and for the part of it that a model gets at once.

    - ``bytes``: the largest response that is read as data, and the most that is stored of a stream.
    - ``items``: the most items that are read from a stream.
    - ``characters``: the longest result that a model gets whole. A model gets the first part of a longer result, and
      reads the rest with the tool ``read_result``.
    """

    # XL-103, XL-106, QF-10

    bytes: int = 16 * 1024 * 1024
    characters: int = 20_000
    items: int = 10_000


DEFAULT_RESULT_LIMITS = ResultLimits()

COMPLETE_RESULTS = ResultLimits(bytes=1 << 40, characters=1 << 40, items=1 << 40)
"""No limit of its own, for what is not given to a model; those of the transport hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """Bytes with their media type and file name (empty for none)."""

    data: bytes = field(repr=False)
    media_type: str = "application/octet-stream"
    name: str = ""


class Resources:
    """Keep at most ``most`` resources, of at most ``most_bytes`` in total. Thread-safe.

    ``salt`` is random bytes: handles of one instance mean nothing to another.
    """

    __slots__ = ("_bytes", "_lock", "_most", "_most_bytes", "_salt", "_stored")

    def __init__(self, salt: bytes, *, most: int = 256, most_bytes: int = 64 * 1024 * 1024) -> None:
        self._salt = blake2b(salt, digest_size=32).digest()
        self._most, self._most_bytes = most, most_bytes
        self._stored: OrderedDict[str, Resource] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def store(self, resource: Resource) -> str:
        """Return the handle of ``resource``, or ``""`` if it is larger than all the room there is."""
        if len(resource.data) > self._most_bytes:
            return ""
        digest = blake2b(resource.data, digest_size=16, key=self._salt)
        digest.update(f"\0{resource.media_type}\0{resource.name}".encode("utf-8", "replace"))
        handle = HANDLE_PREFIX + digest.hexdigest()
        with self._lock:
            if handle not in self._stored:
                self._stored[handle] = resource
                self._bytes += len(resource.data)
            self._stored.move_to_end(handle)
            while len(self._stored) > self._most or self._bytes > self._most_bytes:
                self._bytes -= len(self._stored.popitem(last=False)[1].data)
        return handle

    def find(self, handle: str) -> Resource | None:
        """Return the resource of ``handle``, or ``None`` if there is no such handle or the bytes were dropped."""
        with self._lock:
            return self._stored.get(handle)
