"""Whether the arguments of a call are JSON data at all, before anybody looks at what they mean."""

from __future__ import annotations

import json

from toolwire.core.check import ALLOW, Deny, Verdict
from toolwire.core.model import Call, Kind, Problem


def data_check(call: Call) -> Verdict:
    """Refuse arguments that no JSON text can say: NaN, half a surrogate pair, an object of Python. [S-16]

    A program that calls can have such values where a server, which reads JSON, cannot.
    """
    try:
        json.dumps(call.arguments, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        text = f"{call.tool.name} was not called: its arguments are not all JSON data (no NaN, no lone surrogate)."
        return Deny(Problem(kind=Kind.INVALID_ARGUMENTS, message=text))
    return ALLOW
