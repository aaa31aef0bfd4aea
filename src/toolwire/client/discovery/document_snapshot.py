"""Remember which documents a connection was made from, how long they are fresh, and whether they changed.

Rules:
- Only documents fetched by GET count. A web page does not: it changes without meaning anything.
- A server that fails has withdrawn nothing, for as long as HTTP lets an older response serve.
"""

# OQ-4, XL-016: what a connection rests on decides when it must be checked again.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from math import inf
from typing import NamedTuple, TypeVar

from toolwire.core.codec import Flow, fetch
from toolwire.core.http import Request, Response, get_header
from toolwire.core.model import Kind, Problem

from .cache import DAY_S, Cache, CachedResponse
from .relocation import Relocation

T = TypeVar("T")

_IGNORED_TYPES = ("text/html", "text/event-stream")
_NOT_MODIFIED = 304
_TOO_MANY_REQUESTS = 429
_SERVER_ERROR = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSnapshot:
    """The digest of each document, by the request that fetched it.

    The documents are fresh until ``fresh_until``. If the server fails, they serve until ``serves_until``. Both are
    seconds since 1970. ``optional`` is the URL of a document without which the tools can be called, or empty.
    """

    digests: Mapping[Request, bytes] = field(default_factory=dict)
    optional: str = ""
    fresh_until: float = inf
    serves_until: float = inf

    def expire(self, cache: Cache, identity: str) -> None:
        """Make the next fetch of each document go to the server, however fresh it is."""
        for request in self.digests:
            cache.expire(request.url, identity)


NO_DOCUMENTS = DocumentSnapshot()
"""The snapshot of a connection without documents, such as to an MCP server: only doubt leads to a new fetch."""


class _FetchedDocument(NamedTuple):
    digest: bytes
    fresh_until: float
    serves_until: float


class SnapshotBuilder:
    """Collects the documents of one discovery. ``relocation`` is its first redirect to another origin, if any.

    ``trust`` stands for the certificates that are trusted. With None, requests have something of this user, and nothing
    is stored for later programs. ``challenged`` are the URLs that wanted credentials.
    """

    __slots__ = ("_documents", "_is_recalled", "cache", "challenged", "identity", "relocation", "trust")

    def __init__(self, cache: Cache, identity: str = "", trust: str | None = None) -> None:
        self.cache: Cache = cache
        self.identity: str = identity
        self.trust: str | None = trust
        self.challenged: set[str] = set()
        self._is_recalled = False
        self._documents: dict[Request, _FetchedDocument] = {}
        self.relocation: Relocation | None = None

    def find(self, request: Request) -> CachedResponse | None:
        """Return the cached response to ``request``, also that of an earlier program, or None."""
        cached = self.cache.find(request.url, self.identity)
        recalled = self.cache.recall(request, self.trust) if cached is None and self.trust is not None else None
        self._is_recalled = recalled is not None
        return cached or recalled

    def store_outcome(self, request: Request, reply: Response, outcome: Response) -> None:
        """Store ``outcome``, which the cache made of ``reply``, for later programs, if anyone gets it."""
        if self.trust is None or request.method != "GET":
            return
        # What a 304 confirms may be a document in memory that once wanted credentials: only a stored one stays stored.
        if reply.status != _NOT_MODIFIED or self._is_recalled:
            self.cache.store_outcome(request, reply, outcome, self.trust, is_public=request.url not in self.challenged)

    def record(self, request: Request, reply: Response | Problem) -> None:
        """Record the reply to ``request``."""
        if isinstance(reply, Problem):
            there = reply.details.get("url")
            # Only the first redirect counts: it is that of the URL which the user gave.
            if self.relocation is None and isinstance(there, str):
                self.relocation = Relocation(request.url, there)
            return
        if request.method != "GET" or not 200 <= reply.status < 300:
            return
        if get_header(reply.headers, b"content-type").lower().startswith(_IGNORED_TYPES):
            return
        cached = self.cache.find(request.url, self.identity)
        # A document that is not cached must be fetched again before it is trusted again.
        fresh_until = self.cache.now() if cached is None else cached.fresh_until
        serves_until = fresh_until if cached is not None and cached.strict else fresh_until + DAY_S
        asked = request._replace(headers=tuple(request.headers))
        self._documents[asked] = _FetchedDocument(_hash_body(reply), fresh_until, serves_until)

    def build(self, url: str) -> DocumentSnapshot:
        """Return the snapshot of all documents, or an empty one if the document at ``url`` was not fetched."""
        if all(request.url != url for request in self._documents):
            return NO_DOCUMENTS
        return DocumentSnapshot(
            digests={request: reading.digest for request, reading in self._documents.items()},
            fresh_until=min(reading.fresh_until for reading in self._documents.values()),
            serves_until=min(reading.serves_until for reading in self._documents.values()),
        )


def refetch(snapshot: DocumentSnapshot, discovery: Flow[T]) -> Flow[T | Problem | None]:
    """Fetch the documents of ``snapshot`` again and return what ``discovery`` returns, or None if nothing changed.

    Return a Problem if the server fails. Documents are compared by their digests, so what did not change is not parsed.
    """
    for request, digest in snapshot.digests.items():
        answer = yield from fetch(request)
        if isinstance(answer, Problem):
            return answer
        if answer.status >= _SERVER_ERROR or answer.status == _TOO_MANY_REQUESTS:
            where = request.url.partition("?")[0]
            text = f"Cannot fetch {where} again: the server answered with status {answer.status}."
            return Problem(kind=Kind.UNREACHABLE, message=text, can_retry=True)
        if answer.status != 200 or _hash_body(answer) != digest:
            return (yield from discovery)
    return None if snapshot.digests else (yield from discovery)


def _hash_body(response: Response) -> bytes:
    return sha256(response.body).digest()
