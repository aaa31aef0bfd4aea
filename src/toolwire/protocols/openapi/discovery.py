"""Finding out whether a site offers OpenAPI operations to models, by GETs alone. Every look is a Probe.

Rules:
- A pasted document is looked at first; then llm.json and what it names, the two conventional places, the pasted
  page, and an openapi.json beside it. [XL-001..007]
- The conventional places count only with a root ``x-llm``; a document on another origin never counts. [XL-004, XL-015]
- No URL is asked for twice.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from toolwire.core.codec import Finding, Flow, Peer, Probe, fetch
from toolwire.core.http import Request, Response, header
from toolwire.core.model import Json, Problem
from toolwire.framing import jsontext

from . import operations
from .policy import extension, read_site
from .servers import join, origin

NAME = "openapi"
WELL_KNOWN = "/.well-known/llm.json"
CONVENTIONAL = ("/.well-known/openapi.json", "/openapi.json")

_HEADERS = ((b"accept", b"application/json"),)
_DOCUMENT_ENDINGS = (".json", ".yaml", ".yml")
_LLM_JSON_BYTES = 64 * 1024
_DOCUMENT_BYTES = 16 * 1024 * 1024
_STATUS_MEANS = {
    401: "needs a key",
    403: "needs a key: this one may not look",
    404: "there is nothing here",
    405: "takes no GET",
    410: "there is nothing here any more",
}


class _Sort(StrEnum):
    LLM_JSON = "llm.json"
    NAMED = "named"
    CONVENTION = "convention"


class _Look(NamedTuple):
    url: str
    sort: _Sort


class _Sight(NamedTuple):
    """What one look gave: its meaning, and a Peer, or where to look next."""

    meaning: str
    peer: Peer | None = None
    next: _Look | None = None


def find(url: str) -> Flow[Finding]:
    """Return the tools that the site of ``url`` offers by OpenAPI, if any, and every look that was taken. [XL-005]"""
    home = origin(url)
    if home is None:
        return Finding(None, (Probe(NAME, url, None, "is not the URL of a site"),))
    probes: list[Probe] = []
    seen: set[str] = set()
    looks = deque(_looks(url, home))
    while looks:
        look = looks.popleft()
        if look.url in seen:
            continue
        seen.add(look.url)
        answer = yield from fetch(Request("GET", look.url, _HEADERS))
        sight = _sight(look, answer, home)
        status = None if isinstance(answer, Problem) else answer.status
        probes.append(Probe(NAME, look.url, status, sight.meaning, sight.peer is not None))
        if sight.peer is not None:
            return Finding(sight.peer, tuple(probes))
        if sight.next is not None:
            looks.appendleft(sight.next)
    return Finding(None, tuple(probes))


def _looks(url: str, home: str) -> list[_Look]:
    """Return where to look, in order. What a person names exactly comes before what a site names."""
    parts = urlsplit(url)
    pasted = _at(home, url)
    first = [_Look(home + WELL_KNOWN, _Sort.LLM_JSON), *(_Look(home + path, _Sort.CONVENTION) for path in CONVENTIONAL)]
    beside = _Look(home + (parts.path.rpartition("/")[0] + "/openapi.json"), _Sort.NAMED)
    page = [_Look(pasted, _Sort.NAMED)] if parts.path not in ("", "/") or parts.query else []
    if parts.path.endswith(_DOCUMENT_ENDINGS) and parts.path != WELL_KNOWN:
        return [*page, *first, beside]
    return [*first, *page, beside]


def _at(home: str, url: str) -> str:
    """Return ``url``, which is on the origin ``home``, in its one spelling: no fragment, no default port."""
    parts = urlsplit(url)
    return home + (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _sight(look: _Look, answer: Response | Problem, home: str) -> _Sight:
    if isinstance(answer, Problem):
        return _Sight(answer.message)
    if not 200 <= answer.status < 300:
        return _Sight(_STATUS_MEANS.get(answer.status, f"answers with status {answer.status}"))
    limit = _LLM_JSON_BYTES if look.sort is _Sort.LLM_JSON else _DOCUMENT_BYTES
    if len(answer.body) > limit:
        return _Sight(f"is larger than {limit:,} bytes")
    data = jsontext.read(answer.body.removeprefix(b"\xef\xbb\xbf"))
    if isinstance(data, Problem):
        return _Sight(_not_json(answer, look.url))
    if not isinstance(data, dict):
        return _Sight("is JSON, but neither an llm.json nor an OpenAPI document")
    return _document(look, data) if _is_document(data) else _llm_json(look, data, home)


def _is_document(data: dict[str, Any]) -> bool:
    return "swagger" in data or ("openapi" in data and ("paths" in data or "info" in data))


def _llm_json(look: _Look, data: dict[str, Json], home: str) -> _Sight:
    reference = data.get("openapi")
    if not isinstance(reference, str) or not reference or look.sort is _Sort.CONVENTION:
        return _Sight("is JSON, but no OpenAPI document" + (" and no llm.json of ours" if reference is None else ""))
    url = join(look.url, reference)
    where = origin(url) if url is not None else None
    if url is None or where is None:
        return _Sight("is an llm.json, but what it names is no URL")
    if where != home:
        return _Sight(f"is an llm.json that names a document on another site, {where[:200]}: that is refused")
    return _Sight("is an llm.json: it names the document", next=_Look(_at(home, url), _Sort.NAMED))


def _document(look: _Look, document: dict[str, Any]) -> _Sight:
    if look.sort is _Sort.CONVENTION and not isinstance(extension(document), dict):
        reason = operations.unfit(document)
        return _Sight(reason or "is an OpenAPI document whose root has no x-llm")
    reason = operations.unfit(document)
    if reason:
        return _Sight(reason)
    offer = operations.read(document, look.url)
    site = read_site(document).name
    peer = Peer(protocol=NAME, url=look.url, catalog=offer.catalog, site=site, memo=offer.memo)
    left_out = f", {len(offer.memo.findings)} findings" if offer.memo.findings else ""
    return _Sight(f"is an OpenAPI document with x-llm; tools: {len(offer.catalog.tools)}{left_out}", peer)


def _not_json(answer: Response, url: str) -> str:
    media_type = header(answer.headers, b"content-type").lower()
    start = answer.body[:512].lstrip()
    if "yaml" in media_type or urlsplit(url).path.endswith((".yaml", ".yml")) or start.startswith(b"openapi:"):
        return "is YAML, which is not read yet: ask the site for its document as JSON"
    if "html" in media_type or start[:1] == b"<":
        return "is a web page"
    return "is not JSON"
