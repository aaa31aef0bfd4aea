"""Find which protocol a URL speaks: try each in order, and record every probe."""

# XL-001, XL-005: any URL, and a user can see what was tried. C-8: a probe has no credentials and changes nothing.

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from toolwire.core.codec import Codec, Finding, Flow, FlowStep, Listen, Peer, Probe, intercept
from toolwire.core.http import Request, Response
from toolwire.core.model import Problem
from toolwire.core.selection import DEFAULT_SELECTION, Selection
from toolwire.core.url_display import show_url
from toolwire.core.url_origin import complete_url
from toolwire.framing.text_cleaning import clean, make_readable
from toolwire.protocols import BUILTIN

from .document_snapshot import NO_DOCUMENTS, DocumentSnapshot
from .local_files import file_url
from .source import DocumentSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """The result of a discovery: the chosen peer (or None), the other possible peers, and every probe in order.

    ``source`` is the document that describes the server, if it was stored. ``snapshot`` holds all documents that were
    read.
    """

    url: str
    peer: Peer | None
    source: DocumentSource | None = None
    others: tuple[Peer, ...] = ()
    probes: tuple[Probe, ...] = ()
    snapshot: DocumentSnapshot = field(default=NO_DOCUMENTS, repr=False)

    def __repr__(self) -> str:
        return f"Discovery(url={show_url(self.url)!r}, peer={self.peer!r}, probes={self.probes!r})"


def _has_response(codec: Codec, probes: Sequence[Probe]) -> bool:
    """Return whether a probe of ``codec`` got a response: then there is a server that can be asked in another way."""
    return any(probe.protocol == codec.name and probe.status is not None for probe in probes)


def end_sessions(found: Discovery) -> Iterator[Request]:
    """Yield the requests that end the sessions which discovery opened, for a discovery without later calls."""
    for peer in (found.peer, *found.others):
        codec = find_codecs(peer.protocol)[0] if peer is not None else None
        if peer is None or codec is None or codec.end_session is None:
            continue
        request = codec.end_session(peer)
        if request is not None:
            yield request


def discover(
    url: str,
    *,
    protocol: str | None = None,
    survey: bool = False,
    selection: Selection = DEFAULT_SELECTION,
    can_ask: bool = False,
) -> Flow[Discovery]:
    """Return what ``url`` offers. The first protocol with a callable tool wins. With ``survey``, all are tried.

    - ``protocol``: try only this protocol.
    - ``selection``: the tools to use.
    - ``can_ask``: tell servers that they can ask the user for input.

    ``url`` can be the path of a local document. Probes send no credentials and use GET first. If GET finds nothing, a
    protocol can be tried with a POST that changes nothing.
    """
    url = file_url(url) or complete_url(url)
    found: list[Peer] = []
    probes: list[Probe] = []
    replies: dict[Request, Response | Problem] = {}
    for codec in _choose_codecs(find_codecs(protocol), can_ask=can_ask):
        if codec.find_selected is None and url.startswith("file:"):
            continue  # a file is a document, and this protocol has no documents: it needs a server
        find = codec.find if protocol is None or codec.find_explicit is None else codec.find_explicit
        flow = find(url) if codec.find_selected is None else codec.find_selected(url, selection)
        # Several protocols look at the same addresses; a site sees each request once.
        finding = yield from _reuse_fetches(flow, replies)
        probes.extend(finding.probes)
        if finding.peer is not None:
            peer = _clean_texts(finding.peer)
            found.append(peer if codec.find_selected is not None else _select_tools(peer, selection))
            # A server without tools may still offer some by another protocol.
            if not survey and (finding.peer.catalog.tools or finding.peer.takes_any_name):
                break
    # C-8: a POST comes last, and goes only to a server that has responded to a GET.
    for find_last in ("find_listed", "find_by_post") if protocol is None else ():
        for codec in _choose_codecs(BUILTIN, can_ask=can_ask) if not found else ():
            find_more = getattr(codec, find_last)
            if find_more is not None and _has_response(codec, probes):
                finding = yield from find_more(url)
                probes.extend(finding.probes)
                if finding.peer is not None:
                    found.append(_select_tools(_clean_texts(finding.peer), selection))
    # A peer without tools is still a find, but one with tools is what the user wants.
    found.sort(key=lambda peer: not (peer.catalog.tools or peer.takes_any_name))
    return Discovery(url=url, peer=found[0] if found else None, others=tuple(found[1:]), probes=tuple(probes))


def _clean_texts(peer: Peer) -> Peer:
    """Return ``peer`` without hidden characters in its texts; a finding names each tool that had some."""
    catalog = peer.catalog
    tools = tuple(map(make_readable, catalog.tools))
    title, description = clean(catalog.title).text, clean(catalog.description).text
    changed = [tool.id for tool, before in zip(tools, catalog.tools, strict=True) if tool is not before]
    if not changed and (title, description) == (catalog.title, catalog.description):
        return peer
    cleaned = tuple(f"{id_}: hidden characters were removed from the description." for id_ in changed)
    readable = replace(catalog, title=title, description=description, tools=tools)
    return replace(peer, catalog=readable, findings=lambda: (*peer.findings(), *cleaned))


def _select_tools(peer: Peer, selection: Selection) -> Peer:
    """Return ``peer`` with the selected tools, for a protocol whose tools have no tag, path or method."""
    wanted = replace(selection, tags=(), paths=(), methods=())
    if not wanted.is_narrowing:
        return peer
    tools = tuple(
        tool
        for tool in peer.catalog.tools
        if wanted.matches(
            name=tool.name, method="", path="", tags=frozenset(), safe=tool.safe, deprecated=tool.deprecated
        )
    )
    return replace(peer, catalog=replace(peer.catalog, tools=tools))


def _choose_codecs(codecs: Sequence[Codec], *, can_ask: bool) -> Sequence[Codec]:
    return [codec.interactive or codec for codec in codecs] if can_ask else codecs


def find_codecs(protocol: str | None) -> Sequence[Codec]:
    """Return the codecs to try: all, or the one named ``protocol``.

    Raises:
        ValueError: no protocol has that name.
    """
    if protocol is None:
        return BUILTIN
    chosen = [codec for codec in BUILTIN if codec.name == protocol]
    if not chosen:
        raise ValueError(f"Unknown protocol {protocol!r}. Choose from {', '.join(codec.name for codec in BUILTIN)}")
    return chosen


def _reuse_fetches(flow: Flow[Finding], replies: dict[Request, Response | Problem]) -> Flow[Finding]:
    """Run ``flow`` and return its finding; a GET that another protocol made before is answered from ``replies``."""

    def find_reply(step: Request | Listen) -> Request | Listen | Response | Problem:
        key = _build_reuse_key(step)
        return step if key is None else replies.get(key, step)

    def store_reply(step: FlowStep, reply: Any) -> Any:
        key = _build_reuse_key(step)
        if key is not None:
            replies[key] = reply
        return reply

    return intercept(flow, find_reply, store_reply)


def _build_reuse_key(step: FlowStep) -> Request | None:
    if not isinstance(step, Request) or step.method != "GET":
        return None
    # A list cannot be a key of a dict.
    return step._replace(headers=tuple(step.headers))
