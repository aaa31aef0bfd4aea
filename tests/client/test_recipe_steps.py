"""A call made as a step of a recipe says so in the question: which step, and of how many."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.client.test_recipes import ARAZZO, DOCUMENT, WORKFLOW, Site
from toolwire import Answer, Kind, Problem, Question, Recipe, RecipeStep, Value, connect, connect_sync
from toolwire.consent.display import build_display_rows
from toolwire.consent.question_page import build_question_page
from toolwire.stores.consent.approvals import Approvals
from toolwire.testing.loopback import background

pytestmark = pytest.mark.requirement("OQ-2")


class Tables(Site):
    """A site whose calls that change something need an idempotency key, and whose table may be gone."""

    def __init__(self) -> None:
        paths = json.loads(json.dumps(DOCUMENT["paths"]))
        for item in paths.values():
            for operation in item.values():
                operation["x-llm"] = {"idempotencyKey": "Idempotency-Key"}
        super().__init__(document=DOCUMENT | {"paths": paths})
        self.keys: list[str] = []
        self.is_gone = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        key = dict(scope.get("headers", ())).get(b"idempotency-key", b"").decode()
        if scope.get("method", "GET") != "GET":
            self.keys.append(key)
        if self.is_gone and scope.get("path", "").endswith("/confirm"):
            self.seen.append(f"{scope['method']} {scope['path']}")
            await send({"type": "http.response.start", "status": 409, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await super().__call__(scope, receive, send)


def list_rows(question: Question) -> list[tuple[str, str]]:
    return [(row.text, row.note) for row in build_display_rows(question) if row.label == "step"]


def test_transaction_recipe_shows_its_step_in_each_question() -> None:
    site, asked = Tables(), list[Question]()

    def approve(question: Question) -> Answer:
        asked.append(question)
        return Answer(True)

    with background(site) as url, connect_sync(url, approve=approve) as remote:
        ((book,), steps) = remote.recipes, {step.id: step for step in remote.recipes[0].steps}
        held = remote.call("reserve", {"day": "2026-12-24", "name": "Ada"}, step=steps["reserve"])
        assert held == Value({"hold": "h1"})
        site.is_gone = True
        confirmed = remote.call("confirm", {"hold": "h1"}, step=steps["confirm"])
        assert isinstance(confirmed, Problem)
        # The recipe names the operation that cancels; it is the caller who goes there, and the user who is asked.
        freed = steps[steps["confirm"].on_failure]
        assert remote.call(freed.tool, {"hold": "h1"}, step=freed).ok
    assert site.seen[-3:] == ["POST /holds", "POST /holds/h1/confirm", "DELETE /holds/h1"]
    # A call that may be repeated needs no key: DELETE is such a call by its method.
    held_key, confirmed_key, freed_key = site.keys
    assert held_key
    assert confirmed_key not in ("", held_key)
    assert freed_key == ""
    assert [list_rows(question) for question in asked] == [
        [(f"{number} of 3 of the recipe book", "a recipe of the site")] for number in (1, 2, 3)
    ]
    assert [question.step for question in asked] == list(book.steps)


def test_the_asynchronous_client_shows_the_step_too() -> None:
    asked: list[Question] = []

    async def main(url: str) -> None:
        async with connect(url, approve=lambda question: bool(asked.append(question)) or True) as remote:
            step = remote.recipes[0].steps[1]
            assert (await remote.call("confirm", {"hold": "h1"}, step=step)).ok
            assert (await remote.call("confirm", {"hold": "h1"})).ok

    with background(Site()) as url:
        asyncio.run(main(url))
    assert [question.step and question.step.number for question in asked] == [2, None]
    assert [len(list_rows(question)) for question in asked] == [1, 0]


@pytest.mark.parametrize(
    ("change", "reason", "text"),
    [
        ({"number": 1}, "unknown_step", "There is no step 1 of 3 of the recipe book on this site"),
        ({"recipe": "paid already"}, "unknown_step", "There is no step 2 of 3 of the recipe paid already on this site"),
        ({}, "another_tool", "The step 2 of 3 of the recipe book is Tables.confirm@1.0.0, not Tables.reserve@1.0.0"),
    ],
)
def test_recipe_step_of_another_site_or_tool_is_refused(change: dict[str, Any], reason: str, text: str) -> None:
    site, asked = Site(), list[Question]()

    async def call(url: str, step: RecipeStep) -> Any:
        async with connect(url, approve=lambda question: bool(asked.append(question))) as remote:
            return await remote.call("reserve", {"day": "d", "name": "n"}, step=step)

    with background(site) as url, connect_sync(url, approve=lambda question: bool(asked.append(question))) as remote:
        step = replace(remote.recipes[0].steps[1], **change)
        refused = remote.call("reserve", {"day": "d", "name": "n"}, step=step)
        assert asyncio.run(call(url, step)) == refused
    assert isinstance(refused, Problem)
    assert (refused.kind, refused.details) == (Kind.CONFLICT, {"reason": reason})
    assert text in refused.message
    assert asked == []
    assert {line.partition(" ")[0] for line in site.seen} == {"GET"}


def test_step_of_a_changed_recipe_is_refused() -> None:
    site = Site()
    with background(site) as url, connect_sync(url, approve=lambda _: True) as remote:
        step = remote.recipes[0].steps[1]
        site.documents["/recipes.json"] = (200, ARAZZO | {"workflows": [WORKFLOW | {"steps": WORKFLOW["steps"][:1]}]})
        remote.refresh()
        refused = remote.call("confirm", {"hold": "h1"}, step=step)
    assert isinstance(refused, Problem)
    assert refused.details == {"reason": "unknown_step"}


def ask_about_a_step() -> Question:
    """Return the question about the second step, as an approver gets it."""
    asked: list[Question] = []
    with background(Site()) as url, connect_sync(url, approve=lambda one: bool(asked.append(one))) as remote:
        remote.call("confirm", {"hold": "h1"}, step=remote.recipes[0].steps[1])
    (question,) = asked
    return question


def test_the_page_and_the_store_of_questions_show_the_step(tmp_path: Path) -> None:
    question = ask_about_a_step()
    assert "2 of 3 of the recipe book" in build_question_page(question, "token")
    with closing(Approvals(tmp_path / "approvals.db")) as approvals:
        approvals.ask(question)
        (pending,) = approvals.list_pending()
    assert "2 of 3 of the recipe book" in [row.text for row in pending.rows]


def test_approval_of_a_recipe_step_does_not_cover_the_plain_call() -> None:
    bindings: list[str] = []
    with background(Site()) as url, connect_sync(url, approve=lambda one: bool(bindings.append(one.binding))) as remote:
        step = remote.recipes[0].steps[1]
        for given in (step, None, step):
            remote.call("confirm", {"hold": "h1"}, step=given)
    with_step, without, again = bindings
    assert with_step != without
    assert with_step == again


def test_a_recipe_is_a_value() -> None:
    with background(Site()) as url, connect_sync(url) as remote:
        (book,) = remote.recipes
        with pytest.raises(AttributeError):
            book.title = "Another"  # type: ignore[misc]
        assert isinstance(book, Recipe)
