"""The messages in vectors/otc.json: each is read by one half, and written by the other where it is ours."""

import json
from pathlib import Path
from typing import Any

import pytest

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Pending, Site
from toolwire.core.http import Request, Response
from toolwire.core.model import ANONYMOUS, Call, Kind, Value
from toolwire.protocols.otc import CODEC, call_request, dialect

VECTORS = {
    vector["name"]: vector
    for vector in json.loads((Path(__file__).parents[2] / "vectors" / "otc.json").read_text("utf-8"))
}
REQUESTS = [name for name, vector in VECTORS.items() if vector["half"] == "request"]
LISTS = [name for name, vector in VECTORS.items() if vector["method"] == "GET"]
ANSWERS = {
    "rfc-answer": ("rfc-list", Value(3)),
    "rfc-answer-error": ("rfc-list", Kind.TOOL_FAILED),
    "oxp-answer": ("oxp-list", Value(3)),
    "oxp-answer-error": ("oxp-list", Kind.TOOL_FAILED),
    "oxp-missing": ("oxp-list", Kind.MISSING_REQUIREMENTS),
    "oxp-invalid": ("oxp-list", Kind.INVALID_ARGUMENTS),
    "oxp-limited": ("oxp-list", Kind.RATE_LIMITED),
    "universal-answer": ("universal-list", Value(3)),
    "universal-unknown": ("universal-list", Kind.UNKNOWN_TOOL),
    "open-tool-answer": ("open-tool-list", Value(3)),
}


def response(name: str) -> Response:
    vector = VECTORS[name]
    headers = tuple((key.encode(), value.encode()) for key, value in vector["headers"].items())
    return Response(vector["status"], headers, json.dumps(vector["body"]).encode())


def peer(talk: Any, name: str) -> Any:
    return talk(CODEC.find("http://h"), response(name))[0].peer


@pytest.fixture
def rfc_catalog(talk: Any) -> Catalog:
    return peer(talk, "rfc-definitions").catalog


def test_every_vector_is_tested():
    assert sorted(VECTORS) == sorted([*REQUESTS, *LISTS, *ANSWERS])


@pytest.mark.requirement("OTC-018", "OTC-037", "OXP-001", "S-14")
@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_is_read(name, rfc_catalog):
    vector = VECTORS[name]
    headers = tuple((key.encode(), value.encode()) for key, value in vector["headers"].items())
    routes = CODEC.routes(rfc_catalog, Site())
    sent = Request(vector["method"], vector["path"], headers, json.dumps(vector["body"]).encode(), "made-1")
    reading = routes[vector["method"], vector["path"]].read(sent)
    assert isinstance(reading, Pending), reading
    asked = vector["body"]["request"]
    assert asked["tool_id"].partition("@")[0].rpartition(".")[2] == reading.call.tool.name
    assert reading.call.arguments == asked.get("input", asked.get("inputs"))
    assert reading.call.call_id == asked.get("call_id", "made-1")


@pytest.mark.requirement("C-9")
def test_our_request_equals_the_oxp_vector(rfc_catalog):
    tool = rfc_catalog.find("Calculator.Add")
    made = call_request.write(Call(tool, {"a": 1, "b": 2}, "c1", ANONYMOUS), "Calculator.Add")
    assert made == VECTORS["oxp-call"]["body"]


def test_our_request_equals_the_universal_tool_vector(rfc_catalog):
    tool = rfc_catalog.find("Add")
    assert call_request.write_universal(Call(tool, {"a": 1, "b": 2}), "Add") == VECTORS["universal-call"]["body"]


@pytest.mark.parametrize("name", LISTS)
def test_a_list_is_found(name, talk):
    assert peer(talk, name).catalog.tools


@pytest.mark.requirement("OTC-018", "OTC-011", "OTC-008")
def test_rfc_definitions_are_written_as_they_were_read(rfc_catalog):
    routes = CODEC.routes(rfc_catalog, Site())
    listed = json.loads(routes["GET", "/tools"].read(Request("GET", "/tools")).body)
    written = {tool["id"]: tool for tool in listed["tools"]}
    for tool in VECTORS["rfc-definitions"]["body"]["tools"]:
        again = {key: value for key, value in written[tool["id"]].items() if key != "x-llm"}
        assert again == {**tool, "name": tool["id"].partition(".")[2].partition("@")[0]}


@pytest.mark.parametrize(("name", "listed", "expected"), [(name, *rest) for name, rest in ANSWERS.items()])
def test_an_answer_is_read(name, listed, expected, talk):
    found = peer(talk, listed)
    vector = VECTORS[name]
    assert vector["path"] in found.memo.dialect.paths[:1]
    body = vector["body"] if isinstance(vector["body"], dict) else {}
    call_id = body.get("call_id", "c1")
    result, _ = talk(CODEC.send(found, Call(found.catalog.tools[0], {"a": 1, "b": 2}, call_id)), response(name))
    assert (result if isinstance(result, Value) else result.kind) == expected


@pytest.mark.parametrize(
    ("name", "path", "schema"),
    [
        ("rfc-answer", "/call", None),
        ("oxp-answer", "/tools/call", None),
    ],
)
def test_our_answer_equals_the_vector_of_the_standard(name, path, schema, rfc_catalog):
    expected = VECTORS[name]["body"]
    call_id = expected.get("result", expected)["call_id"]
    body = json.dumps({"request": {"tool_id": "Add", "call_id": call_id, "input": {"a": 1, "b": 2}}}).encode()
    sent = Request("POST", path, ((b"content-type", b"application/json"),), body)
    reading = CODEC.routes(rfc_catalog, Site())["POST", path].read(sent)
    assert json.loads(reading.reply(Value(3), 2.0).body) == expected


def test_dialect_is_recognized_by_its_list(talk):
    assert [peer(talk, name).memo.dialect for name in LISTS] == [
        dialect.RFC,
        dialect.RFC,
        dialect.OXP,
        dialect.UNIVERSAL,
        dialect.OPEN_TOOL,
    ]
