"""Collect one response piece by piece, never more than the limits allow.

Rules:
- Sizes are counted as the pieces arrive, after decompression. A declared size can only end the exchange sooner.
- Only gzip is decompressed, once, and only in small steps.
"""

# D-13: a response is bounded. D-14: a small response must not grow into a large one.

from __future__ import annotations

import zlib
from collections.abc import Iterator

from toolwire.core.http import Headers, Response
from toolwire.core.model import Problem
from toolwire.framing.stream_types import is_stream

from .credential_echoes import NO_ECHOES, CredentialEchoes
from .failures import bad_response
from .limits import TransportLimits

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


class ResponseCollector:
    """Collects a response: call ``begin`` once, ``add_piece`` for each piece, then ``build_response``.

    The first Problem ends it. After ``begin``, ``is_streaming`` says whether the response is a stream and the caller
    reads streams: then ``drain`` returns what has arrived since the last time, and nothing is kept. ``has_pieces`` says
    that there is something to drain; the head of a stream alone is an empty piece.
    """

    __slots__ = (
        "_echoes",
        "_gunzip",
        "_headers",
        "_limits",
        "_max_bytes",
        "_origin",
        "_pieces",
        "_size",
        "_status",
        "_wire",
        "has_pieces",
        "is_streaming",
        "unread_bytes",
    )

    def __init__(
        self, origin: str, limits: TransportLimits, *, streaming: bool = False, echoes: CredentialEchoes = NO_ECHOES
    ) -> None:
        self._origin, self._limits, self._echoes = origin, limits, echoes
        self._max_bytes = limits.response_bytes
        self.is_streaming: bool = streaming
        self.has_pieces: bool = False
        self._status = 0
        self._headers: Headers = ()
        self._pieces: list[bytes] = []
        self._size = self._wire = 0
        self.unread_bytes: int = 0
        self._gunzip: Gunzip | None = None

    def begin(self, status: int, fields: Headers) -> Problem | None:
        """Take the status and the header fields; names are in lower case, values in ASCII."""
        size, media, codings = 0, b"", list[str]()
        for name, value in fields:
            # Four bytes for the colon, the space and the line break.
            size += len(name) + len(value) + 4
            if name == b"content-encoding":
                codings += _codings(value.decode("ascii"))
            elif name == b"content-type" and not media:
                media = value
        if size > self._limits.header_bytes:
            return bad_response(f"{self._origin} sent too many headers.", "too_large")
        # The caller gets decompressed bytes, so the fields that describe the compressed ones are wrong.
        if codings == ["gzip"]:
            self._gunzip = Gunzip()
            fields = [field for field in fields if field[0] not in (b"content-encoding", b"content-length")]
        elif codings:
            return bad_response(f"{self._origin} used a content encoding that was not requested.", "encoding")
        self._status = status
        self.is_streaming = self.is_streaming and 200 <= status < 300 and is_stream(media.decode("ascii"))
        self._max_bytes = self._limits.stream_bytes if self.is_streaming else self._limits.response_bytes
        # MC-09: who listens for questions must know that the server has the stream, which may say nothing for long.
        self.has_pieces = self.is_streaming
        self._headers = tuple(fields if self._echoes is NO_ECHOES else self._echoes.remove_from_fields(fields))
        return None

    def add_piece(self, piece: bytes) -> Problem | None:
        """Take the next piece of the body as it arrived."""
        self._wire += len(piece)
        if self._wire > self._max_bytes:
            return self._too_large()
        if self._gunzip is not None:
            return self._inflate(self._gunzip, piece)
        self._size += len(piece)
        self._pieces.append(piece)
        self.unread_bytes += len(piece)
        self.has_pieces = self.is_streaming
        return None

    def drain(self) -> bytes:
        """Return what has arrived since the last time, and forget it."""
        piece = b"".join(self._pieces)
        self._pieces.clear()
        self.unread_bytes = 0
        self.has_pieces = False
        return self._echoes.remove_from(piece, self._status)

    def build_response(self) -> Response | Problem:
        """Return the complete response, after the body has ended."""
        if self._gunzip is not None and self._wire and not self._gunzip.is_complete:
            return self._not_gzip()
        # Most responses arrive in one piece: then nothing is copied.
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        if self._echoes is not NO_ECHOES:
            body = self._echoes.remove_from(body, self._status)
        return Response(self._status, self._headers, body)

    def _inflate(self, gunzip: Gunzip, piece: bytes) -> Problem | None:
        """Decompress ``piece``, and stop as soon as it is known to be a bomb."""
        try:
            for step in gunzip.decompress(piece):
                self._size += len(step)
                if self._is_bomb(gunzip):
                    text = f"The answer of {self._origin} grows too large when it is decompressed."
                    return bad_response(text, "too_large")
                if self._size > self._max_bytes:
                    return self._too_large()
                self._pieces.append(step)
                self.unread_bytes += len(step)
                self.has_pieces = self.is_streaming
        except ValueError:
            return self._not_gzip()
        return None

    def _is_bomb(self, gunzip: Gunzip) -> bool:
        return self._size > self._limits.ratio_after_bytes and self._size > self._limits.ratio * gunzip.read_bytes

    def _too_large(self) -> Problem:
        text = f"{self._origin} sent more than the maximum of {self._max_bytes} bytes."
        return bad_response(text, "too_large")

    def _not_gzip(self) -> Problem:
        return bad_response(f"{self._origin} declared gzip, but its answer is not valid gzip.", "encoding")


def _codings(value: str) -> list[str]:
    # RFC 9110, 8.4.1.3: x-gzip is another name of gzip.
    names = (part.strip().lower() for part in value.split(","))
    return ["gzip" if name == "x-gzip" else name for name in names if name not in ("", "identity")]
