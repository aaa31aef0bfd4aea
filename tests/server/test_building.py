"""What it takes to start with many tools, counted in work rather than in seconds."""

from __future__ import annotations

import gc

import pytest

import toolwire
from toolwire.core.codec import Site
from toolwire.protocols import BUILTIN
from toolwire.server.route_table import RouteTable

TOOLS = 500


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def many() -> toolwire.Toolkit:
    """Return a toolkit of many tools."""
    kit = toolwire.Toolkit("Many")
    for number in range(TOOLS):
        kit.add(add, name=f"add_{number}", approval="auto")
    return kit


def test_garbage_collection_is_paused_while_route_tables_are_built() -> None:
    catalog = many().catalog()
    collections: list[str] = []

    def note(phase: str, _: dict[str, int]) -> None:
        collections.append(phase)

    enabled, thresholds = gc.isenabled(), gc.get_threshold()
    gc.enable()
    gc.set_threshold(700, 10, 10)
    gc.callbacks.append(note)
    try:
        RouteTable(catalog, BUILTIN, Site(keys=True))
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*thresholds)
        if not enabled:
            gc.disable()
    assert collections.count("start") < 5


@pytest.mark.requirement("P-09")
def test_each_tool_adds_few_objects_for_the_garbage_collector() -> None:
    many()  # whatever is made once is made
    gc.collect()
    before = len(gc.get_objects())
    kit = many()
    gc.collect()
    assert (len(gc.get_objects()) - before) / len(kit.catalog().tools) < 75
