"""Describe a grant: the user's "always" for exactly one definition of one connection's tool.

Rules:
- A grant can have bounds: conditions on the arguments, a number of calls, a time. All of them must hold.
- A condition about a missing argument never holds, and an empty list of conditions covers no call.
- A call with an argument that the approved call did not contain is not covered, unless the user allowed that.
- A grant that cannot be read covers no call, so that the user is asked.
"""
# XL-047, CC-03

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import ROUND_UP, Context, Decimal
from typing import Final, NamedTuple, Protocol, TypeAlias

from toolwire.core.condition import ONLY, SUM
from toolwire.core.grant_bounds import GrantBounds, list_conditions
from toolwire.core.json_pointer import parse_pointer, resolve_pointer
from toolwire.core.model import Condition, Json, Tool
from toolwire.framing.visible_text import make_visible

from .conditions import describe_condition, is_met
from .tool_definition import build_definition, definition_hash

_MAX_SHOWN = 100
MAX_CLOCK_STEP_BACK_S = 300.0
"""How many seconds a clock can go back before no grant is used: a clock set back would lengthen them."""
GRANT_LIFETIME_S = 30 * 86_400.0
"""How many seconds a grant is valid by default."""
GRANT_LIFETIME = f"{GRANT_LIFETIME_S / 86_400:.0f} days"
"""The same as a text for the user, which says with each "always" how long it lasts."""
# AO-03
# XL-047


class GrantKey(NamedTuple):
    """The user, connection and tool of a grant. If any part changes, the user is asked again.

    ``definition`` is the digest of the tool's definition.
    """

    # XL-047

    principal: str
    connection: str
    origin: str
    tool: str
    definition: str


Conditions: TypeAlias = tuple[Condition, ...] | None
"""The conditions of a grant. None covers any arguments. An empty sequence covers no call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A stored grant. Users name it by ``id``. Times are in seconds since 1970.

    ``conditions`` are about a call's arguments. With None, any arguments are covered. ``uses_left`` is how many more
    calls are covered, or None if they are not counted. ``covered`` is how many calls it has covered, the last one at
    ``last_used_at``. ``total`` is the sum of their amounts, if a condition limits it.
    """

    id: str
    key: GrantKey
    given_at: float
    expires_at: float
    conditions: Conditions = None
    uses_left: int | None = None
    is_bounded: bool = False
    covered: int = 0
    last_used_at: float = 0.0
    total: Decimal = Decimal(0)


UNASKED: Final = " unasked"
"""The suffix of a tool's ID in the key of a grant that only trusts its site's claim and is not an "always"."""


def list_grant_rows(
    id_: str,
    key: GrantKey,
    bounds: GrantBounds,
    seen: Iterable[str] | None,
    others: Sequence[tuple[GrantKey, Iterable[str]]],
) -> Iterator[tuple[str, GrantKey, Conditions]]:
    """Yield the ID, the key and the conditions of each grant that ``Grants.add`` stores. ``id_`` is a new ID."""
    yield f"{id_}-0" if others else id_, key, list_conditions(bounds, seen)
    for number, (other, arguments) in enumerate(others, 1):
        yield f"{id_}-{number}", other, list_conditions(replace(bounds, unseen=False), arguments)


def find_group(id_: str) -> str:
    """Return the common prefix of the IDs of grants that share bounds, or an empty string."""
    return id_.rpartition("-")[0]


class Permission(NamedTuple):
    """One server's grants that cover the same calls or share bounds. The user sees and revokes them as one row."""

    # FU-55
    grants: tuple[Grant, ...]

    @property
    def id(self) -> str:
        """The ID of the row for the user: its oldest grant's ID, or the shared ID of all its tools."""
        return find_group(self.grants[0].id) or self.grants[0].id

    @property
    def key(self) -> GrantKey:
        """The key of its oldest grant."""
        return self.grants[0].key

    @property
    def tool(self) -> str:
        """The id of the tool, or the ids of all."""
        return ", ".join(dict.fromkeys(one.key.tool.removesuffix(UNASKED) for one in self.grants))

    @property
    def connections(self) -> str:
        """The names of the connections, in order."""
        return ", ".join(dict.fromkeys(one.key.connection for one in self.grants))

    @property
    def expires_at(self) -> float:
        """When the last of the grants ends."""
        return max(one.expires_at for one in self.grants)

    @property
    def covers(self) -> str:
        """The covered calls, in words that are safe to show."""
        first = self.grants[0]
        if first.is_bounded and find_group(first.id):
            conditions = tuple(one for one in first.conditions or () if one.op != ONLY)
            fits = describe_bounds(conditions or None, first.uses_left)
            number = len({one.key.tool for one in self.grants})
            return f"{number} tool{'s' * (number != 1)} with the same effect: {fits}, to no destination besides"
        if first.is_bounded:
            return describe_bounds(first.conditions, first.uses_left)
        is_asked = any(not one.key.tool.endswith(UNASKED) for one in self.grants)
        covered = "every call" if is_asked else "every call, as its site needs no question"
        definitions = len({one.key.definition for one in self.grants})
        return covered if definitions == 1 else f"{covered}, in {definitions} forms such as by several protocols"

    # QF-03
    @property
    def use_count(self) -> int:
        """How many calls were covered so far."""
        return sum(one.covered for one in self.grants)

    @property
    def amounts(self) -> str:
        """The sum of these calls' amounts, such as ``40.5 of 200``. Empty without a limit."""
        bound = find_sum(self.grants[0].conditions)
        return "" if bound is None else f"{max(one.total for one in self.grants):f} of {bound.value}"

    @property
    def last_used_at(self) -> float:
        """When the last of these calls ran, in seconds since 1970."""
        return max(one.last_used_at for one in self.grants)


def group_permissions(grants: Iterable[Grant]) -> list[Permission]:
    """Return one row for each tool of a server, and one for each permission with bounds, oldest first."""
    # FU-55: a definition contains the address, so each protocol has a separate grant.
    rows: dict[tuple[str, ...], list[Grant]] = {}
    for one in grants:
        tool = one.key.tool.removesuffix(UNASKED)
        name = (find_group(one.id) or one.id,) if one.is_bounded else (one.key.principal, one.key.origin, tool)
        rows.setdefault(name, []).append(one)
    return [Permission(tuple(found)) for found in rows.values()]


class Grants(Protocol):
    """Stores what was allowed "always", and each tool's last approved definition."""

    def has_grant(self, key: GrantKey) -> bool:
        """Return whether there is a grant without bounds for ``key`` that is neither revoked nor expired."""
        ...

    def has_bounded_grant(self, key: GrantKey) -> bool:
        """Return whether there is a grant with bounds for ``key``, whatever calls it covers."""
        ...

    def count_use(self, key: GrantKey) -> None:
        """Count a call that the grant without bounds for ``key`` covers."""
        ...

    def spend(self, key: GrantKey, arguments: Mapping[str, Json]) -> str:
        """Spend one use of a bounded grant for ``key`` that covers ``arguments``, and add their amount.

        Return the grant's ID, or an empty string. This is one atomic step, so that several processes together never
        exceed a grant's uses or sum.
        """
        ...

    def add(
        self,
        key: GrantKey,
        bounds: GrantBounds | None = None,
        seen: Iterable[str] | None = None,
        others: Sequence[tuple[GrantKey, Iterable[str]]] = (),
    ) -> None:
        """Store a grant for ``key``, with or without ``bounds``.

        ``seen`` are the argument names of the call that the user approved with ``bounds``. The same bounds apply to the
        keys of ``others``, which map to the arguments that their calls can have. All of them share the uses.
        """
        ...

    def revoke(self, id_: str) -> bool:
        """Remove the grant with this ID. Return whether it existed."""
        ...

    def list_grants(self) -> Sequence[Grant]:
        """Return the valid grants, oldest first."""
        ...

    def revoke_outdated(self, key: GrantKey) -> None:
        """Remove the grants of the same tool and connection for any other definition."""
        # XL-048
        ...

    def pin_definition(self, key: GrantKey, approved: Mapping[str, Json]) -> None:
        """Store the definition that was approved."""
        ...

    def find_pinned(self, key: GrantKey) -> Mapping[str, Json] | None:
        """Return the definition of this tool that was approved last, whatever definition ``key`` names."""
        ...


def grant_key(site: str, tool: Tool, *, principal: str = "", connection: str = "") -> GrantKey:
    """Return the key of a grant. It changes with the site and with each part of the tool's definition."""
    # XL-047
    return GrantKey(principal, connection, site, tool.id, definition_hash(build_definition(tool)))


def covers_call(conditions: Conditions, arguments: Mapping[str, Json]) -> bool:
    """Return whether a grant with these ``conditions`` covers a call with ``arguments``."""
    if conditions is None:
        return True
    return bool(conditions) and all(_holds(one, arguments) for one in conditions)


def find_sum(conditions: Conditions) -> Condition | None:
    """Return the condition that bounds the sum of amounts, or None."""
    return next((one for one in conditions or () if one.op == SUM), None)


def add_amount(total: Decimal, conditions: Conditions, arguments: Mapping[str, Json]) -> Decimal | None:
    """Return ``total`` plus the amount in ``arguments``, or None if the sum would exceed the limit."""
    bound = find_sum(conditions)
    if bound is None:
        return total
    amount = _read_amount(bound, arguments)
    added = None if amount is None else _EXACT.add(total, Decimal(repr(amount)))
    return added if added is not None and added <= Decimal(repr(bound.value)) else None


def _read_amount(bound: Condition, arguments: Mapping[str, Json]) -> float | None:
    """Return the amount of a call, or None if it is not a number from 0 to ``_MAX_AMOUNT``."""
    found = resolve_pointer(arguments, bound.pointer)
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    return found if is_number and 0 <= found <= _MAX_AMOUNT else None


_MAX_AMOUNT: Final = 2**53
_EXACT: Final = Context(prec=60, rounding=ROUND_UP)
"""Adds amounts so that a sum is never rounded down."""


def _holds(one: Condition, arguments: Mapping[str, Json]) -> bool:
    # AT-49: what nobody saw is not covered, and a pattern must match the whole text.
    if one.op == ONLY:
        return arguments.keys() <= set(one.value)
    if one.op == SUM:
        amount = _read_amount(one, arguments)  # numbers compare exactly, but their sum needs Decimal
        return amount is not None and bool(amount <= one.value)
    if one.op == "matches" and isinstance(one.value, str):
        one = one._replace(value=f"^(?:{one.value})$")
    # CC-03: a default of the tool is the site's word, so an argument that is not there is not compared.
    return (one.op != "present" or one.value is True) and is_met(one, None, arguments) is True


def describe_bounds(conditions: Conditions, uses_left: int | None) -> str:
    """Describe in words what a grant covers, safe to show and without the end time."""
    if conditions is None:
        fits = "any arguments"
    else:
        plain = [one for one in conditions if one.op != ONLY]
        named = {parse_pointer(one.pointer)[0] for one in plain}
        free = [name for one in conditions if one.op == ONLY for name in one.value if name not in named]
        any_value = [f"any {', '.join(make_visible(name)[:_MAX_SHOWN] for name in free)}"] if free else []
        nothing = ["no arguments"] if conditions and not plain and not free else []
        fits = " and ".join([*map(_describe, plain), *any_value, *nothing])
    number = "" if uses_left is None else "1 more call" if uses_left == 1 else f"{uses_left:,} more calls"
    return "; ".join(part for part in (fits or "no call", number) if part)


def _describe(condition: Condition) -> str:
    text = describe_condition(condition)
    return f"{text} as a whole" if condition.op == "matches" else text


def find_end(now: float, valid_s: float, bounds: GrantBounds) -> float:
    """Return when a grant with ``bounds`` that is given ``now`` ends. It never ends later than one without bounds."""
    return now + valid_s if bounds.until is None else min(now + valid_s, bounds.until)


def is_set_back(now: float, latest: float) -> bool:
    """Return whether a clock that shows ``now`` was set back, when it showed ``latest`` before."""
    return not now >= latest - MAX_CLOCK_STEP_BACK_S  # "not", because NaN is not a time


def describe_step_back(now: float, latest: float) -> str:
    """Return the log message about a clock that was set back."""
    shown, before = (_describe_time(one) for one in (now, latest))
    return (
        f"the clock shows {shown}, but showed {before} before. No permission is deleted, and none is used until the"
        " clock is right again or the user allows a tool anew"
    )


def _describe_time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return str(seconds)
