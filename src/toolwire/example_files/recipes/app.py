"""RecipeApp: accounts, a book of recipes for each of them, and assistants that may use it as its owner allows.

``python -m recipes`` serves it, and ``toolwire login http://127.0.0.1:9640`` lets toolwire in.
"""

# No ``from __future__ import annotations``: FastAPI reads the annotations of the routes below.

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from argon2 import PasswordHasher
from fastapi import FastAPI, HTTPException, Query, Request, Response, Security
from fastapi.security import OAuth2AuthorizationCodeBearer, SecurityScopes
from pydantic import BaseModel, Field
from starlette.middleware.trustedhost import TrustedHostMiddleware

from toolwire.core.model import Problem, Secret
from toolwire.integrations.fastapi import publish_tools, x_llm
from toolwire.oauth import Accounts, OAuthStore, authorization_server, build_refusal, identify_caller
from toolwire.server.access.api_keys import ApiKey, ApiKeyCallers
from toolwire.server.access.callers import Callers, CombinedCallers

from .book import Books, Cuisine, Recipe
from .pages import Site, add_pages

SCOPES = {
    "recipes:read": "See your recipes",
    "recipes:save": "Save recipes to your favorites",
    "recipes:delete": "Delete recipes",
}


class Favorite(BaseModel):
    """What is to be saved."""

    recipeId: Annotated[str, Field(description="ID of recipe to save")]  # noqa: N815 - as the API says it


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the product is run: ``url`` is what people type, ``folder`` where its data is.

    ``guest_key`` makes an account for trying it, which a program may use with this key. ``hasher`` takes the place of
    argon2's defaults.
    """

    url: str = "http://127.0.0.1:9640"
    folder: Path = Path()
    guest_key: str = ""
    hasher: PasswordHasher | None = None


class RefusedError(Exception):
    """A request of the API that is answered with ``response`` instead."""

    def __init__(self, response: Any) -> None:
        super().__init__(response.status)
        self.response = response


def create_app(settings: Settings) -> Callable[..., Any]:
    """Return the product as an ASGI application."""
    books, store = Books(settings.folder / "recipes.db"), OAuthStore(settings.folder / "accounts.db")
    people = Accounts(store, hasher=settings.hasher)
    oauth = authorization_server(
        issuer=settings.url, name="RecipeApp", store=store, users=people, scopes=SCOPES, registration=True,
        sign_up_url="/sign-up",
    )  # fmt: skip
    callers: Callers = oauth.callers
    if settings.guest_key:
        guest = people.add("Guest", settings.guest_key) or people.check("Guest", settings.guest_key)
        if guest is None:
            raise ValueError("The guest account already has another key. Use that key, or another folder.")
        books.open(guest.id)
        callers = CombinedCallers(ApiKeyCallers([ApiKey(key=Secret(settings.guest_key), name=guest.id)]), callers)
    app = FastAPI(title="RecipeApp", version="1.0.0", docs_url=None, redoc_url=None)
    _add_operations(app, books, callers)
    add_pages(app, Site(settings.url, books, people, oauth))
    publish_tools(app, name="RecipeApp", description="Save, organize, and discover recipes", include="marked")
    # A page whose own name leads to this machine is no page of this site.
    return TrustedHostMiddleware(oauth.serve_before(app), allowed_hosts=[urlsplit(settings.url).hostname or ""])


def _add_operations(app: FastAPI, books: Books, callers: Callers) -> None:
    user = _build_user(app, callers)
    reads, saves, deletes = (Security(user, scopes=[scope]) for scope in SCOPES)

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
        owner: str = reads,
    ) -> list[Recipe]:
        return books.search(owner, query, cuisine, maxTime)

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
    def add_favorite(favorite: Favorite, owner: str = saves) -> Recipe:
        if not books.find_choices(owner).save:
            raise HTTPException(
                403,
                ("The owner of this book does not let apps save recipes. The owner can change that in the settings."),
            )
        recipe = books.save(owner, favorite.recipeId)
        if recipe is None:
            raise _build_missing(favorite.recipeId)
        return recipe

    @app.delete(
        "/recipes/{id}",
        operation_id="deleteRecipe",
        status_code=204,
        response_class=Response,
        openapi_extra=x_llm(enabled=True, approval="per-call", blanket_allowed=False, destructive=True),
    )
    def delete_recipe(id: str, owner: str = deletes) -> None:  # noqa: A002 - as the API says it
        if not books.find_choices(owner).delete:
            raise HTTPException(
                403,
                ("The owner of this book does not let apps delete recipes. The owner can change that in the settings."),
            )
        if not books.delete(owner, id):
            raise _build_missing(id)


def _build_user(app: FastAPI, callers: Callers) -> Any:
    """Return a dependency that gives the account id; its scopes are enforced, and stand in the document."""
    oauth = OAuth2AuthorizationCodeBearer(
        authorizationUrl="/oauth/authorize", tokenUrl="/oauth/token", refreshUrl="/oauth/token", scopes=SCOPES,
        scheme_name="oauth2", auto_error=False,
    )  # fmt: skip

    async def user(request: Request, scopes: SecurityScopes, _: str | None = Security(oauth)) -> str:
        found = await identify_caller(callers, request.headers.raw, scopes.scopes)
        if isinstance(found, Problem):
            raise RefusedError(build_refusal(callers, found, request.url.path))
        return found.name.removeprefix("key:")

    @app.exception_handler(RefusedError)
    async def refuse(_: Request, error: RefusedError) -> Response:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in error.response.headers}
        return Response(error.response.body, error.response.status, headers)

    return user


def _build_missing(recipe: str) -> HTTPException:
    return HTTPException(404, f"There is no recipe {recipe}. Call searchRecipes to list them.")
