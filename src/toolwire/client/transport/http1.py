"""Write HTTP/1.1 requests and read HTTP/1.1 responses, without sockets.

Responses are parsed by llhttp, the parser of Node.js (through httptools). It is strict about framing; what it leaves
open is decided in ``ResponseReader``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from toolwire.core.http import Response
from toolwire.core.model import Problem
from toolwire.core.version import __version__

from .failures import bad_response, early_close
from .limits import TransportLimits
from .response_reader import ResponseCollector

if TYPE_CHECKING:
    from .request_rules import SendRequest

_USER_AGENT = f"toolwire/{__version__}"
_METHODS_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_FRAMING_PER_BODY_BYTE = 16
"""How many bytes of framing, such as chunk sizes, are allowed for each byte of a body. A one-byte chunk needs five."""
_SWITCHING_PROTOCOLS = 101
_VERSIONS = ("1.1", "1.0")


def write_request(hop: SendRequest) -> bytes:
    """Return the bytes of the request in ``hop``. ``request_rules`` has checked its parts."""
    target, base = hop.target, ""
    proxied = hop.proxy if target.url.scheme == "http" else None  # with https, the request is inside a tunnel
    if proxied is not None:
        base = target.origin
    # D-14: only gzip is offered, because only gzip is decompressed within limits.
    lines = [
        f"{hop.method} {base}{target.request_target} HTTP/1.1\r\nhost: {target.authority}\r\naccept-encoding: gzip"
    ]
    named = set[str]()
    for name, value in hop.fields:
        named.add(name.lower())
        lines.append(f"{name}: {value}")
    for name, secret in hop.secrets:
        named.add(name.lower())
        lines.append(f"{name}: {secret.reveal()}")
    if proxied is not None and proxied.authorization is not None:
        lines.append(f"proxy-authorization: {proxied.authorization.reveal()}")
    if "accept" not in named:
        lines.append("accept: */*")
    if "user-agent" not in named:
        lines.append(f"user-agent: {_USER_AGENT}")
    # Without a length, a server may wait for the body of a POST until it times out.
    if hop.body or hop.method in _METHODS_WITH_BODY:
        lines.append(f"content-length: {len(hop.body)}")
    lines.append("\r\n")
    return "\r\n".join(lines).encode("latin-1") + hop.body


class ResponseReader:
    """Reads one response: call ``feed`` with each piece of a connection, and ``end`` after the last.

    ``is_done`` is True after the response is complete or has failed; ``outcome`` then returns which. ``is_reusable`` is
    True if the connection can carry another request. No method raises.
    """

    __slots__ = (
        "_body_bytes",
        "_codings",
        "_collector",
        "_field_count",
        "_fields",
        "_has_length",
        "_head_complete",
        "_header_bytes",
        "_header_count",
        "_interim",
        "_is_head",
        "_origin",
        "_parser",
        "_problem",
        "_until_end",
        "_wire_bytes",
        "is_done",
        "is_reusable",
        "status",
    )

    def __init__(self, origin: str, method: str, collector: ResponseCollector, limits: TransportLimits) -> None:
        self._origin, self._collector, self._is_head = origin, collector, method == "HEAD"
        self._header_bytes, self._header_count = limits.header_bytes, limits.header_count
        self._fields: list[tuple[bytes, bytes]] = []
        self._codings: list[bytes] = []
        self._has_length = False
        self._wire_bytes = self._body_bytes = self._field_count = 0
        self.status: int = 0
        self._head_complete = self._interim = self._until_end = False
        self._problem: Problem | None = None
        self.is_done: bool = False
        self.is_reusable: bool = False
        self._parser = HttpResponseParser(self)
        # Small servers end lines with a bare line feed. This connection is shared with no other client, so a header
        # field that ends at another place cannot smuggle a response to anyone.
        self._parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True)

    @property
    def has_pieces(self) -> bool:
        """Whether a stream has unread pieces; its head alone is an empty one."""
        return self._collector.has_pieces

    @property
    def unread_bytes(self) -> int:
        """The number of unread bytes of a stream."""
        return self._collector.unread_bytes

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the connection."""
        self._wire_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self.is_reusable = False  # after a complete response, only the data behind it is wrong
            self._fail_not_http()
        # Endless header fields or chunk extensions never reach the body limits.
        if self._wire_bytes - self._body_bytes > self._header_bytes + _FRAMING_PER_BODY_BYTE * self._body_bytes:
            self._fail(self._too_many_headers())

    def end(self, *, orderly: bool = True) -> None:
        """Take the end of the connection. ``orderly`` is False if it broke instead of being closed."""
        self.is_reusable = False
        if self._head_complete and self._until_end and orderly:
            self.is_done = True
        self._fail(early_close(self._origin, answered=self._wire_bytes > 0))

    def fail(self, problem: Problem) -> None:
        """End with ``problem``, unless the response is complete."""
        self._fail(problem)

    def outcome(self) -> Response | Problem:
        """Return the response, or the Problem it ended with. Call it after ``is_done`` is True."""
        return self._problem if self._problem is not None else self._collector.build_response()

    # The parser calls these methods. They do not raise: ``_problem`` holds what is wrong.

    def on_message_begin(self) -> None:
        """Take the start of a message."""
        if self.is_done:
            self.is_reusable = False  # a second response to one request

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take one header field."""
        if self.is_done or self._head_complete:
            return  # no call needs a trailer
        name = name.lower()
        self._field_count += 1
        if name == b"transfer-encoding":
            self._codings.append(value.strip().lower())
        elif name == b"content-length":
            self._has_length = True
        if value.isascii():  # other bytes are no text in any agreed encoding
            self._fields.append((name, value))
        if self._field_count > self._header_count:
            self._fail(self._too_many_headers())

    def on_headers_complete(self) -> None:
        """Take the end of the header fields, which may be those of an interim response."""
        if self.is_done:
            return
        self.status = self._parser.get_status_code()
        if self.status < 200 and self.status != _SWITCHING_PROTOCOLS:
            self._interim = True
            self._clear_fields()
            return
        # HTTP/0.9 has no framing, and an upgrade leaves HTTP: neither is a response to a call.
        strange = self._parser.get_http_version() not in _VERSIONS or self.status == _SWITCHING_PROTOCOLS
        if strange or self._codings not in ([], [b"chunked"]):
            self._fail_not_http()
            return
        self._head_complete = True
        self._until_end = not self._codings and not self._has_length
        problem = self._collector.begin(self.status, self._fields)
        if problem is not None:
            self._fail(problem)
        elif self._is_head:
            self.is_done = True  # the parser would wait for a body of the declared length

    def on_body(self, piece: bytes) -> None:
        """Take a piece of the body."""
        if self.is_done:
            return
        self._body_bytes += len(piece)
        problem = self._collector.add_piece(piece)
        if problem is not None:
            self._fail(problem)

    def on_message_complete(self) -> None:
        """Take the end of a message."""
        if self._interim:
            self._interim = False
        elif not self.is_done:
            self.is_done = True
            self.is_reusable = self._parser.should_keep_alive()

    def _clear_fields(self) -> None:
        """Forget the fields of an interim response."""
        self._fields.clear()
        self._codings.clear()
        self._field_count, self._has_length = 0, False

    def _fail(self, problem: Problem) -> None:
        if not self.is_done:
            self.is_done, self._problem = True, problem

    def _fail_not_http(self) -> None:
        self._fail(bad_response(f"{self._origin} did not answer with HTTP.", "not_http"))

    def _too_many_headers(self) -> Problem:
        return bad_response(f"{self._origin} sent too many headers.", "too_large")
