"""Bytes that stay with the host: what is too large or too binary for a model, kept under handles that it may pass on.

Rules:
- A handle is given out by the host alone; no text a model makes up leads to a file or to another's bytes.
- The oldest bytes go first where there is no more room.
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
    """How much of one result is given to whoever called; the whole stays under a handle.

    ``bytes`` is how large an answer is read at all, ``characters`` how long its JSON or text may be, ``items`` how
    many events of a stream are waited for.
    """

    # XL-103, XL-106

    bytes: int = 1024 * 1024
    characters: int = 100_000
    items: int = 10_000


DEFAULT_RESULT_LIMITS = ResultLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """Some bytes, what they are, and the file name they go by (empty for none)."""

    data: bytes = field(repr=False)
    media_type: str = "application/octet-stream"
    name: str = ""


class Resources:
    """Keeps at most ``most`` resources of ``most_bytes`` together. Threads may share one.

    ``salt`` makes the handles of one keeper useless to anybody else: give it bytes nobody can guess.
    """

    __slots__ = ("_bytes", "_kept", "_lock", "_most", "_most_bytes", "_salt")

    def __init__(self, salt: bytes, *, most: int = 256, most_bytes: int = 64 * 1024 * 1024) -> None:
        self._salt = blake2b(salt, digest_size=32).digest()
        self._most, self._most_bytes = most, most_bytes
        self._kept: OrderedDict[str, Resource] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def keep(self, resource: Resource) -> str:
        """Return the handle of ``resource``, or ``""`` where it alone is more than is kept."""
        if len(resource.data) > self._most_bytes:
            return ""
        digest = blake2b(resource.data, digest_size=16, key=self._salt)
        digest.update(f"\0{resource.media_type}\0{resource.name}".encode("utf-8", "replace"))
        handle = HANDLE_PREFIX + digest.hexdigest()
        with self._lock:
            if handle not in self._kept:
                self._kept[handle] = resource
                self._bytes += len(resource.data)
            self._kept.move_to_end(handle)
            while len(self._kept) > self._most or self._bytes > self._most_bytes:
                self._bytes -= len(self._kept.popitem(last=False)[1].data)
        return handle

    def find(self, handle: str) -> Resource | None:
        """Return what is kept under ``handle``, or None: it was never given out, or has made room for others."""
        with self._lock:
            return self._kept.get(handle)
