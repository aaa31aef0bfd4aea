"""Find the OpenAPI document of a site with GET requests, and read its operations as tools. Each request is a Probe.

Rules:
- The order: a pasted document; llm.json and the document it names, below a pasted path that ends in ``/`` and then at
  the host; the two conventional paths; an API catalog; the pasted page and the document in its Link field; openapi.json
  beside the page.
- A document at a conventional path needs a root ``x-llm``; one on another origin is never used.
- No URL is requested twice, at most 20 are requested; an llm.json names a document, not another llm.json.
- Referenced documents are read only if the user allows it, and only from the same origin or folder.
"""
# XL-001..008, XL-004, XL-015, CV-17

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from toolwire.core.codec import DeclaredAuth, Finding, Flow, Peer, Probe, fetch
from toolwire.core.http import Request, Response, get_header
from toolwire.core.interpreter import pause_collection
from toolwire.core.model import Json, Problem
from toolwire.core.selection import DEFAULT_SELECTION, Selection
from toolwire.core.url_origin import get_origin, read_origin

from .document import bundle, hidden_text, llm_json, overlay, swagger_20
from .document.consent_policy import get_extension, read_site
from .document.descriptions import clean_text
from .document.findings import SHOWN, Note
from .document.llm_json import Entry
from .document.loading import Loaded, add_overlay_facts, load_document
from .document.paths import CATALOG, CONVENTIONAL, NAME, WELL_KNOWN
from .document.references import References, Unusable
from .document.servers import choose_server, is_beside, join_url, list_unfilled_variables
from .tools import operations

_HEADERS = ((b"accept", b"application/json"),)  # the same field for each protocol, so that they share one response
_DOCUMENT_ENDINGS = (".json", ".yaml", ".yml")
_LLM_JSON_BYTES = 64 * 1024
_MAX_PROBES = 20
_MIN_SIZE = 4_096  # bytes that each document counts at least, so that tiny ones end too
# RFC 8631: "service-desc" is the link to the description of an API that programs read.
_SERVICE_DESC = re.compile(
    r'<([^<>]{1,2048})>\s*;[^<]*?\brel\s*=\s*"?(?:[^";,]{0,200}\s)?service-desc(?:\s|"|;|,|$)', re.ASCII
)
_NO_ROOT = (
    "is an OpenAPI document with operations for models whose root has no x-llm: connect to the URL of this document "
    "itself if you trust it"
)
_HOST_SECTIONS = ("mcpServers", "servers", "context_servers")
"""The member of an MCP host's file that holds its servers: most hosts, VS Code, Zed."""
_NAMES_SHOWN = 10
_URL_SHOWN = 500
_STATUS_MEANINGS = {
    401: "needs a key",
    403: "needs a key with more rights",
    404: "there is nothing here",
    405: "takes no GET",
    410: "there is nothing here any more",
}


class _ProbeKind(StrEnum):
    LLM_JSON = "llm.json"
    NAMED = "named"
    CONVENTION = "convention"
    CATALOG = "catalog"


class _PlannedProbe(NamedTuple):
    url: str
    sort: _ProbeKind
    entry: Entry | None = None


class _ProbeResult(NamedTuple):
    """The outcome of one request: its meaning for the user, and a document or the next candidates."""

    meaning: str
    document: Loaded | None = None
    next: tuple[_PlannedProbe, ...] = ()
    elsewhere: str = ""
    reason: str = ""


def find(url: str, selection: Selection = DEFAULT_SELECTION) -> Flow[Finding]:
    """Return the OpenAPI tools of the site of ``url``, if it has any, and a Probe for each request.

    ``url`` may also be the URL of a local file; the file is then the document.
    """
    # XL-005
    origin = read_origin(url)
    home = "" if origin is None else str(origin)
    if url.startswith("file:///"):
        probes_left = deque([_PlannedProbe(url, _ProbeKind.NAMED)])
    elif origin is None or origin.has_user_info:
        # A name and password in a URL would go into every request and every log, so such a URL is not used at all.
        return Finding(None, (Probe(NAME, url, None, "is not the URL of a site"),))
    else:
        probes_left = deque(_list_probes(url, home))
    probes: list[Probe] = []
    seen: set[str] = set()
    while probes_left and len(seen) < _MAX_PROBES:
        probe = probes_left.popleft()
        # Each URL is requested once: two llm.json that name each other, or many links to one document, cost nothing
        # more.
        if probe.url in seen:
            continue
        seen.add(probe.url)
        answer = yield from fetch(Request("GET", probe.url, _HEADERS))
        sight = _read_answer(probe, answer, home or "", selection)
        peer = None
        if sight.document is not None:
            peer, meaning = yield from _build_peer(probe, sight.document, selection)
            sight = sight._replace(meaning=meaning)
        status = None if isinstance(answer, Problem) else answer.status
        reason = str(answer.details.get("reason", "")) if isinstance(answer, Problem) else sight.reason
        probes.append(Probe(NAME, probe.url, status, sight.meaning, peer is not None, reason, sight.elsewhere))
        if peer is not None:
            return Finding(peer, tuple(probes))
        # What an answer names comes before the remaining guesses, in the order in which it was named.
        probes_left.extendleft(reversed(sight.next))
    return Finding(None, tuple(probes))


def _list_probes(url: str, home: str) -> list[_PlannedProbe]:
    """Return the URLs to try, in order. A URL that names a document comes before what the site names."""
    parts = urlsplit(url)
    pasted = _normalize_url(home, url)
    first = [
        _PlannedProbe(home + WELL_KNOWN, _ProbeKind.LLM_JSON),
        *(_PlannedProbe(home + path, _ProbeKind.CONVENTION) for path in CONVENTIONAL),
    ]
    first.append(_PlannedProbe(home + CATALOG, _ProbeKind.CATALOG))
    beside = _PlannedProbe(home + (parts.path.rpartition("/")[0] + "/openapi.json"), _ProbeKind.NAMED)
    page = [_PlannedProbe(pasted, _ProbeKind.NAMED)] if parts.path not in ("", "/") or parts.query else []
    if parts.path.endswith(_DOCUMENT_ENDINGS) and parts.path != WELL_KNOWN:
        return [*page, *first, beside]
    # PL-02: an application that is mounted at this path, such as a bundle of a gateway, comes before its host.
    is_folder = len(parts.path) > 1 and parts.path.endswith("/")
    mounted = [_PlannedProbe(home + parts.path.rstrip("/") + WELL_KNOWN, _ProbeKind.LLM_JSON)] if is_folder else []
    return [*mounted, *first, *page, beside]


def _normalize_url(home: str, url: str) -> str:
    """Return ``url`` on the origin ``home`` in normal form: without fragment and default port."""
    parts = urlsplit(url)
    return home + (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _read_answer(probe: _PlannedProbe, answer: Response | Problem, home: str, selection: Selection) -> _ProbeResult:
    if isinstance(answer, Problem):
        return _ProbeResult(answer.message)
    if not 200 <= answer.status < 300:
        return _ProbeResult(_STATUS_MEANINGS.get(answer.status, f"answers with status {answer.status}"))
    limit = (
        _LLM_JSON_BYTES if probe.sort in (_ProbeKind.LLM_JSON, _ProbeKind.CATALOG) else selection.document_bytes
    )  # XL-012
    if len(answer.body) > limit:
        return _ProbeResult(f"is larger than {limit:,} bytes")
    return _read(probe, answer, home, selection)


def _read(probe: _PlannedProbe, answer: Response, home: str, selection: Selection) -> _ProbeResult:
    # A header field of any length would make the expression work for long, so only its start is read.
    linked = _list_same_origin(_SERVICE_DESC.findall(get_header(answer.headers, b"link")[:8192]), probe.url, home)
    loaded = load_document(answer.body, get_header(answer.headers, b"content-type"), probe.url)
    if isinstance(loaded, Problem):
        # FU-59: a document that only an extra can read is no sign of a server that speaks nothing we know.
        reason = "unreadable" if "toolwire[yaml]" in loaded.message else ""
        text = loaded.message + (", which names a document" if linked else "")
        return _ProbeResult(text, None, linked, reason=reason)
    data = loaded.data
    if not isinstance(data, dict):
        return _ProbeResult(f"is {loaded.written_as}, but neither an llm.json nor an OpenAPI document", None, linked)
    if probe.sort is _ProbeKind.CATALOG and "linkset" in data:
        named = _list_same_origin(_list_catalog_documents(data["linkset"]), probe.url, home)
        return _ProbeResult(f"is an API catalog; it names {len(named)} documents here", None, named)
    return (
        _check_document(probe, loaded, selection) if _is_document(data) else _read_llm_json(probe, loaded, home, linked)
    )


def _check_document(probe: _PlannedProbe, loaded: Loaded, selection: Selection) -> _ProbeResult:
    data = loaded.data
    if selection.overlay is not None:
        read_overlay = overlay.read(selection.overlay)
        if isinstance(read_overlay, Problem):
            return _refuse_overlay(read_overlay)
        outcome = overlay.apply(read_overlay, data)
        if isinstance(outcome, Problem):
            return _refuse_overlay(outcome)
        data = outcome.document
        loaded = add_overlay_facts(loaded, selection.overlay)._replace(data=data, notes=tuple(outcome.notes))
    # At a guessed path a document counts only if its author meant it for models; the user may say otherwise (--include
    # all).
    if probe.sort is _ProbeKind.CONVENTION and selection.include != "all" and not isinstance(get_extension(data), dict):
        misfit = operations.find_misfit(data, selection)
        return _ProbeResult(misfit.text or _NO_ROOT, reason=misfit.reason or "no_root")
    site = read_site(data)
    misfit = operations.find_misfit(data, selection, site)
    return (
        _ProbeResult(misfit.text, reason=misfit.reason) if misfit.text else _ProbeResult("", loaded._replace(site=site))
    )


def _refuse_overlay(problem: Problem) -> _ProbeResult:
    # AT-54: the document is one that we read, so the fault of the overlay is what the user needs to know.
    text = problem.message.rstrip(".")
    return _ProbeResult(f"is a document, but toolwire {text[:1].lower()}{text[1:]}", reason="overlay")


def _is_document(data: dict[str, Any]) -> bool:
    return "swagger" in data or ("openapi" in data and ("paths" in data or "info" in data))


def _read_llm_json(probe: _PlannedProbe, loaded: Loaded, home: str, linked: tuple[_PlannedProbe, ...]) -> _ProbeResult:
    data: dict[str, Json] = loaded.data
    if probe.url.startswith("file:") and (servers := _list_host_servers(data)):
        name = probe.url.rpartition("/")[2]
        text = f"{name} lists MCP servers and is not an OpenAPI document: use {name}:NAME with one of {servers}"
        return _ProbeResult(text, reason="host_file")
    found = llm_json.read(data, probe.url)
    if found is None or probe.sort in (_ProbeKind.CONVENTION, _ProbeKind.CATALOG):
        ours = "" if data.get("openapi") is not None else " and no llm.json of ours"
        return _ProbeResult(f"is {loaded.written_as}, but no OpenAPI document{ours}", None, linked)
    if probe.entry is not None:
        return _ProbeResult("is another llm.json where the first one named the document")
    url = join_url(probe.url, found.openapi)
    where = get_origin(url) if url is not None else ""
    if url is None or not where:
        return _ProbeResult("is an llm.json, but what it names is not a URL")
    # XL-007: otherwise any site could make its visitors' agents use, and pay for, another site's tools.
    if where != home:
        # SE-08
        return _ProbeResult(
            f"is an llm.json that names a document on another site, {url[:_URL_SHOWN]}, which is refused: "
            "give that URL itself if you trust it",
            elsewhere=url,
        )
    return _ProbeResult(
        "is an llm.json: it names the document",
        None,
        (_PlannedProbe(_normalize_url(home, url), _ProbeKind.NAMED, found),),
    )


def _list_host_servers(data: dict[str, Json]) -> str:
    """Return the names of the servers in the file of an MCP host, or ``""`` if ``data`` is no such file."""
    # FU-51
    found = next((data[name] for name in _HOST_SECTIONS if isinstance(data.get(name), dict)), None)
    if not found or not all(isinstance(one, dict) for one in found.values()):
        return ""
    names = [clean_text(name, 60) for name in sorted(found)]
    return ", ".join(names[:_NAMES_SHOWN]) + (", ..." if len(names) > _NAMES_SHOWN else "")


def _list_catalog_documents(linkset: Json) -> Iterator[str]:
    """Yield the URLs of the documents in an API catalog, in its order."""
    # XL-008
    for one in linkset if isinstance(linkset, list) else ():
        for target in _list_targets(one):
            href = target.get("href") if isinstance(target, dict) else None
            if isinstance(href, str):
                yield href


def _list_targets(one: Json) -> list[Json]:
    named = one.get("service-desc") if isinstance(one, dict) else None
    return named if isinstance(named, list) else []


def _list_same_origin(references: Any, base: str, home: str) -> tuple[_PlannedProbe, ...]:
    found = [url for one in references if (url := join_url(base, one)) is not None and home and get_origin(url) == home]
    return tuple(
        _PlannedProbe(_normalize_url(home, url), _ProbeKind.NAMED) for url in dict.fromkeys(found[:_MAX_PROBES])
    )


def _build_peer(probe: _PlannedProbe, loaded: Loaded, selection: Selection) -> Flow[tuple[Peer | None, str]]:
    """Return the peer for a document, and the meaning of its request for the user."""
    document: dict[str, Any] = loaded.data
    others: dict[str, Json] = {}
    unread: list[str] = []
    # Most documents refer only to themselves; they are read as they are, without a copy.
    if not bundle.is_plain(loaded.references, named=loaded.named):
        if selection.elsewhere:
            others = yield from _fetch_other_documents(document, probe.url, selection.document_bytes, unread)
        document = bundle.write_bundle(document, probe.url, others)
    # Broken references are looked for in the author's document, not in the upgraded one.
    as_written, notes = document, list[Note]()
    if swagger_20.is_swagger(document):
        with pause_collection():
            document, notes = swagger_20.upgrade(document, probe.url)
    home, api = get_origin(probe.url), _choose_server_url(document, probe.url, selection)
    base = probe.url if home else api  # a file has no origin of its own
    if not base:
        return None, _explain_no_server(document)
    # PL-01: a document cannot send a key elsewhere; its user can, by naming the server.
    is_elsewhere = bool(api) and get_origin(api) != home
    url = api if is_elsewhere and (selection.server or not home) else base
    site = read_site(document) if loaded.site is None else loaded.site
    with pause_collection():
        hides = hidden_text.NOTHING if not loaded.hidden and not others else hidden_text.find_hidden_text(document)
        write_only = loaded.write_only or bool(others)
        # Reading makes many objects that all stay; collecting garbage meanwhile would find none of them.
        found_tools = operations.read_operations(
            document, base, selection, hides=hides, write_only=write_only, site=site
        )
    found_tools.memo.notes.extend((*loaded.notes, *notes))
    if unread:  # O-30
        text = f"Other documents are not read from {unread[0][:SHOWN]} on, because together they are larger than"
        more = f"{selection.document_bytes:,} bytes: a larger document_bytes, or --document-bytes, reads on"
        found_tools.memo.notes.append(Note("", f"{text} {more}"))
    found_tools.memo.notes.extend(
        Note("", text) for text in _find_broken_references(as_written, probe.url, loaded, others)
    )
    if probe.entry is not None:
        found_tools.memo.notes.extend(Note("", text) for text in llm_json.find_contradictions(probe.entry, document))
    peer = Peer(
        tags=found_tools.memo.tags,
        protocol=NAME,
        url=url,
        catalog=found_tools.catalog,
        site=site.name,
        memo=found_tools.memo,
        findings=lambda: found_tools.memo.findings,
        api_url=api if is_elsewhere else "",
        declared_auth=DeclaredAuth(
            # A file has no origin; what it declares about sign-in is relative to its server then.
            base,
            found_tools.memo.schemes,
            *(probe.entry.auth[1:] if probe.entry is not None else ()),
        ),
    )
    left_out = f", {len(found_tools.memo.notes)} findings" if found_tools.memo.notes else ""
    kind = "is an OpenAPI document with x-llm" if selection.include != "all" else "is an OpenAPI document"
    return peer, f"{kind}; tools: {len(found_tools.catalog.tools)}{left_out}"


def _find_broken_references(
    document: dict[str, Any], url: str, loaded: Loaded, others: dict[str, Json]
) -> Iterator[str]:
    """Yield a finding for each reference without a target, before any tool needs it."""
    # CV-17
    known = References(document)
    astray = [one for one in sorted(loaded.references) if not _leads_somewhere(one, known, url, others)]
    # A search of the text is fast, but also finds examples that only look like references: walk only if needed.
    real = bundle.find_references(loaded.data) if astray else frozenset()
    for reference in astray:
        if reference not in real:
            continue
        outside = ", outside of it, which was not read" + ("" if others else " (elsewhere=True, or --follow, reads it)")
        where = ", which is not there" if reference.startswith("#") else outside
        yield f"The document refers to {reference[:SHOWN]!r}{where}: anything fits it"


def _leads_somewhere(reference: str, known: References, url: str, others: dict[str, Json]) -> bool:
    if reference.startswith("#/"):
        try:
            known.resolve(reference)
        except Unusable:
            return False
        return True
    return reference.startswith("#") or (target := join_url(url, reference)) in others or target == url


def _explain_no_server(document: dict[str, Any]) -> str:
    """Return why a document from a file has no usable server URL, as the rest of "it ..."."""
    servers = document.get("servers")
    for one in servers if isinstance(servers, list) else ():
        for name in list_unfilled_variables(one):
            where = f"the variable {name[:50]!r} of its server {str(one.get('url'))[:100]!r} has no default"
            return f"is a file that does not say where to call: {where}; say it with --server URL"
    reason = "names no server" if not servers else "names no server by a whole URL"
    return f"is a file that {reason}: say which one to call with --server URL"


def _choose_server_url(document: dict[str, Any], url: str, selection: Selection) -> str:
    """Return the URL that the API of a document is called at, or ``""`` if none can be used."""
    declared = [{"url": selection.server}] if selection.server else document.get("servers")
    try:
        return choose_server(url, declared).base + "/"
    except Unusable:
        return ""


def _fetch_other_documents(document: dict[str, Any], url: str, room: int, unread: list[str]) -> Flow[dict[str, Json]]:
    """Fetch the documents that this one refers to, by URL; those of another origin or folder are not requested.

    ``room`` is how many bytes they may have together. What there is no room for is added to ``unread``.
    """
    found: dict[str, Json] = {}
    waiting = deque(bundle.find_other_documents(document, url))
    asked: set[str] = set()
    while waiting:
        other = waiting.popleft()
        # Another origin, or another folder of this machine, is never read because a document says so.
        if other in asked or not is_beside(other, url):
            continue
        asked.add(other)
        if room < _MIN_SIZE:
            unread.append(other)
            break
        answer = yield from fetch(Request("GET", other, _HEADERS))
        if isinstance(answer, Problem) or not 200 <= answer.status < 300:
            room -= _MIN_SIZE
            continue
        if len(answer.body) > room:
            unread.append(other)
            continue
        # One limit for all documents together: many small ones must not add up to more than one may have.
        room -= max(len(answer.body), _MIN_SIZE)
        loaded = load_document(answer.body, get_header(answer.headers, b"content-type"), other)
        if isinstance(loaded, Loaded):
            found[other] = loaded.data
            waiting.extend(bundle.find_other_documents(loaded.data, other))
    return found
