"""Documents that refer to others, and the names of their parts besides pointers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from toolwire.core.codec import Peer
from toolwire.core.http import Request, Response
from toolwire.core.model import Problem
from toolwire.core.selection import Selection
from toolwire.protocols.openapi.discovery import find
from toolwire.protocols.openapi.document import bundle, loading
from toolwire.protocols.openapi.document.loading import Loaded
from toolwire.validation import compile_schema

HOME = "https://recipes.test"
OPEN = f"{HOME}/openapi.json"
EVERYWHERE = Selection(include="all", elsewhere=True)

Drive = Callable[..., Any]


def taking(**properties: Any) -> dict[str, Any]:
    """Return a document whose one tool has the arguments ``properties``."""
    schema = {"type": "object", "properties": properties}
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    paths = {"/x": {"post": {"operationId": "x", "x-llm": {}, "requestBody": body}}}
    return {"openapi": "3.1.0", "info": {"title": "T"}, "servers": [{"url": HOME}], "paths": paths}


def fits(peer: Peer | None) -> Callable[[Any], bool]:
    assert peer is not None
    (tool,) = peer.catalog.tools
    validate = compile_schema(tool.input_schema)
    return lambda data: validate(data) is None


@pytest.mark.requirement("CV-17", "D-18")
def test_another_document_that_is_none_is_as_if_it_were_not_there(drive: Drive, site: Any) -> None:
    whole = taking(page={"$ref": "page.json"}, number={"$ref": "number.json#/a"}, good={"$ref": "good.json"})
    answers = {"/openapi.json": whole, "/page.json": b"<p>", "/number.json": b"7", "/good.json": {"type": "integer"}}
    check = fits(drive(find(OPEN, EVERYWHERE), site(answers)).peer)
    assert check({"page": "anything", "number": "anything", "good": 1})
    assert not check({"good": "text"})


@pytest.mark.requirement("CV-17", "D-18")
def test_a_file_is_read_with_those_in_its_folder_and_no_others(drive: Drive) -> None:
    beside = {"in": {"$ref": "parts/a.json"}, "up": {"$ref": "../secret.json"}, "odd": {"$ref": "parts/%2e%2e/b.json"}}
    files = {"file:///api/openapi.json": taking(**beside), "file:///api/parts/a.json": {"type": "integer"}}
    asked: list[str] = []

    def answer(request: Request) -> Response:
        asked.append(request.url)
        found = files.get(request.url)
        return Response(404) if found is None else Response(200, (), json.dumps(found).encode())

    peer = drive(find("file:///api/openapi.json", EVERYWHERE), answer).peer
    assert asked == list(files)
    check = fits(peer)
    assert check({"in": 1, "up": "anything"})
    assert not check({"in": "text"})


@pytest.mark.requirement("CV-17")
def test_what_has_its_url_in_the_document_is_not_looked_for_elsewhere() -> None:
    schemas = {
        "A": {"$id": "https://elsewhere.test/a", "type": "integer"},
        "B": {"$ref": "https://elsewhere.test/a"},
        "C": {"$ref": "https://elsewhere.test/c"},
        "D": {"$ref": "http://[half"},
    }
    assert bundle.find_other_documents({"components": {"schemas": schemas}}, OPEN) == [
        "https://elsewhere.test/c", "http://[half",
    ]  # fmt: skip


@pytest.mark.requirement("CV-17", "CV-19")
def test_the_mapping_of_a_discriminator_leads_where_its_references_do(drive: Drive, site: Any) -> None:
    pets = {
        "discriminator": {
            "propertyName": "kind",
            "mapping": {"cat": "pets.json#/Cat", "dog": "pets.json#/Dog", "fish": "Fish", "odd": 7},
        },
        "oneOf": [{"$ref": "pets.json#/Cat"}, {"$ref": "pets.json#/Dog"}, {"$ref": "#/components/schemas/Fish"}],
    }
    others = {"Cat": {"required": ["lives"]}, "Dog": {"required": ["barks"]}}
    whole = {**taking(pet=pets), "components": {"schemas": {"Fish": {"required": ["fins"]}}}}
    peer = drive(find(OPEN, EVERYWHERE), site({"/openapi.json": whole, "/pets.json": others})).peer
    check = fits(peer)
    assert check({"pet": {"barks": True}})
    assert not check({"pet": {"kind": "cat"}})
    branches = peer.catalog.tools[0].parameters["pet"]["oneOf"]
    assert [one["description"] for one in branches] == ["`kind`: `cat`.", "`kind`: `dog`.", "`kind`: `fish`."]


@pytest.mark.requirement("CV-17")
def test_an_id_that_is_only_a_label_does_not_lead_its_neighbours_astray(drive: Drive, site: Any) -> None:
    labelled = {"$id": "Order", "properties": {"n": {"$ref": "#/components/schemas/N"}}}
    inside = {"$id": "Own", "properties": {"n": {"$ref": "#/$defs/N"}}, "$defs": {"N": {"type": "boolean"}}}
    schemas = {"Order": labelled, "Own": inside, "N": {"type": "integer"}}
    whole = taking(order={"$ref": "#/components/schemas/Order"}, own={"$ref": "#/components/schemas/Own"})
    answers = {"/openapi.json": {**whole, "components": {"schemas": schemas}}}
    check = fits(drive(find(OPEN, EVERYWHERE), site(answers)).peer)
    assert check({"order": {"n": 1}, "own": {"n": True}})
    assert not check({"order": {"n": "text"}})
    assert not check({"own": {"n": 1}})


@pytest.mark.requirement("CV-17", "D-16")
@pytest.mark.parametrize("brackets", ['{"a": [%s]}', '{ "a" : [%s] }'])
def test_a_reference_with_escaped_slashes_is_what_it_says(brackets: str) -> None:
    loaded = loading.load_document((brackets % r'{"$ref": "#\/components\/schemas\/A"}').encode())
    assert isinstance(loaded, Loaded)
    assert loaded.references == {"#/components/schemas/A"}


def test_a_reference_whose_escapes_are_those_of_yaml_is_no_reason_to_stop() -> None:
    loaded = loading.load_document(b'openapi: 3.1.0\nA: {$ref: "#/\\x41"}\n')
    assert isinstance(loaded, Loaded)
    assert loaded.data == {"openapi": "3.1.0", "A": {"$ref": "#/A"}}
    assert loaded.references == {"#/\\x41"}


@pytest.mark.requirement("D-16")
@pytest.mark.parametrize("text", ['{"a" :1, "a" :2}', '{"a":1, "\\u0022":{}, "a":2}', '[{"a":1,"a":2}]'])
def test_two_members_of_one_name_are_refused_however_they_are_written(text: str) -> None:
    assert isinstance(loading.load_document(text.encode()), Problem)
    assert isinstance(loading.load_document(text.replace('"a"', '"b"', 1).encode()), Loaded)
    assert loading.load_document(b'"a: "') == Loaded("a: ")


@pytest.mark.requirement("XL-008")
def test_what_names_nothing_in_a_catalog_is_passed_over(drive: Drive, site: Any) -> None:
    spec = {**taking(), "x-llm": {}}
    named = [{"href": 7}, 7, {"title": "no address"}, {"href": "/spec"}]
    linkset = {"linkset": [7, {"anchor": "/"}, {"service-desc": named}]}
    finding = drive(find(HOME), site({"/.well-known/api-catalog": linkset, "/spec": spec}))
    assert finding.peer is not None
    assert finding.peer.url == f"{HOME}/spec"


def test_an_overlay_that_is_none_is_said_where_its_document_is(drive: Drive, site: Any) -> None:
    finding = drive(find(OPEN, Selection(overlay={"overlay": "2.0.0"})), site({"/openapi.json": taking()}))
    assert finding.peer is None
    assert "is a document, but the overlay cannot be used" in finding.probes[0].meaning


@pytest.mark.requirement("CV-17", "D-26")
def test_names_of_definitions_tell_neither_folders_nor_hosts(drive: Drive) -> None:
    beside = {"a": {"$ref": "parts/a.json"}, "b": {"$ref": "parts/b/a.json#/x"}}
    files = {
        "file:///home/me/secret/openapi.json": taking(**beside),
        "file:///home/me/secret/parts/a.json": {"type": "object", "properties": {"b": {"$ref": "b/a.json#/x"}}},
        "file:///home/me/secret/parts/b/a.json": {"x": {"type": "object", "properties": {"c": {"$ref": "../a.json"}}}},
    }

    def answer(request: Request) -> Response:
        found = files.get(request.url)
        return Response(404) if found is None else Response(200, (), json.dumps(found).encode())

    finding = drive(find("file:///home/me/secret/openapi.json", EVERYWHERE), answer)
    (tool,) = finding.peer.catalog.tools
    text = repr(dict(tool.input_schema))
    assert "parts_a.json" in text or "parts.a.json" in text, text
    assert "home" not in text
    assert "secret" not in text
