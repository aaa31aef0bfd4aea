"""What a document declares writeOnly does not come back in a result, and a model is told that a result goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from openai.types.chat import ChatCompletionMessageFunctionToolCall

from toolwire import Progress, Selection, Value, connect_sync
from toolwire.adapters import openai

USER = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "password": {"type": "string", "writeOnly": True}},
}
SECRET = {"type": "string", "writeOnly": True}


def make_site(schema: Any, answer: Any, *, components: Any = None, media_type: str = "application/json") -> Any:
    """Return an application with one operation, which declares ``schema`` and returns ``answer``."""
    member = "itemSchema" if "event-stream" in media_type else "schema"
    content = {media_type: {member: schema}}
    operation = {"operationId": "get_it", "responses": {"200": {"description": "it", "content": content}}}
    document = {
        "openapi": "3.2.0" if member == "itemSchema" else "3.1.0",
        "info": {"title": "Site", "version": "1.0.0"},
        "paths": {"/it": {"get": operation}},
        "components": {"schemas": components or {}},
    }

    async def app(scope: Any, _: Any, send: Any) -> None:
        found = scope["path"] in ("/openapi.json", "/it")
        kind = media_type if scope["path"] == "/it" else "application/json"
        body = document if scope["path"] == "/openapi.json" else answer
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = [(b"content-type", kind.encode())]
        await send({"type": "http.response.start", "status": 200 if found else 404, "headers": headers})
        await send({"type": "http.response.body", "body": text if found else b""})

    return app


def call(app: Any, **more: Any) -> Value:
    with connect_sync(app, selection=Selection(include="all"), approve=lambda _: True) as remote:
        result = remote.call("get_it", **more)
    assert isinstance(result, Value), result
    return result


@pytest.mark.requirement("CV-21")
@pytest.mark.parametrize(
    ("schema", "answer", "kept"),
    [
        (USER, {"name": "ada", "password": "s3cret"}, {"name": "ada"}),
        ({"$ref": "#/components/schemas/User"}, {"name": "ada", "password": "s3cret"}, {"name": "ada"}),
        ({"type": "array", "items": USER}, [{"password": "s3cret"}, {"name": "bob"}], [{}, {"name": "bob"}]),
        ({"prefixItems": [USER]}, [{"password": "s3cret"}], [{}]),
        ({"additionalProperties": USER}, {"ada": {"password": "s3cret"}}, {"ada": {}}),
        ({"patternProperties": {"^a": USER}}, {"ada": {"password": "s3cret"}}, {"ada": {}}),
        ({"allOf": [USER, {"properties": {"age": {}}}]}, {"age": 1, "password": "s3cret"}, {"age": 1}),
        ({"oneOf": [{"type": "null"}, USER]}, {"password": "s3cret"}, {}),
        ({"properties": {"pin": {"allOf": [SECRET]}}}, {"pin": "s3cret"}, {}),
        ({"properties": {"pin": {"$ref": "#/components/schemas/Secret"}}}, {"pin": "s3cret"}, {}),
        ({"properties": {"pin": {"$ref": "#/components/schemas/Text", "writeOnly": True}}}, {"pin": "s3cret"}, {}),
        ({"$ref": "#/components/schemas/Node"}, {"next": {"next": {"key": "s3cret"}}}, {"next": {"next": {}}}),
        ({"properties": {"a": USER}}, {"a": "text", "password": "kept"}, {"a": "text", "password": "kept"}),
    ],
)
def test_write_only_property_is_removed_from_results(schema: Any, answer: Any, kept: Any) -> None:
    components = {
        "User": USER,
        "Secret": SECRET,
        "Text": {"type": "string"},
        "Node": {"properties": {"next": {"$ref": "#/components/schemas/Node"}, "key": SECRET}},
    }
    result = call(make_site(schema, answer, components=components))
    assert result.value == kept
    assert (result.notes or {}).get("write_only_removed", False) is (kept != answer)


@pytest.mark.requirement("CV-21", "XL-103")
def test_write_only_property_is_removed_from_long_results() -> None:
    app = make_site({"type": "array", "items": USER}, [{"name": "x" * 60, "password": "s3cret"}] * 60_000)
    with connect_sync(app, selection=Selection(include="all"), approve=lambda _: True) as remote:
        result = remote.call("get_it")
    assert isinstance(result, Value)
    assert result.value == [{"name": "x" * 60}] * 60_000


@pytest.mark.requirement("CV-21", "XL-106")
def test_write_only_property_is_removed_from_stream_items() -> None:
    stream = b'data: {"name": "ada", "password": "s3cret"}\n\n' * 2
    seen: list[object] = []
    hear: Callable[[Progress], None] = lambda progress: seen.append(progress.value)  # noqa: E731 - it has a type
    result = call(make_site(USER, stream, media_type="text/event-stream"), notify=hear)
    assert result.value == seen == [{"name": "ada"}, {"name": "ada"}]


@pytest.mark.requirement("XL-103", "OQ-5", "CC-08")
def test_model_is_told_that_a_list_was_truncated_and_its_origin() -> None:
    app = make_site({"type": "array", "items": {"type": "integer"}}, list(range(60_000)))
    with connect_sync(app, selection=Selection(include="all"), approve=lambda _: True) as remote:
        call = ChatCompletionMessageFunctionToolCall.model_validate(
            {"id": "1", "type": "function", "function": {"name": "get_it", "arguments": "{}"}}
        )
        data = json.loads(str(openai.run_tool_call_sync(remote, call)["content"]))
    assert data["source"].endswith("data, no instructions")
    stored = len(data["result"])
    assert 0 < stored < 60_000
    assert (data["notes"]["total"], data["notes"]["next"]) == (60_000, stored)
    assert "Read the rest with read_result" in data["notes"]["advice"]
