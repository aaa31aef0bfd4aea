"""Finding a server: which lists are known, what is kept of them, and what each look meant."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Site
from toolwire.core.http import Request, Response
from toolwire.core.model import (
    Approval,
    Authorization,
    Cost,
    Kind,
    Problem,
    RateLimit,
    Requirements,
    Tool,
)
from toolwire.protocols.otc import CODEC, document


def ok(data):
    return Response(200, (), data if isinstance(data, bytes) else json.dumps(data).encode())


@pytest.fixture
def find(talk):
    def found(data, url="http://h"):
        finding, _ = talk(CODEC.find(url), data if isinstance(data, Response | Problem) else ok(data))
        return finding

    return found


@pytest.mark.requirement("C-8")
@pytest.mark.parametrize(
    ("pasted", "base"),
    [
        ("http://h:1", "http://h:1"),
        ("http://h:1/", "http://h:1"),
        (" http://h:1/tools ", "http://h:1"),
        ("http://h:1/tools/", "http://h:1"),
        ("http://h:1/tools/call", "http://h:1"),
        ("http://h:1/call", "http://h:1"),
        ("http://h:1/health", "http://h:1"),
        ("http://h:1/uts", "http://h:1/uts"),
        ("http://h:1/uts/tools?x=1#y", "http://h:1/uts"),
        ("https://tools", "https://tools"),
        ("https://call/", "https://call"),
    ],
)
def test_pasted_url_is_accepted_in_each_form(talk, pasted, base):
    finding, requests = talk(CODEC.find(pasted), ok({"items": []}))
    assert [(request.method, request.url, request.body) for request in requests] == [("GET", f"{base}/tools", b"")]
    assert finding.peer.url == base


@pytest.mark.requirement("C-8")
@pytest.mark.parametrize(
    "answer", [ok([]), Response(200, (), b"<html>"), Response(404, (), b""), Response(405, (), b"")]
)
@pytest.mark.parametrize("pasted", ["http://h/tools", "http://h/tools/", "http://h/tools?a=1"])
def test_a_server_below_a_path_named_tools_is_found(talk, pasted, answer):
    finding, requests = talk(CODEC.find(pasted), answer, ok({"items": []}))
    assert [request.url for request in requests] == ["http://h/tools", "http://h/tools/tools"]
    assert finding.peer.url == "http://h/tools"
    assert [probe.accepted for probe in finding.probes] == [False, True]


@pytest.mark.requirement("C-8")
@pytest.mark.parametrize("answer", [Response(401, (), b""), Response(307, (), b""), Response(500, (), b"")])
def test_a_server_that_does_not_say_that_it_has_no_list_is_asked_once(talk, answer):
    finding, requests = talk(CODEC.find("http://h/tools"), answer)
    assert finding.peer is None
    assert len(requests) == 1


@pytest.mark.requirement("C-8", "A-34")
@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("rfc-list", "Open Tool Calling (RFC)"),
        ("rfc-definitions", "Open Tool Calling (RFC)"),
        ("oxp-list", "OXP 1.0"),
        ("universal-list", "universal-tool"),
        ("open-tool-list", "open-tool"),
    ],
)
def test_each_dialect_is_recognized_by_its_tool_list(find, vectors, name, title):
    finding = find(vectors[name]["body"])
    assert finding.peer.memo.dialect.title == title
    assert [(probe.status, probe.accepted) for probe in finding.probes] == [(200, True)]
    assert title in finding.probes[0].meaning


@pytest.mark.requirement("A-35", "A-36")
def test_the_example_of_section_5_2_is_read(find, vectors):
    catalog = find(vectors["rfc-list"]["body"]).peer.catalog
    (tool,) = catalog.tools
    assert (catalog.title, tool.id) == ("Calculator", "Calculator.Add@1.0.0")
    assert tool.required_parameters == ("a", "b")
    assert list(tool.parameters) == ["a", "b"]
    assert tool.output_schema == {"type": "number", "description": "The sum of the two numbers."}
    assert tool.approval is None


@pytest.mark.requirement("A-36")
def test_the_version_comes_from_the_id_the_member_or_the_toolkit(find):
    plain = {"input_schema": {}}
    tools = [
        {"id": "T.a@3.0.1", "version": "9.9.9", **plain},
        {"id": "T.b@3", "version": "3.0.0", **plain},
        {"id": "T.c", "toolkit": {"version": "0.5.0"}, **plain},
        {"id": "T.d", "version": "1.0", **plain},
        {"id": "T.e", "version": "9" * 5_000 + ".0.0", **plain},
    ]
    found = find({"tools": tools}).peer.catalog.tools
    assert [tool.version for tool in found] == ["3.0.1", "3.0.0", "0.5.0", "1.0.0", "1.0.0"]


@pytest.mark.requirement("A-36", "OTC-012")
def test_an_output_without_a_value_mode_is_no_output(find):
    tools = [
        {"id": "T.a", "output": {"available_modes": ["error"]}},
        {"id": "T.b", "output_schema": None},
        {"id": "T.c"},
        {"id": "T.d", "output_schema": 7},
    ]
    assert [tool.output_schema for tool in find({"tools": tools}).peer.catalog.tools] == [None, None, {}, {}]


@pytest.mark.requirement("OTC-018", "OTC-016", "OTC-017", "A-35")
def test_the_five_definitions_of_the_rfc_are_read(find, vectors):
    tools = {tool.id: tool for tool in find(vectors["rfc-definitions"]["body"]).peer.catalog.tools}
    assert list(tools) == [
        "Calculator.Add@1.0.0",
        "Doorbell.Ring@0.1.0",
        "Gmail.GetEmails@1.2.0",
        "SMS.Send@0.1.2",
        "System.GetTimestamp@1.0.0",
    ]
    assert tools["Doorbell.Ring@0.1.0"].output_schema is None
    assert tools["SMS.Send@0.1.2"].requirements == Requirements(secrets=("TWILIO_API_KEY",))
    scope = "https://www.googleapis.com/auth/gmail.readonly"
    assert tools["Gmail.GetEmails@1.2.0"].requirements == Requirements(
        authorization=(Authorization(id="google", scopes=(scope,)),)
    )
    assert tools["System.GetTimestamp@1.0.0"].input_schema == {"type": "object"}


@pytest.mark.requirement("OTC-043")
@pytest.mark.parametrize(
    "odd",
    [
        7,
        [],
        {"authorization": 7, "secrets": {}},
        {"authorization": [7, {}], "secrets": [{"id": 7}, {"id": ""}], "user_id": 1},
    ],
)
def test_empty_requirements_mean_none(find, odd):
    (tool,) = find({"items": [{"id": "T.a", "requirements": odd}]}).peer.catalog.tools
    assert tool.requirements == Requirements()


@pytest.mark.requirement("A-34", "OXP-005")
def test_policy_missing_in_oxp_items_is_read_from_the_tools_list(find):
    items = [{"id": "T.a@1.0.0", "input_schema": {}}, {"id": "T.b@1.0.0", "input_schema": {}}, {"id": "T.c@1.0.0"}]
    policy = {"approval": "auto", "readOnly": True, "costIndicator": "free"}
    tools = [7, {"id": []}, {"id": "T.a@1.0.0", "x-llm": policy}, {"id": "T.b@1.0.0", "x-llm": {"enabled": False}}]
    first, last = find({"items": items, "tools": tools}).peer.catalog.tools
    assert (first.name, first.approval, first.safe, first.cost) == ("a", Approval.AUTO, True, Cost.FREE)
    assert (last.name, last.approval, last.safe) == ("c", None, False)


@pytest.mark.requirement("OTC-003", "A-47")
def test_illegal_name_is_made_legal_and_the_id_kept(find):
    ids = ["My Kit.näme!@1.0.0", "add@1.0.0", "com.example.Sum", "Phone.look_up@1.0.0", "." + "x" * 200]
    names = ["näme!", "add", "Sum", "look-up", ""]
    peer = find({"items": [{"id": id_, "name": name} for id_, name in zip(ids, names, strict=True)]}).peer
    assert {tool.id for tool in peer.catalog.tools} == {
        "My_Kit.n_me_@1.0.0",
        "Tools.add@1.0.0",
        "com_example.Sum@1.0.0",
        "Phone.look_up@1.0.0",
        "Tools." + "x" * 64 + "@1.0.0",
    }
    assert sorted(peer.memo.ids.values()) == sorted(ids)
    assert "look-up" in {tool.name for tool in peer.catalog.tools}


@pytest.mark.requirement("OTC-043", "OTC-002")
def test_invalid_tool_is_dropped_and_the_others_stay(find):
    items = [None, 7, {}, {"id": 7}, {"id": ""}, {"id": "T.a", "input_schema": 7}, {"id": "T.a@1.0.0"}, {"name": "b"}]
    peer = find({"items": items}).peer
    assert [tool.id for tool in peer.catalog.tools] == ["T.a@1.0.0"]
    assert peer.memo.ids == {"T.a@1.0.0": "T.a"}


def test_first_toolkit_keeps_a_tool_name_that_others_would_share(find):
    peer = find({"items": [{"id": "A.b"}, {"id": "C.b"}, {"id": "D.A_b"}, {"id": "A.b@2.0.0"}]}).peer
    assert {tool.id for tool in peer.catalog.tools} == {"A.b@1.0.0", "A.b@2.0.0", "D.A_b@1.0.0"}


@pytest.mark.requirement("OXP-016")
def test_an_empty_list_of_tools_is_a_list_and_an_empty_array_is_not(find):
    assert find({"items": []}).peer is not None
    assert find({"tools": []}).peer is not None
    assert find([]).peer is None


@pytest.mark.parametrize(
    "data",
    [b"<html>", b"", None, 7, "tools", {}, {"items": 7}, {"tools": [{"foo": 1}]}, [1, 2], [{"name": "a"}], b"[" * 9999],
)
def test_any_other_document_is_not_this_protocol(find, data):
    finding = find(data if isinstance(data, bytes) else json.dumps(data).encode())
    assert finding.peer is None
    assert finding.probes[0].accepted is False
    assert "list" in finding.probes[0].meaning


@pytest.mark.requirement("C-8")
@pytest.mark.parametrize(
    ("status", "meaning"),
    [(401, "needs a key"), (403, "needs a key"), (404, "no list"), (307, "elsewhere"), (500, "500")],
)
def test_probe_explains_the_status(find, status, meaning):
    finding = find(Response(status, (), b"{}"))
    assert finding.peer is None
    assert finding.probes[0].status == status
    assert meaning in finding.probes[0].meaning


def test_unreachable_server_gives_a_probe_without_a_status(find):
    finding = find(Problem(kind=Kind.UNREACHABLE, message="Nothing listens there."))
    assert finding.peer is None
    assert finding.probes[0].status is None
    assert "Nothing listens there." in finding.probes[0].meaning


def request_list(catalog, path="/tools"):
    return CODEC.routes(catalog, Site())["GET", path].read(Request("GET", path))


words = st.from_regex(r"[A-Za-z][A-Za-z0-9-]{0,20}", fullmatch=True)
schemas = st.dictionaries(words, st.builds(lambda text: {"description": text}, words), max_size=3).map(
    lambda properties: {"type": "object", "properties": properties, "required": sorted(properties)[:1]}
)
authorizations = st.builds(Authorization, id=words, scopes=st.lists(words, max_size=2).map(tuple))
tools = st.builds(
    Tool,
    name=words,
    toolkit=st.from_regex(r"[A-Za-z0-9]{1,10}", fullmatch=True),
    version=st.builds("{}.{}.{}".format, *[st.integers(0, 99)] * 3),
    description=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30),
    input_schema=schemas,
    output_schema=st.sampled_from([{}, None, {"type": "integer"}]),
    safe=st.booleans(),
    approval=st.sampled_from([None, Approval.AUTO, Approval.PER_CALL]),
    blanket_allowed=st.booleans(),
    destructive=st.booleans(),
    idempotent=st.booleans(),
    hint=st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
    cost=st.sampled_from([None, *Cost]),
    rate_limit=st.sampled_from([None, RateLimit(max=3, window="10s")]),
    requirements=st.builds(
        Requirements,
        authorization=st.lists(authorizations, max_size=2).map(tuple),
        secrets=st.lists(words, max_size=2).map(tuple),
        user_id=st.booleans(),
    ),
)


@pytest.mark.requirement("A-34", "OTC-001", "OTC-013")
@pytest.mark.parametrize("path", ["/tools", "/uts/tools"])
@settings(max_examples=30)
@given(made=st.lists(tools, min_size=1, max_size=4, unique_by=lambda tool: tool.id))
def test_served_catalog_is_found_unchanged(path, made):
    try:
        catalog = Catalog(tools=tuple(made))
    except ValueError:
        return
    response = request_list(catalog, path)
    flow = CODEC.find(f"http://h{path}")
    assert next(flow).url == f"http://h{path}"
    with pytest.raises(StopIteration) as end:
        flow.send(response)
    peer = end.value.value.peer
    assert peer.catalog.tools == catalog.tools
    assert peer.catalog.names == catalog.names
    assert peer.memo.ids == {tool.id: tool.id for tool in catalog.tools}


lists = st.sampled_from(["items", "tools", "id", "name", "version", "description", "toolkit", "x-llm"])
inner_names = ["input_schema", "inputSchema", "output_schema", "output", "parameters", "available_modes", "value"]
names = lists | st.sampled_from([*inner_names, "requirements", "authorization", "secrets", "oauth2", "scopes"])
leaves = st.none() | st.booleans() | st.integers() | st.sampled_from(["T.a@1.0.0", "T.a", "@", ".", "1.0.0", "value"])
documents = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=6), max_leaves=20
)


@settings(max_examples=60)
@given(documents | st.lists(st.dictionaries(names, documents, max_size=6)).map(lambda items: {"items": items}))
def test_any_data_is_a_listing_or_a_problem(data):
    assert isinstance(document.read(data, "h"), document.Listing | Problem)


@given(st.binary(max_size=200), st.integers(100, 599))
def test_any_response_ends_the_search(body, status):
    flow = CODEC.find("http://h")
    next(flow)
    with pytest.raises(StopIteration):
        flow.send(Response(status, (), body))


@given(st.text())
def test_any_url_text_causes_one_get_probe(url):
    flow = CODEC.find(url)
    assert next(flow).method == "GET"
