"""The command line shows the recipes of a site, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.client.test_recipes import Site
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


def test_recipes_are_printed_as_text_that_cannot_pass_for_ours(site: Path, toolwire: Callable[..., Any]) -> None:
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


def test_the_table_of_tools_says_that_there_are_recipes(site: Path, toolwire: Callable[..., Any]) -> None:
    lines = toolwire("tools", site).out.splitlines()
    assert "2 recipes: --recipes shows which tools the site combines for a task." in lines
    findings = toolwire("tools", site, "--findings").out
    assert "Recipe pay: its step pay is 'pay', which is no tool here: it is left out." in findings


def test_a_tool_shows_the_recipes_that_it_is_part_of(site: Path, toolwire: Callable[..., Any]) -> None:
    lines = toolwire("show", site, "reserve").out.splitlines()
    at = lines.index("Recipes of the site")
    assert lines[at + 1 : at + 3] == ["  step 1 of 1 of the recipe book", "  step 2 of 2 of the recipe again"]
    told = json.loads(toolwire("show", site, "reserve", "--json").out)
    assert told["recipes"] == [{"id": "book", "step": 1}, {"id": "again", "step": 2}]


def test_a_site_without_recipes_says_so(desk: Path, toolwire: Callable[..., Any]) -> None:
    assert toolwire("tools", desk, "--recipes").out == "The site describes no recipes.\n"
    assert toolwire("tools", desk, "--recipes", "--json").out == "[]\n"
    assert "recipe" not in toolwire("tools", desk).out
    assert "Recipes" not in toolwire("show", desk, "add").out


def test_a_terminal_shows_the_step_of_a_call(terminal: Callable[..., Any], toolwire: Callable[..., Any]) -> None:
    with background(Site()) as url:
        at = terminal("call", url, "confirm", "hold=h1", "--step", "book/2", NO_COLOR="1")
        at.wait_for(b"Call it? [y/N]")
        assert b"2 of 3 of the recipe book" in at.shown
        at.type("y")
        assert at.end() == 0
        unknown = toolwire("call", url, "confirm", "hold=h1", "--step", "book/9")
        assert unknown.code == 2
        assert "There is no step 'book/9'" in unknown.err
