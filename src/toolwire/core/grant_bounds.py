"""Describe the bounds of an "always": which later calls it covers, how many, and until when."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any, Final

from .condition import read_ask_when
from .dataclass import dataclass
from .errors import DefinitionError
from .model import Condition, Json

MAX_USES: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantBounds:
    """The bounds of an "always". A later call is covered if all of them hold; any other call is asked about.

    ``conditions`` are tuples of pointer, operator and value, as in ``@tool(ask_when=...)``, at most 16. Each must hold,
    and one about an argument that a call does not have never holds. An empty sequence covers no call; ``None`` covers
    any arguments. ``uses`` is how many later calls are covered, ``until`` is a time in seconds since 1970.

    Raises:
        DefinitionError: no bound is given, or one of them is not valid.
    """

    # CC-03: an empty condition never means any, so "any arguments" has a word of its own.
    conditions: Sequence[Condition | tuple[str, str, Json]] | None = None
    uses: int | None = None
    until: float | None = None

    def __post_init__(self) -> None:
        if self.conditions is None and self.uses is None and self.until is None:
            raise DefinitionError("GrantBounds needs conditions, uses or until: without a bound it would cover all.")
        if self.conditions is not None:
            conditions = read_ask_when(self.conditions, "GrantBounds", "conditions")
            object.__setattr__(self, "conditions", conditions)
        if self.uses is not None and (type(self.uses) is not int or not 1 <= self.uses <= MAX_USES):
            raise DefinitionError(f"uses is a number of calls from 1 to {MAX_USES:,}, not {self.uses!r}.")
        if self.until is not None and not _is_time(self.until):
            raise DefinitionError(f"until is a time in seconds since 1970, not {self.until!r}.")


def list_conditions(bounds: GrantBounds) -> tuple[Condition, ...] | None:
    """Return the conditions of ``bounds``, or None if any arguments are covered."""
    return None if bounds.conditions is None else tuple(Condition(*one) for one in bounds.conditions)


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
