"""What this protocol is called, and the places of its documents on any site."""

from __future__ import annotations

NAME = "openapi"
WELL_KNOWN = "/.well-known/llm.json"
CONVENTIONAL = ("/.well-known/openapi.json", "/openapi.json")
CATALOG = "/.well-known/api-catalog"
