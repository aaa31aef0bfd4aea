"""The second sample: the three routes of the proposal, as it writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from openapi_spec_validator import validate

from toolwire import Answer, Kind, Problem, Question, connect_sync
from toolwire.example_files.recipes.__main__ import main
from toolwire.example_files.recipes.app import Settings, create_app
from toolwire.example_files.recipes.book import Books, Choices
from toolwire.oauth import Accounts, OAuthStore
from toolwire.testing.loopback import background

GUEST = "pasta-for-everybody-1"
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.mark.requirement("XL-132")
def test_recipe_document_matches_the_proposal(tmp_path: Path) -> None:
    site = TestClient(create_app(Settings(folder=tmp_path)), base_url="http://127.0.0.1:9640")
    document = site.get("/.well-known/openapi.json").json()
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
def test_saving_can_be_allowed_always_and_deleting_cannot(tmp_path: Path) -> None:
    asked: list[Question] = []

    def always(question: Question) -> Answer:
        asked.append(question)
        return Answer(allowed=True, always=True)

    app = create_app(Settings(folder=tmp_path, guest_key=GUEST))
    with background(app) as url, connect_sync(url, approve=always, api_key=GUEST) as remote:
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
    assert Books(tmp_path / "recipes.db").list_favorites(find_guest(tmp_path)) == ["r1", "r2"]
    assert [one["id"] for one in found.value] == ["r1", "r2"]


@pytest.mark.requirement("XL-132", "XL-042")
def test_book_belongs_to_its_owner_whose_settings_apply_to_every_app(tmp_path: Path) -> None:
    app = create_app(Settings(folder=tmp_path, guest_key=GUEST))
    books, guest = Books(tmp_path / "recipes.db"), find_guest(tmp_path)
    books.open("somebody else")
    with background(app) as url, connect_sync(url, approve=lambda _: True, api_key=GUEST) as remote:
        books.choose(guest, Choices(save=True, delete=False))
        refused: Any = remote.call("deleteRecipe", {"id": "r1"})
        assert (
            refused.kind,
            ("does not let apps delete recipes") in refused.message,
        ) == (Kind.FORBIDDEN, True)
        assert remote.call("addFavorite", {"recipeId": "r2"}).ok
        books.choose(guest, Choices(save=False, delete=True))
        assert not remote.call("addFavorite", {"recipeId": "r3"}).ok
        assert remote.call("deleteRecipe", {"id": "r1"}).ok
        with connect_sync(url, approve=lambda _: True) as stranger:
            assert stranger.call("searchRecipes", {"query": "", "cuisine": "italian"}).kind is Kind.UNAUTHORIZED  # type: ignore[union-attr]  # it has no value
    assert books.list_favorites(guest) == ["r2"]
    assert [one.id for one, _ in books.list_recipes(guest)] == ["r2", "r3", "r4", "r5"]
    assert [one.id for one, _ in books.list_recipes("somebody else")] == ["r1", "r2", "r3", "r4", "r5"]
    assert books.list_favorites("somebody else") == []


def find_guest(folder: Path) -> str:
    account = Accounts(OAuthStore(folder / "accounts.db")).check("Guest", GUEST)
    assert account is not None
    return account.id


@pytest.mark.requirement("FU-59")
def test_folder_of_the_recipes_is_made_or_refused_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    new = tmp_path / "new" / "deep"
    served: list[Any] = []
    monkeypatch.setattr("uvicorn.run", lambda app, **_: served.append(app))
    monkeypatch.setattr("sys.argv", ["recipes", "--folder", str(new)])
    main()
    assert (len(served), new.is_dir()) == (1, True)
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setattr("sys.argv", ["recipes", "--folder", str(file / "below")])
    with pytest.raises(SystemExit) as ended:
        main()
    text = capsys.readouterr().err
    assert ended.value.code == 2
    assert f"--folder {file / 'below'} cannot be used: Not a directory." in text
    assert "Traceback" not in text
