"""The second sample: the three routes of the proposal, as it writes them."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient
from openapi_spec_validator import validate

from examples.recipes.app import Book, create_app
from toolwire import Answer, Kind, Problem, Question, connect_sync
from toolwire.testing.loopback import background

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.mark.requirement("XL-132")
def test_the_document_says_what_the_proposal_says() -> None:
    document = TestClient(create_app()).get("/.well-known/openapi.json").json()
    validate(document)
    assert document["x-llm"] == {
        "version": "0.1",
        "name": "RecipeApp",
        "description": "Save, organize, and discover recipes",
        "defaultApproval": "per-call",
    }
    search = document["paths"]["/recipes/search"]["get"]
    assert (search["operationId"], search["tags"]) == ("searchRecipes", ["recipes"])
    assert search["summary"] == "Search recipes by ingredients or cuisine"
    assert search["x-llm"] == {
        "enabled": True,
        "approval": "auto",
        "rateLimit": {"max": 30, "window": "1m"},
        "hint": "Use when user asks to find or discover recipes",
    }
    parameters = {one["name"]: (one["required"], one["description"]) for one in search["parameters"]}
    assert parameters == {
        "query": (True, "Search term for recipes"),
        "cuisine": (True, "Filter by cuisine type"),
        "maxTime": (False, "Max prep time in minutes"),
    }
    add = document["paths"]["/favorites"]["post"]
    assert (add["operationId"], add["summary"]) == ("addFavorite", "Save recipe to favorites")
    assert add["x-llm"] == {
        "enabled": True,
        "approval": "per-call",
        "blanketApprovalAllowed": True,
        "hint": "Use when user wants to save/bookmark a recipe",
    }
    delete = document["paths"]["/recipes/{id}"]["delete"]
    assert delete["operationId"] == "deleteRecipe"
    assert delete["x-llm"] == {
        "enabled": True,
        "approval": "per-call",
        "blanketApprovalAllowed": False,
        "destructive": True,
    }


@pytest.mark.requirement("XL-132", "XL-045")
def test_saving_may_be_allowed_for_good_and_deleting_may_not() -> None:
    asked: list[Question] = []

    def always(question: Question) -> Answer:
        asked.append(question)
        return Answer(allowed=True, always=True)

    book = Book()
    with background(create_app(book)) as url, connect_sync(url, approve=always) as remote:
        for recipe in ("r1", "r2"):
            assert remote.call("addFavorite", {"recipeId": recipe}).ok
        for recipe in ("r3", "r4"):
            assert remote.call("deleteRecipe", {"id": recipe}).ok
        gone = remote.call("deleteRecipe", {"id": "r3"})
        found: Any = remote.call("searchRecipes", {"query": "pasta", "cuisine": "italian"})
    assert [question.call.tool.name for question in asked] == ["addFavorite"] + ["deleteRecipe"] * 3
    assert [question.always_allowed for question in asked] == [True, False, False, False]
    assert isinstance(gone, Problem)
    assert gone.kind is Kind.NOT_FOUND
    assert "There is no recipe r3" in gone.message
    assert book.favorites == ["r1", "r2"]
    assert [one["id"] for one in found.value] == ["r1", "r2"]
