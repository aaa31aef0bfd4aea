"""Bound what a schema costs for any part of any value, from its graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from .json_size import TEXT_UNIT
from .schema_graph import CostlySchemaError, SchemaNode

UNKNOWN: Final = 1 << 60
"""More than any work that is done, or work without a bound."""

_LEVELS: Final = 200
_TURNS: Final = 3  # how often the validator goes round at most; a test counts its steps


def _find_components(leads: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the strongly connected components of a graph, each after all those that it leads to."""
    count = len(leads)
    index = [0] * count
    low = [0] * count
    on_stack = bytearray(count)
    stack: list[int] = []
    found: list[list[int]] = []
    clock = 0
    for start in range(count):
        if index[start]:
            continue
        clock += 1
        index[start] = low[start] = clock
        stack.append(start)
        on_stack[start] = 1
        path = [(start, iter(leads[start]))]
        while path:
            node, rest = path[-1]
            for other in rest:
                if not index[other]:
                    clock += 1
                    index[other] = low[other] = clock
                    stack.append(other)
                    on_stack[other] = 1
                    path.append((other, iter(leads[other])))
                    break
                if on_stack[other]:
                    low[node] = min(low[node], index[other])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == index[node]:
                    component: list[int] = []
                    while not component or component[-1] != node:
                        component.append(stack.pop())
                        on_stack[component[-1]] = 0
                    found.append(component)
    return found


def cut_circles(nodes: Sequence[SchemaNode]) -> set[int]:
    """Cut the ways on which schemas come back to themselves for the same value; return whose references are cut.

    A type whose subtypes contain it is such a circle. What a schema demands of a value is not demanded again by a
    reference back to it, so that reference can go. A circle without branches is left: the validator ends it itself.

    Raises:
        CostlySchemaError: it comes back to itself by its choices, and in more than one way.
    """
    cut: set[int] = set()
    circles = False
    for component in _find_components([node.here for node in nodes]):
        members = set(component)
        if _is_acyclic(nodes, component) or _is_plain(nodes, members):
            continue
        circles = True
        for number in component:
            node = nodes[number]
            back = members.intersection(node.referred)
            if back and not node.is_choice:
                node.here = [other for other in node.here if other not in back]
                cut.add(number)
    if circles:
        for component in _find_components([node.here for node in nodes]):
            if not _is_acyclic(nodes, component) and not _is_plain(nodes, set(component)):
                raise CostlySchemaError("it contains itself in more than one way for the same value")
    return cut


def has_circles(nodes: Sequence[SchemaNode]) -> bool:
    """Return whether a schema comes back to itself for the same value; naive validators never end then."""
    return any(not _is_acyclic(nodes, component) for component in _find_components([node.here for node in nodes]))


def order_in_place(nodes: list[SchemaNode]) -> list[int]:
    """Return a place for each of ``nodes``, before all those it has looked at for the same value.

    A circle, which has no branches here, becomes one node that looks at each schema of it as often as the validator.
    """
    for component in _find_components([node.here for node in nodes]):
        if not _is_acyclic(nodes, component):
            members = set(component)
            turned: list[int] = []
            for number in component:
                turned += [len(nodes)] * _TURNS
                nodes.append(replace(nodes[number], here=[one for one in nodes[number].here if one not in members]))
            for number in component:
                nodes[number] = SchemaNode(weight=0, here=[len(nodes)])
            nodes.append(SchemaNode(weight=0, here=turned))
    order = [0] * len(nodes)
    place = len(nodes)
    for (number,) in _find_components([node.here for node in nodes]):
        place -= 1
        order[number] = place
    return order


def _is_acyclic(nodes: Sequence[SchemaNode], component: Sequence[int]) -> bool:
    return len(component) == 1 and component[0] not in nodes[component[0]].here


def _is_plain(nodes: Sequence[SchemaNode], members: set[int]) -> bool:
    """Return whether the circle of ``members`` has one way only, which the validator goes a few times."""
    return all(
        sum(other in members for other in nodes[number].here) == 1 and not nodes[number].rescans for number in members
    )


def compute_bound(nodes: Sequence[SchemaNode], order: Sequence[int]) -> int:
    """Return the most units of work that any one part of any value costs; ``UNKNOWN`` where there is no bound."""
    if any(node.rescans for node in nodes):
        return UNKNOWN
    local = [0] * len(nodes)
    for number in sorted(range(len(nodes)), key=order.__getitem__, reverse=True):
        node = nodes[number]
        own = node.weight + (node.text_steps + node.name_steps) * TEXT_UNIT // 32
        local[number] = min(own + sum(local[inner] for inner in node.here), UNKNOWN)
    most = [0] * len(nodes)  # for a value or any part of it
    below = [0] * len(nodes)  # for any part of a value
    for component in _find_components([[*node.here, *node.list_inner()] for node in nodes]):
        members = set(component) if len(component) > 1 else _find_self_loop(nodes, component[0])
        if not members:
            number = component[0]
            below[number] = _measure_exits(nodes[number], most, below, members)
            most[number] = max(local[number], below[number])
            continue
        exits = [_measure_exits(nodes[number], most, below, members) for number in component]
        if any(not _is_single(nodes[number], members) for number in component):
            return UNKNOWN
        largest = max(*(local[number] for number in component), *exits)
        if any(_has_overlap(nodes[number], members, below) for number in component):
            largest = min(_LEVELS * (sum(local[number] for number in component) + sum(exits)), UNKNOWN)
        for number in component:
            below[number] = most[number] = largest
    return most[0]


def _find_self_loop(nodes: Sequence[SchemaNode], number: int) -> set[int]:
    node = nodes[number]
    return {number} if number in node.here or any(inner == number for inner in node.list_inner()) else set()


def _measure_exits(node: SchemaNode, most: Sequence[int], below: Sequence[int], members: set[int]) -> int:
    """Return the most work for a part of a value by what ``node`` leads to outside ``members``."""
    own = {number: most[number] for number in node.list_inner() if number not in members}
    named = max((own.get(number, 0) for number in node.named.values()), default=0)
    of_objects = max(named, sum(own.get(number, 0) for number in node.undeclared))
    of_objects += sum(own.get(number, 0) for number in node.every_property)
    of_arrays = max((own.get(number, 0) for number in node.prefix.values()), default=0)
    of_arrays = max(of_arrays, sum(own.get(number, 0) for number in node.later_items))
    of_arrays += sum(own.get(number, 0) for number in node.every_item)
    here = sum(below[number] for number in node.here if number not in members)
    return min(max(of_objects, of_arrays) + here, UNKNOWN)


def _is_single(node: SchemaNode, members: set[int]) -> bool:
    """Return whether at most one way leads from ``node`` back into ``members`` for any one part of a value."""
    here = sum(number in members for number in node.here)
    every_property = sum(number in members for number in node.every_property)
    every_item = sum(number in members for number in node.every_item)
    properties = sum(number in members for number in (*node.named.values(), *node.undeclared))
    items = sum(number in members for number in (*node.prefix.values(), *node.later_items))
    if here:
        return here == 1 and not (every_property or every_item or properties or items)
    if every_property > 1 or every_item > 1 or len(node.undeclared) > 1 or len(node.later_items) > 1:
        return False
    return not (every_property and properties) and not (every_item and items)


def _has_overlap(node: SchemaNode, members: set[int], below: Sequence[int]) -> bool:
    """Return whether a way out of ``members`` and a way back into them are taken for the same part of a value."""
    inner = list(node.list_inner())
    back = [number for number in inner if number in members]
    out = [number for number in inner if number not in members]
    if any(number in members for number in node.here):
        return bool(out) or any(below[number] for number in node.here if number not in members)
    if not back:
        return False
    if any(below[number] for number in node.here):
        return True
    every = (*node.every_property, *node.every_item)
    return bool(out) and any(number in every for number in (*back, *out) if number in every)
