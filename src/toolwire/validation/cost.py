"""Bound the work of checking data against a schema, before it is done.

Rules:
- A unit of work is one schema applied to one value; shortcuts of the validator are not assumed.
- The cost of a schema for any part of a value is computed once. Only if it is high is the data of each call counted.
- Counting is bounded too: by the size of the schema, then by ``MAX_STEPS`` for each call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final

from toolwire.core.model import Json, Schema

from .json_size import TEXT_UNIT, is_within_size
from .schema_bound import UNKNOWN, compute_bound, cut_circles, has_circles, order_in_place
from .schema_graph import REFERENCES, SchemaGraph, SchemaNode, SchemaSurvey

MAX_WORK: Final = 10_000_000
"""Units of work that one check of arguments may take: about half a second."""

MAX_ERROR_WORK: Final = 10_000
"""Units of work up to which every error is described: describing one takes a hundred times as long as finding it."""

_MAX_COPIED: Final = 250_000
"""Units of work times the size of the data up to which every error is described: each error copies its part."""

MAX_STEPS: Final = 200_000
"""Steps that counting the work for one value may take."""

ORDINARY: Final = 32
"""Units of work for each part of a value up to which no value is counted: what is read is bounded by its bytes."""

_SIZES: Final = (25, 100, 400, 1_600, 6_400)


class SchemaCost:
    """The work of one schema.

    ``units_per_part`` is the most units of work for any one part of a value. ``has_choices`` says that the schema has
    keywords such as ``anyOf``, whose errors are expensive to describe. ``has_circles`` says that it comes back to
    itself for the same value, so that simple validators never end.
    """

    __slots__ = ("_cut", "_nodes", "_order", "has_choices", "has_circles", "units_per_part")

    def __init__(self, schema: Schema) -> None:
        """Find the cost of ``schema``.

        Raises:
            CostlySchemaError: it is too large, its patterns are, or it contains itself in more than one way.
        """
        survey = SchemaSurvey(schema)
        self.has_choices: bool = survey.has_choices
        self.has_circles: bool = False
        self._nodes: Sequence[SchemaNode] = ()
        self._order: Sequence[int] = ()
        self._cut: frozenset[int] = frozenset()
        if survey.is_tree and survey.weight <= ORDINARY:
            self.units_per_part: int = survey.weight  # each schema is looked at once at most, for any part of a value
            return
        graph = SchemaGraph(schema, survey)
        self._nodes = graph.nodes
        self.has_circles = has_circles(graph.nodes)
        self._cut = frozenset(id(graph.schemas[number]) for number in cut_circles(graph.nodes))
        self._order = order_in_place(graph.nodes)
        self.units_per_part = compute_bound(self._nodes, self._order)

    def remove_circles(self, schema: Schema) -> dict[str, Json]:
        """Return what to compile in place of ``schema``: without the references that only lead round in circles."""
        if not self._cut:
            return dict(schema)
        whole: dict[str, Json] = _drop_references(schema, self._cut)
        return whole

    def allows(self, data: Json, most: int = MAX_WORK) -> bool:
        """Return whether ``data`` is checked in at most ``most`` units of work; bounded itself by ``MAX_STEPS``."""
        if self.units_per_part < UNKNOWN and is_within_size(data, most // max(self.units_per_part, 1)):
            return True
        return bool(self._nodes) and self._is_affordable(data, most)

    def allows_errors(self, data: Json) -> bool:
        """Return whether every error of ``data`` can be described; where not, finding the first one may still be."""
        if self.units_per_part <= ORDINARY:
            return self.allows(data, MAX_ERROR_WORK)
        size = next((size for size in _SIZES if is_within_size(data, size)), None)
        return size is not None and self.allows(data, min(MAX_ERROR_WORK, _MAX_COPIED // size))

    def _is_affordable(self, data: Json, most: int) -> bool:
        """Return whether the work for ``data``, counted part by part, is at most ``most``."""
        nodes, order = self._nodes, self._order
        steps = MAX_STEPS
        waiting: list[tuple[Json, Mapping[int, int]]] = [(data, {0: 1})]
        while waiting:
            value, arrivals = waiting.pop()
            found = _count_visits(nodes, order, value, arrivals)
            most -= sum(times * _measure_own(nodes[number], value) for number, times in found.items())
            steps -= len(found) * (1 + _count_parts(value)) + 1
            if most < 0 or steps < 0:
                return False
            if isinstance(value, Mapping):
                waiting.extend((inner, _follow_name(nodes, found, name)) for name, inner in value.items())
            elif isinstance(value, list | tuple):
                waiting.extend(_follow_items(nodes, found, value))
        return True


def _drop_references(data: Json, cut: frozenset[int]) -> Json:
    if isinstance(data, Mapping):
        gone = REFERENCES if id(data) in cut else ()
        return {key: _drop_references(value, cut) for key, value in data.items() if key not in gone}
    return [_drop_references(one, cut) for one in data] if isinstance(data, list) else data


def _count_parts(value: Json) -> int:
    return len(value) if isinstance(value, Mapping | list | tuple) else 0


def _count_visits(
    nodes: Sequence[SchemaNode], order: Sequence[int], value: Json, arrivals: Mapping[int, int]
) -> dict[int, int]:
    """Return how often each schema is looked at for ``value`` itself, where ``arrivals`` are."""
    found = dict(arrivals)
    heap = [(order[number], number) for number in arrivals]
    heap.sort()
    while heap:
        _, number = heappop(heap)
        node, times = nodes[number], found[number]
        if node.rescans and isinstance(value, Mapping | list | tuple):
            times *= 4 + 3 * len(value)  # measured: what a part of a value was covered by is found out for each part
        for inner in node.here:
            if inner not in found:
                heappush(heap, (order[inner], inner))
            found[inner] = min(found.get(inner, 0) + times, UNKNOWN)
    return found


def _measure_own(node: SchemaNode, value: Json) -> int:
    if isinstance(value, str):
        return node.weight + len(value) // TEXT_UNIT + node.text_steps * len(value) // 32
    if isinstance(value, Mapping) and node.name_steps:
        return node.weight + node.name_steps * sum(map(len, value)) // 32
    return node.weight


def _follow_name(nodes: Sequence[SchemaNode], found: Mapping[int, int], name: str) -> dict[int, int]:
    below: dict[int, int] = {}
    for number, times in found.items():
        node = nodes[number]
        own = node.named.get(name)
        if own is not None:
            below[own] = below.get(own, 0) + times
        else:
            for inner in node.undeclared:
                below[inner] = below.get(inner, 0) + times
        for inner in node.every_property:
            below[inner] = below.get(inner, 0) + times
    return below


def _follow_items(
    nodes: Sequence[SchemaNode], found: Mapping[int, int], value: Sequence[Json]
) -> Iterator[tuple[Json, Mapping[int, int]]]:
    """Yield each item with what arrives there; the items after all that are described one by one share it."""
    described = max((nodes[number].prefix_length for number in found), default=0)
    shared = _follow_item(nodes, found, UNKNOWN)
    for place, inner in enumerate(value):
        yield inner, (shared if place >= described else _follow_item(nodes, found, place))


def _follow_item(nodes: Sequence[SchemaNode], found: Mapping[int, int], place: int) -> dict[int, int]:
    below: dict[int, int] = {}
    for number, times in found.items():
        node = nodes[number]
        # AT-31, measured: an item is looked at once for itself, and once to find out whether it was covered
        again = 2 * times if node.rescans else times
        for inner in node.every_item:
            below[inner] = min(below.get(inner, 0) + again, UNKNOWN)
        own = node.prefix.get(place)
        if own is not None:
            below[own] = below.get(own, 0) + times
        elif place >= node.prefix_length:
            for inner in node.later_items:
                below[inner] = below.get(inner, 0) + times
    return below
