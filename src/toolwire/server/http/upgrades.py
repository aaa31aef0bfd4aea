"""A request that asks for another protocol, served as the HTTP/1.1 request it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httptools

from toolwire.core.model import Kind

if TYPE_CHECKING:  # a connection knows this file, not the other way round
    from .connection import Connection

_FRAMING = (b"content-length", b"transfer-encoding")


def stay(connection: Connection, rest: bytes) -> None:
    """Serve the request whose head ``connection`` has read; ``rest`` begins its body, and nothing follows it."""
    cycle = connection.cycle
    cycle.keep_alive = False
    framing = [(name, value) for name, value in cycle.scope["headers"] if name in _FRAMING]
    if not framing:
        connection.deaf = True
        return
    cycle.more_body = True
    cycle.message_event.clear()
    connection.parser = httptools.HttpRequestParser(_Body(connection))
    head = b"".join(b"%b: %b\r\n" % field for field in framing)
    try:
        connection.parser.feed_data(b"POST / HTTP/1.1\r\n" + head + b"\r\n")
        connection.parser.feed_data(rest)
    except httptools.HttpParserError:
        connection.refuse(400, Kind.MALFORMED, "The body is not framed as HTTP/1.1 asks for.")


class _Body:
    """The parser's listener for one body; what follows it is not heard."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._whole = False

    def on_body(self, body: bytes) -> None:
        if not self._whole:
            self._connection.on_body(body)

    def on_message_complete(self) -> None:
        self._whole = True
        self._connection.on_message_complete()
