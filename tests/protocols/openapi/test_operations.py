"""A document as tools: what is offered, under which name, with which arguments, and what is left out and said."""

import copy
import pickle
from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest

from toolwire.core.codec import Peer
from toolwire.core.http import Request, Response
from toolwire.core.model import Approval, Call, Cost, RateLimit, Tool
from toolwire.framing import jsontext
from toolwire.protocols.openapi import CODEC
from toolwire.protocols.openapi.tools import operations
from toolwire.validation import compile_schema

Read = Callable[..., Peer]
One = Callable[..., dict[str, Any]]


def tool(peer: Peer) -> Tool:
    (only,) = peer.catalog.tools
    return only


def url(peer: Peer, **arguments: Any) -> str:
    return CODEC.target(peer, Call(tool(peer), arguments))


def findings(peer: Peer) -> str:
    memo = peer.memo
    assert isinstance(memo, operations.OperationState)
    return "\n".join(memo.findings)


def document(paths: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"openapi": "3.1.0", "info": {"title": "T"}, "x-llm": {}, "paths": paths, **members}


@pytest.mark.requirement("XL-031", "XL-032", "XL-070", "XL-080", "XL-132")
def test_recipe_document_gives_three_tools(peer: Read, recipes: dict[str, Any]) -> None:
    found = peer(recipes)
    tools = {one.name: one for one in found.catalog.tools}
    assert sorted(tools) == ["addFavorite", "deleteRecipe", "searchRecipes"]
    search, favorite, delete = tools["searchRecipes"], tools["addFavorite"], tools["deleteRecipe"]
    assert search.description == (
        "Search recipes by ingredients or cuisine\nUse when user asks to find or discover recipes"
    )
    assert (search.approval, search.rate_limit, search.safe) == (Approval.AUTO, RateLimit(max=30, window="1m"), True)
    assert search.required_parameters == ("query", "cuisine")
    assert search.parameters["maxTime"] == {"type": "number", "description": "Max prep time in minutes"}
    assert (favorite.approval, favorite.blanket_allowed, favorite.safe) == (Approval.PER_CALL, True, False)
    assert (delete.approval, delete.blanket_allowed, delete.destructive) == (Approval.PER_CALL, False, True)
    assert delete.description == "DELETE /recipes/{id}"
    assert (found.site, found.catalog.description) == ("RecipeApp", "Save, organize, and discover recipes")
    assert search.output_schema is not None
    assert search.output_schema["items"] == {"$ref": "#/$defs/Recipe"}
    assert findings(found) == ""


ON, OFF, BROKEN = Approval.AUTO, Approval.PER_CALL, {"enabled": "yes"}


@pytest.mark.requirement("XL-034", "XL-035", "XL-036")
@pytest.mark.parametrize("root", [{}, None])
@pytest.mark.parametrize(
    ("extension", "offered"),
    [
        ({}, True),
        ({"enabled": True}, True),
        (True, True),
        ({"enabled": False}, False),
        (False, False),
        (None, False),
        ("yes", False),
        ([], False),
        ({"enabled": "yes"}, False),
        ({"enabled": False, "approval": "sometimes"}, False),
    ],
)
def test_operation_is_offered_only_if_its_x_llm_enables_it(
    peer: Read, root: object, extension: object, offered: bool
) -> None:
    other = {"operationId": "other", "x-llm": True}
    whole = document({"/x": {"get": {"operationId": "x", "x-llm": extension}}, "/y": {"get": other}})
    whole["x-llm"] = root
    found = peer(whole)
    assert ("x" in found.catalog.names) is offered
    assert "other" in found.catalog.names
    assert offered or "GET /x: its x-llm does not offer it" in findings(found)


@pytest.mark.requirement("XL-034", "XL-088")
def test_an_operation_without_x_llm_is_hidden_and_counted(peer: Read) -> None:
    found = peer(document({"/x": {"get": {"operationId": "x"}, "post": {"operationId": "y", "x-llm": {}}}}))
    assert list(found.catalog.names) == ["y"]
    assert "1 operation without x-llm is not offered" in findings(found)


@pytest.mark.requirement("XL-033")
def test_x_llm_on_a_path_item_offers_no_operation(peer: Read) -> None:
    found = peer(document({"/x": {"x-llm": {}, "get": {"operationId": "x"}}}))
    assert found.catalog.tools == ()


@pytest.mark.requirement("XL-027", "XL-041")
@pytest.mark.parametrize(
    ("root", "own", "approval"),
    [
        ({"defaultApproval": "auto"}, {}, ON),
        ({"defaultApproval": "per-call"}, {}, OFF),
        ({"defaultApproval": "always"}, {}, OFF),
        ({}, {}, OFF),
        ({"defaultApproval": "auto"}, {"approval": "per-call"}, OFF),
        ({"defaultApproval": "per-call"}, {"approval": "auto"}, ON),
        ({"defaultApproval": "auto"}, {"approval": "sometimes"}, OFF),
        ({"defaultApproval": "auto"}, {"approval": None}, OFF),
    ],
)
def test_the_operation_decides_the_approval_then_the_root_then_per_call(
    peer: Read, one: One, root: dict[str, Any], own: dict[str, Any], approval: Approval
) -> None:
    assert tool(peer({**one(**{"x-llm": own}), "x-llm": root})).approval is approval


@pytest.mark.requirement("XL-035")
def test_each_invalid_x_llm_member_fails_closed_alone(peer: Read, one: One) -> None:
    broken = {"approval": "auto", "blanketApprovalAllowed": 1, "destructive": "no", "hint": 7, "costIndicator": "cheap"}
    found = tool(peer(one(**{"x-llm": broken, "summary": "S"})))
    assert (found.approval, found.blanket_allowed, found.destructive) == (Approval.AUTO, False, True)
    assert (found.hint, found.description, found.cost) == ("", "S", Cost.PAID)


@pytest.mark.requirement("XL-038")
def test_x_opentools_is_read_if_x_llm_is_absent(peer: Read) -> None:
    whole = document({
        "/a": {"get": {"operationId": "a", "x-opentools": {"hint": "H"}}},
        "/b": {"get": {"operationId": "b", "x-opentools": {}, "x-llm": {"enabled": False}}},
    })  # fmt: skip
    whole["x-opentools"] = {**whole.pop("x-llm"), "defaultApproval": "auto"}
    found = tool(peer(whole))
    assert (found.name, found.hint, found.approval) == ("a", "H", Approval.AUTO)


@pytest.mark.requirement("XL-039")
def test_vendor_extensions_can_only_tighten_the_policy(peer: Read) -> None:
    auto = {"approval": "auto", "blanketApprovalAllowed": True}
    whole = document({
        "/a": {"get": {"operationId": "a", "x-llm": auto, "x-openai-isConsequential": True}},
        "/b": {"get": {"operationId": "b", "x-llm": auto, "x-mcp": False}},
        "/c": {"get": {"operationId": "c", "x-llm": {"enabled": False}, "x-mcp": True}},
        "/d": {"get": {"operationId": "d", "x-llm": {}, "x-openai-isConsequential": False}},
    })  # fmt: skip
    tools = peer(whole).catalog.names
    assert list(tools) == ["a", "d"]
    assert (tools["a"].approval, tools["a"].blanket_allowed) == (Approval.PER_CALL, False)
    assert tools["d"].approval is Approval.PER_CALL


@pytest.mark.requirement("XL-028", "OQ-3")
@pytest.mark.parametrize(
    ("version", "cautious"), [("0.1", False), (0.1, False), ("0.2", True), ("0.9", True), ("abc", True), (None, True)]
)
def test_a_later_minor_version_is_read_with_caution(peer: Read, version: object, cautious: bool) -> None:
    auto = {"approval": "auto", "blanketApprovalAllowed": True}
    whole = document(
        {"/x": {"get": {"operationId": "look", "x-llm": auto}, "post": {"operationId": "write", "x-llm": auto}}}
    )
    whole["x-llm"] = {"version": version}
    tools = peer(whole).catalog.names
    assert tools["look"].approval is Approval.AUTO
    assert tools["write"].approval is (Approval.PER_CALL if cautious else Approval.AUTO)
    assert tools["write"].blanket_allowed is not cautious


@pytest.mark.requirement("XL-026", "XL-030")
def test_root_x_llm_that_is_no_object_counts_as_absent(peer: Read, one: One) -> None:
    found = peer({**one(), "x-llm": 7})
    assert (found.site, tool(found).approval) == ("One", Approval.PER_CALL)
    assert "counts as absent" in findings(found)


@pytest.mark.requirement("XL-082", "CV-22")
@pytest.mark.parametrize(
    ("operation_id", "name"),
    [
        ("searchRecipes", "searchRecipes"),
        ("repos/get-all", "repos_get-all"),
        ("1st", "_1st"),
        ("-x", "_-x"),
        ("a b!!c", "a_b_c"),
        ("検索", "get_x"),
        ("", "get_x"),
        (None, "get_x"),
        (7, "get_x"),
        ("n" * 64, "n" * 64),
    ],
)
def test_an_operation_id_becomes_a_legal_name(peer: Read, one: One, operation_id: object, name: str) -> None:
    assert tool(peer(one(operationId=operation_id))).name == name


@pytest.mark.requirement("XL-082", "CV-22")
def test_long_tool_name_is_cut_with_a_unique_hash(peer: Read, one: One) -> None:
    long = tool(peer(one(operationId="n" * 65))).name
    assert (len(long), long[:56]) == (64, "n" * 55 + "_")
    assert tool(peer(one("/y", operationId="n" * 65))).name != long


@pytest.mark.requirement("XL-083")
def test_tool_name_without_operation_id_is_method_and_path(peer: Read, one: One) -> None:
    whole = one("/users/{id}/pets.json", "delete", parameters=[{"name": "id", "in": "path"}])
    del whole["paths"]["/users/{id}/pets.json"]["delete"]["operationId"]
    assert tool(peer(whole)).name == "delete_users_id_pets_json"


@pytest.mark.requirement("XL-082", "XL-087", "CV-22")
def test_colliding_tool_names_are_distinguished_in_any_order(peer: Read) -> None:
    ids = {
        "/a": "get a",
        "/b": "get_a",
        "/c": "get-a",
        "/d": "same",
        "/e": "same",
        "/f": "only",
        "/g": "o.k",
        "/h": "o_k",
    }
    operations_of = {path: {"get": {"operationId": id_, "x-llm": {}}} for path, id_ in ids.items()}
    seen = set()
    for order in (list(ids), list(reversed(ids)), sorted(ids.values())):
        paths = {path: operations_of[path] for path in (order if order[0] in ids else ids)}
        found = peer(document(paths))
        assert len(found.catalog.tools) == len(ids)
        seen.add(tuple(sorted(found.catalog.names)))
    (names,) = seen
    assert {"only", "o_k"} <= set(names)
    assert "same" not in names


PLACES = ["path", "query", "header", "cookie"]


@pytest.mark.requirement("CV-16")
def test_arguments_with_one_name_get_their_location_as_suffix(peer: Read, one: One) -> None:
    body = {"required": True, "content": {"application/json": {"schema": {"properties": {"id": {"type": "integer"}}}}}}
    parameters = [{"name": "id", "in": place, "schema": {"const": place}} for place in PLACES]
    found = peer(one("/x/{id}", "post", parameters=parameters, requestBody=body))
    assert {name: schema.get("const") for name, schema in tool(found).parameters.items()} == {
        "id_path": "path", "id_query": "query", "id_header": "header", "id_cookie": "cookie", "id": None,
    }  # fmt: skip
    assert url(found, id_path="p", id_query="q", id=1) == "POST https://recipes.test/x/p?id=q"


@pytest.mark.requirement("CV-16", "CV-23")
def test_each_argument_maps_to_one_parameter_despite_colliding_suffixes(peer: Read, one: One) -> None:
    named = [("id", "query"), ("id", "header"), ("id_query", "query"), ("page[size]", "query"), ("page_size", "query"),
             ("$filter", "query"), ("filter", "header"), ("é", "query"), ("ü", "query"),
             ("n" * 70, "query")]  # fmt: skip
    for order in (named, named[::-1], *list(permutations(named[:3]))):
        found = peer(one(parameters=[{"name": name, "in": place} for name, place in order]))
        names = list(tool(found).parameters)
        assert len(set(names)) == len(order)
        assert all(len(name) <= 64 and name.isascii() and "[" not in name and "$" not in name for name in names)
        sent = url(found, **dict.fromkeys(names, "1"))
        assert sent.count("=1") == sum(place == "query" for _, place in order)


@pytest.mark.requirement("CV-07")
def test_operation_parameters_override_path_parameters(peer: Read, one: One) -> None:
    whole = one(parameters=[{"name": "a", "in": "query", "schema": {"type": "integer"}}])
    whole["paths"]["/x"]["parameters"] = [
        {"name": "a", "in": "query", "schema": {"type": "string"}},
        {"name": "b", "in": "query", "required": True},
    ]
    found = tool(peer(whole))
    assert found.parameters["a"] == {"type": "integer"}
    assert found.required_parameters == ("b",)


@pytest.mark.requirement("CV-17")
def test_references_to_parameters_bodies_and_path_items_are_followed(peer: Read) -> None:
    whole = document(
        {"/x": {"$ref": "#/components/pathItems/X"}},
        components={
            "pathItems": {"X": {"post": {
                "operationId": "x", "x-llm": {},
                "parameters": [{"$ref": "#/components/parameters/a~1b%20c"}],
                "requestBody": {"$ref": "#/components/requestBodies/B"},
            }}},
            "parameters": {"a/b c": {"$ref": "#/components/parameters/real"}, "real": {"name": "q", "in": "query"}},
            "requestBodies": {"B": {
                "required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/S"}}},
            }},
            "schemas": {"S": {"type": "object", "required": ["s"], "properties": {"s": {"type": "string"}}}},
        },
    )  # fmt: skip
    found = tool(peer(whole))
    assert (list(found.parameters), found.required_parameters) == (["q", "s"], ("s",))


@pytest.mark.requirement("CV-18", "XL-084")
def test_recursive_schemas_keep_their_references(peer: Read, one: One) -> None:
    node = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/components/schemas/Node"}}}}
    whole = one(
        "/x",
        "post",
        requestBody={
            "required": True,
            "content": {
                "application/json": {"schema": {"type": "array", "items": {"$ref": "#/components/schemas/Node"}}}
            },
        },
    )
    found = tool(peer({**whole, "components": {"schemas": {"Node": node}}}))
    assert list(found.input_schema["$defs"]) == ["Node"]
    validate = compile_schema(found.input_schema)
    assert validate({"body": [{"kids": [{"kids": []}]}]}) is None
    assert validate({"body": [{"kids": [{"kids": 1}]}]}) is not None


@pytest.mark.requirement("CV-17", "CV-18", "CV-30", "D-17", "D-18")
@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"$ref": "#/components/schemas/A"}, "cycle"),
        ({"properties": {"a": {"$ref": "#/components/schemas/A"}}}, "cycle"),
        ({"$ref": "#/components/schemas/None"}, "not there"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "outside the document"),
        ({"properties": {"a": {"$ref": "https://evil.test/x"}}}, "outside the document"),
        ({"properties": {"a": {"$ref": "#anchor"}}}, "anchor"),
        ({"properties": {"a": {"$ref": 7}}}, "not a string"),
        ({"properties": {"a": {"minimum": "low"}}}, '"minimum" of a schema in it is invalid'),
        ({"properties": {"a": {"pattern": "("}}}, '"pattern" of a schema in it is invalid'),
        ({"properties": {"a": 7}}, "not an object"),
    ],
)
def test_invalid_schema_part_is_replaced_with_a_finding(
    peer: Read, one: One, schema: dict[str, Any], reason: str
) -> None:
    whole = one("/x", "post", requestBody={"required": True, "content": {"application/json": {"schema": schema}}})
    cycle = {"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}}
    found = peer({**whole, "components": {"schemas": cycle}})
    validate = compile_schema(tool(found).input_schema)
    assert validate({"a": "anything"} if "properties" in schema else {"body": {}}) is None
    assert reason in "\n".join(
        map(str, operations.list_findings(operations.OperationToolSet(found.catalog, found.memo)))
    )


@pytest.mark.requirement("CV-17", "CV-30", "XL-088")
def test_dangling_reference_is_a_finding_before_the_schema_is_used(peer: Read, one: One) -> None:
    schema = {"properties": {"a": {"$ref": "#/components/schemas/None"}, "b": {"$ref": "other.json#/B"}}}
    found = peer(one("/x", "post", requestBody={"content": {"application/json": {"schema": schema}}}))
    assert "#/components/schemas/None" in findings(found)
    assert "other.json#/B" in findings(found)


@pytest.mark.requirement("CV-04", "D-12")
def test_reserved_headers_are_no_arguments(peer: Read, one: One) -> None:
    reserved = ["Accept", "Content-Type", "Authorization", "Host", "Cookie", "Content-Length", "Proxy-Authorization",
                "X-Forwarded-For", "Mcp-Session-Id", "Transfer-Encoding", "connection"]  # fmt: skip
    parameters = [{"name": name, "in": "header", "required": True} for name in [*reserved, "X-Note"]]
    found = peer(one(parameters=parameters))
    assert list(tool(found).parameters) == ["X-Note"]
    assert all(name in findings(found) for name in reserved)


@pytest.mark.requirement("CV-10")
def test_a_parameter_that_a_security_scheme_fills_is_no_argument(peer: Read, one: One) -> None:
    parameters = [{"name": "key", "in": "query"}, {"name": "X-Key", "in": "header"}, {"name": "q", "in": "query"}]
    schemes = {
        "a": {"type": "apiKey", "in": "query", "name": "key"},
        "b": {"type": "apiKey", "in": "header", "name": "x-key"},
    }
    found = peer({**one(parameters=parameters), "components": {"securitySchemes": schemes}})
    assert list(tool(found).parameters) == ["q"]


@pytest.mark.requirement("CV-08", "D-07")
@pytest.mark.parametrize(
    ("servers", "base"),
    [
        (None, "https://recipes.test/x"),
        ([], "https://recipes.test/x"),
        ([{"url": "/"}], "https://recipes.test/x"),
        ([{"url": "/api/v1/"}], "https://recipes.test/api/v1/x"),
        ([{"url": "v2"}], "https://recipes.test/docs/v2/x"),
        ([{"url": "https://RECIPES.test:443/b"}], "https://recipes.test/b/x"),
        ([{"url": "https://evil.test"}, {"url": "https://recipes.test/c"}], "https://recipes.test/c/x"),
        (
            [{"url": "https://{host}/{v}", "variables": {"host": {"default": "recipes.test"}, "v": {"default": "d"}}}],
            "https://recipes.test/d/x",
        ),
        ([{"url": "https://evil.test"}], None),
        ([{"url": "http://recipes.test"}], None),
        ([{"url": "https://recipes.test:8443"}], None),
        ([{"url": "//evil.test"}], None),
        ([{"url": "https://recipes.test@evil.test/"}], None),
        ([{"url": "https://recipes.test.evil.test/"}], None),
        ([{"url": "https://recipes.test\\@evil.test/"}], None),
        ([{"url": "https://{host}/", "variables": {"host": {"default": "evil.test"}}}], None),
        ([{"url": "https://{host}/"}], None),
        ([{"url": "https://[::1/"}], None),
        ([7, {"url": 7}], None),
        ([{"url": "/é"}], None),
        ([{"url": "/é"}, {"url": "/e"}], "https://recipes.test/e/x"),
    ],
)
@pytest.mark.parametrize("where", ["operation", "path", "document"])
def test_calls_go_only_to_the_origin_of_the_document(
    peer: Read, one: One, drive: Callable[..., Any], where: str, servers: Any, base: str | None
) -> None:
    whole = one()
    whole["paths"]["/y"] = {"get": {"operationId": "y", "x-llm": {}, "servers": [{"url": "/y"}]}}
    level = {"operation": whole["paths"]["/x"]["get"], "path": whole["paths"]["/x"], "document": whole}[where]
    level["servers"] = servers
    found = peer(whole, "https://recipes.test/docs/openapi.json")
    tool_x = found.catalog.names.get("x")
    if base is not None:
        assert tool_x is not None
        assert CODEC.target(found, Call(tool_x, {})) == f"GET {base}"
    elif tool_x is None:
        assert "GET /x: " in findings(found)
    else:
        refused = drive(CODEC.send(found, Call(tool_x, {})), lambda request: pytest.fail(f"{request.url} was asked"))
        assert refused.details["reason"] == "origin"


@pytest.mark.requirement("CV-08")
def test_the_server_nearest_to_the_operation_holds(peer: Read, one: One) -> None:
    whole = {**one(servers=[{"url": "/operation"}]), "servers": [{"url": "/root"}]}
    whole["paths"]["/x"]["servers"] = [{"url": "/path"}]
    assert url(peer(whole)) == "GET https://recipes.test/operation/x"


@pytest.mark.requirement("CV-21")
@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_read_only_properties_are_neither_arguments_nor_required(peer: Read, one: One, version: str) -> None:
    schema = {
        "type": "object",
        "required": ["id", "name", "meta", "stamp"],
        "properties": {
            "id": {"type": "string", "readOnly": True},
            "name": {"type": "string"},
            "secret": {"type": "string", "writeOnly": True},
            "stamp": {"$ref": "#/components/schemas/Stamp"},
            "meta": {"allOf": [{"properties": {"at": {"readOnly": True}, "by": {}}}], "required": ["at", "by"]},
        },
    }
    content = {"application/json": {"schema": schema}}
    whole = one(
        "/x", "post", requestBody={"required": True, "content": content}, responses={"201": {"content": content}}
    )
    stamp = {"type": "string", "readOnly": True}
    found = tool(peer({**whole, "openapi": version, "components": {"schemas": {"Stamp": stamp}}}))
    assert list(found.parameters) == ["name", "secret", "meta"]
    assert found.required_parameters == ("name", "meta")
    assert found.parameters["meta"] == {"properties": {"by": {}}, "required": ["by"]}
    assert found.output_schema is not None
    assert "id" in found.output_schema["properties"]
    assert "secret" not in found.output_schema["properties"]


@pytest.mark.requirement("CV-20")
@pytest.mark.parametrize(
    ("schema", "modern"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": True, "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"nullable": True}, {}),
        ({"type": "string", "nullable": False}, {"type": "string"}),
        (
            {"nullable": True, "allOf": [{"type": "string"}]},
            {"type": ["string", "null"]},
        ),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, {"type": "integer", "exclusiveMinimum": 1}),
        ({"type": "integer", "maximum": 1, "exclusiveMaximum": False}, {"type": "integer", "maximum": 1}),
        ({"type": "file"}, {}),
        ({"type": "string", "example": "a", "x-note": 1, "xml": {}}, {"type": "string", "examples": ["a"]}),
        ({"properties": {"nullable": {"type": "string"}}}, {"properties": {"nullable": {"type": "string"}}}),
    ],
)
def test_schemas_of_3_0_are_converted_to_json_schema_2020_12(
    peer: Read, one: One, schema: dict[str, Any], modern: dict[str, Any]
) -> None:
    whole = {**one(parameters=[{"name": "a", "in": "query", "schema": schema}]), "openapi": "3.0.4"}
    assert tool(peer(whole)).parameters["a"] == modern


@pytest.mark.requirement("CV-15", "CV-19")
@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ({"type": "object", "properties": {"a": {}, "b": {}}}, ["a", "b"]),
        ({"properties": {"a": {}}}, ["a"]),
        ({"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}, ["a", "b"]),
        ({"allOf": [{"properties": {"a": {}}}], "properties": {"a": {"type": "string"}}}, ["body"]),
        ({"type": "object", "additionalProperties": False}, []),
        ({"type": "object"}, ["body"]),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "string"}}, ["body"]),
        ({"type": "array", "items": {}}, ["body"]),
        ({"type": "string"}, ["body"]),
        ({"oneOf": [{"properties": {"a": {}}}]}, ["body"]),
        ({"type": ["object", "null"], "properties": {"a": {}}}, ["body"]),
        (True, ["body"]),
        ({}, ["body"]),
    ],
)
def test_object_body_is_split_into_arguments_and_any_other_is_one_argument(
    peer: Read, one: One, schema: object, arguments: list[str]
) -> None:
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    found = tool(peer(one("/x", "post", requestBody=body)))
    assert list(found.parameters) == arguments
    assert found.required_parameters == (("body",) if arguments == ["body"] else ())


@pytest.mark.requirement("CV-11")
@pytest.mark.parametrize(
    ("types", "sent"),
    [
        (["application/xml", "application/json"], "application/json"),
        (["application/a+json", "application/json; charset=utf-8"], "application/json"),
        (["text/plain", "application/merge-patch+json"], "application/merge-patch+json"),
        (["*/*"], "application/json"),
    ],
)
def test_json_is_preferred_among_the_media_types(peer: Read, one: One, types: list[str], sent: str, drive: Any) -> None:
    schema = {"properties": {"a": {}}}
    found = peer(
        one("/x", "post", requestBody={"required": True, "content": {key: {"schema": schema} for key in types}})
    )
    requests: list[Request] = []
    drive(CODEC.send(found, Call(tool(found), {"a": 1})), lambda request: requests.append(request) or Response(204))
    assert (b"content-type", sent.encode()) in requests[0].headers


@pytest.mark.requirement("CV-30", "XL-088")
@pytest.mark.parametrize(
    "operation",
    [
        {"parameters": [{"name": "q", "in": "querystring"}]},
        {"parameters": [{"name": "q", "in": []}]},
        {"parameters": [{"in": "query"}]},
        {"parameters": [7]},
        {"parameters": [{"name": "a b", "in": "header"}]},
        {"parameters": [{"name": "a\r\nb", "in": "cookie"}]},
        {"parameters": [{"$ref": "other.json#/x"}]},
    ],
)
def test_operation_that_cannot_be_sent_drops_only_its_own_tool(peer: Read, one: One, operation: dict[str, Any]) -> None:
    whole = one("/x", "post", **operation)
    whole["paths"]["/y"] = {"get": {"operationId": "y", "x-llm": {}}}
    found = peer(whole)
    assert list(found.catalog.names) == ["y"]
    assert [(note.where, note.operations) for note in found.memo.notes if note.operations] == [("POST /x", 1)]
    assert found.memo.operations == 2


@pytest.mark.requirement("CV-30", "XL-088")
def test_every_dropped_operation_leaves_a_finding(peer: Read) -> None:
    odd = {
        "/a": {"get": 7, "post": {"operationId": "ok", "x-llm": {}}},
        "/b/{id}": {"get": {"operationId": "b", "x-llm": {}}},
        "/c/{id": {"get": {"operationId": "c", "x-llm": {}}},
        "d": {"get": {"operationId": "d", "x-llm": {}}},
        "/e": 7,
        "/f": {"$ref": "#/nowhere"},
        "/g": {"get": {"operationId": "g", "x-llm": {}}, "additionalOperations": {"LOCK": 7}},
        "x-note": "its path is not a valid path template",
    }
    found = peer(document(odd))
    assert sorted(found.catalog.names) == ["b", "g", "ok"]
    lost = sum(note.operations for note in found.memo.notes)
    assert (lost, found.memo.operations) == (6, 9)
    for path in ("/a", "/b/{id}", "/c/{id", "d", "/e", "/f", "/g"):
        assert any(f"{path}:" in finding for finding in found.memo.findings)


@pytest.mark.requirement("CV-15", "O-08")
@pytest.mark.parametrize(
    ("version", "method", "required", "kept"),
    [
        ("3.0.3", "get", False, False),
        ("3.0.3", "get", True, True),
        ("3.0.3", "delete", False, True),
        ("3.0.3", "delete", True, True),
        ("3.1.0", "get", False, True),
        ("3.1.0", "delete", False, True),
        ("3.2.0", "delete", False, True),
    ],
)
def test_body_of_get_or_delete_is_kept_if_version_or_operation_requires_it(
    peer: Read, one: One, drive: Any, version: str, method: str, required: bool, kept: bool
) -> None:
    content = {"application/json": {"schema": {"properties": {"a": {}}}}}
    found = peer({**one("/x", method, requestBody={"required": required, "content": content}), "openapi": version})
    assert list(tool(found).parameters) == (["a"] if kept else [])
    text = f"HTTP gives the body of a {method.upper()} no meaning" if kept else "takes no body in OpenAPI 3.0"
    assert text in findings(found)
    requests: list[Request] = []
    for arguments in ({}, {"a": 1} if kept else {}):
        drive(CODEC.send(found, Call(tool(found), arguments)), lambda one: requests.append(one) or Response(204))
    without, given = requests
    assert without.body == (b"{}" if required else b"")
    assert given.body == (b'{"a":1}' if kept else b"")


@pytest.mark.requirement("CV-06")
def test_a_query_in_a_path_key_is_fixed_and_a_fragment_is_dropped(peer: Read, one: One) -> None:
    found = peer(one("/x?list-type=2#part", parameters=[{"name": "q", "in": "query"}]))
    assert url(found, q="a") == "GET https://recipes.test/x?list-type=2&q=a"


@pytest.mark.requirement("XL-070")
@pytest.mark.parametrize(
    ("members", "description"),
    [
        ({"summary": "S", "description": "D"}, "S\nD"),
        ({"summary": "S.", "description": "s"}, "S."),
        ({"summary": "List", "description": "List all.", "x-llm": {"hint": "H"}}, "List all.\nH"),
        ({"summary": "S", "description": "<p>Of <code>a</code> [b](https://c.test/d).</p>"}, "S\nOf a b."),
        ({"summary": "S", "x-llm": {"hint": "H"}}, "S\nH"),
        ({"description": "First.\n\nSecond."}, "First.\n\nSecond."),
        ({"description": "First.", "x-llm": {"hint": "H"}}, "First.\nH"),
        ({}, "GET /x"),
        ({"summary": 7, "description": []}, "GET /x"),
    ],
)
def test_the_description_is_the_summary_and_the_hint(
    peer: Read, one: One, members: dict[str, Any], description: str
) -> None:
    assert tool(peer(one(**members))).description == description


@pytest.mark.requirement("XL-070", "CV-25")
def test_long_description_keeps_the_sentences_with_rules_for_callers(peer: Read, one: One) -> None:
    talk = "We made it with love and hope that all of you will like it as much as we do. "
    rules = ["The amount must be in cents.", "`currency` can be EUR or USD."]
    long = f"Pays. {talk * 9}{rules[0]} {talk * 9}{rules[1]} {talk * 9}"
    reply = tool(peer(one(summary="Pay", description=long))).description
    assert reply.startswith("Pays. ")
    assert all(rule in reply for rule in rules)
    assert len(reply) < 800
    assert reply.endswith("\u2026")


@pytest.mark.requirement("XL-044")
@pytest.mark.parametrize(
    ("method", "safe"),
    [
        ("get", True),
        ("head", True),
        ("options", True),
        ("query", True),
        ("post", False),
        ("put", False),
        ("patch", False),
        ("delete", False),
        ("trace", False),
    ],
)
def test_only_reading_methods_are_safe_whatever_the_site_declares(
    peer: Read, one: One, method: str, safe: bool
) -> None:
    assert tool(peer(one("/x", method, **{"x-llm": {"readOnly": True}}))).safe is safe


@pytest.mark.requirement("CV-24")
@pytest.mark.parametrize(
    ("responses", "schema"),
    [
        ({"default": {"content": {"application/json": {"schema": {"type": "string"}}}}}, {"type": "string"}),
        (
            {
                "200": {"content": {"text/plain": {}}},
                "default": {"content": {"application/json": {"schema": {"type": "string"}}}},
            },
            {},
        ),
        ({"2XX": {"content": {"application/json": {"schema": {"type": "null"}}}}}, None),
        ({"201": {"content": {"application/hal+json": {"schema": True}}}}, {}),
        ({"200": {"$ref": "#/nowhere"}}, {}),
        ({"200": {"content": {"application/json": {"schema": {"$ref": "#/nowhere"}}}}}, {}),
        (7, {}),
        ({}, {}),
    ],
)
def test_output_schema_comes_from_the_success_response(peer: Read, one: One, responses: object, schema: object) -> None:
    assert tool(peer(one(responses=responses))).output_schema == schema


@pytest.mark.requirement("D-17")
def test_doubling_schema_references_are_never_expanded(peer: Read, one: One) -> None:
    bomb = {f"A{n}": {"anyOf": [{"$ref": f"#/components/schemas/A{n + 1}"}] * 2} for n in range(60)}
    bomb["A60"] = {"type": "string"}
    whole = one(parameters=[{"name": "q", "in": "query", "schema": {"$ref": "#/components/schemas/A0"}}])
    found = tool(peer({**whole, "components": {"schemas": bomb}}))
    assert len(found.input_schema["$defs"]) == 61


@pytest.mark.requirement("D-17")
def test_recursive_all_of_is_kept_as_one_argument(peer: Read, one: One) -> None:
    loop = {"allOf": [{"$ref": "#/components/schemas/L"}] * 9, "type": "object"}
    body = {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/L"}}}}
    found = tool(peer({**one("/x", "post", requestBody=body), "components": {"schemas": {"L": loop}}}))
    assert list(found.parameters) == ["body"]


@pytest.mark.requirement("XL-087")
def test_document_order_does_not_change_the_tools(peer: Read, recipes: dict[str, Any]) -> None:
    turned = {**recipes, "paths": dict(reversed(recipes["paths"].items()))}
    assert peer(turned).catalog == peer(recipes).catalog
    assert peer(turned).memo == peer(recipes).memo


@pytest.mark.requirement("XL-012", "D-17", "CV-25")
def test_endless_schema_is_cut_to_its_size_limit(peer: Read) -> None:
    schemas = {
        f"S{n}": {"properties": {"next": {"$ref": f"#/components/schemas/S{(n + 1) % 6000}"}}} for n in range(6000)
    }
    parameters = [{"name": "q", "in": "query", "schema": {"$ref": "#/components/schemas/S0"}}]
    found = peer(document({"/x": {"get": {"x-llm": {}, "parameters": parameters}}}, components={"schemas": schemas}))
    schema = tool(found).input_schema
    assert len(jsontext.write(dict(schema))) < 32 * 1024
    assert compile_schema(schema)({"q": {"next": {"next": {}}}}) is None
    assert "definitions are cut" in findings(found)


@pytest.mark.requirement("XL-082")
def test_deliberately_colliding_name_drops_only_the_later_operation(peer: Read) -> None:
    paths = {"/a": {"get": {"operationId": "a b", "x-llm": {}}}, "/b": {"get": {"operationId": "a.b", "x-llm": {}}}}
    stolen = next(iter(peer(document(paths)).catalog.names))
    paths["/c"] = {"get": {"operationId": stolen, "x-llm": {}}}
    found = peer(document(paths))
    assert len(found.catalog.tools) == 2
    assert f"GET /c: its name {stolen} is taken" in findings(found)


@pytest.mark.requirement("CV-17")
def test_references_into_any_document_part_are_resolved(peer: Read, one: One) -> None:
    first = {"name": "a", "in": "query", "schema": {"type": "string"}}
    parameters = [
        first,
        {"name": "b", "in": "query", "schema": {"$ref": "#/paths/~1x/get/parameters/0/schema"}},
        {"name": "c", "in": "query", "schema": {"properties": {"a": {"$ref": "#/paths/~1x/get/parameters/0/schema"}}}},
    ]
    found = tool(peer(one(parameters=parameters)))
    validate = compile_schema(found.input_schema)
    assert validate({"b": "x", "c": {"a": "x"}}) is None
    assert validate({"b": 1}) is not None
    assert validate({"c": {"a": 1}}) is not None


@pytest.mark.requirement("CV-17")
def test_reference_chain_resolves_to_its_final_schema(peer: Read, one: One) -> None:
    schemas = {"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/C"}, "C": {"const": 1}}
    whole = one(parameters=[{"name": "a", "in": "query", "schema": {"$ref": "#/components/schemas/A"}}])
    found = tool(peer({**whole, "components": {"schemas": schemas}}))
    validate = compile_schema(found.input_schema)
    assert validate({"a": 1}) is None
    assert validate({"a": 2}) is not None


@pytest.mark.requirement("CV-17")
def test_definitions_with_similar_names_stay_distinct(peer: Read, one: One) -> None:
    schemas = {"A[B]": {"type": "string"}, "A(B)": {"type": "integer"}}
    parameters = [
        {"name": "s", "in": "query", "schema": {"$ref": "#/components/schemas/A[B]"}},
        {"name": "i", "in": "query", "schema": {"$ref": "#/components/schemas/A(B)"}},
    ]
    found = tool(peer({**one(parameters=parameters), "components": {"schemas": schemas}}))
    validate = compile_schema(found.input_schema)
    assert validate({"s": "x", "i": 1}) is None
    assert validate({"s": 1}) is not None


def test_parameter_description_is_used_if_its_schema_has_none(peer: Read, one: One) -> None:
    parameters = [
        {"name": "a", "in": "query", "description": "Outer.", "schema": {"type": "string"}},
        {"name": "b", "in": "query", "description": "Outer.", "schema": {"description": "Inner."}},
        {"name": "c", "in": "query", "description": 7, "schema": True},
    ]
    properties = tool(peer(one(parameters=parameters))).parameters
    assert properties == {
        "a": {"type": "string", "description": "Outer."},
        "b": {"description": "Inner."},
        "c": {},
    }


@pytest.mark.requirement("CV-21")
def test_a_property_that_is_read_only_in_a_branch_is_hidden(peer: Read, one: One) -> None:
    branch = {"allOf": [{"$ref": "#/components/schemas/Stamp"}, 7]}
    inner = {"type": "object", "properties": {"at": {"allOf": [{"readOnly": True}]}, "by": True}, "required": ["by", 7]}
    schema = {"type": "object", "properties": {"stamp": {"allOf": branch["allOf"][:1]}, "inner": inner}}
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    components = {"schemas": {"Stamp": {"readOnly": True}}}
    found = peer({**one("/x", "post", requestBody=body), "components": components})
    assert list(tool(found).parameters) == ["inner"]
    assert list(tool(found).parameters["inner"]["properties"]) == ["by"]


@pytest.mark.requirement("CV-10")
@pytest.mark.parametrize("schemes", [7, {"a": 7}, {"a": {"type": "apiKey"}}, {"a": {"type": "http"}}])
def test_invalid_security_schemes_hide_no_argument(peer: Read, one: One, schemes: object) -> None:
    whole = {**one(parameters=[{"name": "q", "in": "query"}]), "components": {"securitySchemes": schemes}}
    assert list(tool(peer(whole)).parameters) == ["q"]


def test_target_of_an_invalid_call_is_shown_with_its_path_template(peer: Read, one: One) -> None:
    found = peer(one("/x/{id}", parameters=[{"name": "id", "in": "path"}]))
    assert url(found, id="..") == "GET https://recipes.test/x/{id}"


@pytest.mark.requirement("XL-075", "CV-27")
def test_next_steps_come_from_the_policy_then_from_links(peer: Read, one: One) -> None:
    policy = {
        "next": [{"operationId": "a", "when": "it is red", "args": {"id": "$.id"}, "other": 1}, {"when": "no"}, 7]
    }
    links = {
        "b": {"operationId": "b", "parameters": {"id": "$response.body#/id"}},
        "c": {"operationRef": "#/paths/~1x/get"},
        "d": {"operationId": "d", "parameters": 7},
    }
    found = tool(peer(one(**{"x-llm": policy, "responses": {"200": {"links": links}}})))
    assert found.hints["openapi"]["next"] == [
        {"operationId": "a", "when": "it is red", "args": {"id": "$.id"}},
        {"operationId": "b", "args": {"id": "$response.body#/id"}},
        {"operationId": "x"},
        {"operationId": "d"},
    ]


@pytest.mark.requirement("CV-09", "CV-10")
def test_a_certificate_fills_no_argument(peer: Read, one: One) -> None:
    parameters = [{"name": "token", "in": "query"}, {"name": "api_key", "in": "query"}]

    def arguments(scheme: dict[str, Any]) -> list[str]:
        schemes = {"components": {"securitySchemes": {"s": scheme}}, "security": [{"s": []}]}
        return list(tool(peer({**one(parameters=parameters), **schemes})).parameters)

    assert arguments({"type": "mutualTLS"}) == ["token", "api_key"]
    assert arguments({"type": "http", "scheme": "bearer"}) == ["token"]
    assert arguments({"type": "oauth2", "flows": {}}) == []


@pytest.mark.requirement("XL-085", "CV-09", "CV-27")
def test_tool_hints_contain_needed_scopes_and_security_schemes(peer: Read, one: One) -> None:
    schemes = {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}, "o": {"type": "oauth2", "flows": {}}}
    asked = {"components": {"securitySchemes": schemes}, "security": [{"o": ["write", "read"]}, {"key": []}]}
    key = {"id": "key", "kind": "apiKey", "name": "X-Key", "place": "header"}
    oauth = {"id": "o", "kind": "oauth2", "scopes": ["read", "write"]}
    hints = tool(peer({**one(), **asked})).hints["openapi"]
    assert (hints["scopes"], hints["security"]) == ([], [[key], [oauth]])
    hints = tool(peer({**one(), **asked, "security": [{"o": ["write", "read"]}]})).hints["openapi"]
    assert hints["scopes"] == ["read", "write"]
    assert "scopes" not in tool(peer(one())).hints["openapi"]
    hints = tool(peer({**one(), **asked, "security": [{"key": []}, {}]})).hints["openapi"]
    assert (hints["scopes"], hints["security"]) == ([], [[key], []])


@pytest.mark.requirement("CV-25")
def test_lazy_schema_behaves_like_any_other_mapping(peer: Read, one: One) -> None:
    found = tool(peer(one(parameters=[{"name": "q", "in": "query"}]))).input_schema
    plain = {"type": "object", "properties": {"q": {}}, "additionalProperties": False}
    assert (repr(found), pickle.loads(pickle.dumps(found)), copy.deepcopy(found)) == (repr(plain), plain, plain)
