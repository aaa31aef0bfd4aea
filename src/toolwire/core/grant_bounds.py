"""Describe the bounds of an "always": which later calls it covers, how many, and until when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

from .condition import ONLY, SUM, read_ask_when
from .errors import DefinitionError
from .json_pointer import parse_pointer
from .model import Condition, Json

MAX_USES: Final = 1_000_000
MAX_SIMILAR: Final = 100
"""How many other tools one permission covers at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantBounds:
    """The conditions of a permission. It covers a later call if all of them hold. Any other call needs consent.

    - ``conditions``: at most 16 tuples of pointer, operator and value, as in ``@tool(ask_when=...)``. All must hold. A
      condition about a missing argument does not hold. An empty sequence covers no call, and ``None`` covers all
      values. The operator "sum" can be used once. It limits the total of an argument over all covered calls. Calls that
      do not run do not count.
    - ``uses``: how many later calls are covered.
    - ``until``: when the permission ends, in seconds since 1970.
    - ``unseen``: allow arguments that the user did not see. By default, a later call can have only the arguments of the
      approved call and those in the conditions.
    - ``tools``: up to 100 other tools that the permission covers. Pass the ``definition`` of items from
      ``Question.find_similar()``. All tools share ``uses``.

    Raises:
        DefinitionError: no condition is given, or one is not valid.
    """

    # CC-03: an empty condition never means any, so "any arguments" has a word of its own.
    conditions: Sequence[Condition | tuple[str, str, Json]] | None = None
    uses: int | None = None
    until: float | None = None
    unseen: bool = False
    tools: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tools", tuple(self.tools))
        if len(self.tools) > MAX_SIMILAR or not all(isinstance(one, str) for one in self.tools):
            raise DefinitionError(f"tools must contain at most {MAX_SIMILAR} definitions from Question.find_similar().")
        if self.conditions is None and self.uses is None and self.until is None and not self.tools:
            raise DefinitionError(
                "GrantBounds needs conditions, uses or until. Without them, it would cover all calls."
            )
        if self.conditions is not None:
            conditions = read_ask_when(self.conditions, "GrantBounds", "conditions")
            object.__setattr__(self, "conditions", conditions)
            if sum(one.op == SUM for one in conditions) > 1:
                raise DefinitionError('GrantBounds: only one condition can use the operator "sum".')
        if self.uses is not None and (type(self.uses) is not int or not 1 <= self.uses <= MAX_USES):
            raise DefinitionError(f"uses must be a number of calls from 1 to {MAX_USES:,}, not {self.uses!r}.")
        if self.until is not None and not _is_time(self.until):
            raise DefinitionError(f"until must be a time in seconds since 1970, not {self.until!r}.")
        if type(self.unseen) is not bool:
            raise DefinitionError(f"unseen must be true or false, not {self.unseen!r}.")


def list_conditions(bounds: GrantBounds, seen: Iterable[str] | None = None) -> tuple[Condition, ...] | None:
    """Return the conditions of ``bounds``, or None if any arguments are covered.

    ``seen`` are the names of the arguments of the approved call; with them, the last condition names all arguments
    that a later call may have.
    """
    conditions = None if bounds.conditions is None else tuple(Condition(*one) for one in bounds.conditions)
    if seen is None or bounds.unseen or conditions == ():
        return conditions
    # AT-49: an argument that nobody saw must stay absent.
    named = (parse_pointer(one.pointer)[0] for one in conditions or ())
    return (*(conditions or ()), Condition("", ONLY, list(dict.fromkeys([*seen, *named]))))


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
