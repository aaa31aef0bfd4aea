"""Bodies whose schema has several forms: what a vendor's server takes is sent, and the tag tells what is missing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolwire import Problem, Selection, SyncRemote, Value, connect_sync
from toolwire.testing.loopback import background

REF = "#/components/schemas/"
TEXT = {"type": "string"}
PETS: dict[str, Any] = {
    "Pet": {
        "type": "object",
        "required": ["kind"],
        "properties": {"kind": TEXT},
        "discriminator": {"propertyName": "kind", "mapping": {"cat": f"{REF}Cat", "dog": "Dog"}},
    },
    "Cat": {"allOf": [{"$ref": f"{REF}Pet"}, {"type": "object", "properties": {"lives": {"type": "integer"}}}]},
    "Dog": {
        "allOf": [
            {"$ref": f"{REF}Pet"},
            {"type": "object", "required": ["tricks"], "properties": {"tricks": {"type": "array", "items": TEXT}}},
        ]
    },
}
WAYS = {
    name: {"type": "object", "required": ["method"], "properties": {"method": TEXT, field: TEXT}}
    for name, field in (("Card", "number"), ("Bank", "iban"))
}
HOW = {
    "oneOf": [{"$ref": f"{REF}Card"}, {"$ref": f"{REF}Bank"}],
    "discriminator": {"propertyName": "method", "mapping": {"card": f"{REF}Card", "bank": f"{REF}Bank"}},
}


async def echo(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answer with the body of the request."""
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    body = b""
    while (message := await receive()).get("more_body"):
        body += message["body"]
    body += message.get("body", b"")
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": body or b"null"})


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with background(echo) as found:
        yield found


def open_document(folder: Path, url: str, schema: Any, schemas: dict[str, Any], **more: Any) -> SyncRemote:
    content = {"application/json": {"schema": schema}}
    operation = {
        "operationId": "p",
        "requestBody": {"required": True, "content": content},
        "responses": {"200": {"description": "ok", "content": content}},
    }
    document = {
        "openapi": "3.0.3",
        "info": {"title": "T", "version": "1"},
        "servers": [{"url": url}],
        "paths": {"/p": {"post": operation}},
        "components": {"schemas": schemas},
        **more,
    }
    file = folder / "openapi.json"
    file.write_text(json.dumps(document))
    return connect_sync(str(file), selection=Selection(include="all"), approve=lambda _: True)


def explain(result: Any) -> str:
    assert isinstance(result, Problem), result
    return result.message


@pytest.mark.requirement("O-23")
def test_fields_of_each_kind_are_arguments_and_are_sent(tmp_path: Path, url: str) -> None:
    with open_document(tmp_path, url, {"$ref": f"{REF}Pet"}, PETS) as remote:
        for sent in ({"kind": "cat", "lives": 9}, {"kind": "dog", "tricks": ["sit"]}):
            assert remote.call("p", sent) == Value(sent)
        assert explain(remote.call("p", {"kind": "dog"})) == "Invalid arguments: tricks: is required."
        assert explain(remote.call("p", {"lives": 9})) == "Invalid arguments: kind is needed: cat or dog."
        (tool,) = remote.catalog().tools
        assert tool.parameters["kind"] == {"type": "string", "enum": ["cat", "dog"]}
        assert tool.parameters["lives"]["description"] == "Only where `kind` is `cat`."
        assert all(name in json.dumps(dict(tool.output_schema or {})) for name in ("lives", "tricks"))


@pytest.mark.requirement("O-23", "O-22")
def test_kinds_inside_a_body_are_visible_and_checked_by_their_tag(tmp_path: Path, url: str) -> None:
    whole = {"type": "object", "properties": {"pets": {"type": "array", "items": {"$ref": f"{REF}Pet"}}}}
    with open_document(tmp_path, url, whole, PETS) as remote:
        sent = {"pets": [{"kind": "cat", "lives": 9}, {"kind": "dog", "tricks": ["sit"]}]}
        assert remote.call("p", sent) == Value(sent)
        assert 'pets: [0] "tricks" is a required property' in explain(remote.call("p", {"pets": [{"kind": "dog"}]}))
        assert "pets: [0] kind is needed: cat or dog" in explain(remote.call("p", {"pets": [{"lives": 1}]}))
        (tool,) = remote.catalog().tools
        shown = json.dumps(dict(tool.input_schema))
        assert all(name in shown for name in ("lives", "tricks", '["cat"]', '["dog"]'))


@pytest.mark.requirement("O-23")
def test_kinds_of_swagger_2_are_told_by_name_or_extension(tmp_path: Path, url: str) -> None:
    parts = {
        "Base": {"type": "object", "discriminator": "kind", "required": ["kind"], "properties": {"kind": TEXT}},
        "A": {"allOf": [{"$ref": "#/definitions/Base"}, {"type": "object", "properties": {"a": TEXT}}]},
        "B": {
            "x-ms-discriminator-value": "#Bee",
            "allOf": [{"$ref": "#/definitions/A"}, {"type": "object", "properties": {"b": TEXT}}],
        },
    }
    body = {"in": "body", "name": "body", "required": True, "schema": {"$ref": "#/definitions/Base"}}
    operation = {"operationId": "p", "parameters": [body], "responses": {"200": {"description": "ok"}}}
    document = {
        "swagger": "2.0",
        "info": {"title": "T", "version": "1"},
        "host": url.partition("//")[2],
        "schemes": ["http"],
        "consumes": ["application/json"],
        "produces": ["application/json"],
        "paths": {"/p": {"post": operation}},
        "definitions": parts,
    }
    file = tmp_path / "swagger.json"
    file.write_text(json.dumps(document))
    with connect_sync(str(file), selection=Selection(include="all"), approve=lambda _: True) as remote:
        sent = {"kind": "#Bee", "a": "1", "b": "2"}
        assert remote.call("p", sent) == Value(sent)
        assert remote.catalog().tools[0].parameters["kind"]["enum"] == ["A", "#Bee", "Base"]


@pytest.mark.requirement("O-22")
def test_tag_that_is_plain_text_selects_the_branch(tmp_path: Path, url: str) -> None:
    whole = {"type": "object", "required": ["how"], "properties": {"how": HOW}}
    with open_document(tmp_path, url, whole, WAYS) as remote:
        sent = {"how": {"method": "card", "number": "4"}}
        assert remote.call("p", sent) == Value(sent)
        assert "how: method is needed: card or bank" in explain(remote.call("p", {"how": {"number": "4"}}))
        wrong = explain(remote.call("p", {"how": {"method": "cash"}}))
        assert wrong == 'Invalid arguments: how: .method "cash" is not one of "card" or "bank".'
        assert remote.findings() == ()


@pytest.mark.requirement("O-22")
def test_value_that_fits_several_branches_is_sent_with_a_finding(tmp_path: Path, url: str) -> None:
    users, groups = ({"type": "object", "properties": {name: TEXT}} for name in ("userId", "groupId"))
    properties = {
        "target": {"oneOf": [users, groups]},
        "amount": {"oneOf": [{"type": "integer"}, {"type": "number"}]},
        "size": {"oneOf": [{"type": "integer"}, {"type": "string"}]},
    }
    with open_document(tmp_path, url, {"type": "object", "properties": properties}, {}) as remote:
        for sent in ({"target": {"userId": "1"}}, {"amount": 5}, {"size": "L"}):
            assert remote.call("p", sent) == Value(sent)
        remote.call("p", {"size": 1.5})
        found = [str(one) for one in remote.findings()]
        assert any("branches of a oneOf in it overlap" in one for one in found), found
        assert "oneOf" in remote.catalog().tools[0].parameters["size"]  # these exclude each other


@pytest.mark.requirement("O-26")
def test_parent_whose_branches_extend_it_leads_round_in_no_circle(tmp_path: Path, url: str) -> None:
    shapes = {
        "Shape": {
            "type": "object",
            "required": ["kind"],
            "properties": {"kind": TEXT},
            "oneOf": [{"$ref": f"{REF}Circle"}, {"$ref": f"{REF}Square"}],
            "discriminator": {"propertyName": "kind"},
        },
        **{
            name: {
                "allOf": [
                    {"$ref": f"{REF}Shape"},
                    {"type": "object", "required": [side], "properties": {side: {"type": "number"}}},
                ]
            }
            for name, side in (("Circle", "r"), ("Square", "side"))
        },
        "Self": {"allOf": [{"$ref": f"{REF}Self"}], "properties": {"a": TEXT}},
    }
    whole = {"type": "object", "properties": {"shape": {"$ref": f"{REF}Shape"}, "own": {"$ref": f"{REF}Self"}}}
    with open_document(tmp_path, url, whole, shapes) as remote:
        sent = {"shape": {"kind": "Circle", "r": 1}, "own": {"a": "x"}}
        assert remote.call("p", sent) == Value(sent)
        assert isinstance(remote.call("p", {"shape": {"kind": "Circle"}}), Problem)
        (tool,) = remote.catalog().tools
        for schema in (tool.input_schema, tool.output_schema):
            assert not leads_round(dict(schema or {}))


def leads_round(schema: dict[str, Any]) -> bool:
    """Return whether a definition leads back to itself for the same value."""
    named = schema.get("$defs", {})

    def visit(node: Any, above: tuple[str, ...]) -> bool:
        if not isinstance(node, dict):
            return False
        name = str(node.get("$ref", "")).removeprefix("#/$defs/")
        if name in above:
            return True
        inner = [one for key in ("allOf", "anyOf", "oneOf") for one in node.get(key, ())]
        return any(visit(one, above) for one in inner) or (name in named and visit(named[name], (*above, name)))

    return any(visit(one, (name,)) for name, one in named.items())


@pytest.mark.requirement("O-31")
def test_open_body_takes_further_properties_at_every_depth(tmp_path: Path, url: str) -> None:
    nested = {"type": "object", "properties": {"name": TEXT}}
    with open_document(tmp_path, url, {**nested, "properties": {"name": TEXT, "inner": nested}}, {}) as remote:
        sent = {"name": "a", "inner": {"name": "b", "more": 1}, "more": 2}
        assert remote.call("p", sent) == Value(sent)
        refused = explain(remote.call("p", {"name": "a", "_method": "DELETE"}))
        assert "some servers would take it for another method or path" in refused
    closed = {**nested, "additionalProperties": False}
    with open_document(tmp_path, url, closed, {}) as remote:
        assert explain(remote.call("p", {"nam": "a"})) == "p takes no `nam`: did you mean `name`?"


@pytest.mark.requirement("O-33")
def test_null_is_sent_for_a_reference_with_nullable_beside_it(tmp_path: Path, url: str) -> None:
    schemas = {"Owner": {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}}
    reference = {"$ref": f"{REF}Owner"}
    properties = {"owner": {**reference, "nullable": True}, "payer": {"allOf": [reference], "nullable": True}}
    with open_document(tmp_path, url, {"type": "object", "properties": properties}, schemas) as remote:
        for sent in ({"owner": None}, {"payer": None}, {"owner": {"id": 1}, "payer": None}):
            assert remote.call("p", sent) == Value(sent)
        assert isinstance(remote.call("p", {"owner": {"id": "x"}}), Problem)


@pytest.mark.requirement("O-33")
@pytest.mark.parametrize("word", ["enum", "items", "allOf"])
def test_finding_about_an_invalid_keyword_is_one_sentence(word: str, tmp_path: Path, url: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", word: 7}}}
    with open_document(tmp_path, url, schema, {}) as remote:
        assert remote.call("p", {"a": "x"}) == Value({"a": "x"})
        found = [str(one) for one in remote.findings()]
    assert any(f'"{word}" of a schema in it is invalid, and is left out' in one for one in found), found
