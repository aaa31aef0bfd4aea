"""Parse what httptools leaves: request targets, trailers, and the body of a request that asks for another protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from urllib.parse import unquote

import httptools

from toolwire.core.http import Headers
from toolwire.core.url_origin import has_same_origin

FIELD_OVERHEAD = 4
"""The bytes of a header field besides its name and value: a colon, a space and the line end."""

_CACHED_TARGETS = 512
_CACHED_TARGET_BYTES = 256
_FRAMING = (b"content-length", b"transfer-encoding")


def parse_request_target(target: bytes) -> tuple[str, bytes, bytes]:
    """Return the decoded path, the raw path and the query of a request target.

    Raises:
        httptools.HttpParserInvalidURLError: ``target`` is not a valid request target.
    """
    # Clients repeat a few short targets; long ones are not cached, because each could be different and large.
    return _parse_cached(target) if len(target) <= _CACHED_TARGET_BYTES else _parse(target)


def _parse(target: bytes) -> tuple[str, bytes, bytes]:
    parsed = httptools.parse_url(target)
    path = parsed.path.decode("ascii")
    return unquote(path) if "%" in path else path, parsed.path, parsed.query or b""


def has_other_authority(target: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether ``target`` is a URL with another host or port than a Host field of ``headers``, or has none."""
    # D-24, RFC 9112 3.2.2: a proxy goes by the target, and the checks of the server by Host.
    url = target.decode("latin-1")
    scheme, mark, _ = url.partition("://")
    if not mark or "/" in scheme:
        return False
    hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
    return not hosts or not all(has_same_origin(url, f"{scheme}://{host}") for host in hosts)


_parse_cached = lru_cache(_CACHED_TARGETS)(_parse)


class TrailerSink:
    """Count the header fields after a body and drop them.

    It takes the place of the list of head fields once the head is complete. ``get_request`` returns the request whose
    body is being read; ``on_limit`` is called when the trailer of one request has more than ``max_bytes`` bytes.
    """

    # R10, D-24: a trailer must not change the head by which the request was admitted (RFC 9110 6.5).

    def __init__(self, max_bytes: int, get_request: Callable[[], object], on_limit: Callable[[], None]) -> None:
        self._max_bytes = max_bytes
        self._get_request = get_request
        self._on_limit = on_limit
        self._request: object = None
        self._bytes = 0

    def append(self, field: tuple[bytes, bytes]) -> None:
        """Count ``field``, a pair of name and value."""
        request = self._get_request()
        if request is not self._request:
            self._request, self._bytes = request, 0
        self._bytes += len(field[0]) + len(field[1]) + FIELD_OVERHEAD
        if self._bytes > self._max_bytes:
            self._on_limit()


def build_body_parser(
    fields: Headers, on_body: Callable[[bytes], None], on_complete: Callable[[], None]
) -> httptools.HttpRequestParser | None:
    """Return a parser that is ready for the body which ``fields`` announce; None where they announce none.

    Raises:
        httptools.HttpParserError: the framing fields contradict each other.
    """
    # After an upgrade request httptools parses nothing more, so a second parser reads the body. It gets a head of our
    # own with the framing fields alone, because any other field could be another upgrade.
    framing = [field for field in fields if field[0] in _FRAMING]
    if not framing:
        return None
    parser = httptools.HttpRequestParser(_BodyListener(on_body, on_complete))
    head = b"".join(b"%b: %b\r\n" % field for field in framing)
    parser.feed_data(b"POST / HTTP/1.1\r\n" + head + b"\r\n")
    return parser


class _BodyListener:
    """Pass one body on. Whatever follows it is ignored, because the connection closes after its response."""

    def __init__(self, on_body: Callable[[bytes], None], on_complete: Callable[[], None]) -> None:
        self._on_body = on_body
        self._on_complete = on_complete
        self._is_complete = False

    def on_body(self, body: bytes) -> None:
        if not self._is_complete:
            self._on_body(body)

    def on_message_complete(self) -> None:
        self._is_complete = True
        self._on_complete()
