"""What a connection rests on: the documents it was made from, until when they are fresh, and if they still say that.

Rules:
- Only what was fetched by GET counts, and no page for people: those change without meaning anything.
- A server that fails has taken nothing back, for as long as HTTP lets an older answer serve. [XL-016]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from math import inf
from typing import NamedTuple, TypeVar

from toolwire.core.codec import Flow, fetch
from toolwire.core.http import Request, Response, get_header
from toolwire.core.model import Kind, Problem

from .cache import DAY_S, Cache
from .relocation import Relocation

T = TypeVar("T")

_IGNORED_TYPES = ("text/html", "text/event-stream")
_TOO_MANY_REQUESTS = 429
_SERVER_ERROR = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSnapshot:
    """The digest of each document by the request that got it.

    They are fresh until ``fresh_until``, and serve until ``serves_until`` where the server fails; both are in seconds
    since 1970. [OQ-4]
    """

    digests: Mapping[Request, bytes] = field(default_factory=dict)
    fresh_until: float = inf
    serves_until: float = inf

    def expire(self, cache: Cache, identity: str) -> None:
        """Make the next look ask the server for each of the documents, however fresh they are. [OQ-4]"""
        for request in self.digests:
            cache.expire(request.url, identity)


NO_DOCUMENTS = DocumentSnapshot()
"""That of a connection made without documents, as to an MCP server: it is looked at again only where there is doubt."""


class _FetchedDocument(NamedTuple):
    digest: bytes
    fresh_until: float
    serves_until: float


class SnapshotBuilder:
    """Collects what the looks of one discovery were given. ``move`` is where the first of them was sent elsewhere."""

    __slots__ = ("_cache", "_documents", "identity", "relocation")

    def __init__(self, cache: Cache, identity: str = "") -> None:
        self._cache = cache
        self.identity = identity
        self._documents: dict[Request, _FetchedDocument] = {}
        self.relocation: Relocation | None = None

    def record(self, request: Request, came: Response | Problem) -> None:
        """Take in what came back for ``request``."""
        if isinstance(came, Problem):
            there = came.details.get("url")
            if self.relocation is None and isinstance(there, str):
                self.relocation = Relocation(request.url, there)
            return
        if request.method != "GET" or not 200 <= came.status < 300:
            return
        if get_header(came.headers, b"content-type").lower().startswith(_IGNORED_TYPES):
            return
        kept = self._cache.find(request.url, self.identity)
        fresh_until = self._cache.now() if kept is None else kept.fresh_until
        serves_until = fresh_until if kept is not None and kept.strict else fresh_until + DAY_S
        asked = request._replace(headers=tuple(request.headers))
        self._documents[asked] = _FetchedDocument(_hash_body(came), fresh_until, serves_until)

    def build(self, url: str) -> DocumentSnapshot:
        """Return what rests on the document at ``url``: all that was read, or nothing where that one was not."""
        if all(request.url != url for request in self._documents):
            return NO_DOCUMENTS
        return DocumentSnapshot(
            digests={request: reading.digest for request, reading in self._documents.items()},
            fresh_until=min(reading.fresh_until for reading in self._documents.values()),
            serves_until=min(reading.serves_until for reading in self._documents.values()),
        )


def refetch(snapshot: DocumentSnapshot, discovery: Flow[T]) -> Flow[T | Problem | None]:
    """Return what is found now, None where everything is as it was, or a Problem where that cannot be told.

    The documents are compared first: what did not change is not read again. [OQ-4]
    """
    for request, digest in snapshot.digests.items():
        answer = yield from fetch(request)
        if isinstance(answer, Problem):
            return answer
        if answer.status >= _SERVER_ERROR or answer.status == _TOO_MANY_REQUESTS:
            where = request.url.partition("?")[0]
            text = f"{where} could not be looked at again: it answers with status {answer.status}."
            return Problem(kind=Kind.UNREACHABLE, message=text, can_retry=True)
        if answer.status != 200 or _hash_body(answer) != digest:
            return (yield from discovery)
    return None if snapshot.digests else (yield from discovery)


def _hash_body(response: Response) -> bytes:
    return sha256(response.body).digest()
