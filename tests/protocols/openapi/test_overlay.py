"""Overlays: read, applied in order, and a starter that says what a person should decide."""

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
from toolwire.protocols.openapi.document.overlay import Action, Overlay
from toolwire.protocols.openapi.tools import operations

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


def made(*actions: dict[str, Any]) -> Overlay:
    found = overlay.read({"overlay": "1.0.0", "info": {"title": "O", "version": "1"}, "actions": list(actions)})
    assert isinstance(found, Overlay)
    return found


def test_actions_merge_append_and_remove_in_their_order() -> None:
    before = deepcopy(DOCUMENT)
    done = overlay.apply(
        made(
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
def test_a_member_is_removed_with_all_that_is_in_it(target: str, left: dict[str, Any]) -> None:
    done = overlay.apply(made({"target": target, "remove": True}), DOCUMENT).document
    assert {path: item for path, item in done["paths"].items() if path == "/pets"} == left


def test_what_a_path_meets_twice_is_changed_once_and_the_whole_is_never_removed() -> None:
    done = overlay.apply(
        made(
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


def test_an_action_that_meets_nothing_is_a_finding() -> None:
    done = overlay.apply(
        made({"target": "$.paths['/nowhere']", "update": {}}, {"target": "$.tags[9]", "remove": True}), DOCUMENT
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
def test_what_is_no_overlay_is_said_to_be_none(data: Any) -> None:
    assert isinstance(overlay.read(data), Problem)


@pytest.mark.parametrize("update", [None, 7, "x", [], [{}], {"x-llm": None}])
@pytest.mark.parametrize("target", ["$", "$.info.title", "$.tags", "$.tags[0]", "$..*"])
def test_an_odd_update_never_raises(target: str, update: Any) -> None:
    assert isinstance(overlay.apply(made({"target": target, "update": update}), DOCUMENT).document, dict)


def test_a_starter_makes_tools_of_an_api_that_is_not_ours() -> None:
    start = overlay.build_starter(DOCUMENT)
    said = {action["target"]: action["update"] for action in start["actions"]}
    assert said["$['paths']['/pets']['get']"]["x-llm"] == {
        "enabled": True, "approval": "auto", "hint": "",
    }  # fmt: skip
    assert said["$['paths']['/pets/{it\\'s}']['delete']"] == {
        "summary": "",
        "x-llm": {
            "enabled": True, "approval": "per-call", "blanketApprovalAllowed": False, "destructive": True, "hint": "",
        },
    }  # fmt: skip
    found = overlay.read(start)
    assert isinstance(found, Overlay)
    done = overlay.apply(found, DOCUMENT)
    assert done.notes == []
    tools = {
        tool.name: tool
        for tool in operations.read_operations(done.document, "https://pets.example/openapi.json").catalog.tools
    }
    assert (tools["listPets"].approval, tools["deletePet"].approval) == (Approval.AUTO, Approval.PER_CALL)
    assert overlay.build_starter(done.document)["actions"] == []


def test_a_document_is_read_with_its_overlay() -> None:
    look = find("https://pets.example/openapi.json", Selection(overlay=overlay.build_starter(DOCUMENT)))
    request = next(look)
    assert isinstance(request, Request)
    with pytest.raises(StopIteration) as stopped:
        look.send(Response(200, ((b"content-type", b"application/json"),), jsontext.write(DOCUMENT)))
    assert {tool.name for tool in stopped.value.value.peer.catalog.tools} == {"listPets", "deletePet"}


def test_a_target_is_found_however_deep_a_document_may_be() -> None:
    deep: dict[str, Any] = {"x-llm": {}}
    for _ in range(180):
        deep = {"more": deep}
    done = overlay.apply(made({"target": "$..['x-llm']", "update": {"hint": "h"}}), {**DOCUMENT, "x-deep": deep})
    assert done.notes == []
    found = done.document["x-deep"]
    for _ in range(180):
        found = found["more"]
    assert found == {"x-llm": {"hint": "h"}}


def test_a_target_that_was_never_read_and_is_no_path_meets_nothing() -> None:
    by_hand = Overlay(title="By hand", actions=(Action(target="paths[", remove=True),))
    done = overlay.apply(by_hand, DOCUMENT)
    assert done.document == DOCUMENT
    assert [note.text for note in done.notes] == ["The overlay's target paths[ is not in the document"]


def test_a_starter_finds_operations_behind_references() -> None:
    shared = {"get": {"operationId": "look"}, "delete": {"operationId": "drop"}}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "T", "version": "1"},
        "servers": [{"url": "https://a.example"}],
        "paths": {
            "/a": {"$ref": "#/components/pathItems/Shared~1one", "put": {"operationId": "put_a"}},
            "/b": {"$ref": "#/paths/~1a"},
            "/c": {"post": {"$ref": "#/components/x-operations/add"}},
            "/d": {"$ref": "#/paths/~1d"},
            "/e": {"$ref": "https://other.example/e.json"},
        },
        "components": {"pathItems": {"Shared/one": shared}, "x-operations": {"add": {"operationId": "add"}}},
    }
    start = overlay.build_starter(document)
    assert [action["target"] for action in start["actions"]] == [
        "$",
        "$['components']['pathItems']['Shared/one']['get']",
        "$['paths']['/a']['put']",
        "$['components']['pathItems']['Shared/one']['delete']",
        "$['components']['x-operations']['add']",
    ]
    made = overlay.read(start)
    assert isinstance(made, overlay.Overlay)
    done = overlay.apply(made, document)
    assert done.notes == []
    assert overlay.build_starter(done.document)["actions"] == []
