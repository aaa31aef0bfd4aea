"""Name where a result has the header fields of its response, and choose those that hold for its caller here too."""
# CR-04

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from toolwire.core.model import Json, Problem, Result

_PASSED_ON: Final = ("location", "link", "etag", "last-modified", "retry-after", "ratelimit", "ratelimit-policy")
"""No challenge: that of another server is about other credentials than those of the caller here."""
_VALUE: Final = re.compile(r"[\x20-\x7e]{1,1000}")


def list_passed_fields(result: Result) -> dict[str, Json]:
    """Return the fields of ``result`` that hold for its caller too, which are ASCII."""
    found = get_response_fields(result)
    if not found:
        return {}
    values = ((name, found.get(name)) for name in _PASSED_ON)
    return {name: value for name, value in values if isinstance(value, str) and _VALUE.fullmatch(value)}


HEADERS: Final = "headers"
"""The member of ``Value.notes`` and ``Problem.details`` with the fields, by their names in small letters."""
REFUSED_BY: Final = "refused_by"
"""The member of ``Problem.details`` with the origin of another server that refused the credentials of this program."""


def get_response_fields(result: Result) -> Mapping[str, Json]:
    """Return the header fields that came with ``result`` from another server; none if it came from this program."""
    facts = result.details if isinstance(result, Problem) else result.notes or {}
    found = facts.get(HEADERS)
    return found if isinstance(found, Mapping) else {}
