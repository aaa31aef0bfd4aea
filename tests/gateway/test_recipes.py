"""A gateway passes on the recipes of its upstreams, with the names of its own tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.test_serve import start_serve
from tests.client.test_recipes import ARAZZO, DOCUMENT, WORKFLOW, Site
from toolwire import ApiKey, Secret, Session, Toolkit, Value, asgi, connect_sync, merge_toolboxes
from toolwire.client.connection.connect import connect_without_user
from toolwire.gateway import CallerConsent
from toolwire.gateway.waiting_toolbox import WaitingToolbox
from toolwire.server.run.function_toolbox import FunctionToolbox
from toolwire.testing.loopback import background

pytestmark = pytest.mark.requirement("OQ-2")

AGAIN = {"workflowId": "again", "steps": [{"stepId": "all", "workflowId": "book", "parameters": [
    {"name": "day", "value": "24"}]}]}  # fmt: skip
TWO = ARAZZO | {"workflows": [WORKFLOW, AGAIN]}


def open_site(url: str) -> Any:
    return connect_without_user(url, Session(), approve=CallerConsent())


def test_gateway_of_one_site_publishes_its_recipes() -> None:
    with (
        background(Site(TWO)) as site,
        connect_sync(site) as near,
        background(asgi(open_site(site))) as url,
        connect_sync(url) as far,
    ):
        assert far.findings() == ()
        assert far.recipes[1] == near.recipes[1]
        book, own = far.recipes[0], near.recipes[0]
        assert [step.tool for step in book.steps] == [step.tool for step in own.steps]
        assert [step.arguments for step in book.steps] == [step.arguments for step in own.steps]
        assert [step.on_failure for step in book.steps] == ["", "cancel", ""]
        assert (book.title, book.inputs, book.outputs) == (own.title, own.inputs, own.outputs)
        assert book.steps[0].outputs == {"hold": "$response.body#/hold"}
        # The gateway answers with a status of its own.
        assert (own.steps[0].conditions, book.steps[0].conditions) == (("$statusCode == 200",), ())


def test_recipe_step_through_a_gateway_shows_its_number_to_the_user() -> None:
    asked: list[int | None] = []

    def approve(question: Any) -> bool:
        asked.append(question.step and question.step.number)
        return True

    site = Site()
    with (
        background(site) as inner,
        background(asgi(open_site(inner))) as url,
        connect_sync(url, approve=approve) as remote,
    ):
        hold = remote.recipes[0].steps[0]
        assert remote.call("reserve", {"day": "24", "name": "Ada"}, step=hold) == Value({"hold": "h1"})
    assert set(asked) == {1}
    assert site.seen[-1] == "POST /holds"


def test_recipes_of_several_sites_are_prefixed_with_the_connection_name() -> None:
    kit = Toolkit("Desk")

    @kit.tool
    def note(text: str) -> None:
        """Write a note."""

    with background(Site(TWO)) as one, background(Site()) as other:
        boxes = [open_site(one), open_site(other), FunctionToolbox(kit)]
        with background(asgi(merge_toolboxes(boxes, names={0: "north", 1: "south"}))) as url, connect_sync(url) as far:
            assert far.findings() == ()
            assert [recipe.id for recipe in far.recipes] == ["north.book", "north.again", "south.book"]
            assert far.recipes[1].steps[0].subrecipe == "north.book"
            tools = {step.tool for recipe in far.recipes for step in recipe.steps if step.tool}
            assert len(tools) == 6
            assert tools <= {tool.id for tool in far.tools}


def test_caller_sees_no_recipes_of_an_invisible_upstream() -> None:
    keys = [ApiKey(key=Secret("all"), name="all"), ApiKey(key=Secret("few"), name="few", scopes=frozenset({"see"}))]
    with background(Site(TWO)) as one, background(Site()) as other:
        merged = merge_toolboxes([open_site(one), open_site(other)], names={0: "north", 1: "south"}, scopes={0: ["n"]})
        with background(asgi(merged, api_keys=keys)) as url:
            for key, seen in (("all", ["north.book", "north.again", "south.book"]), ("few", ["south.book"])):
                answer = httpx.get(f"{url}/workflows.json", headers={"authorization": f"Bearer {key}"})
                assert [recipe["workflowId"] for recipe in answer.json()["workflows"]] == seen


def test_unconnected_upstream_has_no_recipes() -> None:
    assert WaitingToolbox("The upstream a", lambda: open_site("http://127.0.0.1:1")).recipes == ()


def test_recipes_of_the_author_replace_those_of_the_site() -> None:
    own = ARAZZO | {"workflows": [{"workflowId": "own", "steps": [{"stepId": "a", "operationId": "reserve"}]}]}
    with background(Site()) as site, background(asgi(open_site(site), workflows=own)) as url, connect_sync(url) as far:
        assert [recipe.id for recipe in far.recipes] == ["own"]


def test_serve_passes_on_the_recipes_of_a_url_and_of_a_file(tmp_path: Path) -> None:
    whole = DOCUMENT | {"x-llm": {"version": "0.1", "workflows": "recipes.json"}, "servers": [{"url": "http://a.test"}]}
    local = ARAZZO | {"sourceDescriptions": [{"name": "tables", "url": "openapi.json", "type": "openapi"}]}
    for name, data in (("openapi.json", whole), ("recipes.json", local)):
        (tmp_path / name).write_text(json.dumps(data), encoding="utf-8")
    with background(Site()) as site:
        for target in (site, tmp_path / "openapi.json"):
            with start_serve(target) as (_, output):
                url = next(line.split()[1] for line in output.splitlines() if line.startswith("at "))
                with connect_sync(url, protocol="openapi") as far:
                    assert [recipe.id for recipe in far.recipes] == ["book"]
