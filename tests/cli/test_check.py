"""``toolwire check``: what it prints, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolwire.cli.commands.check import detect_kind

EXAMPLES = Path(__file__).parents[2] / "spec" / "opentool" / "examples"
GOOD = EXAMPLES / "valid" / "full.json"
BAD = EXAMPLES / "faulty" / "name_dot.json"
ODD = EXAMPLES / "faulty" / "enum_empty.json"


@pytest.fixture
def put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    """Write a file beside which the program runs."""
    monkeypatch.chdir(tmp_path)

    def write(name: str, text: str) -> str:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return name

    return write


def test_valid_document_gives_exit_code_0(toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("check", GOOD)
    assert (outcome.code, outcome.out, outcome.err) == (0, "1 file checked: 0 errors, 0 warnings.\n", "")


def test_error_is_printed_with_its_place_and_gives_exit_code_1(toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("check", GOOD, BAD)
    first, last = outcome.out.splitlines()
    assert outcome.code == 1
    assert first.startswith(f"{BAD}:9:15: error [OT-011] /functions/0/name: 'books.find' is not a valid function name")
    assert last == "2 files checked: 1 error, 0 warnings."


def test_warning_gives_exit_code_1_only_with_strict(toolwire: Callable[..., Any]) -> None:
    assert toolwire("check", ODD).code == 0
    assert ": warning [OT-026] " in toolwire("check", ODD).out
    assert toolwire("check", "--strict", ODD).code == 1
    assert toolwire("check", ODD, "--strict", GOOD).code == 1


def test_json_output_contains_the_same_faults(toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("check", "--json", BAD, ODD, "gone.json")
    data = json.loads(outcome.out)
    assert outcome.code == 2
    assert (data["files"], data["errors"], data["warnings"]) == (3, 1, 1)
    assert data["faults"][0] | {"message": ""} == {
        "file": str(BAD),
        "pointer": "/functions/0/name",
        "line": 9,
        "column": 15,
        "severity": "error",
        "rule": "OT-011",
        "message": "",
    }
    assert data["not_checked"] == [{"file": "gone.json", "reason": ("it cannot be read: No such file or directory.")}]


def test_unreadable_file_does_not_stop_the_check_of_others(toolwire: Callable[..., Any], tmp_path: Path) -> None:
    outcome = toolwire("check", tmp_path / "gone.json", tmp_path, BAD)
    assert outcome.code == 2
    assert "[OT-011]" in outcome.out
    assert outcome.out.endswith("1 file checked: 1 error, 0 warnings.\n")
    assert len(outcome.err.splitlines()) == 2


def test_invalid_json_is_reported_with_its_position(
    put: Callable[[str, str], str], toolwire: Callable[..., Any]
) -> None:
    outcome = toolwire("check", put("a.json", '{\n "opentool": nil}'))
    assert outcome.code == 1
    assert outcome.out.startswith("a.json:2:14: error [OT-029]: This is not valid JSON: ")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"opentool": "1.1.0"}, "opentool"),
        ({"info": {}, "functions": []}, "opentool"),
        ({"openapi": "3.1.0", "info": {}, "paths": {}}, "openapi"),
        ({"openapi": "3.1.0", "info": {}}, "openapi"),
        ({"openapi": 3.1, "x-llm": {}}, "openapi"),
        ({"openapi": "/openapi.json"}, "llm"),
        ({"openapi": "https://site.test/3.1.json"}, "llm"),
        ({"tools": []}, "otc"),
        ({"$schema": "urn:oxp:1.0", "items": []}, "otc"),
        ([], "opentool"),
        ({}, None),
        ({"name": "x"}, None),
    ],
)
def test_document_kind_is_detected_by_its_members(data: Any, kind: str | None) -> None:
    assert detect_kind(json.dumps(data).encode()) == kind


def test_undetectable_document_kind_must_be_given(put: Callable[[str, str], str], toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("check", put("a.json", '{"name": "x"}'))
    assert outcome.code == 2
    assert "--kind" in outcome.err
    assert toolwire("check", "a.json", "--kind", "opentool").out.endswith("1 file checked: 3 errors, 0 warnings.\n")


def test_definitions_of_open_tool_calling_are_checked(
    put: Callable[[str, str], str], toolwire: Callable[..., Any]
) -> None:
    outcome = toolwire("check", put("tools.json", '{"$schema": "x",\n "tools": [{"id": "a"}]}'))
    assert outcome.code == 1
    assert "tools.json:2:19: error [OTC-001] /tools/0/id: " in outcome.out
    assert outcome.out.endswith("1 file checked: 6 errors, 0 warnings.\n")


def test_document_texts_cannot_control_the_terminal(
    put: Callable[[str, str], str], toolwire: Callable[..., Any]
) -> None:
    text = json.dumps({"opentool": "\x1b[2J\u202e", "info": 1, "functions": [{"\x1b": 1}], "schemas": {"\x07\n": 0}})
    outcome = toolwire("check", put("a\x1b[31m.json", text))
    assert outcome.code == 1
    assert not set("\x1b\u202e\x07") & set(outcome.out)


def test_a_thousand_documents_are_checked_in_one_run(
    put: Callable[[str, str], str], toolwire: Callable[..., Any]
) -> None:
    text = GOOD.read_text(encoding="utf-8")
    files = [put(f"{number}.json", text) for number in range(1_000)]
    assert toolwire("check", *files).out == "1,000 files checked: 0 errors, 0 warnings.\n"


@pytest.mark.parametrize("argv", [["check"], ["check", "a.json", "--kind", "yaml"], ["check", "a.json", "--unknown"]])
def test_invalid_command_line_gives_exit_code_2(argv: list[str], toolwire: Callable[..., Any]) -> None:
    assert toolwire(*argv).code == 2


NULLS: dict[str, Any] = {
    "opentool": {
        "opentool": "1.0.0",
        "info": {"title": "T", "description": None, "version": "1"},
        "server": None,
        "functions": [
            {
                "name": "add",
                "description": "Adds.",
                "parameters": [
                    {
                        "name": "a",
                        "description": None,
                        "schema": {"type": "object", "description": None, "properties": {}, "enum": None},
                        "required": True,
                    }
                ],
                "return": {"name": "sum", "description": None, "schema": {"type": "integer", "$ref": None}},
                "stream": None,
            },
            {"name": "rest", "description": "Rests.", "parameters": [], "return": None},
        ],
        "schemas": None,
    },
    "openapi": {
        "openapi": "3.0.3",
        "info": {"title": "T", "description": None, "version": "1"},
        "servers": [{"url": "https://a.example", "variables": None}],
        "x-llm": {"version": "0.1", "name": "T"},
        "paths": {
            "/add": {
                "parameters": None,
                "post": None,
                "get": {
                    "operationId": "add",
                    "summary": "Adds.",
                    "x-llm": {"enabled": True, "hint": "Add numbers with it."},
                    "tags": None,
                    "parameters": [
                        {
                            "name": "a",
                            "in": "query",
                            "style": None,
                            "explode": None,
                            "schema": {"type": "array", "items": {"type": "integer", "format": None}, "enum": None},
                        }
                    ],
                    "requestBody": None,
                    "responses": {
                        "200": {
                            "description": "the sum",
                            "headers": None,
                            "content": {"application/json": {"schema": {"type": "object", "required": None}}},
                        }
                    },
                },
            }
        },
        "components": None,
    },
    "swagger": {
        "swagger": "2.0",
        "info": {"title": "T", "version": "1", "contact": None},
        "host": "a.example",
        "schemes": ["https"],
        "x-llm": {"version": "0.1", "name": "T"},
        "paths": {
            "/add": {
                "get": {
                    "operationId": "add",
                    "summary": "Adds.",
                    "x-llm": {"enabled": True, "hint": "Add numbers with it."},
                    "deprecated": None,
                    "parameters": [{"name": "a", "in": "query", "type": "integer", "format": None, "enum": None}],
                    "responses": {"200": {"description": "the sum", "schema": {"type": "object", "required": None}}},
                }
            }
        },
        "definitions": None,
    },
    "otc": {
        "$schema": "https://github.com/OpenToolCalling/Specification/tree/1.0.0",
        "tools": [
            {
                "id": "T.add@1.0.0",
                "name": "add",
                "description": "Adds.",
                "version": "1.0.0",
                "input_schema": {
                    "parameters": {
                        "type": "object",
                        "required": None,
                        "properties": {"a": {"type": "integer", "description": "What to add.", "enum": None}},
                    }
                },
                "output_schema": None,
                "requirements": None,
            }
        ],
    },
}


@pytest.mark.requirement("C-4", "I-10")
@pytest.mark.parametrize("kind", NULLS)
def test_null_optional_members_give_one_warning(
    kind: str, put: Callable[[str, str], str], toolwire: Callable[..., Any]
) -> None:
    outcome = toolwire("check", put("nulls.json", json.dumps(NULLS[kind])))
    assert outcome.code == 0, outcome.out
    reply, last = outcome.out.splitlines()
    assert "members are null" in reply
    assert last == "1 file checked: 0 errors, 1 warning."


@pytest.mark.requirement("C-4")
@pytest.mark.parametrize("kind", NULLS)
def test_document_with_null_optional_members_is_used(
    kind: str, put: Callable[[str, str], str], toolwire: Callable[..., Any]
) -> None:
    outcome = toolwire("convert", "--to", "mcp", put("nulls.json", json.dumps(NULLS[kind])))
    assert outcome.code == 0, outcome.err
    assert "that is none" not in outcome.err
    assert "style" not in outcome.err
    assert "not an object" not in outcome.err
    tools = json.loads(outcome.out)["tools"]
    assert [tool["name"] for tool in tools][:1] == ["add"]
    assert list(tools[0]["inputSchema"]["properties"]) == ["a"]


@pytest.mark.parametrize(
    ("kind", "steps"),
    [
        ("opentool", ("info", "title")),
        ("opentool", ("functions", 0, "parameters", 0, "schema")),
        ("opentool", ("functions", 0, "parameters")),
        ("otc", ("tools", 0, "id")),
        ("otc", ("tools", 0, "input_schema", "parameters")),
    ],
)
def test_null_required_member_is_an_error(
    kind: str, steps: tuple[Any, ...], put: Callable[[str, str], str], toolwire: Callable[..., Any]
) -> None:
    data = json.loads(json.dumps(NULLS[kind]))
    inner = data
    for step in steps[:-1]:
        inner = inner[step]
    inner[steps[-1]] = None
    assert ": error [" in toolwire("check", put("nulls.json", json.dumps(data))).out


def test_url_is_no_file_to_check(toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("check", "https://example.com/openapi.json?api_key=hidden")
    assert (outcome.code, "hidden" in outcome.err) == (2, False)
    assert (
        "check reads files: save the document first, or check the server itself with `toolwire conform`." in outcome.err
    )


OVERLAY = """{
  "overlay": "1.0.0",
  "info": {"title": "Ours", "version": "1"},
  "actions": [
    {"target": "$.paths['/orders'].get", "update": {"x-llm": {"approval": "never"}}},
    {"target": "$.paths['/gone'].get", "update": {"x-llm": {"approval": "auto"}}},
    {"target": "$.info", "remoove": true}
  ]
}
"""
SHOP: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Shop", "version": "1"},
    "x-llm": {"version": "0.1", "name": "Shop"},
    "servers": [{"url": "https://shop.example"}],
    "paths": {
        "/orders": {
            "get": {
                "operationId": "listOrders",
                "summary": "List the orders",
                "x-llm": {"hint": "Use it first."},
                "responses": {"200": {"description": "ok"}},
            }
        }
    },
}


@pytest.mark.requirement("CL-04")
@pytest.mark.parametrize("how", ["file", "option"])
def test_overlay_is_checked_with_the_document_that_it_is_for(
    how: str, toolwire: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.json").write_text(json.dumps(SHOP), encoding="utf-8")
    (tmp_path / "ours.json").write_text(OVERLAY, encoding="utf-8")
    outcome = toolwire("check", "shop.json", *(["--overlay"] if how == "option" else []), "ours.json")
    assert outcome.code == 1
    assert outcome.out.splitlines() == [
        (
            "ours.json:5:5: error [XL-035] /actions/0: With this overlay, shop.json "
            "/paths/~1orders/get/x-llm/approval: This must be one of auto, per-call: each call is asked for, "
            "and none is always allowed."
        ),
        (
            "ours.json:6:16: warning [CL-04] /actions/1/target: No document here contains this target, so "
            "the action changes nothing."
        ),
        'ours.json:7:5: warning [CL-04] /actions/2: This action has no effect: give it an "update", a "copy", or \
"remove": true.',
        'ours.json:7:37: warning [CL-04] /actions/2/remoove: "remoove" is not a member of an action, so it is ignored.',
        "2 files checked: 1 error, 3 warnings.",
    ]


@pytest.mark.requirement("CL-04")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"overlay": 1, "actions": [{}]}', '1:13: error [CL-04] /overlay: "overlay" must be the version'),
        ('{"overlay": "1.0.0"}', '1:1: error [CL-04] /actions: "actions" must be a list of at least one action.'),
        (
            '{"overlay": "1.0.0", "actions": [3]}',
            "1:34: error [CL-04] /actions/0: An action must be an object, not a number.",
        ),
        (
            '{"overlay": "1.0.0", "actions": [{"target": "x["}]}',
            "1:45: error [CL-04] /actions/0/target: Invalid JSONPath: expected '$', found 'x'",
        ),
        (
            '{"overlay": "1.0.0", "actions": [{"target": "$", "remove": 1}]}',
            '"remove" must be true or false, not a number',
        ),
        ('{"overlay": "1.0.0", "actions": [{"target": "$", "remove": true, "update": {}}]}', "This has no effect"),
        ('{"overlay": "3.0.0", "actions": [{"target": "$", "remove": true}]}', "Cannot use this overlay"),
        ("overlay: 1.0.0\nactions:\n- target: $.paths\n", "3:3: warning [CL-04] /actions/0: This action has no effect"),
        ('{"overlay": "1.0.0", "actions": [', "error [XL-013] : This is not valid JSON"),
        ("[]", "1:1: error [CL-04] : An overlay must be an object, not an array."),
    ],
)
def test_fault_of_an_overlay_has_line_and_column(
    text: str, line: str, toolwire: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "ours.overlay"
    file.write_text(text, encoding="utf-8")
    found = toolwire("check", "--kind", "overlay", file).out
    assert line.replace(" : ", ": ") in found.replace("] : ", "]: "), found


@pytest.mark.requirement("CL-04", "D-17")
def test_overlay_with_too_much_work_is_a_fault_and_no_crash(toolwire: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "shop.json").write_text(json.dumps(SHOP | {"x-many": list(range(1_500))}), encoding="utf-8")
    action = {"target": "$..[?$..nothing]", "update": {"a": 1}}
    overlay = {"overlay": "1.0.0", "actions": [action] * 50}
    (tmp_path / "ours.json").write_text(json.dumps(overlay), encoding="utf-8")
    outcome = toolwire("check", tmp_path / "shop.json", tmp_path / "ours.json")
    assert outcome.code == 1
    assert "too much work" in outcome.out


@pytest.mark.requirement("O-38")
def test_servers_that_are_no_list_and_a_document_without_paths_are_reported(
    put: Callable[[str, str], str], toolwire: Callable[..., Any]
) -> None:
    document = {"openapi": "3.1.0", "info": {"title": "T", "version": "1"}, "servers": {"url": "https://a.test"}}
    outcome = toolwire("check", put("bare.json", json.dumps(document)))
    assert "This is an OpenAPI document without operations." in outcome.out
    assert "info is not a member" not in outcome.out
    assert "/servers: servers is an object; it must be an array of servers, and is not used." in outcome.out
    assert outcome.code == 1
    operation = {"operationId": "a", "responses": {}, "servers": "https://a.test"}
    outcome = toolwire("check", put("own.json", json.dumps({**document, "paths": {"/a": {"get": operation}}})))
    assert "/paths/~1a/get/servers: servers is a string; it must be an array" in outcome.out
