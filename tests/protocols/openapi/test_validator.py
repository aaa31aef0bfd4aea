"""What is wrong with an OpenAPI document and its x-llm, with its place; and what a model's user would change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolwire.protocols.openapi.tools import operations
from toolwire.protocols.openapi.validator import MAX_BYTES, check, check_llm


def document(**operation: Any) -> dict[str, Any]:
    return {
        "openapi": "3.1.0",
        "info": {"title": "A", "version": "1.0.0"},
        "servers": [{"url": "https://a.example"}],
        "x-llm": {"version": "0.1", "name": "A"},
        "paths": {"/r": {"post": {"operationId": "save_recipe", "summary": "Save it", **operation, "responses": {}}}},
    }


def list_faults(data: Any) -> set[tuple[str, str, str]]:
    return {(fault.severity, fault.rule, fault.pointer) for fault in check(json.dumps(data))}


AT = "/paths/~1r/post"


@pytest.mark.requirement("XL-088")
def test_valid_document_has_no_fault() -> None:
    assert list_faults(document(**{"x-llm": {"hint": "When one was liked."}})) == set()


@pytest.mark.requirement("XL-088")
@pytest.mark.parametrize(
    ("operation", "fault"),
    [
        ({"x-llm": {"hint": "h", "enabled": "yes"}}, ("error", "XL-035", f"{AT}/x-llm/enabled")),
        (
            {"x-llm": {"hint": "h", "rateLimit": {"max": 0, "window": "1m"}}},
            ("error", "XL-060", f"{AT}/x-llm/rateLimit/max"),
        ),
        ({"x-llm": {"hint": "h", "rateLimit": 60}}, ("warning", "XL-061", f"{AT}/x-llm/rateLimit")),
        ({"x-llm": {"hint": "h", "hints": 1}}, ("warning", "XL-037", f"{AT}/x-llm/hints")),
        ({"x-llm": {}}, ("warning", "XL-031", AT)),
        ({"x-llm": {"hint": "h", "approval": "auto"}}, ("warning", "XL-044", f"{AT}/x-llm/approval")),
        ({"x-llm": {"hint": "h"}, "summary": ""}, ("warning", "XL-070", AT)),
        ({"x-llm": {"hint": "h"}, "operationId": "get2"}, ("warning", "XL-080", f"{AT}/operationId")),
        ({"x-llm": {"hint": "h"}, "operationId": ""}, ("warning", "XL-083", AT)),
        (
            {"x-llm": {"hint": "h", "next": [{"operationId": "gone"}]}},
            ("warning", "XL-075", f"{AT}/x-llm/next/0/operationId"),
        ),
        ({"x-llm": {"hint": "h"}, "x-opentools": {}}, ("warning", "XL-038", f"{AT}/x-opentools")),
        ({"x-llm": {"hint": "h"}, "parameters": [7]}, ("warning", "XL-088", AT)),
    ],
)
def test_each_fault_is_reported_at_its_place(operation: dict[str, Any], fault: tuple[str, str, str]) -> None:
    assert list_faults(document(**operation)) == {fault}


@pytest.mark.requirement("XL-030", "XL-033", "XL-088")
def test_root_x_llm_and_misplaced_x_llm_are_checked() -> None:
    data = document(**{"x-llm": {"hint": "h"}})
    data["x-llm"] = {"version": "7.1", "name": 3}
    assert {("error", "XL-028", "/x-llm/version"), ("error", "XL-026", "/x-llm/name")} <= list_faults(data)
    data = document(**{"x-llm": {"hint": "h"}}) | {"tags": [{"name": "t", "x-llm": {}}]}
    data["paths"]["/r"]["x-llm"] = True
    assert list_faults(data) == {("warning", "XL-033", "/tags/0/x-llm"), ("warning", "XL-033", "/paths/~1r/x-llm")}
    assert list_faults({"swagger": "1.2", "paths": {}}) >= {("error", "CV-29", "")}
    assert list_faults([]) == {("error", "CV-29", "")}


@pytest.mark.requirement("XL-004", "XL-009", "XL-088", "O-12")
def test_document_without_offers_is_checked_as_if_it_offered_everything() -> None:
    data = document(parameters=[7])
    del data["x-llm"]
    assert list_faults(data) == {("warning", "XL-004", ""), ("warning", "XL-009", ""), ("warning", "XL-088", AT)}
    assert list_faults(data | {"openapi": "4.0"}) == {("warning", "XL-004", ""), ("error", "CV-29", "")}


@pytest.mark.requirement("D-16", "XL-013")
def test_document_up_to_the_size_limit_is_checked() -> None:
    data = document(**{"x-llm": {"hint": "h", "enabled": "yes"}})
    data["components"] = {"schemas": {"A": {"description": "long " * 1_000_000}}}
    assert list_faults(data) == {("error", "XL-035", f"{AT}/x-llm/enabled")}
    for start in (b"{", b"openapi: 3.1.0"):
        assert [(one.rule, one.severity) for one in check(start.ljust(MAX_BYTES + 1))] == [("D-16", "error")]


@pytest.mark.requirement("CV-25")
def test_too_many_tools_give_a_warning() -> None:
    data = document()
    data["paths"] = {
        f"/r{n}": {"get": {"operationId": f"find_{n}", "summary": "F", "x-llm": {"hint": "h"}, "responses": {}}}
        for n in range(129)
    }
    assert list_faults(data) == {("warning", "CV-25", "/paths")}


@pytest.mark.requirement("XL-020", "XL-021", "XL-023")
def test_an_llm_json_is_checked_with_line_and_column() -> None:
    assert check_llm('{"openapi": "/openapi.json", "auth": "oauth2"}') == ()
    (fault,) = check_llm('{\n  "openapi": 7\n}')
    assert (fault.line, fault.column, fault.pointer, fault.severity) == (2, 14, "/openapi", "error")
    assert check_llm("{")[0].rule == "XL-020"


def test_faults_of_a_yaml_document_have_pointers_and_positions() -> None:
    text = "openapi: 3.1.0\nx-llm: {version: '0.1', name: A}\nservers: [{url: 'https://a.example'}]\n"
    text += "paths:\n  /r:\n    get:\n      operationId: find_r\n      x-llm: {hint: h}\n"
    (fault,) = check(text)
    assert (fault.pointer, fault.rule, fault.line, fault.column) == ("/paths/~1r/get", "XL-070", 6, 5)
    assert check("openapi: 3.1.0\nx: *a\n")[0].rule == "XL-013"


@pytest.mark.requirement("XL-088")
def test_each_operation_is_a_tool_or_reported() -> None:
    data = document(**{"x-llm": {"hint": "h"}})
    for number, broken in enumerate(
        ({"parameters": [7]}, {"parameters": [{"name": "a"}]}, {"x-llm": False}, {"x-llm": True})
    ):
        operation = {"operationId": f"o{number}", "summary": "S", "x-llm": {}, "responses": {}, **broken}
        data["paths"][f"/{number}"] = {"get": operation, "put": 7}
    offer = operations.read_operations(data, "https://a.example/openapi.json")
    found = [one for item in data["paths"].values() for one in item.values()]
    assert len(found) == len(offer.catalog.tools) + sum(note.operations for note in offer.memo.notes)


@pytest.mark.requirement("XL-033", "XL-088")
def test_other_methods_are_checked_and_misplaced_x_llm_is_reported() -> None:
    data = document(**{"x-llm": {"hint": "h"}})
    data["paths"]["/x"] = {
        "additionalOperations": {
            "LOCK": {"operationId": "lock_it", "summary": "Lock it", "x-llm": {"hint": "h", "enabled": 7}},
            "MOVE": 7,
            "COPY": {"responses": {}},
        }
    }
    data["paths"]["/none"] = None
    data["components"] = {"schemas": {"A": {"type": "object", "x-llm": {}}, "B": {}, "C": True}}
    found = list_faults(data)
    assert ("error", "XL-035", "/paths/~1x/additionalOperations/LOCK/x-llm/enabled") in found
    assert ("warning", "XL-033", "/components/schemas/A/x-llm") in found
    assert not [pointer for _, _, pointer in found if "COPY" in pointer or "/B" in pointer]


@pytest.mark.requirement("XL-075", "XL-088")
def test_next_step_may_name_any_operation_of_the_document() -> None:
    steps = [{"operationId": "save_recipe"}, {"operationId": "gone"}]
    assert list_faults(document(**{"x-llm": {"hint": "h", "next": steps[:1]}})) == set()
    found = list_faults(document(**{"x-llm": {"hint": "h", "next": steps}}))
    assert found == {("warning", "XL-075", f"{AT}/x-llm/next/1/operationId")}


@pytest.mark.requirement("XL-088", "CV-29", "O-12")
@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"components": {"schemas": {"A": {"type": "strin"}}}}, ("error", "CV-29", "/components/schemas/A/type")),
        ({"components": {"schemas": {"A": {"required": True}}}}, ("error", "CV-29", "/components/schemas/A/required")),
        ({"components": {"schemas": {"A": 7}}}, ("error", "CV-29", "/components/schemas/A")),
        (
            {"components": {"schemas": {"A": {"properties": {"b": {"$ref": "#/components/schemas/B"}}}}}},
            ("error", "CV-17", "/components/schemas/A/properties/b/$ref"),
        ),
        (
            {"paths": {"/a": {"get": {"operationId": "a"}, "post": {"operationId": "a"}}}},
            ("error", "CV-29", "/paths/~1a/post/operationId"),
        ),
        ({"servers": []}, ("warning", "CV-08", "")),
        ({"servers": [{"url": "https://{x}.example"}]}, ("error", "CV-08", "/servers/0")),
    ],
)
def test_fault_of_the_openapi_document_itself_is_reported(change: dict[str, Any], fault: tuple[str, str, str]) -> None:
    plain = {key: one for key, one in document().items() if key != "x-llm"}
    assert fault in list_faults(plain | change)
    assert fault not in list_faults(plain)
    assert {severity for severity, _, _ in list_faults(plain)} == {"warning"}
