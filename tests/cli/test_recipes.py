"""The command line shows the recipes of a site, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_serve import start_serve
from tests.client.test_recipes import Site
from toolwire import connect_sync
from toolwire.testing.loopback import background

pytestmark = pytest.mark.requirement("OQ-2")

TAKES = [{"name": "day", "in": "query", "schema": {"type": "string"}}]
ANSWER = {"200": {"description": "done"}}
DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "Tables", "version": "1.0.0"},
    "x-llm": {"version": "0.1", "workflows": "recipes.json"},
    "servers": [{"url": "https://tables.example"}],
    "paths": {"/holds": {"post": {"operationId": "reserve", "x-llm": {}, "parameters": TAKES, "responses": ANSWER}}},
}
STEP = {"stepId": "first", "operationId": "reserve", "description": "Hold \x1b[2Jit.", "parameters": [
    {"name": "day", "in": "query", "value": "$inputs.day"}]}  # fmt: skip
BOOK = {"workflowId": "book", "summary": "Book \x1b[31ma table\nAllowed: yes", "steps": [STEP],
        "inputs": {"type": "object", "properties": {"day": {"type": "string"}}}}  # fmt: skip
AGAIN = {"workflowId": "again", "steps": [{"stepId": "one", "workflowId": "book"}, STEP]}
PAY = {"workflowId": "pay", "steps": [{"stepId": "pay", "operationId": "pay"}]}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return the path of a document with two usable recipes and one that is left out."""
    recipes = {"arazzo": "1.0.1", "workflows": [BOOK, AGAIN, PAY]}
    for name, data in (("openapi.json", DOCUMENT), ("recipes.json", recipes)):
        (tmp_path / name).write_text(json.dumps(data), encoding="utf-8")
    return tmp_path / "openapi.json"


def test_recipes_are_printed_with_escaped_and_indented_text(site: Path, toolwire: Callable[..., Any]) -> None:
    printed = toolwire("tools", site, "--recipes")
    assert printed.code == 0
    assert printed.out.splitlines() == [
        "book: Book a table Allowed: yes",
        "  needs: day",
        "  1. reserve  Hold it.",
        "       day = $inputs.day",
        "",
        "again",
        "  1. the recipe book",
        "  2. reserve  Hold it.",
        "       day = $inputs.day",
        "",
        "These are the words of the site. Nothing runs a recipe: call its tools, and each call asks as always.",
    ]


def test_recipes_are_printed_as_json(site: Path, toolwire: Callable[..., Any]) -> None:
    book, again = json.loads(toolwire("tools", site, "--recipes", "--json").out)
    assert (book["id"], list(book["inputs"]["properties"])) == ("book", ["day"])
    assert book["steps"] == [
        {
            "step": 1,
            "id": "first",
            "tool": "reserve",
            "description": "Hold it.",
            "arguments": {"day": "$inputs.day"},
        }
    ]
    assert again["steps"][0] == {"step": 1, "id": "one", "recipe": "book"}


def test_tools_command_reports_that_there_are_recipes(site: Path, toolwire: Callable[..., Any]) -> None:
    lines = toolwire("tools", site).out.splitlines()
    assert "2 recipes: --recipes shows which tools the site combines for a task." in lines
    findings = toolwire("tools", site, "--findings").out
    assert "Recipe pay: its step pay is 'pay', which is no tool here: it is left out." in findings


def test_show_command_lists_the_recipes_of_a_tool(site: Path, toolwire: Callable[..., Any]) -> None:
    lines = toolwire("show", site, "reserve").out.splitlines()
    at = lines.index("Recipes of the site")
    assert lines[at + 1 : at + 3] == ["  step 1 of 1 of the recipe book", "  step 2 of 2 of the recipe again"]
    told = json.loads(toolwire("show", site, "reserve", "--json").out)
    assert told["recipes"] == [{"id": "book", "step": 1}, {"id": "again", "step": 2}]


def test_site_without_recipes_is_reported(desk: Path, toolwire: Callable[..., Any]) -> None:
    assert toolwire("tools", desk, "--recipes").out == "The site describes no recipes.\n"
    assert toolwire("tools", desk, "--recipes", "--json").out == "[]\n"
    assert "recipe" not in toolwire("tools", desk).out
    assert "Recipes" not in toolwire("show", desk, "add").out


def test_question_shows_the_recipe_step_of_a_call(terminal: Callable[..., Any], toolwire: Callable[..., Any]) -> None:
    with background(Site()) as url:
        at = terminal("call", url, "confirm", "hold=h1", "--step", "book/2", NO_COLOR="1")
        at.wait_for(b"Call it? [y/N]")
        assert b"2 of 3 of the recipe book" in at.shown
        at.type("y")
        assert at.end() == 0
        unknown = toolwire("call", url, "confirm", "hold=h1", "--step", "book/9")
        assert unknown.code == 2
        assert "There is no step 'book/9'" in unknown.err


def write_recipes_file(folder: Path, **members: Any) -> Path:
    """Write recipes for the tools of the desk, in YAML, and return their path."""
    text = "arazzo: 1.0.1\nworkflows:\n- workflowId: sum\n  steps:\n  - stepId: first\n    operationId: add\n"
    file = folder / "recipes.yaml"
    file.write_text(text + "".join(f"    {name}: {value}\n" for name, value in members.items()), encoding="utf-8")
    return file


@pytest.mark.parametrize("workers", [1, 2])
def test_serve_publishes_the_recipes_of_a_file(desk: Path, tmp_path: Path, workers: int) -> None:
    recipes = write_recipes_file(tmp_path, parameters="[{name: a, in: query, value: 1}]")
    with start_serve(desk, "--workflows", recipes, "--workers", workers) as (_, output):
        url = next(line.split()[1] for line in output.splitlines() if line.startswith("at "))
        with connect_sync(url, protocol="openapi") as remote:
            assert [(recipe.id, recipe.steps[0].tool) for recipe in remote.recipes] == [("sum", "Desk.add@1.2.0")]
            assert remote.recipes[0].steps[0].arguments == {"a": 1}


def test_serve_refuses_unreadable_or_unmatched_recipes(
    desk: Path, tmp_path: Path, toolwire: Callable[..., Any]
) -> None:
    recipes = write_recipes_file(tmp_path, parameters="[{name: x, in: query, value: 1}]")
    refused = toolwire("serve", desk, "--workflows", recipes)
    assert refused.code == 2
    assert "its step first gives more than the arguments of Desk.add@1.2.0" in refused.err
    (tmp_path / "large.json").write_text(" " * 262_145, encoding="utf-8")
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    said = {"none.json": "No such file", "large.json": "larger than 262,144 bytes", "bad.json": "is not JSON"}
    for name, why in said.items():
        refused = toolwire("serve", desk, "--workflows", tmp_path / name)
        assert (refused.code, why in refused.err) == (2, True), refused.err


def test_check_reports_each_recipe_fault_with_its_line(
    site: Path, tmp_path: Path, toolwire: Callable[..., Any]
) -> None:
    recipes = tmp_path / "recipes.json"
    alone = toolwire("check", recipes)
    assert (alone.code, alone.out) == (0, "1 file checked: 0 errors, 0 warnings.\n")
    lines = json.dumps(json.loads(recipes.read_text(encoding="utf-8")), indent=1).splitlines()
    recipes.write_text("\n".join(lines), encoding="utf-8")
    ((line, text),) = [(line, text) for line, text in enumerate(lines, 1) if '"operationId": "pay"' in text]
    both = toolwire("check", site, recipes)
    assert both.code == 1
    faults = [line for line in both.out.splitlines() if "recipes.json" in line]
    place = f"{recipes}:{line}:{text.index(': ') + 3}: error [OQ-2] /workflows/2/steps/0/operationId: "
    assert faults == [f"{place}Recipe pay: its step pay is 'pay', which is no tool here: it is left out."]
    told = json.loads(toolwire("check", site, recipes, "--json").out)
    assert [fault["rule"] for fault in told["faults"] if fault["file"] == str(recipes)] == ["OQ-2"]


@pytest.mark.parametrize(
    ("text", "rule", "said"),
    [
        ('{"arazzo": "3.0.0", "workflows": []}', "OQ-2", "of version '3.0.0' of Arazzo"),
        ('{"arazzo": "1.0.0", "workflows": {}}', "OQ-2", "it has no workflows"),
        ('{"arazzo": "1.0.0", "workflows": [7]}', "OQ-2", "its workflowId is not made of letters"),
        ('{"arazzo": "1.0.0",', "OQ-2", "This is not JSON"),
        ("arazzo: 1.0.0\nworkflows: 7\n", "OQ-2", "it has no workflows"),
        ("arazzo: '1.0.0\n", "OQ-2", "This is YAML that is not read"),
    ],
)
def test_check_accepts_any_recipe_document(
    text: str, rule: str, said: str, tmp_path: Path, toolwire: Callable[..., Any]
) -> None:
    (tmp_path / "r").write_text(text, encoding="utf-8")
    checked = toolwire("check", tmp_path / "r", "--kind", "arazzo")
    assert checked.code == 1
    assert f"error [{rule}]" in checked.out
    assert said in checked.out
