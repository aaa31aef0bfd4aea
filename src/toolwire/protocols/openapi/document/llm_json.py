"""Read llm.json, in which a site names its OpenAPI document and gives a hint about authentication.

Rules:
- ``auth`` is a hint. The document decides, and a contradiction is a finding.
- Unknown members are kept and ignored.
"""
# XL-022, XL-023

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from toolwire.core.model import Json
from toolwire.core.url_origin import has_same_origin

from .servers import join_url

_MAX_CHARACTERS = 2_048
_SCHEME_TYPES = {"oauth2": ("oauth2", "openIdConnect"), "api-key": ("apiKey", "http")}


class Auth(NamedTuple):
    """The hint about authentication; ``type`` is empty if llm.json gives none."""

    # XL-021

    type: str = ""
    authorization_server: str = ""
    resource_metadata: str = ""


class Entry(NamedTuple):
    """An llm.json: the reference to the document, the hint about authentication, and all its members unchanged."""

    openapi: str
    auth: Auth
    members: Mapping[str, Json]


def read(data: dict[str, Json], url: str) -> Entry | None:
    """Return the llm.json at ``url``, or None if ``data`` is a file of another format."""
    # XL-003, XL-020
    reference = data.get("openapi")
    if not isinstance(reference, str) or not reference:
        return None
    return Entry(reference, _read_auth(data.get("auth"), url), data)


def find_contradictions(entry: Entry, document: Mapping[str, Any]) -> list[str]:
    """Return a finding for each contradiction of the hint in ``entry`` and the document."""
    # XL-022
    components = document.get("components")
    schemes = components.get("securitySchemes") if isinstance(components, dict) else None
    kinds = (
        {one.get("type") for one in schemes.values() if isinstance(one, dict)} if isinstance(schemes, dict) else set()
    )
    sort = entry.auth.type
    if sort == "none" and document.get("security"):
        return ["llm.json says that calls need no authentication, but the document requires it: the document holds"]
    if sort in _SCHEME_TYPES and kinds and not kinds & set(_SCHEME_TYPES[sort]):
        return [f"llm.json says auth {sort}, but the document has no scheme of that type: the document holds"]
    given = entry.members.get("auth")
    metadata = given.get("resource_metadata") if isinstance(given, dict) else None
    # Said aloud, because the site's author will look for the reason why sign-in does not find it.
    if metadata and not entry.auth.resource_metadata:
        return ["llm.json names resource metadata on another origin, which is not read"]
    return []


def _read_auth(declared_auth: Json, url: str) -> Auth:
    if isinstance(declared_auth, str):
        return Auth(declared_auth[:_MAX_CHARACTERS])
    if not isinstance(declared_auth, dict):
        return Auth()
    metadata = (
        join_url(url, _read_text(declared_auth.get("resource_metadata")))
        if declared_auth.get("resource_metadata")
        else ""
    )
    same = metadata and has_same_origin(metadata, url)  # it speaks for the resource it is about [XL-024]
    return Auth(
        _read_text(declared_auth.get("type")),
        _read_text(declared_auth.get("authorization_server")),
        metadata if metadata and same else "",
    )


def _read_text(value: Json) -> str:
    return value[:_MAX_CHARACTERS] if isinstance(value, str) else ""
