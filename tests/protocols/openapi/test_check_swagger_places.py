"""What is found in a Swagger 2.0 document names places in that document, not in what it is read as."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolwire.protocols.openapi.validator import check

WRONG = {"type": "string", "enum": 7}


def document(operation: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "swagger": "2.0",
        "info": {"title": "T", "version": "1"},
        "host": "a.example",
        "schemes": ["https"],
        "x-llm": {"version": "0.1", "name": "T"},
        "paths": {"/a": {"post": {"operationId": "add", "summary": "Adds.", "responses": {}, **operation}}},
        **more,
    }


BODY = {"name": "body", "in": "body", "schema": {"type": "object", "properties": {"n": WRONG}}}
PLACES = {
    "a parameter": (
        document({"parameters": [{"name": "body", "in": "body"}, {"name": "n", "in": "query", **WRONG}]}),
        "/paths/~1a/post/parameters/1/enum",
    ),
    "a body": (
        document({"parameters": [{"name": "q", "in": "query", "type": "string"}, BODY]}),
        "/paths/~1a/post/parameters/1/schema/properties/n/enum",
    ),
    "a form": (
        document(
            {
                "parameters": [
                    {"name": "m", "in": "formData", "type": "string"},
                    {"name": "n", "in": "formData", **WRONG},
                ]
            }
        ),
        "/paths/~1a/post/parameters/1/enum",
    ),
    "a response": (
        document({"responses": {"200": {"description": "ok", "schema": {"properties": {"n": WRONG}}}}}),
        "/paths/~1a/post/responses/200/schema/properties/n/enum",
    ),
    "a definition": (document({}, definitions={"N": WRONG}), "/definitions/N/enum"),
    "a shared parameter": (
        document({}, parameters={"n": {"name": "n", "in": "query", **WRONG}}),
        "/parameters/n/enum",
    ),
    "a shared response": (
        document({}, responses={"R": {"description": "ok", "schema": WRONG}}),
        "/responses/R/schema/enum",
    ),
}


@pytest.mark.requirement("CV-29")
@pytest.mark.parametrize("name", PLACES)
def test_fault_in_swagger_2_points_into_the_original_document(name: str) -> None:
    data, pointer = PLACES[name]
    text = json.dumps(data, indent=1)
    (error,) = [fault for fault in check(text) if fault.severity == "error"]
    assert error.pointer == pointer
    assert '"enum": 7' in text.splitlines()[error.line - 1]


@pytest.mark.parametrize("name", PLACES)
def test_each_fault_points_to_an_existing_place(name: str) -> None:
    data, _ = PLACES[name]
    for fault in check(json.dumps(data)):
        node: Any = data
        for step in fault.pointer.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            node = node[int(name)] if isinstance(node, list) else node[name]
