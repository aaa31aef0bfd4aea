"""Find the tools of a server that have the same effect, which one permission may cover, and store that permission.

Rules:
- Each of them is covered in the definition that the user saw. One that changes falls out, and a new one asks.
- A read that may carry data out by its server's own word is not among them. An argument that names a destination stays
  absent unless a condition of the permission is about it.
- What may not be remembered of a tool by itself is not covered together with others either.
"""
# QF-03

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from toolwire.core.check import SimilarTool
from toolwire.core.condition import ONLY
from toolwire.core.errors import DefinitionError
from toolwire.core.grant_bounds import MAX_SIMILAR, GrantBounds
from toolwire.core.model import Call, Tool

from .grant import Grant, GrantKey, Grants
from .policy import explain_unkept
from .tool_facts import find_destinations, is_open_world


def list_similar(
    tool: Tool, tools: Iterable[Tool], find_key: Callable[[Tool], GrantKey], can_allow: Callable[[Tool], bool]
) -> list[tuple[Tool, SimilarTool]]:
    """Return the other ``tools`` with the effect of ``tool``, at most 100. ``can_allow`` says what policies leave."""
    effect = _find_effect(tool)
    found = (
        (one, _describe(one, find_key(one)))
        for one in tools
        if one.id != tool.id and _find_effect(one) == effect and not _may_leak(one) and can_allow(one)
    )
    return list(islice(found, MAX_SIMILAR))


def find_covered(grants: Iterable[Grant]) -> frozenset[GrantKey]:
    """Return the keys for which some of ``grants`` cover any arguments: nothing is left to allow there."""
    return frozenset(
        one.key
        for one in grants
        if one.conditions is None or (one.conditions and all(each.op == ONLY for each in one.conditions))
    )


def add_permission(
    grants: Grants, key: GrantKey, call: Call, bounds: GrantBounds | None, similar: Sequence[SimilarTool] = ()
) -> list[SimilarTool]:
    """Store a permission for the tool of ``call`` and those of ``similar`` that ``bounds`` name. Return these.

    Raises:
        DefinitionError: there are no ``bounds`` that the tool needs.
    """
    if call.tool.blanket_allowed is None and (fault := explain_unkept(bounds, always_allowed=None)):
        raise DefinitionError(fault)
    if bounds is None:
        grants.add(key)
        return []
    chosen = [one for one in similar if one.definition in bounds.tools]
    others = [(key._replace(tool=one.id, definition=one.definition), one.arguments) for one in chosen]
    grants.add(key, bounds, call.arguments, others)
    return chosen


def _describe(tool: Tool, key: GrantKey) -> SimilarTool:
    destinations = find_destinations(tool)
    arguments = tuple(name for name in tool.parameters if name not in destinations)
    text = tool.description.strip().partition("\n")[0]
    return SimilarTool(tool.id, tool.name, key.definition, arguments, destinations, text)


def _find_effect(tool: Tool) -> tuple[object, ...]:
    return tool.safe or tool.claimed_safe, tool.destructive, tool.cost, is_open_world(tool)


def _may_leak(tool: Tool) -> bool:
    """Return whether ``tool`` is a read that may carry data out."""
    return (tool.safe or tool.claimed_safe) and is_open_world(tool)
