"""Define requests and responses as plain values, which codecs read and write without a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MethodType
from typing import Final, NamedTuple, TypeAlias, cast

from .model import Kind, Secret
from .url_display import show_url

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]
"""Header fields in order, with lower-case names."""

JSON_HEADERS: Headers = ((b"content-type", b"application/json"),)
EVENT_HEADERS: Headers = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    # I-32: a proxy that keeps a response until it ends holds a question back. nginx and others obey this.
    (b"x-accel-buffering", b"no"),
)
"""The fields of a stream of events."""


# A named tuple is cheap to make, and one is made for each call.
class Request(NamedTuple):
    """One HTTP request.

    - ``url``: absolute on a client, ``/path?query`` on a server.
    - ``id``: the server's id of the request. It becomes the call id if the caller gave none.
    - ``signed``: the request already has its credentials, so the network adds none.
    - ``approved``: a user saw exactly this request, so it is not repeated at another path.
    - ``opens_session``: the request only opens a session at the URL of a call and runs no tool.
    - ``credentials``: the credentials in the request, which are removed from whatever comes back.
    - ``scopes``: what a sign-in must allow for this request, as its server declares; ``None`` if it declares nothing.
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
    scopes: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        """Show only method and URL: headers, query and body may hold secrets."""
        return f"Request({self.method} {show_url(self.url)}, {len(self.body):,} bytes)"


class Response(NamedTuple):
    """One complete HTTP response."""

    status: int
    headers: Headers = ()
    body: bytes = b""


SIGN_IN_PAGE: Final = b"Sign-In-Page"
"""The header field that the network adds where a redirect led to a sign-in page instead of a result, with its path.

No server can send it: the names that arrive are turned to lower case.
"""

_RequestFields: TypeAlias = (
    "tuple[str, str, Headers, bytes, str, bool, bool, tuple[Secret, ...], bool, tuple[str, ...] | None]"
)
make_request: Final = cast("Callable[[_RequestFields], Request]", MethodType(tuple.__new__, Request))
"""Make a ``Request`` from a tuple of all fields, in half the time of ``Request(...)``: one is made for each call."""
make_response: Final = cast("Callable[[tuple[int, Headers, bytes]], Response]", MethodType(tuple.__new__, Response))
"""Make a ``Response`` in the same way."""


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
    Kind.ACCEPTED: 200,
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
"""The status of each kind of Problem, unless a protocol has its own."""
# OTC-040, OTC-041


def get_header(headers: Headers, name: bytes) -> str:
    """Return the first value of the field ``name`` (lower case), or ``""``."""
    for key, value in headers:
        if key == name:
            return value.decode("latin-1")
    return ""
