"""Whatever comes in is answered, and what goes out on one side comes in the same on the other."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Finding, Pending, Site
from toolwire.core.http import Request, Response
from toolwire.core.model import Approval, Call, Cost, Problem, RateLimit, Tool, Value
from toolwire.protocols.mcp import CODEC, document

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**25), 10**25)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
MEMBERS = (
    "jsonrpc id method params result error tools content name inputSchema _meta code text structuredContent isError "
    "supportedVersions protocolVersion arguments toolwire/x-llm toolwire/tool"
)
WORDS = st.sampled_from(MEMBERS.split())
ODD = st.recursive(
    JSON | st.sampled_from(["2.0", "tools/call", "add", "text", "2026-07-28", 1, 10]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=6),
    max_leaves=15,
)
STATUSES = st.sampled_from([200, 202, 400, 401, 404, 405, 406, 500, 503])
MEDIA = st.sampled_from([b"application/json", b"text/event-stream", b"text/html", b""])
BODIES = st.binary(max_size=200) | ODD.map(lambda data: json.dumps(data).encode("utf-8", "replace"))
RESPONSES = st.builds(
    lambda status, media, body, event: Response(
        status, ((b"content-type", media), (b"allow", b"POST")), b"data: " + body + b"\n\n" if event else body
    ),
    STATUSES,
    MEDIA,
    BODIES,
    st.booleans(),
)
TOOLS = st.builds(
    Tool,
    name=st.from_regex(r"[A-Za-z0-9_]{1,64}", fullmatch=True),
    toolkit=st.sampled_from(["A", "Other_One"]),
    version=st.sampled_from(["1.0.0", "2.3.4"]),
    description=st.text(max_size=20).filter(lambda text: "\n" not in text),
    hint=st.sampled_from(["", "Use it.", "Zwei\nZeilen"]),
    input_schema=st.sampled_from([{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}]),
    output_schema=st.sampled_from([None, {}, {"type": "object"}, {"type": "array"}, {"enum": [1]}]),
    safe=st.booleans(),
    approval=st.sampled_from([None, Approval.AUTO, Approval.PER_CALL]),
    blanket_allowed=st.booleans(),
    destructive=st.booleans(),
    idempotent=st.booleans(),
    cost=st.sampled_from([None, *Cost]),
    rate_limit=st.sampled_from([None, RateLimit(max=2, window="5s")]),
)


@given(body=BODIES, version=st.sampled_from([b"", b"2025-06-18", b"2026-07-28", b"\xff"]))
def test_server_answers_any_request_bytes(catalog, body, version):
    headers = [(b"content-type", b"application/json"), (b"mcp-protocol-version", version)]
    reading = CODEC.routes(catalog, Site())["POST", "/mcp"].read(Request("POST", "/mcp", headers, body, "r"))
    assert isinstance(reading, Response | Pending)


@given(data=st.data())
def test_discovery_ends_for_any_responses(drive, data):
    finding = drive(CODEC.find("https://x.example"), lambda _: data.draw(RESPONSES))
    assert isinstance(finding, Finding)


@given(entries=st.lists(st.dictionaries(WORDS, ODD, max_size=6) | ODD, max_size=5))
def test_any_tool_list_is_read_as_a_catalog(entries):
    assert isinstance(document.read({"name": "x"}, "", entries).catalog, Catalog)


@given(response=RESPONSES)
def test_any_answer_to_a_call_is_a_value_or_a_problem(serve, drive, response):
    peer = drive(CODEC.find("https://x.example"), serve()).peer
    result = drive(CODEC.send(peer, Call(peer.catalog.names["add"], {"a": 1, "b": 1})), lambda _: response)
    assert isinstance(result, Value | Problem)


@given(value=JSON)
def test_any_value_survives_a_round_trip(serve, drive, value):
    transport = serve(run=lambda call: Value(call.arguments["value"]))
    peer = drive(CODEC.find("https://x.example"), transport).peer
    result = drive(CODEC.send(peer, Call(peer.catalog.names["echo"], {"value": value}, "c")), transport)
    assert result == Value(value)
    assert json.dumps(result.value) == json.dumps(value)


@given(st.lists(TOOLS, max_size=4, unique_by=lambda tool: (tool.toolkit, tool.name)))
def test_any_catalog_survives_a_round_trip(serve, drive, tools):
    try:
        catalog = Catalog(title="Any", tools=tuple(tools))
    except ValueError:
        return
    back = drive(CODEC.find("https://x.example"), serve(catalog)).peer.catalog
    fields = [name for name in Tool.__dataclass_fields__ if name != "hints"]
    assert [[getattr(tool, name) for name in fields] for tool in back.tools] == [
        [getattr(tool, name) for name in fields] for tool in catalog.tools
    ]
