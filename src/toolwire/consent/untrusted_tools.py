"""Hold the tools that a user is asked to trust, with what changed about those that they trusted before."""
# QF-01

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self

from toolwire.core.model import Tool


class UntrustedTools(tuple[Tool, ...]):
    """Tools that would run without a question by their site's word alone.

    ``changes`` says, by the id of a tool that was trusted or approved before, how it differs from what it was then.
    """

    changes: Mapping[str, tuple[str, ...]]

    def __new__(cls, tools: Iterable[Tool], changes: Mapping[str, tuple[str, ...]]) -> Self:
        """Return the tools with their changes."""
        made = super().__new__(cls, tools)
        made.changes = changes
        return made
