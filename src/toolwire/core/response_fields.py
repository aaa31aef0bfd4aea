"""Name where a result has what the header fields of its response said."""
# CR-04

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .model import Json, Problem, Result

HEADERS: Final = "headers"
"""The member of ``Value.notes`` and ``Problem.details`` with the fields, by their names in small letters."""
REFUSED_BY: Final = "refused_by"
"""The member of ``Problem.details`` with the origin of another server that refused the credentials of this program."""


def get_response_fields(result: Result) -> Mapping[str, Json]:
    """Return the header fields that came with ``result`` from another server; none if it came from this program."""
    facts = result.details if isinstance(result, Problem) else result.notes or {}
    found = facts.get(HEADERS)
    return found if isinstance(found, Mapping) else {}
