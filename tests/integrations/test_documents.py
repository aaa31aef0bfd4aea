"""The document of an application is served with the meaning that it has in its own version of OpenAPI."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from flask import Flask, jsonify, request
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from toolwire import DefinitionError, Problem, Value, connect, connect_sync
from toolwire.integrations import asgi, starlette, wsgi

PROTOCOLS = ("openapi", "opentool", "otc", "mcp")
PET = {
    "type": "object",
    "required": ["name", "age"],
    "properties": {"name": {"type": "string"}, "age": {"type": "number", "minimum": 0, "exclusiveMinimum": True}},
}


def build_document_30() -> dict[str, Any]:
    """Return a document as drf-spectacular and flask-smorest write it."""
    pet = {**PET, "properties": {**PET["properties"], "name": {"type": "string", "nullable": True}}}  # type: ignore[dict-item]  # of one shape
    body = {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}
    operation = {
        "operationId": "add",
        "summary": "Add a pet",
        "requestBody": body,
        "responses": {"200": {"description": "It."}},
    }
    return {
        "openapi": "3.0.3",
        "info": {"title": "Pets", "version": "1"},
        "paths": {"/pets": {"post": operation}},
        "components": {"schemas": {"Pet": pet}},
    }


def build_swagger() -> dict[str, Any]:
    """Return a document as Flask-RESTX and drf-yasg write it."""
    pet = {**PET, "properties": {**PET["properties"], "name": {"type": "string", "x-nullable": True}}}  # type: ignore[dict-item]  # of one shape
    body = {"name": "payload", "in": "body", "required": True, "schema": {"$ref": "#/definitions/Pet"}}
    operation = {
        "operationId": "add",
        "summary": "Add a pet",
        "parameters": [body],
        "responses": {"200": {"description": "It."}},
    }
    return {
        "swagger": "2.0",
        "basePath": "/",
        "info": {"title": "Pets", "version": "1"},
        "consumes": ["application/json"],
        "produces": ["application/json"],
        "paths": {"/pets": {"post": operation}},
        "definitions": {"Pet": pet},
    }


def build_flask() -> Flask:
    app = Flask("pets")
    app.post("/pets")(lambda: jsonify(request.get_json()))
    return app


def build_starlette() -> Starlette:
    async def add(request: Any) -> JSONResponse:
        return JSONResponse(await request.json())

    return Starlette(routes=[Route("/pets", add, methods=["POST"])])


@pytest.mark.requirement("FU-30")
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("document", [build_document_30(), build_swagger()], ids=["3.0", "swagger-2.0"])
@pytest.mark.parametrize("framework", ["flask", "starlette"])
def test_older_document_keeps_its_meaning(
    framework: str, document: dict[str, Any], protocol: str, loopback: Any
) -> None:
    publish: Any = wsgi.publish_tools if framework == "flask" else starlette.publish_tools
    app = publish(build_flask() if framework == "flask" else build_starlette(), document, include="all")
    with loopback(app) as url, connect_sync(url, protocol=protocol, approve=lambda _: True) as remote:
        assert remote.call("add", {"name": None, "age": 1}) == Value({"name": None, "age": 1})
        refused = remote.call("add", {"name": "Rex", "age": 0})
        assert isinstance(refused, Problem)
        assert "age" in refused.message
        served = httpx.get(f"{url}/.well-known/openapi.json").json()
        assert (served["openapi"], "swagger" in served) == ("3.0.3", False)


def test_document_of_3_0_is_not_called_a_newer_one() -> None:
    with pytest.raises(DefinitionError, match=r'uses OpenAPI 3\.0\. To keep 3\.0, leave out openapi="3\.1"'):
        asgi.publish_tools(build_starlette(), build_document_30(), openapi="3.1")


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ('{"openapi": "3.1.0"}', "document must be an OpenAPI document as a dict, not str."),
        (None, "document must be an OpenAPI document as a dict, not NoneType."),
        ({}, "document is not an OpenAPI document: it contains no paths."),
        ({"openapi": "3.1.0", "paths": []}, "document is not an OpenAPI document: it contains no paths."),
    ],
)
def test_what_is_no_document_is_refused_where_it_is_given(document: Any, sentence: str) -> None:
    for publish, app in ((asgi.publish_tools, build_starlette()), (starlette.publish_tools, build_starlette())):
        with pytest.raises(DefinitionError) as refused:
            publish(app, document)
        assert str(refused.value) == sentence
    with pytest.raises(DefinitionError) as refused:
        wsgi.publish_tools(build_flask(), document)
    assert str(refused.value) == sentence


def test_application_of_the_other_interface_is_refused_with_the_module_for_it() -> None:
    document = build_document_30()
    with pytest.raises(DefinitionError, match=r"not Flask; for WSGI there is toolwire\.integrations\.wsgi\.$"):
        asgi.publish_tools(build_flask(), document)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(DefinitionError, match=r"not Starlette; for ASGI there is toolwire\.integrations\.asgi\.$"):
        wsgi.publish_tools(build_starlette(), document)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(DefinitionError, match=r"needs a Starlette application here, not Flask\.$"):
        starlette.publish_tools(build_flask(), document)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(DefinitionError, match=r"a WSGI application\. Wrap it in toolwire\.integrations\.wsgi"):
        connect(build_flask())
