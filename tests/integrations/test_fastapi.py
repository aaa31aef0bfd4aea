"""A FastAPI app gains x-llm, and otherwise stays what it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from openapi_spec_validator import validate
from pydantic import BaseModel

from toolwire import connect_sync
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Approval, Value
from toolwire.integrations.fastapi import publish_tools, x_llm

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Recipe(BaseModel):
    title: str
    minutes: int | None = None
    tags: list[str] = []


def recipes() -> FastAPI:
    app = FastAPI(title="Recipes", version="2.1.0")
    stored: dict[int, Recipe] = {1: Recipe(title="Cacio e Pepe", minutes=20)}

    @app.get(
        "/recipes", summary="Search recipes", openapi_extra=x_llm(hint="Use to find recipes.", rate_limit=(30, "1m"))
    )
    def search(query: str = "") -> list[Recipe]:
        return [one for one in stored.values() if query.lower() in one.title.lower()]

    @app.post("/recipes", summary="Add a recipe", openapi_extra=x_llm(blanket_allowed=True))
    def add(recipe: Recipe) -> int:
        stored[len(stored) + 1] = recipe
        return len(stored)

    @app.delete("/recipes/{number}", summary="Delete a recipe", openapi_extra=x_llm())
    def remove(number: int) -> None:
        stored.pop(number, None)

    @app.get("/internal")
    def internal() -> str:
        return "not for models"

    return app


@pytest.mark.requirement("XL-018", "XL-019", "OQ-1")
def test_documents_are_served_at_the_well_known_urls() -> None:
    client = TestClient(publish_tools(recipes(), name="RecipeApp"))
    entry = client.get("/.well-known/llm.json")
    assert entry.json() == {"openapi": "/openapi.json", "auth": "none"}
    described = client.get("/.well-known/openapi.json")
    assert described.content == client.get("/openapi.json").content
    for path in ("/.well-known/llm.json", "/.well-known/openapi.json", "/.well-known/api-catalog"):
        answer = client.get(path)
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in answer.headers
        assert answer.headers["cache-control"] == "max-age=300"
        again = client.get(path, headers={"if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        head = client.head(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["etag"] == answer.headers["etag"]
        assert head.headers["content-length"] == str(len(answer.content))
    (link,) = client.get("/.well-known/api-catalog").json()["linkset"]
    assert link["service-desc"][0]["href"] == "http://testserver/openapi.json"
    assert client.get("/.well-known/api-catalog").headers["content-type"].startswith("application/linkset+json")


@pytest.mark.requirement("XL-121")
def test_publish_tools_changes_nothing_else_of_the_app() -> None:
    plain, ours = TestClient(recipes()), TestClient(publish_tools(recipes()))
    before, after = plain.get("/openapi.json").json(), ours.get("/openapi.json").json()
    assert after.pop("x-llm")["name"] == "Recipes"
    for document in (before, after):
        for item in document["paths"].values():
            for operation in item.values():
                operation.pop("x-llm", None)
    assert after == before
    for path in ("/recipes", "/internal", "/docs", "/redoc", "/nowhere"):
        assert plain.get(path).content == ours.get(path).content


@pytest.mark.requirement("XL-123")
def test_policies_follow_http_methods_unless_declared() -> None:
    paths = publish_tools(recipes()).openapi()["paths"]
    assert paths["/recipes"]["get"]["x-llm"] | {"hint": ""} == {
        "enabled": True, "approval": "auto", "hint": "", "rateLimit": {"max": 30, "window": "1m"},
    }  # fmt: skip
    assert paths["/recipes"]["post"]["x-llm"] == {
        "enabled": True,
        "approval": "per-call",
        "blanketApprovalAllowed": True,
    }
    assert paths["/recipes/{number}"]["delete"]["x-llm"] == {
        "enabled": True,
        "approval": "per-call",
        "destructive": True,
    }
    assert "x-llm" not in paths["/internal"]["get"]
    app = FastAPI()
    app.delete("/d", openapi_extra=x_llm(destructive=False, approval="auto"))(lambda: None)
    app.get("/g", openapi_extra=x_llm(approval="per-call"))(lambda: None)
    paths = publish_tools(app).openapi()["paths"]
    assert paths["/d"]["delete"]["x-llm"] == {"enabled": True, "approval": "auto", "destructive": False}
    assert paths["/g"]["get"]["x-llm"]["approval"] == "per-call"


@pytest.mark.requirement("XL-120", "XL-122", "XL-124")
@pytest.mark.parametrize(("version", "release"), [("3.0", "3.0.3"), ("3.1", "3.1.0"), ("3.2", "3.2.0")])
def test_each_version_of_openapi_is_written_and_gives_the_same_tools(version: Any, release: str, loopback: Any) -> None:
    app = publish_tools(recipes(), openapi=version)
    document = json.loads(json.dumps(app.openapi()))
    assert document["openapi"] == release
    validate(document)
    with loopback(app) as url, connect_sync(url) as remote:
        tools = {tool.name.partition("_")[0]: tool for tool in remote.tools}
        assert set(tools) == {"search", "add", "remove"}
        assert tools["search"].description.startswith("Search recipes\nUse to find recipes.")
        assert [tools[name].approval for name in ("search", "add", "remove")] == [
            Approval.AUTO, Approval.PER_CALL, Approval.PER_CALL,
        ]  # fmt: skip
        assert tools["remove"].destructive
        assert "title" in tools["add"].required_parameters
        found = remote.call(tools["search"].name, {"query": "pepe"})
        assert found == Value([{"title": "Cacio e Pepe", "minutes": 20, "tags": []}])


@pytest.mark.requirement("XL-121")
def test_a_plain_app_offers_everything_until_one_route_is_marked(loopback: Any) -> None:
    app = FastAPI(title="Plain")
    app.get("/a")(lambda: 1)
    app.post("/b")(lambda: 2)
    with loopback(publish_tools(app)) as url, connect_sync(url) as remote:
        assert len(remote.tools) == 2
    some = publish_tools(recipes(), include="all").openapi()["paths"]
    assert "x-llm" in some["/internal"]["get"]


@pytest.mark.requirement("XL-121")
def test_invalid_x_llm_is_refused_at_start_and_advice_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(DefinitionError, match="rateLimit/window"):
        x_llm(rate_limit=(1, "soon"))
    with pytest.raises(DefinitionError, match="no member 'aproval'"):
        x_llm(aproval="auto")  # type: ignore[call-arg]  # the slip
    app = FastAPI()
    app.get("/a", openapi_extra={"x-llm": {"aproval": "auto"}})(lambda: 1)
    with pytest.raises(DefinitionError, match="GET /a: x-llm aproval"), TestClient(publish_tools(app)):
        pass
    app = FastAPI()
    app.post("/a", summary="", openapi_extra={**x_llm(approval="auto"), "summary": ""})(lambda: 1)
    with TestClient(publish_tools(app)) as client:
        assert client.post("/a").json() == 1
    logged = [one.message.partition(": It ")[0] for one in caplog.records if one.name == "toolwire.integrations"]
    assert logged == ["POST /a: x-llm", "POST /a: x-llm"]


def test_the_app_s_own_lifespan_still_runs() -> None:
    from contextlib import asynccontextmanager

    ran: list[str] = []

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> Any:
        ran.append("start")
        yield
        ran.append("stop")

    with TestClient(publish_tools(FastAPI(lifespan=lifespan))):
        assert ran == ["start"]
    assert ran == ["start", "stop"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"include": "al"}, 'include must be "marked", "all" or None, not \'al\'.'),
        ({"options": "mcp"}, "options must be a ServerOptions(...), or None for the document alone, not 'mcp'."),
    ],
)
def test_wrong_option_of_publish_tools_is_named(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        publish_tools(FastAPI(), **options)
    assert str(refused.value) == sentence


def test_application_of_another_framework_is_refused_by_its_kind() -> None:
    with pytest.raises(DefinitionError, match=r"^publish_tools needs a FastAPI application here, not str\.$"):
        publish_tools("shop:app")  # type: ignore[arg-type]  # what a user may write by mistake


def test_rate_limit_of_a_route_is_written_as_in_the_file_of_a_gateway() -> None:
    assert x_llm(rate_limit="60/1m") == x_llm(rate_limit=(60, "1m"))
    with pytest.raises(DefinitionError, match="such as \"60/1m\", not '60'"):
        x_llm(rate_limit="60")
