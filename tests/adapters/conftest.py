"""A toolbox whose names and keys no provider takes as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from toolwire.core.catalog import Catalog
from toolwire.core.model import Call, Cost, Json, Kind, Problem, Progress, Result, Tool, Value
from toolwire.core.toolbox import Notify, ignore_progress

SEARCH = Tool(
    name="1st-search",
    description="Search recipes",
    hint="Use when somebody is hungry.",
    cost=Cost.CREDITS,
    input_schema={
        "type": "object",
        "properties": {"page[size]": {"type": "integer", "minimum": 1}, "query": {"type": "string"}},
        "required": ["query"],
    },
    hints={
        "x-llm": {"next": [{"operationId": "save", "when": "One was liked.", "args": {"id": "$response.body#/found"}}]}
    },
)
SAVE = Tool(
    name="save", description="Save one", input_schema={"type": "object", "properties": {"id": {"type": "integer"}}}
)


class Box:
    """Answers each call with what it was given."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Json]]] = []

    def catalog(self) -> Catalog:
        return Catalog(title="Recipes", tools=(SEARCH, SAVE))

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        await notify(Progress("started"))
        return self.answer(call.tool, call.arguments)

    def answer(self, tool: Tool, arguments: Mapping[str, Json]) -> Result:
        self.calls.append((tool.name, dict(arguments)))
        if tool is SAVE:
            return Problem(kind=Kind.DENIED, message="No.", details={"denied": True})
        return Value({"found": 7})


class SyncBox(Box):
    """The same, blocking."""

    def call(self, name: str, arguments: Mapping[str, Any], /) -> Result:
        tool = self.catalog().find(name)
        assert isinstance(tool, Tool)
        return self.answer(tool, arguments)


@pytest.fixture
def box() -> Box:
    return Box()


@pytest.fixture
def sync_box() -> SyncBox:
    return SyncBox()
