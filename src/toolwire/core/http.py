"""Requests and responses as plain values: what a codec reads and writes, with no network in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MethodType
from typing import NamedTuple, TypeAlias, cast

from .model import Kind, Secret
from .url_display import show_url

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]
"""Header fields in order; names in lower case."""

JSON_HEADERS: Headers = ((b"content-type", b"application/json"),)


class Request(NamedTuple):
    """One HTTP request.

    ``url`` is absolute on a client and ``/path?query`` on a server. ``id`` is what the server calls this
    request; it serves as the call id where the caller gave none. ``signed`` says that a client's request carries its
    credentials already, so that the network adds none. ``approved`` says that a person saw exactly this request: it is
    not repeated at another path. ``opens_session`` says that it only opens a session at the place of a call
    and runs nothing. ``credentials`` are those in it: they are taken out of what comes back. (A named
    tuple: one is made for each call.)
    """

    method: str
    url: str
    headers: Headers = ()
    body: bytes = b""
    id: str = ""
    signed: bool = False
    approved: bool = False
    credentials: tuple[Secret, ...] = ()
    opens_session: bool = False

    def __repr__(self) -> str:
        """Say where it goes: what stands in headers, query and body may be secret."""
        return f"Request({self.method} {show_url(self.url)}, {len(self.body):,} bytes)"


class Response(NamedTuple):
    """One HTTP response, whole."""

    status: int
    headers: Headers = ()
    body: bytes = b""


make_request = cast(
    "Callable[[tuple[str, str, Headers, bytes, str, bool, bool, tuple[Secret, ...], bool]], Request]",
    MethodType(tuple.__new__, Request),
)
"""Make a Request of all its parts, at half the cost of its name: for what is made for each call."""
make_response = cast("Callable[[tuple[int, Headers, bytes]], Response]", MethodType(tuple.__new__, Response))
"""Make a Response of all its parts, likewise."""


STATUS_BY_KIND: dict[Kind, int] = {
    Kind.MALFORMED: 400,
    Kind.UNSUPPORTED_TYPE: 415,
    Kind.TOO_LARGE: 413,
    Kind.TOO_SLOW: 408,
    Kind.NOT_FOUND: 404,
    Kind.WRONG_METHOD: 405,
    Kind.UNKNOWN_TOOL: 400,
    Kind.INVALID_ARGUMENTS: 422,
    Kind.MISSING_REQUIREMENTS: 400,
    Kind.UNAUTHORIZED: 401,
    Kind.FORBIDDEN: 403,
    Kind.MISDIRECTED: 421,
    Kind.DENIED: 403,
    Kind.UNCONFIRMED: 428,
    Kind.CONFLICT: 400,
    Kind.RATE_LIMITED: 429,
    Kind.OVERLOADED: 503,
    Kind.TOOL_FAILED: 200,
    Kind.TIMEOUT: 200,
    Kind.CANCELLED: 200,
    Kind.INTERRUPTED: 200,
    Kind.UNREACHABLE: 200,
    Kind.BAD_ANSWER: 200,
    Kind.INTERNAL: 200,
}
"""The status of each kind of Problem where a protocol does not say otherwise."""
# OTC-040, OTC-041


def get_header(headers: Headers, name: bytes) -> str:
    """Return the first value of the field ``name`` (lower case), or ``""``."""
    for key, value in headers:
        if key == name:
            return value.decode("latin-1")
    return ""
