"""Name the ways in which a function returns its result."""

from __future__ import annotations

from enum import StrEnum


class FunctionKind(StrEnum):
    """How a function returns its result: directly, awaited, or piece by piece."""

    SYNC = "sync"
    ASYNC = "async"
    GENERATOR = "generator"
    ASYNC_GENERATOR = "async generator"

    @property
    def streams(self) -> bool:
        """Whether calling the function gives an iterator rather than the result."""
        return self in (FunctionKind.GENERATOR, FunctionKind.ASYNC_GENERATOR)
