"""Write the header fields that came with a result from another server as those of a response here."""
# CR-04

from __future__ import annotations

import re
from typing import Final

from toolwire.core.http import Headers
from toolwire.core.model import Result
from toolwire.core.response_fields import get_response_fields

_PASSED_ON: Final = ("location", "etag", "last-modified", "ratelimit", "ratelimit-policy")
"""No challenge: that of another server is about other credentials than those of the caller here."""
_VALUE: Final = re.compile(r"[\x20-\x7e]{1,1000}")


def write_response_fields(result: Result) -> Headers:
    """Return the fields of ``result`` that hold for its caller too."""
    found = get_response_fields(result)
    if not found:
        return ()
    values = ((name, found.get(name)) for name in _PASSED_ON)
    return [
        (name.encode("ascii"), value.encode("ascii"))
        for name, value in values
        if isinstance(value, str) and _VALUE.fullmatch(value)
    ]
