"""Define the name of the protocol and the paths of its documents on a site."""

from __future__ import annotations

NAME = "openapi"
WELL_KNOWN = "/.well-known/llm.json"
CONVENTIONAL = ("/.well-known/openapi.json", "/openapi.json")
# RFC 9727: the place of the API catalog of a site.
CATALOG = "/.well-known/api-catalog"
# GR-05: the media types in which QUERY is taken wherever there is GET, as the header field Accept-Query says.
ACCEPT_QUERY = "x-accept-query"
