"""Cache what discovery fetches, for as long as HTTP allows.

Rules:
- A response is fresh for as long as the server says, 300 s if it says nothing, and never longer than 24 h.
- After that it is requested again with its ETag or date. If that fails, it serves for another 24 h, marked as stale.
- A ``no-store`` response is not kept. What was fetched with one credential is never given to another.
- What an earlier program stored is used if its server confirms it, or offline; see ``stored_documents``.
"""

# XL-016: documents are cached as HTTP allows, and a server that fails has not withdrawn them.

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from toolwire.client.transport.failures import is_offline
from toolwire.core.http import Request, Response, get_header
from toolwire.core.model import Problem
from toolwire.framing.dates import parse_timestamp

from .stored_documents import StoredDocuments, forbids_keeping, forbids_storing, open_stored_documents, read_directives

DAY_S = 24 * 3_600.0
DEFAULT_S = 300.0

_NOT_MODIFIED = 304
_TOO_MANY_REQUESTS = 429
_SERVER_ERROR = 500
_MAX_BYTES = 64 * 1024 * 1024
_MAX_ENTRIES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedResponse:
    """A cached response. Times are seconds since 1970.

    ``stale`` means that the server could not be asked again. ``strict`` (``must-revalidate``) means that the response
    must not serve after ``fresh_until``. ``recalled`` says that an earlier program stored it.
    """

    response: Response
    fetched_at: float
    fresh_until: float
    etag: str = ""
    last_modified: str = ""
    stale: bool = False
    strict: bool = False
    recalled: bool = False


class Cache:
    """Keeps responses in memory, by URL and by the identity of the credential (``""`` for none).

    ``clock`` returns seconds since 1970. ``stored`` holds the documents that outlive the program. See
    ``open_document_cache``.
    """

    __slots__ = ("_clock", "_entries", "_stored")

    def __init__(self, clock: Callable[[], float] = time.time, *, stored: StoredDocuments | None = None) -> None:
        self._clock = clock
        self._stored = stored
        self._entries: dict[tuple[str, str], CachedResponse] = {}

    @property
    def is_offline(self) -> bool:
        """Whether only stored documents are used, and servers are never asked."""
        return self._stored is not None and self._stored.offline

    @property
    def has_store(self) -> bool:
        """Whether documents outlive the program."""
        return self._stored is not None

    def now(self) -> float:
        """Return the cache's current time, in seconds since 1970."""
        return self._clock()

    def find(self, url: str, identity: str = "") -> CachedResponse | None:
        """Return the cached response of ``url`` for that credential, even if it is stale, or None."""
        return self._entries.get((url, identity))

    def recall(self, request: Request, trust: str) -> CachedResponse | None:
        """Return the response to ``request`` that an earlier program stored, or None. It is never fresh."""
        stored = None if self._stored is None else self._stored.read(request, trust)
        if stored is None:
            return None
        response, at = stored
        # Strict: a server that fails is not spoken for by what another program saw.
        return replace(_build_validated(response, fetched_at=at, fresh_until=at, strict=True), recalled=True)

    def store_outcome(
        self, request: Request, reply: Response, outcome: Response, trust: str, *, is_public: bool
    ) -> None:
        """Store ``outcome`` for later programs. ``receive`` made it from the server's ``reply``.

        ``trust`` identifies the trusted certificates. The stored response is deleted if the new one is not
        ``is_public``, forbids storing, or says that the document is gone.
        """
        if self._stored is None or reply.status >= _SERVER_ERROR or reply.status == _TOO_MANY_REQUESTS:
            return
        if not is_public or forbids_storing(reply):
            self._stored.remove(request, trust)
        else:
            self._stored.write(request, outcome, trust, self._clock())

    def store(self, url: str, response: Response, identity: str = "") -> None:
        """Store a document that did not come from a server, so that its source and time can be shown."""
        now = self._clock()
        self._store((url, identity), CachedResponse(response=response, fetched_at=now, fresh_until=now))

    def expire(self, url: str, identity: str = "") -> None:
        """Send the next request of ``url`` to the server, even if the cached response is fresh."""
        cached = self.find(url, identity)
        if cached is not None:
            self._entries[url, identity] = replace(cached, fresh_until=self._clock())

    def prepare(self, request: Request, cached: CachedResponse | None) -> Request | Response:
        """Return the ``cached`` response to ``request`` if it is fresh, else the request with its validators."""
        if cached is None:
            return request
        if cached.fetched_at <= self._clock() < cached.fresh_until:
            return cached.response
        return _make_conditional(request, cached)

    def receive(
        self, request: Request, cached: CachedResponse | None, reply: Response | Problem, identity: str = ""
    ) -> Response | Problem:
        """Return the response to ``request`` and cache it. ``reply`` answered the request from ``prepare``."""
        if request.method != "GET":
            return reply
        key, now = (request.url, identity), self._clock()
        # TE-02: another request may have changed the entry while this one was on its way.
        present = self._entries.get(key)
        if present is None and cached is not None and cached.recalled:
            present = cached
        if cached is not None and isinstance(reply, Response) and reply.status == _NOT_MODIFIED:
            # A 304 confirms the body that was asked about, and its fields say for how long it is fresh now.
            confirmed = _build_entry(_merge_headers(cached.response, reply), now)
            return (self._store(key, confirmed) if present is cached else None) or cached.response
        if cached is not None and present is not None:
            has_failed = isinstance(reply, Problem) or reply.status >= _SERVER_ERROR
            # A clock that was set back makes the age negative: then the age is unknown.
            can_serve = not present.strict and present.fetched_at <= now < present.fresh_until + DAY_S
            if is_offline(reply) or (has_failed and can_serve):
                self._entries[key] = replace(present, stale=present is cached or present.stale)
                return present.response
        if isinstance(reply, Response):
            self._entries.pop(key, None)
            if reply.status == 200:
                self._store(key, _build_entry(reply, now))
        return reply

    def _store(self, key: tuple[str, str], cached: CachedResponse | None) -> Response | None:
        if cached is None or len(cached.response.body) > _MAX_BYTES:
            self._entries.pop(key, None)
            return None
        # Removed first, so that the newest entry is the last one: the oldest are dropped below.
        self._entries.pop(key, None)
        self._entries[key] = cached
        size = sum(len(one.response.body) for one in self._entries.values())
        while len(self._entries) > _MAX_ENTRIES or size > _MAX_BYTES:
            size -= len(self._entries.pop(next(iter(self._entries))).response.body)
        return cached.response


def _make_conditional(request: Request, cached: CachedResponse) -> Request:
    fields = list(request.headers)
    if cached.etag:
        fields.append((b"if-none-match", cached.etag.encode("latin-1")))
    if cached.last_modified:
        fields.append((b"if-modified-since", cached.last_modified.encode("latin-1")))
    return request._replace(headers=tuple(fields))


def _merge_headers(response: Response, not_modified: Response) -> Response:
    """Return ``response`` with its header fields replaced by those of a 304 response."""
    # RFC 9111, section 4.3.4: the new fields replace the stored ones.
    names = {name for name, _ in not_modified.headers}
    fields = [field for field in response.headers if field[0] not in names]
    return response._replace(headers=(*fields, *not_modified.headers))


def _build_entry(response: Response, now: float) -> CachedResponse | None:
    if forbids_keeping(response):
        return None
    directives = read_directives(response)
    fresh_s = min(max(_find_freshness_s(response, directives, now), 0.0), DAY_S)
    return _build_validated(response, fetched_at=now, fresh_until=now + fresh_s, strict="must-revalidate" in directives)


def _build_validated(response: Response, *, fetched_at: float, fresh_until: float, strict: bool) -> CachedResponse:
    """Return ``response`` with the fields by which its server can be asked for changes."""
    return CachedResponse(
        response=response,
        fetched_at=fetched_at,
        fresh_until=fresh_until,
        etag=get_header(response.headers, b"etag"),
        last_modified=get_header(response.headers, b"last-modified"),
        strict=strict,
    )


def _find_freshness_s(response: Response, directives: dict[str, str], now: float) -> float:
    # RFC 9111, 5.2.2.4: no-cache lets a client keep a response, but not use it without asking the server.
    if "no-cache" in directives:
        return 0.0
    # RFC 9111, 5.1: Age is the time since the origin made or confirmed it, so that much of max-age has passed.
    if "max-age" in directives:
        return _parse_seconds(directives["max-age"]) - _parse_seconds(get_header(response.headers, b"age"))
    expires = get_header(response.headers, b"expires")
    if expires:
        date = parse_timestamp(get_header(response.headers, b"date"))
        until = parse_timestamp(expires)
        # RFC 9111, 5.3: an Expires that is no date is in the past.
        return 0.0 if until is None else until - (now if date is None else date)
    return DEFAULT_S


def _parse_seconds(text: str) -> float:
    return float(text) if text.isascii() and text.isdigit() and len(text) < 12 else 0.0


def open_document_cache(folder: Path | None = None, *, offline: bool = False) -> Cache:
    """Return a Cache for ``connect(..., cache=...)`` whose documents outlive the program.

    They are stored in ``folder``. The default is ``toolwire/documents`` in XDG_CACHE_HOME or ~/.cache. Only documents
    that the server gives to anyone are stored. With ``offline``, only stored documents are used. No server is asked,
    and no call can be made.
    """
    return Cache(stored=open_stored_documents(folder, offline=offline))
