"""Search recipes, keep favorites: three routes, with the policies that the OpenTools proposal gives them.

``uvicorn --factory examples.recipes.app:create_app`` serves it, and ``toolwire tools http://127.0.0.1:8000`` finds it.
"""

# No ``from __future__ import annotations``: FastAPI reads the annotations of the routes below.

from dataclasses import dataclass, field
from threading import Lock
from typing import Annotated, Literal

from fastapi import FastAPI, HTTPException, Query, Response
from pydantic import BaseModel, Field

from toolwire.integrations.fastapi import publish_tools, x_llm

Cuisine = Literal["italian", "japanese", "mexican"]


class Recipe(BaseModel):
    """A dish, and how long it takes."""

    id: str
    name: str
    cuisine: Cuisine
    minutes: int
    ingredients: list[str]


class Favorite(BaseModel):
    """What is to be saved."""

    recipeId: Annotated[str, Field(description="ID of recipe to save")]  # noqa: N815 - as the API says it


def first_recipes() -> dict[str, Recipe]:
    """Return the recipes a new book has."""
    rows: list[tuple[str, str, Cuisine, int, str]] = [
        ("r1", "Cacio e Pepe", "italian", 20, "pasta, pecorino, pepper"),
        ("r2", "Pasta alla Norma", "italian", 45, "pasta, aubergines, tomatoes, ricotta salata"),
        ("r3", "Lasagne", "italian", 120, "pasta, ragù, béchamel, parmesan"),
        ("r4", "Oyakodon", "japanese", 30, "rice, chicken, eggs, onion"),
        ("r5", "Chilaquiles", "mexican", 30, "tortillas, salsa, eggs, cheese"),
    ]
    return {
        key: Recipe(id=key, name=name, cuisine=cuisine, minutes=minutes, ingredients=what.split(", "))
        for key, name, cuisine, minutes, what in rows
    }


@dataclass
class Book:
    """The recipes and the favorites of one person."""

    recipes: dict[str, Recipe] = field(default_factory=first_recipes)
    favorites: list[str] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    def found(self, key: str) -> Recipe:
        """Return the recipe of that id.

        Raises:
            HTTPException: there is none.
        """
        if key not in self.recipes:
            raise HTTPException(404, f"There is no recipe {key}: searchRecipes shows what there is.")
        return self.recipes[key]


def create_app(book: Book | None = None) -> FastAPI:
    """Return the app, for ``book``, or for one of its own."""
    kept = Book() if book is None else book
    app = FastAPI(title="RecipeApp", version="1.0.0", docs_url=None, redoc_url=None)

    @app.get(
        "/recipes/search",
        operation_id="searchRecipes",
        summary="Search recipes by ingredients or cuisine",
        tags=["recipes"],
        openapi_extra=x_llm(
            enabled=True, approval="auto", rate_limit=(30, "1m"), hint="Use when user asks to find or discover recipes"
        ),
    )
    def search_recipes(
        query: Annotated[str, Query(description="Search term for recipes")],
        cuisine: Annotated[Cuisine, Query(description="Filter by cuisine type")],
        maxTime: Annotated[float | None, Query(description="Max prep time in minutes")] = None,  # noqa: N803 - as above
    ) -> list[Recipe]:
        with kept.lock:
            found = [one for one in kept.recipes.values() if one.cuisine == cuisine and _fits(one, query)]
        return [one for one in found if maxTime is None or one.minutes <= maxTime]

    @app.post(
        "/favorites",
        operation_id="addFavorite",
        summary="Save recipe to favorites",
        openapi_extra=x_llm(
            enabled=True,
            approval="per-call",
            blanket_allowed=True,
            hint="Use when user wants to save/bookmark a recipe",
        ),
    )
    def add_favorite(favorite: Favorite) -> Recipe:
        with kept.lock:
            recipe = kept.found(favorite.recipeId)
            if recipe.id not in kept.favorites:
                kept.favorites.append(recipe.id)
        return recipe

    @app.delete(
        "/recipes/{id}",
        operation_id="deleteRecipe",
        status_code=204,
        response_class=Response,
        openapi_extra=x_llm(enabled=True, approval="per-call", blanket_allowed=False, destructive=True),
    )
    def delete_recipe(id: str) -> None:  # noqa: A002 - as the API says it
        with kept.lock:
            del kept.recipes[kept.found(id).id]
            kept.favorites = [key for key in kept.favorites if key != id]

    return publish_tools(app, name="RecipeApp", description="Save, organize, and discover recipes")


def _fits(recipe: Recipe, query: str) -> bool:
    text = f"{recipe.name} {' '.join(recipe.ingredients)}".casefold()
    return any(word in text for word in query.casefold().split()) or not query.strip()
