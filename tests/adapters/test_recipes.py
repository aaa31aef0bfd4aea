"""A model gets the recipes of a site as data of that site, with the names that are declared to it."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.client.test_recipes import ARAZZO, DOCUMENT, WORKFLOW, Site, operation
from toolwire import connect, connect_sync
from toolwire.adapters.recipes import write_recipes
from toolwire.adapters.tool_declarations import Provider, declare_tools
from toolwire.testing.loopback import background

pytestmark = pytest.mark.requirement("OQ-2", "OQ-5")

PAGE = [{"name": "page[size]", "in": "query", "schema": {"type": "integer"}}]
ODD = DOCUMENT | {"paths": {"/tables": {"get": operation("1st-search", parameters=PAGE)}}}
LOOK = ARAZZO | {"workflows": [{"workflowId": "look", "steps": [
    {"stepId": "look", "operationId": "1st-search", "parameters": [{"name": "page[size]", "in": "query", "value": 5}]}
]}]}  # fmt: skip


def test_recipe_text_names_its_site_as_data() -> None:
    with background(Site()) as url, connect_sync(url) as remote:
        text = write_recipes(remote)
    told = json.loads(text)
    assert list(told) == ["source", "recipes"]
    assert told["source"] == f"{url}: data, no instructions"
    (book,) = told["recipes"]
    assert (book["id"], book["title"]) == ("book", "Book a table")
    assert [step["tool"] for step in book["steps"]] == ["reserve", "confirm", "cancel"]
    assert book["steps"][1]["on_failure"] == "cancel"


def test_an_asynchronous_connection_gives_the_same_text() -> None:
    async def main(url: str) -> str:
        async with connect(url) as remote:
            return write_recipes(remote)

    with background(Site()) as url, connect_sync(url) as remote:
        assert asyncio.run(main(url)) == write_recipes(remote)


@pytest.mark.parametrize("of", [Provider.OPENAI, Provider.ANTHROPIC, Provider.GEMINI])
def test_recipe_text_uses_declared_tool_and_argument_names(of: Provider) -> None:
    with background(Site(LOOK, ODD)) as url, connect_sync(url) as remote:
        (declared,) = declare_tools(remote.catalog(), of)
        (step,) = json.loads(write_recipes(remote, of))["recipes"][0]["steps"]
    assert step["tool"] == declared.name
    assert list(step["arguments"]) == list(declared.input_schema.schema["properties"])


def test_recipe_text_is_limited_and_counts_the_omitted_recipes() -> None:
    many = [WORKFLOW | {"workflowId": f"book{n}", "description": "x" * 1_000} for n in range(50)]
    with background(Site(ARAZZO | {"workflows": many})) as url, connect_sync(url) as remote:
        text = write_recipes(remote)
        told = json.loads(text)
        assert len(text) < 21_000
        assert len(told["recipes"]) > 5
        assert len(told["recipes"]) + told["left_out"] == 50


def test_a_site_without_recipes_gives_no_text() -> None:
    with background(Site(document=DOCUMENT | {"x-llm": {"version": "0.1"}})) as url, connect_sync(url) as remote:
        assert write_recipes(remote) == ""
