"""GET /tools: one body for the RFC and for OXP, and the bare array under /uts."""

import json
import re

import jsonschema
import pytest

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Site
from toolwire.core.http import Request
from toolwire.core.model import Approval, Tool
from toolwire.protocols.otc import CODEC

OXP_DEFINITION = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": r"^[A-Za-z0-9_]+\.[A-Za-z0-9_]+@[0-9]+\.[0-9]+\.[0-9]+$"},
        "name": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
        "description": {"type": "string", "minLength": 1},
        "version": {"type": "string", "pattern": r"^[0-9]+\.[0-9]+\.[0-9]+$"},
        "input_schema": {"type": "object"},
        "output_schema": {"type": ["object", "null"]},
        "requirements": {"type": "object"},
    },
    "required": ["id", "name", "description", "version", "input_schema", "output_schema"],
    "additionalProperties": False,
}


@pytest.fixture
def tool_lists(ask):
    return json.loads(ask("/tools").body)


@pytest.mark.requirement("OTC-034", "OTC-044", "OXP-003", "S-9", "A-34")
def test_one_body_holds_both_lists_and_the_version_of_the_standard(tool_lists):
    assert list(tool_lists) == ["$schema", "items", "tools"]
    assert tool_lists["$schema"].endswith("/specification/http/1.0/openapi.json")
    assert [tool["id"] for tool in tool_lists["items"]] == [tool["id"] for tool in tool_lists["tools"]]


@pytest.mark.requirement("OXP-005", "OXP-006", "OTC-001", "OTC-003", "OTC-004", "OTC-005", "OTC-007", "OTC-012")
def test_items_contain_only_oxp_definition_members(tool_lists):
    for item in tool_lists["items"]:
        jsonschema.validate(item, OXP_DEFINITION)
        jsonschema.Draft202012Validator.check_schema(item["input_schema"])


@pytest.mark.requirement("OTC-007", "OTC-008", "OXP-004", "A-35")
def test_rfc_list_wraps_the_parameters_that_oxp_lists_unwrapped(tool_lists):
    for item, tool in zip(tool_lists["items"], tool_lists["tools"], strict=True):
        assert tool["input_schema"] == {"parameters": item["input_schema"]}


@pytest.mark.requirement("OTC-006", "A-51")
def test_versions_are_listed_ascending_under_one_name(ask):
    tools = tuple(
        Tool(name="add", toolkit="Calculator", version=version) for version in ("10.0.0", "2.0.0", "1.9.0", "1.10.0")
    )
    response = CODEC.routes(Catalog(tools=tools), Site())["GET", "/tools"].read(Request("GET", "/tools"))
    items = json.loads(response.body)["items"]
    assert [item["version"] for item in items] == ["1.9.0", "1.10.0", "2.0.0", "10.0.0"]
    assert {item["name"] for item in items} == {"add"}


@pytest.mark.requirement("A-47")
def test_a_dash_stays_in_the_name_and_not_in_the_id():
    catalog = Catalog(tools=(Tool(name="look-up", toolkit="Phone"),))
    response = CODEC.routes(catalog, Site())["GET", "/tools"].read(Request("GET", "/tools"))
    (item,) = json.loads(response.body)["items"]
    assert (item["id"], item["name"]) == ("Phone.look_up@1.0.0", "look-up")


@pytest.mark.requirement("OTC-002")
def test_tools_of_two_toolkits_with_one_name_are_listed_apart():
    catalog = Catalog(tools=(Tool(name="send", toolkit="Mail"), Tool(name="send", toolkit="SMS")))
    response = CODEC.routes(catalog, Site())["GET", "/tools"].read(Request("GET", "/tools"))
    assert [item["name"] for item in json.loads(response.body)["items"]] == ["Mail_send", "SMS_send"]


@pytest.mark.requirement("OTC-012", "OTC-013", "OTC-016", "OTC-017")
def test_requirements_and_missing_output_are_declared(tool_lists):
    by_id = {tool["id"]: tool for tool in tool_lists["tools"]}
    assert by_id["Doorbell.Ring@0.1.0"]["output_schema"] is None
    assert by_id["Calculator.Add@1.0.0"]["output_schema"] == {}
    assert "requirements" not in by_id["Calculator.Add@1.0.0"]
    assert by_id["SMS.Send@0.1.2"]["requirements"] == {"secrets": [{"id": "TWILIO_API_KEY"}], "user_id": True}
    assert by_id["Gmail.GetEmails@1.2.0"]["requirements"] == {
        "authorization": [{"id": "google", "oauth2": {"scopes": ["mail.read"]}}]
    }


@pytest.mark.requirement("OTC-009", "OTC-011")
def test_lists_contain_no_references_and_describe_every_parameter():
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    schema = {"type": "object", "properties": {"node": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}}
    routes = CODEC.routes(
        Catalog(tools=(Tool(name="f", toolkit="T", input_schema=schema, output_schema=schema),)), Site()
    )
    for path in ("/tools", "/uts/tools"):
        body = routes["GET", path].read(Request("GET", path)).body
        assert not re.search(rb'"(\$ref|\$defs|definitions)"', body)
        assert b'"description":"The argument node."' in body


def test_policy_travels_in_the_rfc_list_and_in_the_array(ask, tool_lists):
    by_id = {tool["id"]: tool["x-llm"] for tool in tool_lists["tools"]}
    assert by_id["Calculator.Add@1.0.0"] == {"enabled": True, "readOnly": True}
    assert by_id["Doorbell.Ring@0.1.0"] == {"enabled": True, "approval": "auto"}
    assert [tool["x-llm"] for tool in json.loads(ask("/uts/tools").body)] == list(by_id.values())


@pytest.mark.requirement("S-13")
def test_array_has_the_members_a_universal_tool_client_reads(ask):
    tools = json.loads(ask("/uts/tools").body)
    assert isinstance(tools, list)
    assert all({"id", "name", "description", "input_schema", "output_schema"} <= set(tool) for tool in tools)


@pytest.mark.requirement("OXP-016")
def test_server_without_tools_lists_none():
    routes = CODEC.routes(Catalog(), Site())
    listed = json.loads(routes["GET", "/tools"].read(Request("GET", "/tools")).body)
    assert (listed["items"], listed["tools"]) == ([], [])


def test_list_etag_follows_its_content(ask):
    def etag(catalog):
        headers = CODEC.routes(catalog, Site())["GET", "/tools"].read(Request("GET", "/tools")).headers
        return dict(headers)[b"etag"]

    first = etag(Catalog(tools=(Tool(name="a", toolkit="T"),)))
    assert re.fullmatch(rb'"[0-9a-f]{32}"', first)
    assert first == etag(Catalog(tools=(Tool(name="a", toolkit="T"),)))
    assert first != etag(Catalog(tools=(Tool(name="a", toolkit="T", approval=Approval.AUTO),)))


@pytest.mark.requirement("OTC-033", "OXP-010", "S-8", "A-50")
def test_health_route_is_public_and_returns_ok(ask, catalog):
    for path in ("/health", "/uts/health"):
        response = ask(path)
        assert (response.status, json.loads(response.body)["status"]) == (200, "OK")
        assert CODEC.routes(catalog, Site(keys=True))["GET", path].is_public
    assert not any(
        route.is_public for (_, path), route in CODEC.routes(catalog, Site()).items() if not path.endswith("/health")
    )


@pytest.mark.requirement("S-8")
def test_info_route_returns_the_version_and_ok_route_ok(ask):
    assert json.loads(ask("/info").body) == {"version": "2.1.0"}
    assert json.loads(ask("/ok").body) == "OK"
