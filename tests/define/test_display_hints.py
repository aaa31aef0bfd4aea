"""A toolkit says how a result is shown and what follows, in parameters that every protocol carries."""

from __future__ import annotations

from typing import Any

import pytest

from toolwire import DefinitionError, Tool, Toolkit, asgi, connect_sync
from toolwire.framing.html_display import build_displayed_result
from toolwire.framing.next_steps import list_next_steps
from toolwire.testing import background

PLACES = [{"name": "Roscioli", "lat": 41.894, "lon": 12.474}]


def build_kit() -> Toolkit:
    kit = Toolkit("Places")

    @kit.tool(
        approval="auto",
        result={"render": "table", "fields": ["/name"]},
        next=["book", {"tool": "book", "when": "to eat", "args": {"name": "$response.body#/0/name"}}],
        hints={"x-llm": {"x-own": 1}, "openapi": {"deprecated": False}},
    )
    def find_places() -> list[dict[str, Any]]:
        return PLACES

    @kit.tool(approval="auto", result="card")
    def book(name: str) -> dict[str, str]:
        return {"name": name}

    return kit


@pytest.mark.requirement("SE-10", "FU-62")
@pytest.mark.parametrize("protocol", ["openapi", "mcp", "otc", "opentool"])
def test_display_and_next_steps_reach_a_client_over_every_protocol(protocol: str) -> None:
    with background(asgi(build_kit())) as url, connect_sync(url, protocol=protocol, agree=lambda _: True) as remote:
        tool, value = remote.find("find_places"), remote.call("find_places").unwrap()
        assert isinstance(tool, Tool)
        shown = build_displayed_result(tool, value)
        assert "<table" in shown
        assert "Show on a map" in shown
        steps = list_next_steps(tool, {}, value, ["book"])
    assert [(step.operation, step.when, dict(step.arguments)) for step in steps] == [
        ("book", "", {}),
        ("book", "to eat", {"name": "Roscioli"}),
    ]


@pytest.mark.requirement("SE-10")
def test_own_hints_stay_beside_the_parameters() -> None:
    tool = build_kit().functions[0].tool
    assert tool.hints["openapi"] == {"deprecated": False}
    assert tool.hints["x-llm"]["x-own"] == 1
    assert tool.hints["x-llm"]["result"] == {"render": "table", "fields": ["/name"]}


@pytest.mark.requirement("SE-10")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"result": "grid"}, "unknown result form 'grid'"),
        ({"result": {"render": "card", "title": "name"}}, "JSON Pointer"),
        ({"result": {"render": "card", "fields": "/name"}}, "JSON Pointer"),
        ({"result": {"color": "red"}}, "unknown member 'color'"),
        ({"result": 7}, "must be str or Mapping"),
        ({"next": "book"}, "must be tuple or list"),
        ({"next": [7]}, "in next is not valid. Write a tool's name, or tool, when and args"),
        ({"next": [{"when": "later"}]}, "in next is not valid. Write a tool's name, or tool, when and args"),
        ({"next": [{"tool": "book", "args": {"name": 1}}]}, "runtime expressions"),
    ],
)
def test_wrong_advice_is_refused_with_a_sentence(options: Any, said: str) -> None:
    with pytest.raises((DefinitionError, TypeError), match=said):
        Toolkit("Places").tool(**options)(lambda: None)
