"""What a discovery found, as it was: which document, from where, when, and the hash of what it said."""

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
    """The document a connection was made from. ``fetched_at`` is in seconds since 1970.

    ``stale`` means that the server could not be asked again, and an older answer serves. [XL-016, XL-017]
    """

    origin: str
    url: str
    fetched_at: float
    etag: str = ""
    stale: bool = False
    body: bytes = field(default=b"", repr=False)

    @cached_property
    def sha256(self) -> str:
        """The hash of the document as canonical JSON, members by name and no space, else of its bytes."""
        data = read_data(self.body, name=self.url).data
        text = self.body if isinstance(data, Problem) else jsontext.write(_sort_members(data))
        return sha256(text).hexdigest()


def build_source(origin: str, url: str, kept: CachedResponse | None) -> DocumentSource | None:
    """Return the source of what came from ``url``, or None where nothing of it is kept."""
    if kept is None:
        return None
    body = kept.response.body
    return DocumentSource(
        origin=origin, url=url, fetched_at=kept.fetched_at, etag=kept.etag, stale=kept.stale, body=body
    )


def find_document_url(peer: Peer, probes: tuple[Probe, ...]) -> str:
    """Return the URL of the look that found ``peer``."""
    return next((one.url for one in probes if one.accepted and one.protocol == peer.protocol), peer.url)


def _sort_members(data: Json) -> Json:
    if isinstance(data, dict):
        return {name: _sort_members(data[name]) for name in sorted(data)}
    return [_sort_members(item) for item in data] if isinstance(data, list) else data
