"""A site describes tasks of several calls in an Arazzo document: a client shows them, and never runs them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolwire import Recipe, Selection, Session, connect, connect_sync
from toolwire.client.discovery.cache import Cache
from toolwire.protocols.openapi.document.arazzo import MAX_BYTES, StepOperation, load_recipes
from toolwire.testing.loopback import background


def body(*names: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": list(names)}
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def operation(name: str, **members: Any) -> dict[str, Any]:
    answer = {"200": {"description": "done", "content": {"application/json": {}}}}
    return {"operationId": name, "summary": f"To {name}.", "x-llm": {}, "responses": answer, **members}


HOLD = [{"name": "hold", "in": "path", "required": True, "schema": {"type": "string"}}]
DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Tables", "version": "1.0.0"},
    "x-llm": {"version": "0.1", "workflows": "/recipes.json"},
    "paths": {
        "/holds": {"post": operation("reserve", requestBody=body("day", "name"))},
        "/holds/{hold}": {"delete": operation("cancel", parameters=HOLD)},
        "/holds/{hold}/confirm": {"post": operation("confirm", parameters=HOLD)},
    },
}
RESERVE = {
    "stepId": "reserve",
    "description": "Hold a table.",
    "operationId": "reserve",
    "requestBody": {"payload": {"day": "$inputs.day", "name": "$inputs.name"}},
    "successCriteria": [{"condition": "$statusCode == 200"}],
    "outputs": {"hold": "$response.body#/hold"},
}
CONFIRM = {
    "stepId": "confirm",
    "operationId": "$sourceDescriptions.tables.confirm",
    "parameters": [{"name": "hold", "in": "path", "value": "$steps.reserve.outputs.hold"}],
    "onFailure": [{"name": "free", "type": "goto", "stepId": "cancel"}],
}
CANCEL = {
    "stepId": "cancel",
    "operationPath": "{$sourceDescriptions.tables.url}#/paths/~1holds~1{hold}/delete",
    "parameters": [{"reference": "$components.parameters.hold"}],
}
INPUTS = {"type": "object", "properties": {"day": {"type": "string"}, "name": {"type": "string"}}}
WORKFLOW: dict[str, Any] = {
    "workflowId": "book",
    "summary": "Book a table",
    "description": "A table for one evening.",
    "inputs": INPUTS,
    "steps": [RESERVE, CONFIRM, CANCEL],
    "outputs": {"hold": "$steps.reserve.outputs.hold"},
}
ARAZZO: dict[str, Any] = {
    "arazzo": "1.0.1",
    "info": {"title": "Tables", "version": "1.0.0"},
    "sourceDescriptions": [{"name": "tables", "url": "/openapi.json", "type": "openapi"}],
    "workflows": [WORKFLOW],
    "components": {
        "parameters": {"hold": {"name": "hold", "in": "path", "value": "$steps.reserve.outputs.hold"}},
        "inputs": {"guest": INPUTS},
    },
}


class Site:
    """A site with its documents, each with its status, and the requests that it got."""

    def __init__(self, recipes: Any = ARAZZO, document: Mapping[str, Any] = DOCUMENT) -> None:
        self.documents: dict[str, tuple[int, Any]] = {"/openapi.json": (200, document), "/recipes.json": (200, recipes)}
        self.seen: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        self.seen.append(f"{scope['method']} {scope['path']}")
        status, content = self.documents.get(scope["path"], (404, {}))
        if scope["method"] != "GET":
            status, content = 200, {"hold": "h1"}
        text = content if isinstance(content, bytes) else json.dumps(content).encode()
        fields = [(b"content-type", b"application/json"), (b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": status, "headers": fields})
        await send({"type": "http.response.body", "body": text})


def read(recipes: Any = ARAZZO, **change: Any) -> tuple[tuple[Recipe, ...], tuple[str, ...]]:
    """Return the recipes and the findings of a site whose root x-llm has ``change``. The tools are there."""
    site = Site(recipes, DOCUMENT | {"x-llm": DOCUMENT["x-llm"] | change})
    with background(site) as url, connect_sync(url) as remote:
        assert {tool.name for tool in remote.tools} == {"reserve", "confirm", "cancel"}
        return remote.recipes, remote.findings()


def with_steps(*steps: dict[str, Any], **members: Any) -> dict[str, Any]:
    return ARAZZO | {"workflows": [WORKFLOW | {"steps": list(steps)} | members]}


@pytest.mark.requirement("OQ-2")
def test_recipe_lists_tools_and_arguments_of_its_steps() -> None:
    (book,), findings = read()
    assert findings == ()
    assert (book.id, book.title, book.description) == ("book", "Book a table", "A table for one evening.")
    assert book.inputs == INPUTS
    assert book.outputs == {"hold": "$steps.reserve.outputs.hold"}
    reserve, confirm, cancel = book.steps
    assert [step.tool for step in book.steps] == ["Tables.reserve@1.0.0", "Tables.confirm@1.0.0", "Tables.cancel@1.0.0"]
    assert [(step.recipe, step.number, step.count) for step in book.steps] == [("book", n, 3) for n in (1, 2, 3)]
    assert reserve.arguments == {"day": "$inputs.day", "name": "$inputs.name"}
    assert (reserve.description, reserve.conditions) == ("Hold a table.", ("$statusCode == 200",))
    assert reserve.outputs == {"hold": "$response.body#/hold"}
    # The operation that cancels is the step after a failure of the one that commits.
    assert confirm.arguments == cancel.arguments == {"hold": "$steps.reserve.outputs.hold"}
    assert (reserve.on_failure, confirm.on_failure) == ("", "cancel")


@pytest.mark.requirement("OQ-2")
def test_the_asynchronous_client_has_the_same_recipes() -> None:
    async def main(url: str) -> tuple[Recipe, ...]:
        async with connect(url) as remote:
            return remote.recipes

    with background(Site()) as url:
        assert asyncio.run(main(url)) == read()[0]


@pytest.mark.requirement("OQ-2")
def test_reading_recipes_sends_no_step() -> None:
    site = Site()
    with background(site) as url, connect_sync(url) as remote:
        assert remote.recipes
    assert {line.partition(" ")[0] for line in site.seen} == {"GET"}
    assert site.seen.count("GET /recipes.json") == 1


@pytest.mark.requirement("OQ-2")
def test_yaml_and_reusable_parts_are_read() -> None:
    text = b"""
arazzo: 1.0.0
info: {title: Tables, version: 1.0.0}
sourceDescriptions: [{name: tables, url: ./openapi.json}]
workflows:
- workflowId: book
  inputs: {$ref: '#/components/inputs/guest'}
  parameters: [{name: hold, in: path, value: h0}]
  failureActions: [{reference: $components.failureActions.free}]
  steps:
  - {stepId: confirm, operationId: confirm}
  - {stepId: cancel, operationId: cancel, parameters: [{reference: $components.parameters.hold, value: h2}]}
components:
  inputs: {guest: {type: object}}
  parameters: {hold: {name: hold, in: path, value: h1}}
  failureActions: {free: {name: free, type: goto, stepId: cancel}}
"""
    (book,), findings = read(text)
    assert findings == ()
    assert book.inputs == {"type": "object"}
    assert [step.arguments for step in book.steps] == [{"hold": "h0"}, {"hold": "h2"}]
    assert book.steps[0].on_failure == "cancel"


@pytest.mark.requirement("OQ-2")
@pytest.mark.parametrize(
    ("recipes", "said"),
    [
        (with_steps(RESERVE, {"stepId": "pay", "operationId": "pay"}), "its step pay is 'pay', which is no tool here"),
        (with_steps({"stepId": "a", "operationPath": "{$sourceDescriptions.tables.url}#/paths/~1x/get"}), "no tool"),
        (with_steps({"stepId": "a", "operationId": "$sourceDescriptions.x.reserve"}), "which is no source description"),
        (with_steps({"stepId": "a"}), "names neither an operation nor a workflow"),
        (with_steps({"stepId": "a", "workflowId": "lost"}), "is the recipe lost, which is not there"),
        (with_steps(RESERVE, RESERVE), "two steps have one stepId"),
        (with_steps(RESERVE | {"stepId": "a b\n"}), "the stepId of a step is not made of letters"),
        (with_steps(), "it has no steps"),
        (with_steps(*(RESERVE | {"stepId": f"s{n}"} for n in range(201))), "200 steps of all recipes"),
        (with_steps(RESERVE, workflowId=7), "its workflowId is not made of letters"),
        (ARAZZO | {"arazzo": "2.0.0"}, "of version '2.0.0' of Arazzo, and 1.x is read"),
        (ARAZZO | {"workflows": {}}, "it has no workflows"),
        (DOCUMENT, "it is no Arazzo document"),
        ([], "it is no Arazzo document"),
        (b"<html>", "it is a web page"),
        (b"{", "it is not JSON"),
        (b'{"arazzo": "1.0.0", "arazzo": "1.0.1"}', "two members of one name"),
        (b"[" * 5_000, "nested too deep"),
        (ARAZZO | {"x": "x" * MAX_BYTES}, f"it is larger than {MAX_BYTES:,} bytes"),
    ],
)
def test_unsupported_recipe_is_dropped_with_a_finding_and_the_tools_stay(recipes: Any, said: str) -> None:
    found, findings = read(recipes)
    assert found == ()
    assert [said in finding for finding in findings] == [True]


@pytest.mark.requirement("OQ-2")
def test_invalid_recipe_does_not_drop_a_valid_one() -> None:
    pay = {"workflowId": "pay", "steps": [{"stepId": "pay", "operationId": "pay"}]}
    uses = {"workflowId": "uses", "steps": [{"stepId": "first", "workflowId": "pay"}]}
    again = {"workflowId": "again", "steps": [{"stepId": "first", "workflowId": "book"}]}
    found, findings = read(ARAZZO | {"workflows": [pay, uses, again, WORKFLOW, WORKFLOW]})
    assert [(recipe.id, recipe.steps[0].subrecipe) for recipe in found] == [("again", "book"), ("book", "")]
    assert len(findings) == 3


@pytest.mark.requirement("OQ-2")
def test_step_of_a_foreign_document_is_no_tool_of_this_site() -> None:
    elsewhere = [{"name": "tables", "url": "https://bank.example/openapi.json", "type": "openapi"}]
    found, (finding,) = read(ARAZZO | {"sourceDescriptions": elsewhere})
    assert found == ()
    assert "'tables', which is not the OpenAPI document of this site" in finding


@pytest.mark.requirement("OQ-2")
@pytest.mark.parametrize("there", ["https://elsewhere.example/r.json", "//elsewhere.example/r", "file:///etc/passwd"])
def test_recipe_document_on_another_origin_is_never_requested(there: str) -> None:
    found, (finding,) = read(workflows=there)
    assert found == ()
    assert f"{there!r} is not on this site, and was not read" in finding


@pytest.mark.requirement("OQ-2")
@pytest.mark.parametrize("there", ["/gone.json", "http://[", "/%00", "?", ""])
def test_missing_recipe_document_is_a_finding(there: str) -> None:
    found, findings = read(workflows=there)
    assert found == ()
    assert len(findings) == (0 if there == "" else 1)


@pytest.mark.requirement("OQ-2", "D-01")
def test_recipe_texts_are_cleaned_and_cut() -> None:
    hidden = "Book\u202e a\u200b table\x1b[8m, and obey\U000e0041"
    step = RESERVE | {"description": hidden * 200, "successCriteria": [{"condition": "x" * 900}] * 90}
    (book,), (finding,) = read(with_steps(step, summary=hidden, description=hidden * 200, inputs={"title": hidden}))
    assert "hidden characters were taken out" in finding
    assert book.title == "Book a table, and obey"
    assert book.inputs == {"title": "Book a table, and obey"}
    assert len(book.description) <= 1_000
    assert len(book.steps[0].description) <= 1_000
    assert [len(condition) for condition in book.steps[0].conditions] == [300] * 10


@pytest.mark.requirement("OQ-2")
def test_large_recipe_arguments_and_inputs_are_dropped_with_a_finding() -> None:
    step = RESERVE | {"requestBody": {"payload": {"day": "x" * 5_000}}}
    (book,), findings = read(with_steps(step, inputs={"title": "x" * 5_000}))
    assert (book.inputs, book.steps[0].arguments) == ({}, {})
    assert [finding.partition(": ")[0] for finding in findings] == ["Recipe book", "Recipe book"]


@pytest.mark.requirement("OQ-2")
def test_recipe_with_unselected_tools_is_dropped() -> None:
    with background(Site()) as url, connect_sync(url, selection=Selection(names=("reserve", "confirm"))) as remote:
        assert remote.recipes == ()
        assert any("its step cancel is '/paths/~1holds~1{hold}/delete'" in one for one in remote.findings())


@pytest.mark.requirement("OQ-2")
def test_local_file_may_name_recipes_only_in_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    (tmp_path / "recipes.json").write_text(json.dumps(ARAZZO), encoding="utf-8")
    whole = DOCUMENT | {"servers": [{"url": "https://tables.example"}]}
    local = ARAZZO | {"sourceDescriptions": [{"name": "tables", "url": "openapi.json"}]}
    (folder / "recipes.json").write_text(json.dumps(local), encoding="utf-8")
    for there, number in (("recipes.json", 1), ("../recipes.json", 0), ("%2e%2e/recipes.json", 0)):
        (folder / "openapi.json").write_text(json.dumps(whole | {"x-llm": {"workflows": there}}), encoding="utf-8")
        with connect_sync(str(folder / "openapi.json")) as remote:
            assert (len(remote.recipes), len(remote.findings())) == (number, 2 - number)


@pytest.mark.requirement("OQ-2", "OQ-4")
def test_changed_recipes_are_read_again_and_kept_if_that_fails() -> None:
    site, clock = Site(), [1_000_000.0]

    def now() -> float:
        return clock[0]

    with background(site) as url, connect_sync(url, session=Session(cache=Cache(clock=now), wall=now)) as remote:
        before = remote.recipes
        site.documents["/recipes.json"] = (503, {})
        assert remote.refresh() == ()
        assert remote.recipes == before
    site = Site()
    with background(site) as url, connect_sync(url) as remote:
        site.documents["/recipes.json"] = (200, ARAZZO | {"workflows": [WORKFLOW | {"summary": "Book"}]})
        assert remote.refresh() == ()
        assert [recipe.title for recipe in remote.recipes] == ["Book"]


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["book", "reserve", "goto"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(
        ["workflowId", "stepId", "steps", "operationId", "operationPath", "parameters", "name", "in", "value", "inputs",
         "requestBody", "payload", "onFailure", "type", "reference", "$ref", "outputs", "successCriteria", "condition"]
    ), inner, max_size=5),
    max_leaves=20,
)  # fmt: skip


@st.composite
def documents(draw: Callable[..., Any]) -> Any:
    """Return an Arazzo document in which parts were replaced by any JSON value."""
    steps = [draw(st.dictionaries(st.sampled_from(sorted(RESERVE | CONFIRM)), json_values)) for _ in range(2)]
    recipe = WORKFLOW | {"steps": [RESERVE | steps[0], CONFIRM | steps[1]]}
    recipe |= draw(st.dictionaries(st.sampled_from(sorted(WORKFLOW)), json_values, max_size=2))
    whole = ARAZZO | {"workflows": [recipe, draw(json_values)]}
    return whole | draw(st.dictionaries(st.sampled_from(sorted(ARAZZO)), json_values, max_size=1))


@pytest.mark.requirement("OQ-2")
@example(data=ARAZZO | {"workflows": []})
@given(data=documents() | json_values)
def test_any_json_gives_recipes_or_findings_and_never_an_error(data: Any) -> None:
    looked: list[str] = []

    def find(reference: str) -> StepOperation | None:
        looked.append(reference)
        known = reference in ("reserve", "confirm")
        return StepOperation(reference, lambda parameters, _: parameters) if known else None

    found = load_recipes(json.dumps(data).encode(), "application/json", "https://t.example/r.json", find)
    assert found.items or found.notes
    assert len(looked) <= 200
    for recipe in found.items:
        assert [step.number for step in recipe.steps] == list(range(1, len(recipe.steps) + 1))
        assert all(bool(step.tool) != bool(step.subrecipe) for step in recipe.steps)
        assert {step.subrecipe for step in recipe.steps} - {""} <= {one.id for one in found.items}
        assert replace(recipe) == recipe
