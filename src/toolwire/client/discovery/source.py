"""Describe the document of a connection: its URL, when it was fetched, and its hash."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256

from toolwire.core.codec import Peer, Probe
from toolwire.core.model import Json, Problem
from toolwire.framing import jsontext
from toolwire.protocols.openapi.document.loading import read_data

from .cache import CachedResponse


@dataclass(frozen=True, kw_only=True)
class DocumentSource:
    """The document that a connection was made from. ``fetched_at`` is in seconds since 1970.

    ``stale`` means that the server could not be asked again, and an older response is used.
    """

    # XL-016, XL-017: a user can see which text decides what is called, and how old it is.

    origin: str
    url: str
    fetched_at: float
    etag: str = ""
    stale: bool = False
    body: bytes = field(default=b"", repr=False)

    @cached_property
    def sha256(self) -> str:
        """The SHA-256 of the document as canonical JSON (sorted members, no spaces), or of its bytes if not JSON."""
        data = read_data(self.body, name=self.url).data
        # Documents that differ only in the order of members, or in spaces, have one hash.
        text = self.body if isinstance(data, Problem) else jsontext.write(_sort_members(data))
        return sha256(text).hexdigest()


def build_source(origin: str, url: str, cached: CachedResponse | None) -> DocumentSource | None:
    """Return the source of the document at ``url``, or None if it is not cached."""
    if cached is None:
        return None
    body = cached.response.body
    return DocumentSource(
        origin=origin, url=url, fetched_at=cached.fetched_at, etag=cached.etag, stale=cached.stale, body=body
    )


def find_document_url(peer: Peer, probes: tuple[Probe, ...]) -> str:
    """Return the URL of the probe that found ``peer``."""
    return next((one.url for one in probes if one.accepted and one.protocol == peer.protocol), peer.url)


def _sort_members(data: Json) -> Json:
    if isinstance(data, dict):
        return {name: _sort_members(data[name]) for name in sorted(data)}
    return [_sort_members(item) for item in data] if isinstance(data, list) else data
