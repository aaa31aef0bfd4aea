"""How much of anything one exchange with a server may take."""

from __future__ import annotations

from dataclasses import dataclass

from toolwire.core.selection import DOCUMENT_BYTES

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportLimits:
    """The bounds of one exchange. Seconds end in ``_s``, sizes in ``_bytes``. [XL-012, D-13, D-14]

    ``connect_s`` is for each address tried, ``total_s`` for everything from the lookup of the name to the last byte.
    ``response_bytes`` counts the body after decompression. A stream that is heard while it arrives has ``stream_s``
    and ``stream_bytes`` in their place. A body may not grow to more than ``ratio`` times what came over the wire once
    it is larger than ``ratio_after_bytes``. ``header_count`` is the number of header fields. ``redirects`` is the
    number of hops followed. Checked addresses are used for ``pin_s``, then the name is looked up and checked again.
    """

    connect_s: float = 5.0
    total_s: float = 30.0
    response_bytes: int = 16 * MIB
    stream_s: float = 600.0
    stream_bytes: int = 256 * MIB
    header_bytes: int = 64 * 1024
    header_count: int = 256
    ratio: int = 100
    ratio_after_bytes: int = MIB
    redirects: int = 3
    pin_s: float = 60.0


DISCOVERY_LIMITS = TransportLimits(response_bytes=DOCUMENT_BYTES)
"""The bounds of a look at a server: a document that describes tools may be larger than an answer to a call."""
