"""``toolwire tools`` shows what there is: the same for code and for a URL, on whichever protocol."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolwire.cli.commands.tools import build_rows, describe
from toolwire.core.catalog import Catalog
from toolwire.core.model import Approval, Authorization, Cost, RateLimit, Requirements, Tool
from toolwire.hosting.targets.load_code import open_code
from toolwire.hosting.targets.target import FileTarget
from toolwire.protocols import BUILTIN
from toolwire.server import asgi
from toolwire.testing.loopback import background


def test_table_lists_name_purpose_arguments_consent_and_cost(desk: Path, toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("tools", desk)
    lines = [line.split("  ") for line in outcome.out.splitlines()]
    table = {line[0]: [cell.strip() for cell in line[1:] if cell.strip()] for line in lines}
    assert outcome.code == 0
    assert next(iter(table)) == "NAME"
    assert table["add"] == ["Add two numbers.", "a: integer, b?: integer", "auto"]
    assert table["note"] == ["Write a note down.", "text: string", "asks"]
    assert table["shred"] == ["Shred [red]pages[/red].", "pages: array", "asks, destroys", "credits"]


def test_url_lists_the_same_tools_as_its_local_code(desk: Path, site: str, toolwire: Callable[..., Any]) -> None:
    assert toolwire("tools", site).out == toolwire("tools", desk).out


@pytest.mark.parametrize("protocol", [codec.name for codec in BUILTIN])
def test_tools_can_be_listed_by_one_protocol(protocol: str, site: str, toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("tools", site, "--protocol", protocol, "--json")
    assert outcome.code == 0
    assert {"add", "note", "shred"} <= {tool["name"] for tool in json.loads(outcome.out)}


def test_json_has_the_same_members_for_every_tool(desk: Path, toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("tools", desk, "--json")
    tools = {tool["name"]: tool for tool in json.loads(outcome.out)}
    assert len({tuple(tool) for tool in tools.values()}) == 1
    shred = tools["shred"]
    assert (shred["id"], shred["version"]) == ("Desk.shred@1.2.0", "1.2.0")
    assert (shred["approval"], shred["consent"], shred["destructive"], shred["safe"]) == (
        "per-call",
        "per-call",
        True,
        False,
    )
    assert (shred["cost"], shred["blanket_allowed"]) == ("credits", True)
    assert shred["input_schema"]["required"] == ["pages"]
    assert (tools["add"]["approval"], tools["add"]["consent"]) == ("auto", "auto")
    assert tools["note"]["output_schema"] is None
    assert tools["count"]["streams"] is True


def test_json_states_requirements_and_undeclared_members_of_a_tool() -> None:
    tool = Tool(
        name="t",
        cost=Cost.PAID,
        rate_limit=RateLimit(max=3, window="1m"),
        requirements=Requirements(authorization=(Authorization(id="x", scopes=("a",)),), secrets=("s",), user_id=True),
    )
    data = json.loads(json.dumps(describe(tool)))
    assert data["approval"] is None
    assert data["consent"] == "per-call"
    assert data["rate_limit"] == {"max": 3, "window": "1m"}
    assert data["requirements"] == {
        "authorization": [{"id": "x", "scopes": ["a"]}],
        "secrets": ["s"],
        "user_id": True,
    }


def test_each_row_has_a_name_that_can_be_called() -> None:
    tools = [Tool(name="go", toolkit=kit, version=version) for kit in ("A", "B") for version in ("1.0.0", "2.0.0")]
    catalog = Catalog(tools=tuple(tools))
    found = [catalog.find(row[0]) for row in build_rows(catalog)]
    assert found == list(catalog.tools)


def test_argument_types_are_abbreviated() -> None:
    properties = {
        "a": {"enum": ["x", 1]},
        "b": {"type": ["string", "null"]},
        "c": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/Deep"}, {"type": "string"}, 7]},
        "d": {"$ref": "#/$defs/Deep"},
        "e": {},
        "f\u202e": {"type": 7},
    }
    tool = Tool(name="t", approval=Approval.AUTO, input_schema={"properties": properties, "required": ["a"]})
    ((_, _, arguments, _, _),) = build_rows(Catalog(tools=(tool,)))
    assert arguments == 'a: "x"|1, b?: string|null, c?: string|Deep|any, d?: Deep, e?: any, f<U+202E>?: any'


def test_empty_toolkit_is_reported_in_one_sentence(write: Callable[..., Path], toolwire: Callable[..., Any]) -> None:
    file = write("empty.py", "from toolwire import Toolkit\nkit = Toolkit('Empty')\n")
    assert toolwire("tools", file).out == "Empty has no tools.\n"
    assert json.loads(toolwire("tools", file, "--json").out) == []


def test_key_is_read_from_an_option_or_the_environment(
    desk: Path, toolwire: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESK_KEY", "canary-key")
    with background(asgi(open_code(FileTarget(desk)), api_keys=["canary-key"])) as url:
        assert toolwire("tools", url, "--key", "canary-key").code == 0
        assert toolwire("tools", url, "--key-env", "DESK_KEY").code == 0
        refused = toolwire("tools", url, "--key", "canary-wrong", "--protocol", "otc")
        without = toolwire("tools", url, "--protocol", "otc")
    assert (refused.code, without.code) == (4, 4)
    assert "canary" not in refused.out + refused.err
    assert "requires a key" in without.err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--key-env", "TOOLWIRE_TEST_ABSENT"], "environment variable TOOLWIRE_TEST_ABSENT"),
        (["--key", "canary\nkey"], "The key is empty or contains an invalid character"),
        (["--key", " "], "The key is empty"),
        (["--protocol", "gopher"], "Unknown protocol 'gopher'. Choose from openapi, opentool, otc, mcp."),
    ],
)
def test_options_that_cannot_be_are_a_usage_error(
    options: list[str], sentence: str, toolwire: Callable[..., Any]
) -> None:
    outcome = toolwire("tools", "http://127.0.0.1:1", *options)
    assert (outcome.code, outcome.out) == (2, "")
    assert sentence in outcome.err
    assert "canary" not in outcome.err


def test_url_options_are_refused_for_local_code(desk: Path, toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("tools", desk, "--protocol", "mcp")
    assert outcome.code == 2
    assert "need a URL, but this target is code." in outcome.err


def test_unreachable_server_gives_exit_code_4(toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("tools", "127.0.0.1:1")
    assert (outcome.code, outcome.out) == (4, "")
    assert outcome.err.startswith("toolwire: http://127.0.0.1:1 could not be reached")


def test_table_row_shows_one_sentence_and_required_arguments_first() -> None:
    properties = {f"field{number}": {"type": "string"} for number in range(40)}
    properties |= {"when": {"enum": [f"2026-01-{day:02}" for day in range(1, 31)]}, "id": {"type": "integer"}}
    schema = {"type": "object", "properties": properties, "required": ["id", "when"]}
    tool = Tool(
        name="update", toolkit="Big", description="<p>Updates <b>it</b>. " + "It is long. " * 40, input_schema=schema
    )
    ((name, what, arguments, *_),) = build_rows(Catalog(title="Big", tools=(tool,)))
    assert name == "update"
    assert what.startswith("Updates it. It is long.")
    assert len(what) <= 100
    assert arguments.startswith('when: "2026-01-01"|"2026-01-02"|')
    assert "|…, id: integer, " in arguments
    assert arguments.endswith(" more")
    assert len(arguments) < 200


SHOP = {
    "openapi": "3.1.0",
    "info": {"title": "Shop", "version": "1"},
    "servers": [{"url": "https://shop.example"}],
    "paths": {
        "/orders": {"get": {"operationId": "list_orders", "summary": "List orders.", "responses": {}}},
        "/broken": {"get": {"operationId": "broken", "parameters": [{"name": "a"}], "responses": {}}},
        "/odd": {
            "get": {
                "operationId": "odd",
                "summary": "Odd.",
                "responses": {"200": {"content": {"application/json": {"schema": {"properties": {"a": 7}}}}}},
            }
        },
    },
}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop.json"
    path.write_text(json.dumps(SHOP), encoding="utf-8")
    return path


@pytest.mark.requirement("XL-088")
def test_findings_are_counted_and_printed_on_request(shop: Path, toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("tools", shop, "--include", "all")
    assert "broken" not in outcome.out
    assert outcome.out.endswith("\n\n2 findings: --findings shows what toolwire left out or reads differently.\n")
    outcome = toolwire("tools", shop, "--include", "all", "--findings")
    first, second = outcome.out.splitlines()
    assert first == "GET /broken: it has a parameter without a location."
    assert second == "GET /odd: a schema in it is not an object, and anything fits it (in its output)."
    assert json.loads(toolwire("tools", shop, "--include", "all", "--findings", "--json").out) == [first, second]


@pytest.mark.requirement("XL-088")
def test_overlay_target_without_a_match_is_reported(shop: Path, tmp_path: Path, toolwire: Callable[..., Any]) -> None:
    laid = tmp_path / "overlay.json"
    action = {"target": "$.paths['/order'].get", "update": {"x-llm": {}}}
    laid.write_text(json.dumps({"overlay": "1.0.0", "actions": [action]}), encoding="utf-8")
    outcome = toolwire("tools", shop, "--include", "all", "--path", "/orders", "--overlay", laid, "--findings")
    assert "The overlay's target $.paths['/order'].get is not in the document." in outcome.out


def test_code_has_no_findings(desk: Path, toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("tools", desk, "--findings")
    assert (outcome.code, outcome.out) == (0, "Desk has no findings: toolwire uses all that its server declares.\n")
    assert toolwire("tools", desk, "--findings", "--json").out == "[]\n"


TAGGED = {
    "openapi": "3.0.3",
    "info": {"title": "Pets", "version": "1"},
    "servers": [{"url": "https://pets.example"}],
    "paths": {
        "/pets": {
            "get": {"operationId": "list_pets", "tags": ["pets"], "responses": {}},
            "post": {"operationId": "add_pet", "tags": ["pets", "admin"], "responses": {}},
        }
    },
}


@pytest.mark.requirement("CV-26", "O-12")
@pytest.mark.parametrize("command", ["tools", "size"])
def test_unknown_tag_is_refused_with_the_existing_tags(
    tmp_path: Path, toolwire: Callable[..., Any], command: str
) -> None:
    file = tmp_path / "pets.json"
    file.write_text(json.dumps(TAGGED), encoding="utf-8")
    outcome = toolwire(command, file, "--include", "all", "--tag", "pest")
    assert outcome.code == 2
    assert "There is no tag 'pest'. the tags are admin, pets; --tags lists them. Did you mean 'pets'?" in outcome.err
    assert toolwire("tools", file, "--include", "all", "--tag", "admin").code == 0


@pytest.mark.requirement("CV-26", "O-12")
def test_tags_are_listed_with_the_number_of_their_tools(tmp_path: Path, toolwire: Callable[..., Any]) -> None:
    file = tmp_path / "pets.json"
    file.write_text(json.dumps(TAGGED), encoding="utf-8")
    lines = toolwire("tools", file, "--include", "all", "--tags").out.splitlines()
    assert [line.split() for line in lines[1:]] == [["admin", "1"], ["pets", "2"]]
    listed = toolwire("tools", file, "--include", "all", "--tag", "admin", "--tags", "--json").out
    assert json.loads(listed) == {"admin": 1, "pets": 2}


@pytest.mark.requirement("O-12")
@pytest.mark.parametrize(
    ("servers", "reason"),
    [
        (None, "names no server: say which one to call with --server URL"),
        ([{"url": "/v1"}], "names no server by a whole URL: say which one to call with --server URL"),
        ([{"url": "https://{site}.pets.example"}], "the variable 'site' of its server"),
        (
            [{"url": "https://{site}.pets.example", "variables": {"site": {}}}],
            "has no default; say it with --server URL",
        ),
    ],
)
def test_document_without_a_usable_server_url_names_the_cause(
    tmp_path: Path, toolwire: Callable[..., Any], servers: Any, reason: str
) -> None:
    file = tmp_path / "pets.json"
    data = TAGGED | {"servers": servers}
    file.write_text(json.dumps({key: one for key, one in data.items() if one is not None}), encoding="utf-8")
    outcome = toolwire("tools", file, "--include", "all")
    assert outcome.code != 0
    assert reason in outcome.err
    assert toolwire("tools", file, "--include", "all", "--server", "https://pets.example").code == 0


@pytest.mark.requirement("XL-088", "O-12")
def test_tools_table_counts_findings_and_each_one_names_its_place(tmp_path: Path, toolwire: Callable[..., Any]) -> None:
    wide = {"type": "object", "properties": {f"p{n}": {"type": "string", "pattern": "(?=x)"} for n in range(3)}}
    answer = {"200": {"description": "", "content": {"application/json": {"schema": wide}}}}
    body = {"content": {"application/json": {"schema": {"type": "object", "properties": {"a": {"$ref": "#/x-no"}}}}}}
    item = {"post": {"operationId": "add", "requestBody": body, "responses": answer}}
    file = tmp_path / "pets.json"
    file.write_text(json.dumps(TAGGED | {"paths": {"/pets": item}}), encoding="utf-8")
    findings = toolwire("tools", file, "--include", "all", "--findings").out.splitlines()
    table = toolwire("tools", file, "--include", "all").out
    assert f"{len(findings)} finding" in table
    assert any("(in its input)" in one for one in findings), findings


@pytest.mark.requirement("CV-25")
def test_find_option_searches_tools_by_words(site: str, desk: Path, toolwire: Callable[..., Any]) -> None:
    for target in (site, desk):
        found = json.loads(toolwire("tools", target, "--find", "shredding pages", "--json").out)
        assert [tool["name"] for tool in found] == ["shred"]
        table = toolwire("tools", target, "--find", "add numbers").out.splitlines()
        assert table[1].startswith("add ")
        none = toolwire("tools", target, "--find", "weather")
        assert (none.code, none.out) == (0, "No tool of Desk fits: weather\n")
        assert json.loads(toolwire("tools", target, "--find", "weather", "--json").out) == []
