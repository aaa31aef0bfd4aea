"""What a site says of itself at the root of its document, as the user of a connection meets it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from toolwire import Answer, Question, Value, connect_sync
from toolwire.testing.loopback import background


def make_site(root: dict[str, Any]) -> Callable[..., Awaitable[None]]:
    """Return a site whose only operation reads, and leaves its approval to the root of the document."""
    operation = {"operationId": "search", "summary": "Search", "x-llm": {}, "responses": {"200": {"description": "."}}}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "api-v2", "version": "7"},
        "x-llm": root,
        "paths": {"/search": {"get": operation}},
    }
    bodies = {"/.well-known/openapi.json": json.dumps(document).encode(), "/search": b"[]"}

    async def site(scope: Any, receive: Any, send: Any) -> None:
        body = bodies.get(scope["path"])
        fields = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 404 if body is None else 200, "headers": fields})
        await send({"type": "http.response.body", "body": body or b""})

    return site


@pytest.mark.requirement("XL-025", "XL-027", "XL-041")
@pytest.mark.parametrize(("level", "questions"), [("auto", 0), ("per-call", 1), ("sometimes", 1), (None, 1)])
def test_root_names_the_site_and_says_how_much_consent_its_operations_need(level: str | None, questions: int) -> None:
    root = {"version": "0.1", "name": "RecipeApp", "description": "Save, organize, and discover recipes"}
    asked: list[Question] = []

    def approve(question: Question) -> Answer:
        asked.append(question)
        return Answer(allowed=True)

    site = make_site(root if level is None else root | {"defaultApproval": level})
    with background(site) as url, connect_sync(url, approve=approve, include_site_description=True) as remote:
        assert remote.call("search") == Value([])
        assert remote.catalog().title == "RecipeApp"
        assert remote.catalog().description == "Save, organize, and discover recipes"
    assert [question.title for question in asked] == ["RecipeApp"] * questions
