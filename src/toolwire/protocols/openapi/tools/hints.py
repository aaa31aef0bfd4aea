"""Write the hints of an operation for programs: its place, its security, and its possible next steps."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import Any

from toolwire.core.model import Json
from toolwire.framing.text_cleaning import clean_data
from toolwire.framing.tool_description import DESCRIPTION_CHARACTERS
from toolwire.protocols.openapi.document.consent_policy import get_extension
from toolwire.protocols.openapi.document.descriptions import clean_text
from toolwire.protocols.openapi.request.plan import Place, Scheme

from .parameter_arguments import DeclaredParameter
from .security import Alternatives

_FIELD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_NOT_IDEMPOTENT = frozenset(("PATCH", "POST"))
_MAX_FOLLOWING = 20


def write_hint(
    operation: dict[str, Any],
    method: str,
    path: str,
    origin: str,
    security: Alternatives,
    steps: Iterable[dict[str, Json]],
) -> dict[str, Json]:
    """Return the hints of one operation, with its next ``steps``; texts are cleaned."""
    # XL-085, CV-27
    facts: dict[str, Json] = {"method": method, "path": path, "origin": origin}
    tags = operation.get("tags")
    if isinstance(tags, list) and tags:
        facts["tags"] = [clean_text(tag, 100) for tag in tags if isinstance(tag, str)]
    if security:
        # The first alternative needs the fewest scopes: see Security.
        facts["scopes"] = list(security[0][0].scopes) if security[0] else []
        facts["security"] = [[_describe_scheme(one) for one in alternative] for alternative in security]
    description = operation.get("description")
    if isinstance(description, str) and description:
        facts["description"] = clean_text(description, 16 * DESCRIPTION_CHARACTERS)
    following = list(islice(steps, _MAX_FOLLOWING))
    if following:
        facts["next"] = clean_data(following)
    policy = get_extension(operation)
    if isinstance(policy, dict):
        facts["x-llm"] = clean_data(policy)
    return facts


def _describe_scheme(scheme: Scheme) -> dict[str, Json]:
    """Return the members of ``scheme`` that say how a credential is sent, and the scopes that it must have."""
    described = {"id": scheme.id, "kind": scheme.kind, "name": scheme.name, "scheme": scheme.scheme}
    place = "" if scheme.place is None else scheme.place.value
    return {
        name: value for name, value in {**described, "place": place, "scopes": list(scheme.scopes)}.items() if value
    }


def find_idempotency_header(operation: dict[str, Any], method: str, declared: Iterable[DeclaredParameter]) -> str:
    """Return the header for the id of an unsafe call, or ``""`` if the operation has none."""
    # XL-077
    # The other methods may be repeated by their definition.
    if method not in _NOT_IDEMPOTENT:
        return ""
    policy = get_extension(operation)
    named = policy.get("idempotencyKey") if isinstance(policy, dict) else None
    if isinstance(named, str) and _FIELD.fullmatch(named):
        return named
    headers = (one.parameter.name for one in declared if one.parameter.place is Place.HEADER)
    return next((name for name in headers if name.lower() == "idempotency-key"), "")
