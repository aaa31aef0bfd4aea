"""An app names its Arazzo document, and clients read the recipes of its operations."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI
from flask import Flask
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from toolwire import connect_sync
from toolwire.integrations import asgi, fastapi, starlette, wsgi
from toolwire.testing.loopback import background

pytestmark = [pytest.mark.requirement("OQ-2"), pytest.mark.filterwarnings("ignore::DeprecationWarning")]

ARAZZO = {
    "arazzo": "1.0.1",
    "info": {"title": "Desk", "version": "1.0.0"},
    "sourceDescriptions": [{"name": "desk", "url": "/openapi.json", "type": "openapi"}],
    "workflows": [{"workflowId": "tidy", "steps": [{"stepId": "sort", "operationId": "sort_notes"}]}],
}


def build_fastapi() -> Any:
    app = FastAPI(title="Desk", version="1.0.0")

    @app.post("/sort", operation_id="sort_notes", openapi_extra=fastapi.x_llm())
    def sort() -> int:
        return 0

    @app.get("/recipes.json", include_in_schema=False)
    def recipes() -> dict[str, Any]:
        return ARAZZO

    return fastapi.publish_tools(app, workflows="/recipes.json")


OPERATION = {"operationId": "sort_notes", "x-llm": {}, "responses": {"200": {"description": "ok"}}}
DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "Desk", "version": "1.0.0"},
    "paths": {"/sort": {"post": OPERATION}},
}


def build_starlette_routes() -> Starlette:
    async def sort(_: Request) -> JSONResponse:
        return JSONResponse(0)

    async def recipes(_: Request) -> JSONResponse:
        return JSONResponse(ARAZZO)

    return Starlette(routes=[Route("/sort", sort, methods=["POST"]), Route("/recipes.json", recipes)])


def build_starlette() -> Any:
    return starlette.publish_tools(build_starlette_routes(), DOCUMENT, workflows="/recipes.json")


def build_asgi() -> Any:
    return asgi.publish_tools(build_starlette_routes(), DOCUMENT, workflows="/recipes.json")


def build_flask() -> Any:
    app = Flask("desk")
    app.add_url_rule("/sort", view_func=lambda: "0", endpoint="sort", methods=["POST"])
    app.add_url_rule("/recipes.json", view_func=lambda: ARAZZO, endpoint="recipes")
    return wsgi.publish_tools(app, DOCUMENT, workflows="/recipes.json")


@pytest.mark.parametrize("build", [build_fastapi, build_starlette, build_asgi, build_flask])
def test_the_recipes_of_an_app_are_found(build: Any) -> None:
    with background(build()) as url, connect_sync(url) as remote:
        assert remote.findings() == ()
        assert [(recipe.id, recipe.steps[0].tool) for recipe in remote.recipes] == [("tidy", "Desk.sort_notes@1.0.0")]
