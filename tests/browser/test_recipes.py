"""RecipeApp from the first visit on: a person at a real browser, and an assistant beside them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import QUICK
from tests.support.hostile_pages import PAYLOADS, Watched
from tests.support.recipe_accounts import sign_up
from toolwire import Kind, Problem, connect_sync
from toolwire.client import Session
from toolwire.example_files.recipes.app import Settings, create_app
from toolwire.stores.credentials.files import CredentialStore


@pytest.fixture
def recipes(tmp_path: Path, serve: Callable[[Callable[[str], Any]], str]) -> str:
    return serve(lambda url: create_app(Settings(url=url, folder=tmp_path, hasher=QUICK)))


@pytest.mark.requirement("XL-132", "XL-110", "XL-116", "XL-130", "XL-133", "FU-03", "CO-04")
def test_product_works_from_sign_up_to_app_permissions(
    page: Any, recipes: str, toolwire: Callable[..., Any], look: Callable[[str], None], tmp_path: Path
) -> None:
    page.goto(recipes)
    look("recipes-welcome")
    sign_up(page, recipes, "Ada")
    page.get_by_role("button", name="Save: Lasagne").click()
    page.get_by_text("Your favorites: Lasagne.").wait_for()
    look("recipes")

    scopes = ("recipes:read", "recipes:save", "recipes:delete")
    login = toolwire("login", recipes, *(word for scope in scopes for word in ("--scope", scope)))
    page.goto(login.address())
    page.get_by_role("heading", name="May “toolwire” use RecipeApp for you?").wait_for()
    assert [box.is_checked() for box in page.get_by_role("checkbox").all()] == [True, False, False]
    for box in page.get_by_role("checkbox").all():
        box.check()
    page.get_by_role("button", name="Allow", exact=True).click()
    page.get_by_role("heading", name="The site has answered").wait_for()
    assert login.end()[0] == 0

    # What she chooses in her settings, the site enforces: also against an app that asks nobody.
    page.goto(recipes)
    page.get_by_role("link", name="Settings").first.click()
    page.get_by_label("delete recipes").uncheck()
    page.get_by_role("button", name="Keep").click()
    page.get_by_text("Your settings were saved.").wait_for()
    look("recipes-settings")
    store = CredentialStore(tmp_path / "toolwire" / "credentials")
    with connect_sync(recipes, approve=lambda _: True, credential_store=store, session=Session()) as remote:
        found: Any = remote.call("searchRecipes", {"query": "pasta", "cuisine": "italian", "maxTime": 60})
        assert [one["id"] for one in found.value] == ["r1", "r2"]
        assert remote.call("addFavorite", {"recipeId": "r1"}).ok
        refused = remote.call("deleteRecipe", {"id": "r1"})
        assert isinstance(refused, Problem)
        assert (
            refused.kind,
            ("The owner of this book does not let apps delete recipes. The owner can change that in the settings")
            in refused.message,
        ) == (Kind.FORBIDDEN, True)
        page.get_by_role("link", name="Recipes", exact=True).click()
        page.get_by_text("Your favorites: Cacio e Pepe, Lasagne.").wait_for()
        page.get_by_role("link", name="Connected apps").first.click()
        assert page.locator("main li").all_inner_texts() == [
            "See your recipes recipes:read",
            "Save recipes to your favorites recipes:save",
            "Delete recipes recipes:delete",
        ]
        page.get_by_role("button", name="Take back: toolwire").click()
        page.get_by_text("You have not allowed any app.").wait_for()
        after = remote.call("searchRecipes", {"query": "pasta", "cuisine": "italian"})
        assert isinstance(after, Problem)
        assert after.kind in (Kind.UNAUTHORIZED, Kind.DENIED)


@pytest.mark.requirement("XL-135", "D-22", "D-25")
def test_two_users_have_separate_books_and_no_text_runs_as_script(chromium: Any, recipes: str) -> None:
    ada, bob = (chromium.new_context() for _ in range(2))
    first, second = ada.new_page(), bob.new_page()
    sign_up(first, recipes, "Ada")
    sign_up(second, recipes, PAYLOADS[1])
    watched = Watched(second, recipes)
    first.get_by_role("button", name="Delete: Lasagne").click()
    first.get_by_role("button", name="Delete: Lasagne").wait_for(state="detached")
    second.reload()
    assert second.get_by_role("button", name="Delete: Lasagne").count() == 1
    assert PAYLOADS[1] in second.inner_text("header")
    assert watched.unharmed()
    own = first.locator("input[name=token]").first.get_attribute("value")
    for headers, token in (({"origin": "https://evil.example"}, own), ({"origin": recipes}, "guess")):
        form = {"token": token, "change": "Save"}
        assert first.request.post(f"{recipes}/favorites/r1", form=form, headers=headers).status == 403
    first.reload()
    assert "You have no favorites yet" in first.inner_text("#favorites")
    ada.close()
    bob.close()
