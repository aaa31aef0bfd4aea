"""An author publishes recipes beside the tools, and a user finds them with the tools' own names."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from toolwire import ApiKey, Approval, Problem, Secret, ToolError, Toolkit, asgi, connect_sync
from toolwire.core.errors import DefinitionError
from toolwire.testing.loopback import background

pytestmark = pytest.mark.requirement("OQ-2")


def build_kit() -> Toolkit:
    kit = Toolkit("Tables", version="1.0.0")
    held: dict[str, str] = {}

    @kit.tool(approval="auto", safe=True)
    def free(day: str) -> list[int]:
        """List the free tables."""
        return [4]

    @kit.tool
    def reserve(day: str, table: int) -> dict[str, str]:
        """Hold a table."""
        held["h1"] = f"{table} on {day}"
        return {"hold": "h1"}

    @kit.tool(scopes=("book",))
    def confirm(hold: str) -> str:
        """Book the table that is held."""
        if hold not in held:
            raise ToolError("This hold is over.")
        return held.pop(hold)

    @kit.tool
    def cancel(hold: str) -> bool:
        """Free the table that is held."""
        return held.pop(hold, None) is not None

    return kit


def step(name: str, tool: str, body: Any = None, **members: Any) -> dict[str, Any]:
    return {"stepId": name, "operationId": tool, **({"requestBody": {"payload": body}} if body else {}), **members}


HOLD = {"hold": "$steps.hold.outputs.hold"}
LOOK = {"workflowId": "look", "steps": [
    step("see", "free", parameters=[{"name": "day", "in": "query", "value": "$inputs.day"}])]}  # fmt: skip
BOOK = {"workflowId": "book", "summary": "Book a table", "steps": [
    step("see", "free", parameters=[{"name": "day", "in": "query", "value": "$inputs.day"}]),
    step("hold", "reserve", {"day": "$inputs.day", "table": "$inputs.table"}, outputs={"hold": "$response.body#/hold"}),
    step("confirm", "confirm", HOLD, onFailure=[{"name": "free", "type": "goto", "stepId": "cancel"}]),
    step("cancel", "cancel", HOLD)]}  # fmt: skip
ARAZZO = {"arazzo": "1.0.1", "info": {"title": "Tables", "version": "1.0.0"}, "workflows": [LOOK, BOOK]}


def test_published_recipes_are_read_with_their_tools() -> None:
    asked: list[tuple[str, int | None]] = []

    def approve(question: Any) -> bool:
        asked.append((question.call.tool.name, question.step and question.step.number))
        return True

    with background(asgi(build_kit(), workflows=ARAZZO)) as url, connect_sync(url, approve=approve) as remote:
        look, book = remote.recipes
        assert remote.findings() == ()
        assert [step.tool for step in look.steps] == ["Tables.free@1.0.0"]
        assert [step.arguments for step in book.steps] == [
            {"day": "$inputs.day"}, {"day": "$inputs.day", "table": "$inputs.table"}, HOLD, HOLD]  # fmt: skip
        see, hold, confirm, cancel = book.steps
        assert remote.call("free", {"day": "24"}, step=see).ok
        held = remote.call("reserve", {"day": "24", "table": 4}, step=hold)
        assert held.ok
        assert remote.call("confirm", {"hold": "h1"}, step=confirm).ok
        refused = remote.call("confirm", {"hold": "h1"}, step=confirm)
        assert isinstance(refused, Problem)
        assert confirm.on_failure == cancel.id
        assert remote.call("cancel", {"hold": "h1"}, step=cancel).ok
    assert asked == [("reserve", 2), ("confirm", 3), ("confirm", 3), ("cancel", 4)]


def test_mounted_recipes_name_the_document_of_their_path() -> None:
    app = Starlette(routes=[Mount("/desk", app=asgi(build_kit(), workflows=ARAZZO))])
    with background(app) as url:
        document = httpx.get(f"{url}/desk/openapi.json").json()
        assert document["x-llm"]["workflows"] == "/desk/workflows.json"
        published = httpx.get(f"{url}/desk/workflows.json")
        assert published.headers["content-type"] == "application/json"
        assert published.headers["etag"]
        sources = published.json()["sourceDescriptions"]
        assert sources == [{"name": "tools", "url": "/desk/openapi.json", "type": "openapi"}]
        with connect_sync(f"{url}/desk/openapi.json") as remote:
            assert [recipe.id for recipe in remote.recipes] == ["look", "book"]


def test_caller_sees_no_recipes_of_invisible_tools() -> None:
    keys = [ApiKey(key=Secret("all"), name="all"), ApiKey(key=Secret("few"), name="few", scopes=frozenset({"see"}))]
    app = asgi(build_kit(), api_keys=keys, workflows=ARAZZO)
    with background(app) as url:
        for key, seen in (("all", ["look", "book"]), ("few", ["look"])):
            answer = httpx.get(f"{url}/workflows.json", headers={"authorization": f"Bearer {key}"})
            assert [one["workflowId"] for one in answer.json()["workflows"]] == seen


def test_server_without_recipes_has_no_recipe_route() -> None:
    with background(asgi(build_kit())) as url:
        assert "workflows" not in httpx.get(f"{url}/openapi.json").json()["x-llm"]
        assert httpx.get(f"{url}/workflows.json").status_code == 404


@pytest.mark.parametrize(
    ("workflows", "said"),
    [
        ([{"workflowId": "pay", "steps": [step("pay", "pay")]}], "its step pay is 'pay', which is no tool here"),
        ([{"workflowId": "hold", "steps": [step("hold", "reserve", {"when": "24"})]}], "gives more than the arguments"),
        ([], "it has no workflows"),
        (None, "it has no workflows"),
    ],
)
def test_recipes_with_unknown_tools_are_not_served(workflows: Any, said: str) -> None:
    document = ARAZZO | {"workflows": workflows}
    with pytest.raises(DefinitionError, match=f"The workflows do not fit the tools.*{said}"):
        asgi(build_kit(), workflows=document)


def test_recipe_steps_keep_the_consent_level_of_their_tools() -> None:
    with background(asgi(build_kit(), workflows=ARAZZO)) as url, connect_sync(url) as remote:
        assert [remote.find_level(remote.find(step.tool)) for step in remote.recipes[1].steps] == [  # type: ignore[arg-type]
            Approval.AUTO, Approval.PER_CALL, Approval.PER_CALL, Approval.PER_CALL]  # fmt: skip
