"""Choose the header fields that came with a result from another server and hold for its caller here too."""
# CR-04

from __future__ import annotations

import re
from typing import Final

from toolwire.core.model import Json, Result
from toolwire.core.response_fields import get_response_fields

_PASSED_ON: Final = ("location", "etag", "last-modified", "retry-after", "ratelimit", "ratelimit-policy")
"""No challenge: that of another server is about other credentials than those of the caller here."""
_VALUE: Final = re.compile(r"[\x20-\x7e]{1,1000}")


def list_passed_fields(result: Result) -> dict[str, Json]:
    """Return the fields of ``result`` that hold for its caller too, which are ASCII."""
    found = get_response_fields(result)
    if not found:
        return {}
    values = ((name, found.get(name)) for name in _PASSED_ON)
    return {name: value for name, value in values if isinstance(value, str) and _VALUE.fullmatch(value)}
