"""What a developer hears of a failure, on a server that was told to say it. [A-53]"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from toolwire.core.model import Problem, Result

_LONGEST: Final = 1_000
_TRACEBACK: Final = "Traceback (most recent call last)"


def expose_developer_message(result: Result) -> Result:
    """Return ``result`` with the developer message of a problem among its details, without any traceback.

    For servers whose callers are their developers: what a problem's ``details`` hold is sent on every protocol.
    """
    if not isinstance(result, Problem) or not result.developer_message:
        return result
    said = result.developer_message.partition(_TRACEBACK)[0].strip()[:_LONGEST]
    return replace(result, details={**result.details, "developer_message": said}) if said else result
