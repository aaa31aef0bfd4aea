"""A Starlette app that brings its document gains x-llm."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from toolwire import connect_sync
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Value
from toolwire.integrations.starlette import publish_tools, x_llm

DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Sums", "version": "1.0.0"},
    "paths": {
        "/math/double/{n}": {
            "get": {
                "operationId": "double",
                "summary": "Double a number",
                "parameters": [{"name": "n", "in": "path", "required": True, "schema": {"type": "integer"}}],
                "responses": {"200": {"description": "It."}},
            }
        },
        "/reset": {
            "post": {"operationId": "reset", "summary": "Reset", "responses": {"200": {"description": "Done."}}}
        },
    },
}


@x_llm(hint="Use for sums.")
async def double(request: Request) -> JSONResponse:
    return JSONResponse(2 * int(request.path_params["n"]))


async def reset(_: Request) -> JSONResponse:
    return JSONResponse(None)


def sums() -> Starlette:
    return Starlette(
        routes=[Mount("/math", routes=[Route("/double/{n:int}", double)]), Route("/reset", reset, methods=["POST"])]
    )


@pytest.mark.requirement("XL-018", "XL-019", "XL-121")
def test_marked_endpoints_are_found_and_called(loopback: Any) -> None:
    with loopback(publish_tools(sums(), DOCUMENT, name="Sums")) as url, connect_sync(url) as remote:
        (tool,) = remote.tools
        assert (tool.name, tool.hint, tool.safe) == ("double", "Use for sums.", True)
        assert remote.call("double", {"n": 21}) == Value(42)
    assert "x-llm" not in DOCUMENT


@pytest.mark.requirement("XL-121")
def test_invalid_x_llm_is_refused() -> None:
    with pytest.raises(DefinitionError, match="costIndicator"):
        x_llm(cost="much")  # type: ignore[arg-type]  # the slip
    bad = {**DOCUMENT, "paths": {"/reset": {"post": {"x-llm": {"hints": "no"}}}}}
    with pytest.raises(DefinitionError, match="POST /reset: x-llm hints"):
        publish_tools(sums(), bad)
