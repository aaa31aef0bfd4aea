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


def build_document(**properties: Any) -> dict[str, Any]:
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
def test_invalid_other_document_is_ignored(drive: Drive, site: Any) -> None:
    whole = build_document(page={"$ref": "page.json"}, number={"$ref": "number.json#/a"}, good={"$ref": "good.json"})
    answers = {"/openapi.json": whole, "/page.json": b"<p>", "/number.json": b"7", "/good.json": {"type": "integer"}}
    check = fits(drive(find(OPEN, EVERYWHERE), site(answers)).peer)
    assert check({"page": "anything", "number": "anything", "good": 1})
    assert not check({"good": "text"})


@pytest.mark.requirement("CV-17", "D-18")
def test_local_file_can_read_only_files_in_its_folder(drive: Drive) -> None:
    beside = {"in": {"$ref": "parts/a.json"}, "up": {"$ref": "../secret.json"}, "odd": {"$ref": "parts/%2e%2e/b.json"}}
    files = {"file:///api/openapi.json": build_document(**beside), "file:///api/parts/a.json": {"type": "integer"}}
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


@pytest.mark.requirement("CV-17", "D-18")
@pytest.mark.parametrize("place", ["$ref", "$id", "$self"])
def test_name_that_is_no_url_breaks_no_other_operation(drive: Drive, site: Any, place: str) -> None:
    broken = "http://[::1"
    odd = {"$ref": f"{broken}#/key"} if place == "$ref" else {"$id": broken, "$anchor": "odd"}
    whole = build_document(odd=odd, good={"type": "integer"})
    if place == "$self":
        whole["$self"] = broken
    for selection in (EVERYWHERE, Selection(include="all")):
        check = fits(drive(find(OPEN, selection), site({"/openapi.json": whole})).peer)
        assert check({"odd": "anything", "good": 1})
        assert not check({"good": "text"})


@pytest.mark.requirement("CV-17")
def test_schema_id_inside_the_document_is_not_fetched() -> None:
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
def test_discriminator_mapping_resolves_like_its_references(drive: Drive, site: Any) -> None:
    pets = {
        "discriminator": {
            "propertyName": "kind",
            "mapping": {"cat": "pets.json#/Cat", "dog": "pets.json#/Dog", "fish": "Fish", "odd": 7},
        },
        "oneOf": [{"$ref": "pets.json#/Cat"}, {"$ref": "pets.json#/Dog"}, {"$ref": "#/components/schemas/Fish"}],
    }
    others = {"Cat": {"required": ["lives"]}, "Dog": {"required": ["barks"]}}
    whole = {**build_document(pet=pets), "components": {"schemas": {"Fish": {"required": ["fins"]}}}}
    peer = drive(find(OPEN, EVERYWHERE), site({"/openapi.json": whole, "/pets.json": others})).peer
    check = fits(peer)
    assert check({"pet": {"barks": True}})
    assert not check({"pet": {"kind": "cat"}})
    branches = peer.catalog.tools[0].parameters["pet"]["anyOf"]
    assert [one["properties"]["kind"]["enum"] for one in branches] == [["cat"], ["dog"], ["fish"]]


@pytest.mark.requirement("CV-17")
def test_schema_id_used_as_a_label_does_not_redirect_references(drive: Drive, site: Any) -> None:
    labelled = {"$id": "Order", "properties": {"n": {"$ref": "#/components/schemas/N"}}}
    inside = {"$id": "Own", "properties": {"n": {"$ref": "#/$defs/N"}}, "$defs": {"N": {"type": "boolean"}}}
    schemas = {"Order": labelled, "Own": inside, "N": {"type": "integer"}}
    whole = build_document(order={"$ref": "#/components/schemas/Order"}, own={"$ref": "#/components/schemas/Own"})
    answers = {"/openapi.json": {**whole, "components": {"schemas": schemas}}}
    check = fits(drive(find(OPEN, EVERYWHERE), site(answers)).peer)
    assert check({"order": {"n": 1}, "own": {"n": True}})
    assert not check({"order": {"n": "text"}})
    assert not check({"own": {"n": 1}})


@pytest.mark.requirement("CV-17", "D-16")
@pytest.mark.parametrize("brackets", ['{"a": [%s]}', '{ "a" : [%s] }'])
def test_reference_with_escaped_slashes_is_resolved(brackets: str) -> None:
    loaded = loading.load_document((brackets % r'{"$ref": "#\/components\/schemas\/A"}').encode())
    assert isinstance(loaded, Loaded)
    assert loaded.references == {"#/components/schemas/A"}


def test_reference_with_yaml_escapes_causes_no_error() -> None:
    loaded = loading.load_document(b'openapi: 3.1.0\nA: {$ref: "#/\\x41"}\n')
    assert isinstance(loaded, Loaded)
    assert loaded.data == {"openapi": "3.1.0", "A": {"$ref": "#/A"}}
    assert loaded.references == {"#/\\x41"}


@pytest.mark.requirement("D-16")
@pytest.mark.parametrize("text", ['{"a" :1, "a" :2}', '{"a":1, "\\u0022":{}, "a":2}', '[{"a":1,"a":2}]'])
def test_duplicate_members_are_refused_in_any_spelling(text: str) -> None:
    assert isinstance(loading.load_document(text.encode()), Problem)
    assert isinstance(loading.load_document(text.replace('"a"', '"b"', 1).encode()), Loaded)
    assert loading.load_document(b'"a: "') == Loaded("a: ")


@pytest.mark.requirement("XL-008")
def test_invalid_entries_of_an_api_catalog_are_ignored(drive: Drive, site: Any) -> None:
    spec = {**build_document(), "x-llm": {}}
    named = [{"href": 7}, 7, {"title": "no address"}, {"href": "/spec"}]
    linkset = {"linkset": [7, {"anchor": "/"}, {"service-desc": named}]}
    finding = drive(find(HOME), site({"/.well-known/api-catalog": linkset, "/spec": spec}))
    assert finding.peer is not None
    assert finding.peer.url == f"{HOME}/spec"


def test_invalid_overlay_is_reported_at_its_document(drive: Drive, site: Any) -> None:
    finding = drive(find(OPEN, Selection(overlay={"overlay": "2.0.0"})), site({"/openapi.json": build_document()}))
    assert finding.peer is None
    assert (
        'is a document, but toolwire cannot use the overlay: its "overlay" must be a version'
        in finding.probes[0].meaning
    )


@pytest.mark.requirement("CV-17", "D-26", "O-09")
def test_definition_names_reveal_no_folders_or_hosts(drive: Drive) -> None:
    beside = {"a": {"$ref": "parts/a.json"}, "b": {"$ref": "parts/b/a.json#/x"}}
    files = {
        "file:///home/me/secret/openapi.json": build_document(**beside),
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


def find_with_parts(parts: int, selection: Selection) -> tuple[list[str], Peer]:
    """Return the URLs that were asked for, and the peer of a document that refers to ``parts`` others."""
    whole = build_document(**{f"p{number}": {"$ref": f"part{number}.json"} for number in range(parts)})
    part = json.dumps({"type": "integer"}).encode()
    asked: list[str] = []
    flow = find(OPEN, selection)
    try:
        request = flow.send(None)
        while True:
            asked.append(request.url)
            is_part = "/part" in request.url
            body = part if is_part else json.dumps(whole).encode()
            known = is_part or request.url == OPEN
            request = flow.send(Response(200, (), body) if known else Response(404))
    except StopIteration as stop:
        peer = stop.value.peer
    assert peer is not None
    return asked, peer


@pytest.mark.requirement("O-30")
def test_every_document_within_the_limit_in_bytes_is_read() -> None:
    asked, peer = find_with_parts(1_200, EVERYWHERE)
    assert sum("/part" in one for one in asked) == 1_200
    assert "not read" not in " ".join(peer.findings())


@pytest.mark.requirement("O-30")
def test_following_says_where_it_stops_and_how_to_go_on() -> None:
    asked, peer = find_with_parts(100, Selection(include="all", elsewhere=True, document_bytes=100_000))
    read = sum("/part" in one for one in asked)
    assert read == 24  # each counts at least 4,096 bytes
    finding = next(one for one in peer.findings() if one.startswith("Other documents are not read from"))
    assert "part24.json on, because together they are larger than 100,000 bytes" in finding
    assert "--document-bytes" in finding


@pytest.mark.requirement("O-30")
def test_finding_about_a_document_that_was_not_read_names_follow() -> None:
    _, peer = find_with_parts(1, Selection(include="all"))
    assert "which was not read (elsewhere=True, or --follow, reads it)" in " ".join(peer.findings())
