"""Overlays: read, and applied in order."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from toolwire.core.http import Request, Response
from toolwire.core.model import Approval, Problem
from toolwire.core.selection import Selection
from toolwire.framing import jsontext
from toolwire.protocols.openapi.discovery import find
from toolwire.protocols.openapi.document import overlay
from toolwire.protocols.openapi.document.overlay import Action, Overlay, OverlayOutcome
from toolwire.protocols.openapi.document.overlay_target import MIN_STEPS, StepBudget, find_locations

DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Pets", "version": "1.0.0"},
    "tags": [{"name": "a"}, {"name": "b"}, {"name": "c"}],
    "paths": {
        "/pets": {"get": {"operationId": "listPets", "summary": "List pets", "tags": ["a"], "responses": {}}},
        "/pets/{it's}": {
            "delete": {
                "operationId": "deletePet",
                "parameters": [{"name": "it's", "in": "path", "required": True, "schema": {"type": "integer"}}],
                "responses": {},
            }
        },
    },
}


def make_overlay(*actions: dict[str, Any]) -> Overlay:
    found = overlay.read({"overlay": "1.0.0", "info": {"title": "O", "version": "1"}, "actions": list(actions)})
    assert isinstance(found, Overlay)
    return found


def apply_overlay(found: Overlay, document: dict[str, Any]) -> OverlayOutcome:
    outcome = overlay.apply(found, document)
    assert isinstance(outcome, OverlayOutcome)
    return outcome


def test_actions_update_append_and_remove_in_order() -> None:
    before = deepcopy(DOCUMENT)
    done = apply_overlay(
        make_overlay(
            {"target": "$.paths.*.get", "update": {"summary": "Find pets", "tags": ["new"], "x-llm": {"hint": "h"}}},
            {"target": "$.tags", "update": {"name": "d"}},
            {"target": "$.tags[?@.name=='b' || @.name=='c']", "remove": True},
            {"target": "$.paths..['x-llm']", "update": {"approval": "auto"}},
        ),
        DOCUMENT,
    )
    operation = done.document["paths"]["/pets"]["get"]
    assert (operation["summary"], operation["tags"], operation["operationId"]) == (
        "Find pets",
        ["a", "new"],
        "listPets",
    )
    assert operation["x-llm"] == {"hint": "h", "approval": "auto"}
    assert done.document["tags"] == [{"name": "a"}, {"name": "d"}]
    assert (done.notes, DOCUMENT) == ([], before)


@pytest.mark.parametrize(
    ("target", "left"),
    [
        ("$.paths['/pets'].get", {"/pets": {}}),
        ("$.paths[*].get", {"/pets": {}}),
        ("$.paths.*", {}),
        ("$.paths..*", {}),
    ],
)
def test_removing_a_member_removes_its_contents(target: str, left: dict[str, Any]) -> None:
    done = apply_overlay(make_overlay({"target": target, "remove": True}), DOCUMENT).document
    assert {path: item for path, item in done["paths"].items() if path == "/pets"} == left


def test_location_matched_twice_is_changed_once_and_the_root_never_removed() -> None:
    done = apply_overlay(
        make_overlay(
            {"target": "$.tags[0, 0]", "remove": True},
            {"target": "$['tags', 'tags']", "update": {"name": "d"}},
            {"target": "$", "remove": True},
            {"target": "$", "update": {"info": {"title": "Zoo", "contact": {"name": "Ada"}}}},
            {"target": "$.info", "update": {"contact": {"url": "https://a.example"}}},
        ),
        DOCUMENT,
    ).document
    assert [tag["name"] for tag in done["tags"]] == ["b", "c", "d"]
    assert done["info"]["title"] == "Zoo"
    assert done["info"]["contact"] == {"name": "Ada", "url": "https://a.example"}


def test_action_without_a_match_is_a_finding() -> None:
    done = apply_overlay(
        make_overlay({"target": "$.paths['/nowhere']", "update": {}}, {"target": "$.tags[9]", "remove": True}), DOCUMENT
    )
    assert len(done.notes) == 2
    assert done.document == DOCUMENT


@pytest.mark.parametrize(
    "data",
    [
        None, [], {}, {"overlay": "2.0.0", "actions": [{"target": "$"}]}, {"overlay": "1.0.0"},
        {"overlay": "1.0.0", "actions": []}, {"overlay": "1.0.0", "actions": [7]},
        {"overlay": "1.0.0", "actions": [{"target": "paths"}]}, {"overlay": "1.0.0", "actions": [{"target": 1}]},
        {"overlay": "1.0.0", "actions": [{"target": "$" + "[" * 5_000}]},
    ],
)  # fmt: skip
def test_invalid_overlay_is_refused(data: Any) -> None:
    assert isinstance(overlay.read(data), Problem)


@pytest.mark.parametrize("update", [None, 7, "x", [], [{}], {"x-llm": None}])
@pytest.mark.parametrize("target", ["$", "$.info.title", "$.tags", "$.tags[0]", "$..*"])
def test_any_overlay_update_raises_no_exception(target: str, update: Any) -> None:
    assert isinstance(apply_overlay(make_overlay({"target": target, "update": update}), DOCUMENT).document, dict)


def test_document_is_read_with_its_overlay() -> None:
    action = {"target": "$.paths.*.*", "update": {"x-llm": True}}
    start = {"overlay": "1.0.0", "info": {"title": "O", "version": "1"}, "actions": [action]}
    look = find("https://pets.example/openapi.json", Selection(overlay=start))
    request = next(look)
    assert isinstance(request, Request)
    with pytest.raises(StopIteration) as stopped:
        look.send(Response(200, ((b"content-type", b"application/json"),), jsontext.write(DOCUMENT)))
    assert {tool.name for tool in stopped.value.value.peer.catalog.tools} == {"listPets", "deletePet"}


def test_recursive_target_matches_at_the_maximum_document_depth() -> None:
    deep: dict[str, Any] = {"x-llm": {}}
    for _ in range(180):
        deep = {"more": deep}
    done = apply_overlay(
        make_overlay({"target": "$..['x-llm']", "update": {"hint": "h"}}), {**DOCUMENT, "x-deep": deep}
    )
    assert done.notes == []
    found = done.document["x-deep"]
    for _ in range(180):
        found = found["more"]
    assert found == {"x-llm": {"hint": "h"}}


def test_unparsed_invalid_target_matches_nothing() -> None:
    by_hand = Overlay(title="By hand", actions=(Action(target="paths[", remove=True),))
    done = apply_overlay(by_hand, DOCUMENT)
    assert done.document == DOCUMENT
    assert [note.text for note in done.notes] == ["The overlay's target paths[ is not in the document"]


def nest(levels: int, inner: dict[str, Any]) -> dict[str, Any]:
    for _ in range(levels):
        inner = {"a": inner}
    return inner


GROWS = [{"target": "$.info", "update": {"x": {}}}]
WIDE = {**DOCUMENT, "x-many": [{"text": "a" * 200, "other": [number]} for number in range(3_000)]}


@pytest.mark.requirement("D-15", "D-17")
@pytest.mark.parametrize(
    "actions",
    [
        [{"target": "$..[?count($..*)>count($..[?count($..*)>1])]", "update": {"x": 1}}],
        [{"target": "$..[?$..[?@.never]]", "update": {"x": 1}}],
        [{"target": "$..*..*..*..*[?@.never == 1]", "update": {"x": 1}}] * 1_000,
        [{"target": "$..*", "update": {"q": 1}}] * 10_000,
        [{"target": "$..nothing", "update": {"q": 1}}] * 10_000,
        [{"target": "$['x-many'][?match(@.text, @.text)]", "update": {"q": 1}}] * 10_000,
        GROWS + [{"target": "$..x", "update": {"l": {"x": {}}, "r": {"x": {}}}}] * 40,
        [{"target": "$..*", "update": {"y": ["z" * 1_000] * 1_000}}],
        [{"target": "$.info", "update": {"x": [1] * 100_000}}] * 100,
        [{"target": "$.info", "update": nest(150, {"z": {}})}, {"target": "$..z", "update": nest(150, {})}],
    ],
)
def test_overlay_with_unbounded_work_or_growth_is_refused(actions: list[dict[str, Any]]) -> None:
    before = deepcopy(WIDE)
    outcome = overlay.apply(make_overlay(*actions), WIDE)
    assert isinstance(outcome, Problem)
    assert outcome.message.startswith("Cannot use the overlay")
    assert before == WIDE


@pytest.mark.requirement("D-17")
def test_cost_of_a_target_is_the_number_of_visited_values() -> None:
    def count(target: str, document: Any) -> int:
        budget = StepBudget()
        find_locations(target, document, budget)
        return MIN_STEPS - budget.left

    assert count("$.a.b", {"a": {"b": 1, "c": [1] * 1_000}}) == 2
    assert count("$.a[*]", {"a": [1] * 1_000}) == 1_002
    assert count("$.a[?@.b == 1]", {"a": [{"b": 2}] * 1_000}) == 2_002
    assert 1_000 < count("$..a", {"a": [[1] * 10] * 100}) < 2_000
    quadratic = count("$.a[?$.a[?@ == 5]]", {"a": list(range(100))})
    assert quadratic > 10_000


@pytest.mark.requirement("D-15")
@pytest.mark.parametrize(
    ("filter_", "names"),
    [
        ("match(@.name, 'b.*')", ["bar", "baz"]),
        ("match(@.name, 'ba')", []),
        ("match(@.name, 'foo|bar')", ["foo", "bar"]),
        ("search(@.name, 'a')", ["bar", "baz"]),
        ("search(@.name, '[oz]+')", ["foo", "baz"]),
        ("match(@.name, 1)", []),
        ("match(@.name, '(')", []),
        ("match(@.none, 'a')", []),
        ("length(@.name) == 3 && @.name != 'foo'", ["bar", "baz"]),
        ("count(@.*) == 1", ["foo", "bar", "baz"]),
    ],
)
def test_filters_match_as_rfc_9535_requires(filter_: str, names: list[str]) -> None:
    document = {"paths": {}, "list": [{"name": name} for name in ("foo", "bar", "baz")]}
    done = apply_overlay(make_overlay({"target": f"$.list[?{filter_}]", "update": {"x": 1}}), document).document
    assert [one["name"] for one in done["list"] if "x" in one] == names


@pytest.mark.requirement("D-01")
def test_text_hidden_by_an_overlay_makes_its_tool_ask_each_time() -> None:
    document = {**DOCUMENT, "x-llm": {"version": "0.1", "name": "Pets", "description": "", "defaultApproval": "auto"}}
    for hint, level in (("Look.", Approval.AUTO), ("Look.\u200b\U000e0041", Approval.PER_CALL)):
        update = {"x-llm": {"enabled": True, "approval": "auto", "hint": hint}}
        laid = {"overlay": "1.0.0", "actions": [{"target": "$.paths['/pets'].get", "update": update}]}
        flow = find("https://a.example/openapi.json", Selection(overlay=laid))
        body = jsontext.write(document)
        step = next(flow)
        while True:
            try:
                step = flow.send(Response(200, ((b"content-type", b"application/json"),), body))
            except StopIteration as stop:
                peer = stop.value.peer
                break
        assert step is not None
        (tool,) = [one for one in peer.catalog.tools if one.name == "listPets"]
        assert tool.approval is level


def make_overlay_of_version(version: str, *actions: dict[str, Any]) -> Overlay:
    found = overlay.read({"overlay": version, "info": {"title": "O", "version": "1"}, "actions": list(actions)})
    assert isinstance(found, Overlay)
    return found


@pytest.mark.requirement("O-36")
def test_overlay_11_copies_a_value_before_it_is_removed() -> None:
    done = apply_overlay(
        make_overlay_of_version(
            "1.1.0",
            {"target": "$.paths", "update": {"/new": {}}},
            {"target": "$.paths['/new']", "copy": "$.paths['/pets']"},
            {"target": "$.paths['/pets']", "remove": True},
            {"target": "$.tags", "copy": "$.tags"},
            {"target": "$.info.title", "update": "New words"},
        ),
        DOCUMENT,
    )
    assert done.document["paths"]["/new"] == DOCUMENT["paths"]["/pets"]
    assert "/pets" not in done.document["paths"]
    assert [one["name"] for one in done.document["tags"]] == ["a", "b", "c", "a", "b", "c"]
    assert done.document["info"]["title"] == "New words"
    assert done.notes == []


@pytest.mark.requirement("O-36")
@pytest.mark.parametrize(
    ("version", "action", "finding"),
    [
        ("1.0.0", {"target": "$.info", "copy": "$.tags[0]"}, "action 0 has no effect at $.info: it has no update"),
        ("1.0.0", {"target": "$.info.title", "update": "New"}, "the update is not of the kind of the value there"),
        ("1.1.0", {"target": "$.info.title", "update": {"a": 1}}, "the update is not of the kind of the value there"),
        ("1.1.0", {"target": "$.info", "copy": "$.tags[*]"}, "$.tags[*] is 3 values of the document, and one"),
        ("1.1.0", {"target": "$.info", "copy": "$.none"}, "$.none is 0 values of the document, and one can be copied"),
        ("1.1.0", {"target": "$.info"}, "it has no update, no remove and, for Overlay 1.1, no copy"),
        ("1.0.0", {"target": "$", "remove": True}, "the whole document is not removed"),
        ("1.2.0", {"target": "$.info", "update": {}}, "Overlay 1.2 is newer than 1.1, and read like it"),
    ],
)
def test_action_without_effect_is_a_finding(version: str, action: dict[str, Any], finding: str) -> None:
    done = apply_overlay(make_overlay_of_version(version, action), DOCUMENT)
    assert done.document == DOCUMENT
    assert finding in " ".join(map(str, done.notes))
