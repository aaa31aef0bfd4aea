"""Define the limits of one exchange with a server."""

from __future__ import annotations

from dataclasses import dataclass

from toolwire.core.selection import DOCUMENT_BYTES

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportLimits:
    """The limits of one exchange. Names of seconds end in ``_s``, names of sizes in ``_bytes``.

    ``connect_s`` limits the connection to each address, ``total_s`` all from the DNS lookup to the last byte.
    ``response_bytes`` limits the body after decompression. A stream that is read while it arrives has ``stream_s`` and
    ``stream_bytes`` instead. A body larger than ``ratio_after_bytes`` may be at most ``ratio`` times as large as its
    compressed form. ``header_count`` limits the header fields, and ``redirects`` the redirects that are followed.
    Checked addresses are used for ``pin_s``; then the name is resolved and checked again. After ``breaker_failures`` in
    a row, an origin is not asked for some seconds; 0 asks it always. ``breaker_name`` is what metrics call the server
    then; without it, they contain the origin.
    """

    # XL-012, D-13, D-14: a server can be slow, large or hostile, and none of that may exhaust the client.

    connect_s: float = 5.0
    total_s: float = 30.0
    response_bytes: int = 16 * MIB
    stream_s: float = 600.0
    stream_bytes: int = 256 * MIB
    header_bytes: int = 64 * 1024
    header_count: int = 256
    ratio: int = 100  # D-14
    ratio_after_bytes: int = MIB
    redirects: int = 3  # XL-011
    pin_s: float = 60.0
    breaker_failures: int = 0
    breaker_name: str = ""


BREAKER_FAILURES = 5
"""After so many failed requests in a row, a connection does not ask its server for some seconds."""

DEFAULT_LIMITS = TransportLimits()
"""The limits of a call."""

DISCOVERY_LIMITS = TransportLimits(response_bytes=DOCUMENT_BYTES)
"""The limits of discovery: a document that describes tools may be larger than the response to a call."""
