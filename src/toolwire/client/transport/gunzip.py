"""Decompress gzip in small steps, so that the caller can stop a decompression bomb in time."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

_STEP_BYTES = 256 * 1024
_GZIP = 31  # for zlib: a gzip header and trailer, and the largest window


class Gunzip:
    """One gzip stream. ``read_bytes`` is the number of compressed bytes that were read."""

    __slots__ = ("_stream", "read_bytes")

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(_GZIP)
        self.read_bytes: int = 0

    def decompress(self, piece: bytes) -> Iterator[bytes]:
        """Yield the decompressed bytes of ``piece``, at most 256 KiB at a time.

        Raises:
            ValueError: the data is not gzip, or a second stream follows the first; only bombs need one.
        """
        while piece:
            # RFC 1952, 2.2 allows several members in a file. A server has no reason to send more than one.
            if self._stream.eof:
                raise ValueError("data after the end of the gzip stream")
            try:
                step = self._stream.decompress(piece, _STEP_BYTES)
            except zlib.error as error:
                raise ValueError("not gzip") from error
            rest = self._stream.unconsumed_tail or self._stream.unused_data
            self.read_bytes += len(piece) - len(rest)
            yield step
            piece = rest

    @property
    def is_complete(self) -> bool:
        """Whether the stream has ended with a valid checksum."""
        return self._stream.eof
