"""Say who a server is and where, before a client connects: the server card of MCP, the AI catalog and ``server.json``.

Sources: SEP-2127 (experimental-ext-server-card) and the AI Catalog draft, read in November 2026, and the schema of the
MCP registry of 2025-12-11. None of them names tools.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final
from urllib.parse import urlsplit

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Reading, Route, Routes, Site
from toolwire.core.http import Request, Response
from toolwire.core.model import Json
from toolwire.framing.jsontext import write

from .revision import SUPPORTED

CATALOG_PATH: Final = "/.well-known/ai-catalog.json"
CARD_PATH: Final = "/mcp/server-card"
CARD_TYPE: Final = "application/mcp-server-card+json"
_SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
_REGISTRY_SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
_MAX_LENGTH: Final = 100
"""The most characters of a title and of a description."""
_HEADERS: Final = ((b"cache-control", b"public, max-age=300"), (b"access-control-allow-origin", b"*"))


def build_card_routes(catalog: Catalog, site: Site) -> Routes:
    """Return the routes of both documents. They are public, name no tool, and are constant bytes.

    Their URLs are absolute where the server knows its own address, and relative elsewhere: the ``Host`` of a request is
    the word of its caller. A card without that address names no endpoint, which its reader knows already.
    """
    # FD-09
    host = urlsplit(site.public_url).hostname or "localhost"
    described = _describe(catalog, host)
    title = described["title"]
    base = site.public_url or site.root
    card: dict[str, Json] = {"$schema": _SCHEMA, **described}
    if site.public_url:
        remote: dict[str, Json] = {"type": "streamable-http", "url": f"{base}/mcp"}
        card["remotes"] = [remote | {"supportedProtocolVersions": [*SUPPORTED]}]
    entry: dict[str, Json] = {
        "identifier": f"urn:air:{host}:{described['name'].rpartition('/')[2]}",
        "displayName": title,
        # The draft renamed `mediaType` to `type`; readers of either find it.
        "type": CARD_TYPE,
        "mediaType": CARD_TYPE,
        "url": base + CARD_PATH,
    }
    listed: dict[str, Json] = {"specVersion": "1.0", "host": {"displayName": title}, "entries": [entry]}
    return {
        ("GET", CARD_PATH): _build_route(write(card), CARD_TYPE),
        ("GET", CATALOG_PATH): _build_route(write(listed), "application/json"),
    }


def build_server_json(catalog: Catalog, url: str, *, name: str = "", needs_key: bool = False) -> dict[str, Json]:
    """Return what the MCP registry takes for the server at ``url``, its MCP endpoint.

    ``name`` is its name there, else the reversed host name and the title. With ``needs_key``, a client sends a key.
    """
    remote: dict[str, Json] = {"type": "streamable-http", "url": url}
    if needs_key:
        text = "Your API key, after the word Bearer and a space"
        remote["headers"] = [{"name": "Authorization", "description": text, "isRequired": True, "isSecret": True}]
    described = _describe(catalog, urlsplit(url).hostname or "localhost")
    return {"$schema": _REGISTRY_SCHEMA, **described, "name": name or described["name"], "remotes": [remote]}


def _describe(catalog: Catalog, host: str) -> dict[str, str]:
    """Return the name, version, title and description of a server, within the lengths of both schemas."""
    name = re.sub(r"[^a-zA-Z0-9._-]+", "-", catalog.title).strip("-.").lower()[:_MAX_LENGTH] or "server"
    title = catalog.title.strip()[:_MAX_LENGTH] or name
    return {
        "name": f"{_reverse(host)}/{name}",
        "version": catalog.version,
        "title": title,
        "description": " ".join(catalog.description.split())[:_MAX_LENGTH].strip() or title,
    }


def _build_route(body: bytes, content_type: str) -> Route:
    etag = b'"' + hashlib.sha256(body).hexdigest()[:32].encode() + b'"'
    whole = Response(200, ((b"content-type", content_type.encode()), (b"etag", etag), *_HEADERS), body)

    def read(_request: Request) -> Reading:
        return whole

    return Route(read, is_public=True, is_tool_free=True)


def _reverse(host: str) -> str:
    """Return a host name as the start of a reverse-DNS name; an address stays as it is, without colons."""
    if not re.search("[a-zA-Z]", host) or ":" in host:
        return re.sub("[^0-9a-fA-F.-]", "-", host)
    return ".".join(reversed(host.split(".")))
