"""Documents as they are out there: 3.0 to 3.2, YAML, several files, security, servers, and things hidden in them."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from toolwire.core.codec import Finding, Peer
from toolwire.core.http import Response
from toolwire.core.model import Approval, Call, Cost, Tool
from toolwire.core.selection import Selection
from toolwire.framing.tool_description import describe_tool
from toolwire.protocols.openapi import CODEC
from toolwire.protocols.openapi.discovery import find
from toolwire.protocols.openapi.request.plan import Place, Plan, Scheme
from toolwire.protocols.openapi.tools import operations
from toolwire.validation import compile_schema

HOME = "https://recipes.test"
OPEN = f"{HOME}/openapi.json"
ALL = Selection(include="all")

Drive = Callable[..., Any]
Site = Callable[..., Any]


@pytest.fixture
def read(drive: Drive, site: Site) -> Callable[..., Peer]:
    """Reads a document, given as data or bytes, from the given URL; ``others`` is what else the site has."""

    def peer(document: Any, selection: Selection = ALL, url: str = OPEN, **others: Any) -> Peer:
        path = "/" + url.split("/", 3)[3]
        answers = {path: document, **{f"/{name}": one for name, one in others.items()}}
        finding: Finding = drive(find(url, selection), site(answers))
        assert finding.peer is not None, finding.probes
        return finding.peer

    return peer


def document(paths: dict[str, Any], version: str = "3.1.0", **members: Any) -> dict[str, Any]:
    return {"openapi": version, "info": {"title": "T"}, "paths": paths, **members}


def one(version: str = "3.1.0", method: str = "post", members: dict[str, Any] | None = None, **operation: Any) -> Any:
    return document({"/x": {method: {"operationId": "x", **operation}}}, version, **(members or {}))


def tool(peer: Peer) -> Tool:
    (only,) = peer.catalog.tools
    return only


def plan(peer: Peer) -> Plan:
    found = peer.memo.plans[tool(peer).id]
    assert isinstance(found, Plan)
    return found


def findings(peer: Peer) -> str:
    return "\n".join(map(str, operations.list_findings(operations.OperationToolSet(peer.catalog, peer.memo))))


def has_balanced_counts(peer: Peer) -> bool:
    lost = sum(note.operations for note in peer.memo.notes)
    return bool(peer.memo.operations == len(peer.catalog.tools) + lost)


@pytest.mark.requirement("XL-006", "XL-013", "CV-29")
def test_a_yaml_document_gives_the_tools_of_the_same_in_json(read: Callable[..., Peer]) -> None:
    text = b"""
openapi: 3.0
info: {title: T, version: 2020-01-01}
paths:
  /x:
    get:
      operationId: x
      responses:
        200: {description: on}
"""
    assert read(text).catalog == read(one("3.0", "get", responses={"200": {"description": "on"}})).catalog


@pytest.mark.requirement("XL-009", "XL-034", "CV-34")
def test_selecting_all_operations_excludes_those_the_site_hides(
    read: Callable[..., Peer],
) -> None:
    hides = {"operationId": "hidden", "x-llm": {"enabled": False}}
    item = {"get": {"operationId": "a"}, "delete": {"operationId": "d"}, "put": hides}
    unasked = {
        "head": {"operationId": "h"},
        "options": {"operationId": "o"},
        "trace": {"operationId": "t", "x-llm": {}},
    }
    peer = read(document({"/x": item, "/y": unasked}))
    tools = peer.catalog.names
    assert sorted(tools) == ["a", "d", "t"]
    assert (tools["a"].approval, tools["a"].safe, tools["d"].destructive) == (Approval.PER_CALL, True, True)
    assert has_balanced_counts(peer)


@pytest.mark.requirement("CV-25", "CV-26")
@pytest.mark.parametrize(
    ("selection", "names"),
    [
        ({"tags": ("pets",)}, ["getPet", "savePet"]),
        ({"methods": ("post",)}, ["savePet"]),
        ({"paths": ("/owners/*",)}, ["oldOwner"]),
        ({"names": ("*Pet",), "safe_only": True}, ["getPet"]),
        ({"deprecated": False}, ["getPet", "savePet"]),
    ],
)
def test_selection_takes_some_operations_and_counts_the_rest(
    read: Callable[..., Peer], selection: dict[str, Any], names: list[str]
) -> None:
    paths = {
        "/pets": {
            "get": {"operationId": "getPet", "tags": ["pets"]},
            "post": {"operationId": "savePet", "tags": ["pets"]},
        },
        "/owners/{id}": {"get": {"operationId": "oldOwner", "deprecated": True, "summary": "Find one"}},
    }
    peer = read(document(paths), Selection(include="all", **selection))
    assert sorted(peer.catalog.names) == names
    assert "not selected" in findings(peer)
    assert has_balanced_counts(peer)
    if "oldOwner" in names:
        assert tool(peer).deprecated
        assert tool(peer).description == "Find one (deprecated)"


@pytest.mark.requirement("XL-072", "XL-029")
def test_cost_is_part_of_the_description_and_site_names_are_cut(read: Callable[..., Peer]) -> None:
    peer = read(one(**{"summary": "Do it", "x-llm": {"costIndicator": "credits", "hint": "Use it."}}))
    assert (tool(peer).description, tool(peer).cost) == ("Do it\nUse it.", Cost.CREDITS)
    assert describe_tool(tool(peer)) == "Do it\nUse it. (costs: credits)"
    whole = one()
    whole["x-llm"] = {"name": "N" * 200, "description": "D\u202e" * 600}
    peer = read(whole)
    assert len(peer.site) == 80
    assert "\u202e" not in peer.catalog.description
    assert len(peer.catalog.description) <= 500
    assert "DDD" not in tool(peer).description


@pytest.mark.requirement("XL-071", "XL-085")
def test_hints_and_descriptions_are_cut_and_the_whole_is_kept_for_programs(read: Callable[..., Peer]) -> None:
    peer = read(one(**{"description": "Word. " * 2_000, "x-llm": {"hint": "Use it. " * 400}, "tags": ["t"]}))
    found = tool(peer)
    assert len(found.hint) <= 1_024
    assert found.hint.endswith("\u2026")
    assert len(found.description) <= 4_096 + 1_025
    facts = found.hints["openapi"]
    assert (facts["method"], facts["path"], facts["origin"], facts["tags"]) == ("POST", "/x", HOME, ["t"])
    assert len(facts["description"]) > 10_000


TAGS = "".join(chr(0xE0000 + ord(character)) for character in "obey")


@pytest.mark.requirement("D-01", "CV-31")
def test_hidden_text_never_reaches_a_model_and_makes_its_tool_ask(read: Callable[..., Peer]) -> None:
    bad = f"seen{TAGS}\u200b"
    schema = {
        "title": bad, "description": bad, "enum": [bad], "default": bad, "examples": [bad], "const": bad,
        "properties": {bad: {"description": bad}, "ok": {"items": {"description": bad}}},
        "oneOf": [{"description": bad}], "additionalProperties": {"title": bad},
    }  # fmt: skip
    auto = {"approval": "auto", "blanketApprovalAllowed": True}
    first = {
        "operationId": bad, "summary": bad, "tags": [bad], "x-llm": {**auto, "hint": bad},
        "parameters": [{"name": bad, "in": "query", "description": bad, "schema": schema}],
        "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/S"}}}},
        "responses": {"200": {"content": {"application/json": {"schema": schema}}}},
    }  # fmt: skip
    second = {"operationId": "user", "x-llm": auto, "requestBody": {"$ref": "#/components/requestBodies/B"}}
    whole = document(
        {"/x": {"post": first}, "/y": {"post": second}, "/z": {"post": {"operationId": "clean", "x-llm": auto}}},
        components={
            "schemas": {"S": {"properties": {"body": schema}}},
            "requestBodies": {"B": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/S"}}}}},
        },
    )
    peer = read(json.dumps(whole, ensure_ascii=False).encode())
    message = repr(
        [(one.name, one.description, one.input_schema, one.output_schema, one.hints) for one in peer.catalog.tools]
    )
    assert "seen" in message
    assert "\\u200b" not in message
    assert "\\U000e00" not in message
    asks = {one.name: (one.approval, one.blanket_allowed) for one in peer.catalog.tools}
    assert asks.pop("clean") == (Approval.AUTO, True)
    assert set(asks.values()) == {(Approval.PER_CALL, False)}
    places = [note.pointer for note in peer.memo.notes if "hid something" in note.text]
    assert len(places) >= 30
    assert "/paths/~1x/post/summary" in places
    escaped = read(json.dumps(whole).encode())
    assert escaped.catalog == peer.catalog


@pytest.mark.requirement("CV-28")
def test_members_new_in_3_2_are_read(read: Callable[..., Peer]) -> None:
    search = {
        "operationId": "search",
        "parameters": [
            {
                "name": "q",
                "in": "querystring",
                "content": {"application/x-www-form-urlencoded": {"schema": {"type": "object"}}},
            }
        ],
        "responses": {"200": {"content": {"application/jsonl": {"$ref": "#/components/mediaTypes/Lines"}}}},
    }
    item = {
        "query": search,
        "additionalOperations": {"LOCK": {"operationId": "lock"}, "a b": {}, "GET": {}, "CONNECT": {}},
    }
    lines = {"itemSchema": {"type": "integer"}}
    peer = read(document({"/x": item}, "3.2.0", components={"mediaTypes": {"Lines": lines}}))
    tools = peer.catalog.names
    assert sorted(tools) == ["lock", "search"]
    assert (tools["search"].safe, tools["lock"].safe) == (True, False)
    assert tools["search"].output_schema == {"type": "array", "items": {"type": "integer"}}
    made = peer.memo.plans[tools["search"].id]
    assert (made.method, made.parameters[0][1].place, made.streams) == ("QUERY", Place.QUERYSTRING, True)
    assert peer.memo.plans[tools["lock"].id].method == "LOCK"
    assert sum(note.operations for note in peer.memo.notes) == 3


@pytest.mark.requirement("CV-28")
def test_unknown_minor_version_is_read_with_a_finding(read: Callable[..., Peer]) -> None:
    assert "newer than 3.2" in findings(read(one("3.9.0")))


@pytest.mark.requirement("CV-09", "XL-118")
@pytest.mark.parametrize(
    ("root", "own", "alternatives"),
    [
        (None, None, []),
        ([{"key": []}], None, [["key"]]),
        ([{"key": []}], [], []),
        ([{"key": []}], [{}], []),
        ([{"key": []}], [{"oauth": ["a", "b"]}, {"key": [], "oauth": ["a"]}], [["key", "oauth"], ["oauth"]]),
        (None, [{}, {"oauth": ["a"]}], [["oauth"], []]),
        (None, [{"gone": []}], [["gone"]]),
    ],
)
def test_security_alternatives_start_with_the_fewest_scopes(
    read: Callable[..., Peer], root: Any, own: Any, alternatives: list[list[str]]
) -> None:
    schemes = {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}, "oauth": {"type": "oauth2", "flows": {}}}
    members: dict[str, Any] = {"components": {"securitySchemes": schemes}, **({"security": root} if root else {})}
    found = plan(read(one(members=members, **({} if own is None else {"security": own}))))
    assert [[scheme.id for scheme in one] for one in found.security] == alternatives


@pytest.mark.requirement("CV-09")
def test_security_scheme_reference_is_resolved_with_its_scopes(read: Callable[..., Peer]) -> None:
    schemes = {"a": {"$ref": "#/components/securitySchemes/b"}, "b": {"type": "http", "scheme": "Bearer"}}
    members = {"components": {"securitySchemes": schemes}, "security": [{"a": ["x"]}]}
    assert plan(read(one(members=members))).security == (
        (Scheme(id="a", kind="http", scheme="bearer", scopes=("x",)),),
    )


@pytest.mark.requirement("CV-10")
def test_parameters_that_carry_a_token_are_no_arguments(read: Callable[..., Peer]) -> None:
    schemes = {"o": {"type": "oauth2"}, "k": {"type": "apiKey", "in": "cookie", "name": "sid"}}
    names = [("access_token", "query"), ("key", "query"), ("token", "query"), ("sid", "cookie"), ("sid", "query")]
    parameters = [{"name": name, "in": place} for name, place in names]
    found = read(one(members={"components": {"securitySchemes": schemes}}, parameters=parameters))
    assert list(tool(found).parameters) == ["sid"]
    assert findings(found).count("carries a credential") == 4


@pytest.mark.requirement("CV-08", "CV-32", "D-07")
def test_variables_of_a_server_have_their_defaults_and_are_no_arguments(read: Callable[..., Peer]) -> None:
    variables = {"v": {"default": "v2", "enum": ["v1", "v2"]}, "region": {"enum": ["eu", "us"]}}
    servers = [{"url": "http://other.test"}, {"url": "https://{region}.api.test/{v}/", "variables": variables}]
    found = read(one(members={"servers": servers}))
    made = plan(found)
    assert (made.base, made.server_variables) == ("https://eu.api.test/v2", {"region": "eu", "v": "v2"})
    assert list(tool(found).parameters) == []


@pytest.mark.requirement("CV-17")
def test_anchors_ids_and_self_references_are_resolved(read: Callable[..., Peer]) -> None:
    schemas = {
        "Tree": {"$id": "https://x.test/tree", "$anchor": "tree",
                 "properties": {"kid": {"$ref": "#tree"}, "n": {"$ref": "#/$defs/N"}},
                 "$defs": {"N": {"type": "integer"}}},
        "Odd": {"properties": {"a": {"$dynamicRef": "#meta"}}, "$dynamicAnchor": "meta"},
    }  # fmt: skip
    body = {"content": {"application/json": {"schema": {"properties": {
        "t": {"$ref": "https://x.test/tree"}, "o": {"$ref": "api.json#/components/schemas/Odd"},
    }}}}}  # fmt: skip
    whole = one("3.2.0", members={"$self": "/v1/api.json", "components": {"schemas": schemas}}, requestBody=body)
    validate = compile_schema(tool(read(whole)).input_schema)
    assert validate({"t": {"kid": {"kid": {"n": 1}}}, "o": {"a": {"a": {}}}}) is None
    assert validate({"t": {"kid": {"n": "x"}}}) is not None


@pytest.mark.requirement("CV-17", "D-18")
def test_other_documents_are_read_only_where_allowed_and_only_from_the_same_site(drive: Drive, site: Site) -> None:
    refers = {
        "a": {"$ref": "parts/a.yaml#/A"},
        "b": {"$ref": "https://evil.test/b.json#/B"},
        "c": {"$ref": "gone.json"},
    }
    whole = one(requestBody={"content": {"application/json": {"schema": {"properties": refers}}}})
    yaml = b"openapi: 3.1.0\nA: {properties: {again: {$ref: 'b.json#/B'}}}"
    answers = {"/openapi.json": whole, "/parts/a.yaml": yaml, "/parts/b.json": {"B": {"type": "integer"}}}
    answer = site(answers)
    asked: list[str] = []
    for allowed in (False, True):
        flow = find(OPEN, Selection(include="all", elsewhere=allowed))
        peer = drive(flow, lambda request: (asked.append(request.url), answer(request))[1]).peer
        schema = tool(peer).input_schema
        validate = compile_schema(schema)
        assert (validate({"a": {"again": "x"}}) is not None) is allowed
        assert validate({"b": "anything", "c": 1}) is None
        assert not any("evil.test" in url for url in asked)
        assert (f"{HOME}/parts/b.json" in asked) is allowed
        assert "https://evil.test/b.json#/B" in findings(peer)


@pytest.mark.requirement("CV-06", "CV-07", "CV-30")
def test_an_undeclared_variable_is_a_text_and_an_unused_parameter_goes(read: Callable[..., Peer]) -> None:
    parameters = [{"name": "gone", "in": "path", "required": True}, {"name": "s", "in": "query", "style": "matrix"}]
    found = read(document({"/x/{id}.json?v=1#f": {"get": {"operationId": "x", "parameters": parameters}}}))
    assert tool(found).required_parameters == ("id",)
    assert CODEC.target(found, Call(tool(found), {"id": "a b", "s": "1"})) == f"GET {HOME}/x/a%20b.json?v=1&s=1"
    assert all(word in findings(found) for word in ("gone", "does not declare", "a style that is not known"))


@pytest.mark.requirement("CV-11", "CV-12", "CV-13", "CV-14")
@pytest.mark.parametrize(
    ("types", "chosen", "arguments"),
    [
        (["application/xml", "text/plain"], "text/plain", ["body"]),
        (["multipart/form-data", "application/x-www-form-urlencoded"], "application/x-www-form-urlencoded", ["a", "f"]),
        (["multipart/form-data", "image/png"], "multipart/form-data", ["a", "f"]),
        (["application/octet-stream"], "application/octet-stream", ["body"]),
        (["application/xml"], "application/xml", ["body"]),
        (["text/*"], "text/plain", ["body"]),
    ],
)
def test_a_body_without_json_is_written_in_the_next_best_type(
    read: Callable[..., Peer], types: list[str], chosen: str, arguments: list[str]
) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "f": {"type": "string", "format": "binary"}}}
    found = read(one(requestBody={"content": {key: {"schema": schema} for key in types}}))
    assert (plan(found).media_type, list(tool(found).parameters)) == (chosen, arguments)
    assert plan(found).binary is (chosen == "application/octet-stream")
    if chosen == "multipart/form-data":
        assert plan(found).encodings["f"].binary
        assert tool(found).parameters["f"]["contentEncoding"] == "base64"


@pytest.mark.requirement("CV-19", "O-22")
def test_tag_of_a_discriminator_selects_the_branch(read: Callable[..., Peer]) -> None:
    refs = [{"$ref": f"#/components/schemas/{name}"} for name in ("Cat", "Dog", "Fish")]
    mapping = {"cat": "Cat", "kitty": "#/components/schemas/Cat", "dog": "Dog"}
    pet = {"anyOf": refs, "discriminator": {"propertyName": "kind", "mapping": mapping}}
    schemas = {name: {"type": "object", "required": ["n"]} for name in ("Cat", "Dog", "Fish")}
    body = {"required": True, "content": {"application/json": {"schema": pet}}}
    found = tool(read(one(members={"components": {"schemas": schemas}}, requestBody=body)))
    validate = compile_schema(found.input_schema)
    for kind in ({"kind": "cat"}, {"kind": "Fish"}, {}):
        assert validate({"body": {**kind, "n": 1}}) is None, kind
        assert validate({"body": kind}) is not None, kind
    refused = validate({"body": {"kind": "bird", "n": 1}})
    assert refused is not None
    assert refused.parameter_errors == {"body": '.kind "bird" is not one of "cat", "kitty", "dog" or "Fish"'}
    replies = [one["properties"]["kind"]["enum"] for one in found.parameters["body"]["anyOf"]]
    assert replies == [["cat", "kitty"], ["dog"], ["Fish"]]


@pytest.mark.requirement("CV-19")
def test_role_of_a_message_comes_from_its_branch_not_the_schema_name(
    read: Callable[..., Peer],
) -> None:
    def message(role: str) -> dict[str, Any]:
        role_only = {"type": "string", "enum": [role]}
        return {"type": "object", "required": ["role"], "properties": {"role": role_only, "content": {}}}

    schemas = {f"Chat{role.title()}Message": message(role) for role in ("user", "system")}
    refs = [{"$ref": f"#/components/schemas/{name}"} for name in schemas]
    messages = {"type": "array", "items": {"oneOf": refs, "discriminator": {"propertyName": "role"}}}
    whole = {"type": "object", "required": ["messages"], "properties": {"messages": messages}}
    body = {"required": True, "content": {"application/json": {"schema": whole}}}
    found = tool(read(one(members={"components": {"schemas": schemas}}, requestBody=body)))
    validate = compile_schema(found.input_schema)
    assert validate({"messages": [{"role": "system", "content": "Be brief."}, {"role": "user"}]}) is None
    assert validate({"messages": [{"role": "ChatUserMessage"}]}) is not None


@pytest.mark.requirement("CV-19")
def test_all_of_is_merged_only_if_the_meaning_is_unchanged(read: Callable[..., Peer]) -> None:
    plain = {"allOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}, "description": "B"}]}
    closed = {"allOf": [{"properties": {"a": {}}}], "properties": {"b": {}}, "additionalProperties": False}
    apart = {"allOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"a": {"minLength": 1}}}]}
    parameters = [{"name": name, "in": "query", "schema": schema} for name, schema in
                  {"plain": plain, "closed": closed, "apart": apart}.items()]  # fmt: skip
    found = tool(read(one(parameters=parameters))).parameters
    assert found["plain"] == {"description": "B", "properties": {"a": {}, "b": {}}, "required": ["a"]}
    assert found["closed"] == closed
    assert len(found["apart"]["allOf"]) == 1
    assert found["apart"]["properties"] == {"a": {"type": "string"}}


@pytest.mark.requirement("CV-27", "XL-075")
def test_links_become_next_steps_and_a_callback_makes_its_tool_ask(read: Callable[..., Peer]) -> None:
    link = {"operationId": "getOrder", "parameters": {"id": "$response.body#/id"}}
    responses = {"201": {"description": "", "links": {"order": {"$ref": "#/components/links/order"}}}}
    operation = {"responses": responses, "callbacks": {"done": {}}, "x-llm": {"approval": "auto"}}
    members = {"components": {"links": {"order": link}}, "webhooks": {"new": {"post": {"operationId": "hook"}}}}
    found = read(one(members=members, **operation))
    assert tool(found).hints["openapi"]["next"] == [{"operationId": "getOrder", "args": link["parameters"]}]
    assert tool(found).approval is Approval.PER_CALL
    assert "1 webhooks are calls of the site" in findings(found)


@pytest.mark.requirement("XL-008", "OQ-1")
@pytest.mark.parametrize("way", ["catalog", "link"])
def test_a_catalog_and_a_link_of_the_same_site_are_followed(drive: Drive, site: Site, way: str) -> None:
    linkset = {"linkset": [{"anchor": "/", "service-desc": [{"href": "https://evil.test/a"}, {"href": "/spec"}]}]}
    link = (b"link", b'<https://evil.test/a>; rel="service-desc", </spec>; rel="service-desc"; type="application/json"')
    spec = {**one(), "x-llm": {}}
    spec["paths"]["/x"]["post"]["x-llm"] = {}
    answers = {
        "/spec": spec,
        **({"/.well-known/api-catalog": linkset} if way == "catalog" else {"/docs": Response(200, (link,), b"<p>")}),
    }
    finding = drive(CODEC.find(f"{HOME}/docs"), site(answers))
    assert finding.peer is not None
    assert finding.peer.url == f"{HOME}/spec"
    assert not any("evil.test" in probe.url for probe in finding.probes)


@pytest.mark.requirement("XL-021", "XL-022", "XL-023", "XL-024")
@pytest.mark.parametrize(
    ("auth", "said"),
    [
        ("none", "need no authentication"),
        ("oauth2", "no scheme of that type"),
        ({"type": "oauth2"}, "no scheme of that type"),
        ({"type": "api-key", "resource_metadata": "https://evil.test/r"}, "another origin"),
        ({"type": "api-key", "resource_metadata": "/r"}, ""),
        ("api-key", ""),
        (7, ""),
    ],
)
def test_auth_hint_of_llm_json_never_overrides_the_document(drive: Drive, site: Site, auth: Any, said: str) -> None:
    schemes = {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}
    spec = one(
        members={"components": {"securitySchemes": schemes}, "security": [{"key": []}], "x-llm": {}}, **{"x-llm": {}}
    )
    entry = {"openapi": "/spec", "auth": auth, "x-unknown": [1]}
    peer = drive(CODEC.find(HOME), site({"/.well-known/llm.json": entry, "/spec": spec})).peer
    assert plan(peer).security[0][0].id == "key"
    assert (said in findings(peer)) if said else ("llm.json" not in findings(peer))


@pytest.mark.requirement("XL-006", "CV-08", "D-07")
def test_local_file_is_called_at_its_named_or_given_server(drive: Drive) -> None:
    def at(servers: Any, selection: Selection = ALL) -> Peer | None:
        body = json.dumps(one(members={"servers": servers})).encode()
        found: Peer | None = drive(
            find("file:///tmp/api.json", selection), lambda request: Response(200, (), body)
        ).peer
        return found

    named = at([{"url": "https://api.test/v1"}])
    assert named is not None
    assert CODEC.target(named, Call(tool(named), {})) == "POST https://api.test/v1/x"
    assert at([{"url": "/v1"}]) is None
    given = at([{"url": "/v1"}], Selection(include="all", server="https://own.test"))
    assert given is not None
    assert CODEC.target(given, Call(tool(given), {})) == "POST https://own.test/x"


@pytest.mark.requirement("D-15", "D-17")
def test_hostile_patterns_and_huge_schemas_drop_no_tool(read: Callable[..., Peer]) -> None:
    patterns = ["(a+)+$", "(", "a" * 2_001, "^[a-z]+$"]
    properties = {f"p{n}": {"type": "string", "pattern": text} for n, text in enumerate(patterns)}
    wide = {
        "type": "object",
        "properties": {f"n{n}": {"type": "string", "description": "x" * 50} for n in range(5_000)},
    }
    parameters = [
        {"name": "wide", "in": "query", "schema": wide},
        {"name": "p", "in": "query", "schema": {"properties": properties}},
    ]
    schema = tool(read(one(parameters=parameters))).input_schema
    assert len(json.dumps(dict(schema))) < 40_000
    assert compile_schema(schema)({"wide": {}, "p": {}}) is None


@pytest.mark.requirement("XL-033", "XL-038", "XL-088")
def test_misplaced_x_llm_is_a_finding(read: Callable[..., Peer]) -> None:
    whole = document({"/x": {"x-llm": {}, "get": {"operationId": "x"}}}, **{"x-llm": {}, "x-opentools": {}})
    reply = findings(read(whole))
    assert "only one of an operation" in reply
    assert "the x-llm holds" in reply
    assert "no version" in reply


@pytest.mark.requirement("OXP-007", "XL-120")
def test_version_and_toolkit_survive_our_own_document(drive: Drive, server: Any, kitchen: Any) -> None:
    peer = drive(CODEC.find(HOME), server(kitchen, lambda call: pytest.fail("nothing is called")))
    assert peer.peer is not None
    assert [one.id for one in peer.peer.catalog.tools] == [one.id for one in kitchen.tools]


@pytest.mark.requirement("XL-084", "XL-087")
def test_repeated_enum_value_is_listed_once(peer: Callable[..., Peer], one: Callable[..., dict[str, Any]]) -> None:
    schemas = [{"enum": ["b", "a", "b"]}, {"enum": [1, True, 1, {"x": 1, "y": 2}, {"y": 2, "x": 1}, None]}]
    parameters = [{"name": f"p{number}", "in": "query", "schema": schema} for number, schema in enumerate(schemas)]
    (tool,) = peer(one(parameters=parameters)).catalog.tools
    assert tool.parameters["p0"]["enum"] == ["b", "a"]
    assert tool.parameters["p1"]["enum"] == [1, True, {"x": 1, "y": 2}, None]


@pytest.mark.requirement("XL-039", "CV-34")
def test_vendor_extensions_tighten_also_with_all_operations_selected(read: Callable[..., Peer]) -> None:
    calls: dict[str, Any] = {"done": {"{$request.body#/url}": {"post": {}}}}
    methods: dict[str, dict[str, Any]] = {
        "get": {"callbacks": calls},
        "delete": {"callbacks": {}},
        "post": {"x-mcp": False},
        "head": {"x-mcp": True},
    }
    found = read(document({"/x": {method: {"operationId": method, **reply} for method, reply in methods.items()}}))
    tools = {one.name: one for one in found.catalog.tools}
    assert sorted(tools) == ["delete", "get"]
    assert (tools["get"].approval, tools["get"].blanket_allowed) == (Approval.PER_CALL, False)
    assert (tools["delete"].destructive, tools["get"].destructive) == (True, False)
