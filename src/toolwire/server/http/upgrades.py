"""Parse the body of a request that asks to switch to another protocol: it is served as the HTTP/1.1 request it is."""

from __future__ import annotations

from collections.abc import Callable

import httptools

from toolwire.core.http import Headers

_FRAMING = (b"content-length", b"transfer-encoding")


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
