"""Find an MCP server through its site's catalog. Only the URLs in catalogs and cards are used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import urljoin, urlsplit

from toolwire.core.codec import Finding, Flow, Probe, fetch
from toolwire.core.http import Request
from toolwire.core.model import Json, Problem
from toolwire.core.url_display import show_url
from toolwire.core.url_origin import get_origin, has_same_origin, read_origin
from toolwire.framing import jsontext
from toolwire.framing.jsontext import get_list, get_text

from .client import find_named
from .server_card import CARD_TYPE, CATALOG_PATH

_TYPES: Final = frozenset({CARD_TYPE, "application/mcp-server+json"})
_TRANSPORTS: Final = frozenset({"streamable-http", "sse"})
_MAX_CARDS: Final = 5
"""How many cards of a catalog are read, and how many endpoints are tried."""
_MAX_BYTES: Final = 1024 * 1024


def find_listed(url: str, *, can_ask: bool = False) -> Flow[Finding]:
    """Return the first MCP server that the AI catalog at the origin of ``url`` names at the same origin.

    A server at another origin is not requested: the probe names its address, and the user decides.
    """
    # FD-09
    probes: list[Probe] = []
    catalog = yield from _fetch(urljoin(url, CATALOG_PATH), "application/json", probes, "an AI catalog")
    for card_url in list(_list_cards(catalog, url, probes))[:_MAX_CARDS]:
        card = yield from _fetch(card_url, f"{CARD_TYPE}, application/json", probes, "an MCP server card")
        for endpoint in list(_list_endpoints(card, card_url, probes))[:_MAX_CARDS]:
            finding = yield from find_named(endpoint, can_ask=can_ask)
            probes += finding.probes
            if finding.peer is not None:
                return Finding(finding.peer, tuple(probes))
    return Finding(None, tuple(probes))


def _fetch(url: str, accepted: str, probes: list[Probe], what: str) -> Flow[dict[str, Json]]:
    """Return the object at ``url``, or an empty one."""
    response = yield from fetch(Request("GET", url, ((b"accept", accepted.encode()),)))
    if isinstance(response, Problem):
        probes.append(Probe("mcp", show_url(url), None, response.message))
        return {}
    data = jsontext.read(response.body) if response.status == 200 and len(response.body) <= _MAX_BYTES else None
    is_found = isinstance(data, dict)
    probes.append(Probe("mcp", show_url(url), response.status, f"is {what}" if is_found else f"has no {what[3:]}"))
    return data if isinstance(data, dict) else {}


def _list_cards(catalog: dict[str, Json], home: str, probes: list[Probe]) -> Iterator[str]:
    for entry in get_list(catalog, "entries"):
        if isinstance(entry, dict) and {get_text(entry, "type"), get_text(entry, "mediaType")} & _TYPES:
            yield from _resolve(get_text(entry, "url"), urljoin(home, CATALOG_PATH), probes)


def _list_endpoints(card: dict[str, Json], home: str, probes: list[Probe]) -> Iterator[str]:
    for remote in get_list(card, "remotes"):
        if isinstance(remote, dict) and get_text(remote, "type") in _TRANSPORTS and "{" not in get_text(remote, "url"):
            yield from _resolve(get_text(remote, "url"), home, probes)
    if card and not get_list(card, "remotes") and home.endswith("/server-card"):
        yield home.removesuffix("/server-card")


def _resolve(text: str, home: str, probes: list[Probe]) -> Iterator[str]:
    """Yield ``text`` as a URL relative to ``home``, if it has the same origin. Otherwise name it in the last probe."""
    try:
        url = urljoin(home, text)
        is_http = urlsplit(url).scheme in ("http", "https")
    except ValueError:
        return
    if not text or not is_http or read_origin(url) is None:
        return
    if has_same_origin(url, home):
        yield url
    else:
        last = probes.pop()
        meaning = f"names an MCP server at {get_origin(url)}: use its URL if you trust it"
        probes.append(Probe("mcp", last.url, last.status, meaning, names=url))
