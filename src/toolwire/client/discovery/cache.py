"""What was fetched while looking at servers, kept as long as HTTP lets it.

Rules:
- Fresh for as long as the server says, 300 s where it says nothing, and never over 24 h. [XL-016]
- Then it is asked for again with its ETag or date; where that fails, what is kept serves for another 24 h, marked.
- ``no-store`` is not kept, and what one key was shown is never given to another.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import TypeAlias

from toolwire.core.http import Request, Response, get_header
from toolwire.core.model import Problem
from toolwire.framing.dates import parse_timestamp

Steps: TypeAlias = Generator[Request, Response | Problem, Response | Problem]

DAY_S = 24 * 3_600.0
DEFAULT_S = 300.0

_NOT_MODIFIED = 304
_SERVER_ERROR = 500
_DIRECTIVE = re.compile(r"([A-Za-z-]+)(?:\s*=\s*(?:\"([^\"]*)\"|([^\s,;]+)))?")
_MAX_BYTES = 64 * 1024 * 1024
_MAX_ENTRIES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedResponse:
    """A response as it is kept. Times are seconds since 1970; ``stale`` means that it could not be asked for again."""

    response: Response
    fetched_at: float
    fresh_until: float
    etag: str = ""
    last_modified: str = ""
    stale: bool = False
    strict: bool = False


class Cache:
    """Keeps responses in memory, by URL and by the identity of the credential that they were for, ``""`` for none.

    ``clock`` gives seconds since 1970.
    """

    __slots__ = ("_clock", "_entries")

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._entries: dict[tuple[str, str], CachedResponse] = {}

    def now(self) -> float:
        """Return the time by the clock that decides what is fresh."""
        return self._clock()

    def find(self, url: str, identity: str = "") -> CachedResponse | None:
        """Return what is kept of ``url`` for that credential."""
        return self._entries.get((url, identity))

    def store(self, url: str, response: Response, identity: str = "") -> None:
        """Keep what was read without asking a server: only so that it can be told what was read, and when."""
        now = self._clock()
        self._store((url, identity), CachedResponse(response=response, fetched_at=now, fresh_until=now))

    def expire(self, url: str, identity: str = "") -> None:
        """Make the next look at ``url`` ask the server again, whatever it said of freshness. [OQ-4]"""
        kept = self.find(url, identity)
        if kept is not None:
            self._entries[url, identity] = replace(kept, fresh_until=self._clock())

    def fetch(self, request: Request, identity: str = "") -> Steps:
        """Return the response to ``request``, yielding what has to be asked of the server for it, if anything."""
        if request.method != "GET":
            return (yield request)
        key = (request.url, identity)
        kept, now = self._entries.get(key), self._clock()
        if kept is not None and kept.fetched_at <= now < kept.fresh_until:
            return kept.response
        answer = yield _make_conditional(request, kept)
        now = self._clock()
        if kept is not None and isinstance(answer, Response) and answer.status == _NOT_MODIFIED:
            return self._store(key, _build_entry(_merge_headers(kept.response, answer), now)) or kept.response
        failed = isinstance(answer, Problem) or answer.status >= _SERVER_ERROR
        if kept is not None and failed and not kept.strict and kept.fetched_at <= now < kept.fresh_until + DAY_S:
            self._entries[key] = replace(kept, stale=True)
            return kept.response
        if isinstance(answer, Response):
            self._entries.pop(key, None)
            if answer.status == 200:
                self._store(key, _build_entry(answer, now))
        return answer

    def _store(self, key: tuple[str, str], kept: CachedResponse | None) -> Response | None:
        if kept is None or len(kept.response.body) > _MAX_BYTES:
            self._entries.pop(key, None)
            return None
        self._entries.pop(key, None)
        self._entries[key] = kept
        size = sum(len(one.response.body) for one in self._entries.values())
        while len(self._entries) > _MAX_ENTRIES or size > _MAX_BYTES:
            size -= len(self._entries.pop(next(iter(self._entries))).response.body)
        return kept.response


def _make_conditional(request: Request, kept: CachedResponse | None) -> Request:
    if kept is None:
        return request
    fields = list(request.headers)
    if kept.etag:
        fields.append((b"if-none-match", kept.etag.encode("latin-1")))
    if kept.last_modified:
        fields.append((b"if-modified-since", kept.last_modified.encode("latin-1")))
    return request._replace(headers=tuple(fields))


def _merge_headers(response: Response, not_modified: Response) -> Response:
    """Return ``response`` with the header fields that a 304 brought in place of its own."""
    names = {name for name, _ in not_modified.headers}
    fields = [field for field in response.headers if field[0] not in names]
    return response._replace(headers=(*fields, *not_modified.headers))


def _build_entry(response: Response, now: float) -> CachedResponse | None:
    said = _parse_directives(get_header(response.headers, b"cache-control"))
    if "no-store" in said or get_header(response.headers, b"vary").strip() == "*":
        return None
    fresh_s = min(max(_find_freshness_s(response, said, now), 0.0), DAY_S)
    return CachedResponse(
        response=response,
        fetched_at=now,
        fresh_until=now + fresh_s,
        etag=get_header(response.headers, b"etag"),
        last_modified=get_header(response.headers, b"last-modified"),
        strict="must-revalidate" in said,
    )


def _find_freshness_s(response: Response, said: dict[str, str], now: float) -> float:
    if "no-cache" in said:
        return 0.0
    if "max-age" in said:
        return _parse_seconds(said["max-age"]) - _parse_seconds(get_header(response.headers, b"age"))
    expires = get_header(response.headers, b"expires")
    if expires:
        date = parse_timestamp(get_header(response.headers, b"date"))
        until = parse_timestamp(expires)
        return 0.0 if until is None else until - (now if date is None else date)
    return DEFAULT_S


def _parse_directives(text: str) -> dict[str, str]:
    return {name.lower(): quoted or plain for name, quoted, plain in _DIRECTIVE.findall(text[:2_048])}


def _parse_seconds(text: str) -> float:
    return float(text) if text.isascii() and text.isdigit() and len(text) < 12 else 0.0
