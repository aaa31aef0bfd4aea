"""Publish where tokens for this server come from, as protected resource metadata (RFC 9728)."""
# AS-14

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from toolwire.auth.loopback_hosts import is_loopback_host
from toolwire.auth.server_metadata import BASE_MEMBER, RESOURCE_PATH, build_resource_metadata, well_known_url
from toolwire.core.http import JSON_HEADERS, Response
from toolwire.core.url_origin import get_host, read_origin
from toolwire.framing import jsontext

_URL: Final = re.compile(r"https?://[!$%&'()*+,./0-9:;=A-Z_a-z~\[\]-]{1,2000}")
"""A URL without a user name, password, query or fragment, and without characters that could end a challenge's text."""
_MCP_PATH: Final = "/mcp"
_CACHED: Final = (b"cache-control", b"public, max-age=300")


class ProtectedResource(NamedTuple):
    """A server whose tokens are issued elsewhere: the URL of their audience and the URL of their issuer."""

    url: str
    issuer: str

    @property
    def metadata_url(self) -> str:
        """The URL of the metadata, for challenges."""
        return well_known_url(RESOURCE_PATH, self.url)

    @property
    def base_url(self) -> str:
        """The URL above the paths of all protocols."""
        return self.url.removesuffix(_MCP_PATH)

    def build_documents(self, scopes: Iterable[str], name: str) -> Mapping[str, Response]:
        """Return the metadata by path. The root has it too, because some clients look only there."""
        metadata = build_resource_metadata(self.url, self.issuer, sorted(scopes), name)
        # The issuer compares the requested resource with its own list, so even a trailing slash must match.
        base = self.base_url
        # I-23: hosts of MCP want the URL that users enter there as the audience. The tokens are for all protocols.
        more = {BASE_MEMBER: base} if base != self.url else {}
        body = jsontext.write({**metadata, "resource": self.url, **more})
        response = Response(200, (*JSON_HEADERS, _CACHED), body)
        return dict.fromkeys((urlsplit(self.metadata_url).path, RESOURCE_PATH), response)


def find_protected_resource(audience: str, issuer: str) -> ProtectedResource | None:
    """Return the resource named ``audience``, or None unless it and ``issuer`` are URLs that clients can use."""
    return ProtectedResource(audience, issuer) if _is_url(audience) and _is_url(issuer) else None


def _is_url(text: str) -> bool:
    origin = read_origin(text) if _URL.fullmatch(text) else None
    return origin is not None and (origin.scheme == "https" or is_loopback_host(get_host(text)))
