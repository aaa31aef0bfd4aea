"""What may follow a call is told in the names a model knows, of tools and of arguments, renamed ones too."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from toolwire.adapters.schema import Provider
from toolwire.adapters.tool_declarations import declare_tools, run_named_call
from toolwire.core.model import Call, Result, Value
from toolwire.core.toolbox import Notify, ignore_progress

pytestmark = pytest.mark.requirement("XL-075", "CV-27", "CV-16")

TEXT = {"type": "string"}
JSON = "application/json"


def document(following: dict[str, Any]) -> dict[str, Any]:
    search = {
        "operationId": "orders/search",
        "parameters": [
            {"name": "page[size]", "in": "query", "schema": {"type": "integer"}},
            {"name": "$top", "in": "query", "schema": {"type": "integer"}},
            {"name": "X-Tenant", "in": "header", "schema": TEXT},
        ],
        "requestBody": {"content": {JSON: {"schema": {"type": "object", "properties": {"$filter": TEXT, "id": TEXT}}}}},
        "x-llm": {},
        **following,
    }
    order = {
        "operationId": "orders/get.one",
        "parameters": [
            {"name": "id", "in": "path", "required": True, "schema": TEXT},
            {"name": "id", "in": "query", "schema": TEXT},
            {"name": "filter[size]", "in": "query", "schema": {"type": "integer"}},
        ],
        "x-llm": {},
    }
    save = {"requestBody": {"content": {JSON: {"schema": {"type": "array", "items": TEXT}}}}, "x-llm": {}}
    paths = {"/search": {"post": search}, "/orders/{id}": {"get": order, "put": save}}
    return {"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "paths": paths}


def links(*found: dict[str, Any]) -> dict[str, Any]:
    return {"responses": {"200": {"description": "", "links": {str(number): one for number, one in enumerate(found)}}}}


class Box:
    """Gives one value for any call."""

    def __init__(self, catalog: Any) -> None:
        self._catalog = catalog

    def catalog(self) -> Any:
        return self._catalog

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        return Value({"orders": [{"id": "o1"}]})


SAID = {"page_size": 5, "top": 2, "X-Tenant": "t", "filter": "f", "id": "i"}
ARGS = {
    "path.id": "$response.body#/orders/0/id",
    "query.id": "$request.header.x-tenant",
    "filter[size]": "$request.query.page[size]",
    "unknown": "$request.query.$top",
}
EXPECTED = {"id_path": "o1", "id_query": "t", "filter_size": 5}


def list_next_steps(peer: Any, following: dict[str, Any]) -> list[Any]:
    found = peer(document(following))
    search = next(one for one in declare_tools(found.catalog, Provider.OPENAI) if "search" in one.name)
    text = asyncio.run(run_named_call(Box(found.catalog), Provider.OPENAI, search.name, SAID)).text
    names = {
        one.name: set(one.input_schema.schema["properties"]) for one in declare_tools(found.catalog, Provider.OPENAI)
    }
    steps: list[Any] = json.loads(text).get("next", [])
    for step in steps:
        assert set(step["arguments"]) <= names[step["tool"]]
    return steps


@pytest.mark.parametrize(
    "named", [{"operationId": "orders/get.one"}, {"operationRef": "#/paths/~1orders~1%7Bid%7D/get"}]
)
def test_link_names_the_tool_and_arguments_as_the_model_sees_them(peer: Any, named: dict[str, str]) -> None:
    (step,) = list_next_steps(peer, links({**named, "parameters": ARGS}))
    assert (step["tool"], step["arguments"]) == ("orders_get_one", EXPECTED)


def test_x_llm_next_names_tool_and_arguments_as_the_model_sees_them(peer: Any) -> None:
    reply = {"next": [{"operationId": "orders/get.one", "when": "One is wanted.", "args": ARGS}]}
    (step,) = list_next_steps(peer, {"x-llm": reply})
    assert step == {"tool": "orders_get_one", "when": "One is wanted.", "arguments": EXPECTED}


def test_link_can_fill_a_body_and_read_from_one(peer: Any) -> None:
    link = {
        "operationRef": "#/paths/~1orders~1{id}/put",
        "requestBody": "$request.body#/$filter",
        "parameters": {"id": "x"},
    }
    (step,) = list_next_steps(peer, links(link))
    assert step["tool"] == "put_orders_id"
    assert step["arguments"] == {"body": "f", "id": "x"}
    back = {"operationId": "orders/search", "requestBody": {"$filter": "$request.body#/id", "other": "x"}}
    (step,) = list_next_steps(peer, links(back))
    assert (step["tool"], step["arguments"]) == ("orders_search", {"filter": "i"})


def test_an_operation_that_is_no_tool_is_not_named(peer: Any) -> None:
    assert list_next_steps(peer, links({"operationId": "gone"}, {"operationRef": "#/paths/~1gone/get"}, {})) == []
