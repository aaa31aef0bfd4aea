"""What a person with a socket sees: every route asked by hand, well and badly, on a running server."""

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest

from toolwire import Authorization, Context, Requirements, ToolError, Toolkit, asgi
from toolwire.testing.loopback import background

NEEDS = Requirements(authorization=(Authorization(id="gh", scopes=("repo",)),), secrets=("K",), user_id=True)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    toolkit = Toolkit("Raw", version="1.2.3")

    @toolkit.tool(approval="auto")
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @toolkit.tool(approval="auto", requirements=NEEDS)
    async def needs(context: Context) -> str:
        """Give back what it was given to use."""
        return context.tokens["gh"].reveal() + context.secrets["K"].reveal() + str(context.user_id)

    @toolkit.tool(approval="auto")
    async def echo(data: dict[str, Any]) -> Any:
        """Give back what came."""
        return data

    @toolkit.tool(approval="auto")
    async def crash() -> int:
        """Fail without a plan."""
        raise ValueError("a secret of the server")

    @toolkit.tool(approval="auto")
    async def refuse() -> int:
        """Fail with a plan."""
        raise ToolError("Not today.", developer_message="for developers", can_retry=True, retry_after_ms=10)

    for version, text in (("1.0.0", "one"), ("2.0.0", "two"), ("2.1.0", "three")):
        toolkit.add(_build_version_tool(text), name="say", version=version, approval="auto")
    with background(asgi(toolkit)) as base:
        yield base


def _build_version_tool(text: str) -> Any:
    async def say() -> str:
        """Say which version this is."""
        return text

    return say


@pytest.fixture
def ask(url: str) -> Any:
    """Send one request; give the status, the header fields with names in lower case, and the body."""

    def asked(method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
        connection = HTTPConnection(urlsplit(url).netloc, timeout=30)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        fields = {"content-type": "application/json"} if data is not None else {}
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, data, fields)
            response = connection.getresponse()
            return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
        finally:
            connection.close()

    return asked


def rpc(**members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "add", "params": {"a": 1, "b": 2}, "id": "c1"} | members


def otc(tool_id: str = "Raw.add@1.2.3", arguments: Any = None, **members: Any) -> dict[str, Any]:
    return {"request": {"tool_id": tool_id, "input": {"a": 1, "b": 2} if arguments is None else arguments} | members}


@pytest.mark.parametrize("id_", ["c1", "", "é\u2028", 0, 7, 1.5, 10**40])
@pytest.mark.requirement("OTRPC-008", "OTRPC-009", "OTRPC-012", "S-3", "A-15")
def test_jsonrpc_id_is_returned_with_its_type(ask, id_):
    status, _, body = ask("POST", "/opentool/call", rpc(id=id_))
    assert status == 200
    assert json.loads(body) == {"jsonrpc": "2.0", "result": {"result": 3}, "error": None, "id": id_}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{not json", -32700),
        (b'{"a":NaN}', -32700),
        (b"\xff\xfe{}", -32700),
        (b"[" * 100_000, -32700),
        (b"[]", -32600),
        (b"null", -32600),
        (json.dumps([rpc(), rpc()]).encode(), -32600),
        (rpc(jsonrpc="1.0"), -32600),
        (rpc(id=True), -32600),
        (rpc(method=5), -32600),
        (rpc(method=""), -32600),
    ],
)
@pytest.mark.requirement("OTRPC-005", "S-5", "S-16")
def test_invalid_call_is_400_in_json_rpc(ask, body, code):
    status, headers, answer = ask("POST", "/opentool/call", body)
    assert (status, headers["content-type"]) == (400, "application/json")
    data = json.loads(answer)
    assert (data["jsonrpc"], data["result"], data["error"]["code"]) == ("2.0", {}, code)
    assert data["error"]["message"]


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"method": "nope"}, -32601),
        ({"params": None}, -32602),
        ({"params": []}, -32602),
        ({"params": {"a": "1"}}, -32602),
    ],
)
@pytest.mark.requirement("OTRPC-010", "S-3", "A-13", "A-14")
def test_refused_call_is_200_with_a_json_rpc_error(ask, members, code):
    status, _, answer = ask("POST", "/opentool/call", rpc(**members))
    data = json.loads(answer)
    assert (status, data["result"], data["error"]["code"], data["id"]) == (200, {}, code, "c1")


@pytest.mark.parametrize("path", ["/call", "/tools/call"])
@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("Raw.say", "three"),
        ("say", "three"),
        ("Raw.say@1", "one"),
        ("Raw.say@2", "two"),
        ("Raw.say@2.1.0", "three"),
        ("say@1.0.0", "one"),
    ],
)
@pytest.mark.requirement("OTC-025", "OXP-007", "S-14", "A-38")
def test_tool_can_be_called_by_each_form_of_its_name(ask, path, reference, says):
    status, _, answer = ask("POST", path, otc(reference, {}))
    data = json.loads(answer)
    assert status == 200
    assert (data["output"] if path == "/call" else data["result"])["value"] == says


@pytest.mark.parametrize("path", ["/call", "/tools/call"])
@pytest.mark.parametrize("reference", ["nope", "Raw.say@3", "Raw.say@1.0", "Raw.say@v1", "Raw.say@-1", "", 5, None])
@pytest.mark.requirement("OXP-008", "A-38", "A-39")
def test_invalid_tool_name_is_400_with_a_message(ask, path, reference):
    status, _, answer = ask("POST", path, otc(reference, {}))
    data = json.loads(answer)
    assert status == 400
    assert data["message"]
    assert data["$schema"]


@pytest.mark.parametrize("path", ["/call", "/tools/call"])
@pytest.mark.parametrize("family", ["urn:oxp:99.0", "otc://2.0"])
@pytest.mark.requirement("OXP-013", "A-48")
def test_another_major_version_of_the_schema_is_refused(ask, path, family):
    assert ask("POST", path, {"$schema": family, **otc()})[0] == 400


@pytest.mark.parametrize("path", ["/call", "/tools/call"])
@pytest.mark.requirement("OXP-011", "OTC-015", "OTC-040")
def test_missing_requirements_are_refused_before_the_tool_runs(ask, path):
    status, _, answer = ask("POST", path, otc("Raw.needs", {}))
    missing = json.loads(answer)["missing_requirements"]
    assert status == 400
    assert [one["id"] for one in missing["authorization"]] == ["gh"]
    assert missing["user_id"] is True


@pytest.mark.parametrize(
    "context",
    [
        {"authorization": [{"id": "gh", "token": "T"}], "secrets": [{"id": "K", "value": "S"}], "user_id": "U"},
        {"authorization": {"gh": "T"}, "secrets": {"K": "S"}, "user_id": "U", "more": 1},
    ],
)
@pytest.mark.requirement("OTC-016", "OTC-017", "OTC-023", "OXP-014", "A-44")
def test_a_context_is_read_as_lists_and_as_maps(ask, context):
    status, _, answer = ask("POST", "/call", otc("Raw.needs", {}, context=context))
    assert (status, json.loads(answer)["output"]) == (200, {"value": "TSU"})


@pytest.mark.parametrize("path", ["/call", "/tools/call"])
@pytest.mark.requirement("OTC-026", "OTC-028", "OTC-029", "OTC-032", "OTC-041", "S-12")
def test_failed_tool_is_200_without_developer_message(ask, path):
    for name in ("Raw.crash", "Raw.refuse"):
        status, headers, answer = ask("POST", path, otc(name, {}))
        data = json.loads(answer)
        outcome = data if path == "/call" else data["result"]
        error = outcome["output"]["error"] if path == "/call" else outcome["error"]
        assert (status, outcome["success"]) == (200, False)
        assert error["message"]
        assert error["can_retry"] is (name == "Raw.refuse")
        for hidden in (b"Traceback", b"a secret of the server", b"for developers"):
            assert hidden not in answer
        assert error["can_retry"] or headers.get("x-should-retry") in (None, "false")


@pytest.mark.parametrize(
    "path", ["/tools", "/opentool/load", "/openapi.json", "/.well-known/openapi.json", "/opentool/version"]
)
@pytest.mark.requirement("XL-018", "OTC-034")
def test_unchanged_document_is_304(ask, path):
    status, headers, body = ask("GET", path)
    assert status == 200
    assert ask("GET", path, if_none_match=headers["etag"])[::2] == (304, b"")
    assert ask("GET", path, if_none_match=f'"other", W/{headers["etag"]}')[0] == 304
    assert ask("GET", path, if_none_match='"other"')[2] == body
    status, of_head, nothing = ask("HEAD", path)
    assert (status, nothing) == (200, b"")
    assert of_head["content-length"] == str(len(body))


@pytest.mark.requirement("XL-019")
def test_both_urls_of_the_openapi_document_return_the_same_bytes(ask):
    named = json.loads(ask("GET", "/.well-known/llm.json")[2])["openapi"]
    assert ask("GET", named)[2] == ask("GET", "/.well-known/openapi.json")[2]


@pytest.mark.parametrize(
    "path", ["/health", "/tools", "/call", "/tools/call", "/opentool/call", "/mcp", "/openapi.json", "/"]
)
@pytest.mark.requirement("D-24")
def test_a_foreign_host_or_origin_is_refused_on_every_route(ask, path):
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "0.0.0.0", ""):
        assert ask("POST", path, {}, host=host)[0] == 421
    for origin in ("http://evil.example", "null", "http://localhost.evil.example", "file://"):
        assert ask("POST", path, {}, origin=origin)[0] == 403


@pytest.mark.parametrize(
    ("query", "status", "value"),
    [
        ("a=1&b=2", 200, 3),
        ("a=1&b=2&c=3", 422, None),
        ("b=%32&&a=1", 200, 3),
        ("a=1", 422, None),
        ("a=1&b=x", 422, None),
        ("a=1&b=2&b=2", 422, None),
        ("a=1&b=1_0", 422, None),
        ("a=1&b=%D9%A5", 422, None),
        ("a=1&b=NaN", 422, None),
        ("a=1&b=%ff", 400, None),
    ],
)
@pytest.mark.requirement("XL-120", "S-15", "A-49")
def test_operation_accepts_a_valid_query_and_reports_an_invalid_one(ask, query, status, value):
    found, headers, answer = ask("GET", f"/api/add?{query}")
    assert found == status
    if status == 200:
        assert json.loads(answer) == value
    else:
        assert headers["content-type"] == "application/problem+json"
        assert json.loads(answer)["detail"]


RFC = "https://github.com/ArcadeAI/OpenToolCalling/tree/main/specification/http/1.0/openapi.json"
NEWEST = {"/call": RFC, "/tools/call": "urn:oxp:1.0"}


@pytest.mark.requirement("OTC-014")
@pytest.mark.parametrize("path", ["/call", "/tools/call", "/uts/tools/call"])
@pytest.mark.parametrize("more", [{}, {"context": {}}, {"context": None}])
def test_a_tool_without_requirements_runs_without_any_context(ask, path, more):
    body = {"request": {"tool_id": "Raw.add", "input": {"a": 1, "b": 2}, **more}}
    status, _, answer = ask("POST", path, body | ({"$schema": "otc://1.0"} if path.startswith("/uts") else {}))
    data = json.loads(answer)
    outcome = data if path != "/tools/call" else data["result"]
    assert (status, outcome["success"]) == (200, True)
    assert (outcome.get("output") or outcome)["value"] == 3


@pytest.mark.requirement("OTC-039", "A-52")
@pytest.mark.parametrize("path", ["/call", "/tools/call"])
@pytest.mark.parametrize("more", [{}, {"$schema": None}])
def test_request_without_a_schema_is_answered_as_the_newest_version(ask, path, more):
    newest = NEWEST[path]
    assert json.loads(ask("GET", "/tools")[2])["$schema"] == RFC
    status, _, answer = ask("POST", path, otc() | more)
    assert (status, json.loads(answer)["$schema"]) == (200, newest)
    named = ask("POST", path, {"$schema": newest, **otc()})
    assert named[0] == 200
    assert json.loads(named[2]).keys() >= json.loads(answer).keys()
    for older in ("urn:oxp:1.0", "otc://1.0"):  # only who names another form gets it
        assert json.loads(ask("POST", path, {"$schema": older, **otc()})[2])["$schema"] == older


@pytest.mark.requirement("OTC-040", "OTC-041", "OTC-044", "A-52")
@pytest.mark.parametrize("path", ["/call", "/tools/call"])
def test_each_answer_names_its_schema_and_an_unrun_call_is_400_or_422(ask, path):
    """The RFC says "must" in lower case here: the schema of each answer, and the status of what did not run."""
    cases = [
        (200, otc()),
        (200, otc("Raw.crash", {})),
        (200, otc("Raw.refuse", {})),
        (400, otc("nope")),
        (400, otc("Raw.needs", {})),
        (400, {}),
        (400, {"request": 7}),
        (400, b"{not json"),
        (400, b"[]"),
        (422, otc("Raw.add", {"a": "one", "b": 2})),
        (422, otc("Raw.add", {})),
    ]
    for expected, body in cases:
        status, _, answer = ask("POST", path, body)
        assert (status, json.loads(answer)["$schema"]) == (expected, NEWEST[path]), body
    # What HTTP itself refuses has its status, and the schema too.
    refused = [
        ask("GET", path),
        ask("POST", path, b"a=1", **{"content-type": "text/plain"}),
        ask("POST", path, otc(), host="evil.example"),
        ask("POST", path, otc(), origin="http://evil.example"),
    ]
    assert [(status, json.loads(answer)["$schema"]) for status, _, answer in refused] == [
        (405, RFC),
        (415, NEWEST[path]),
        (421, RFC),
        (403, RFC),
    ]


@pytest.mark.requirement("OTC-022")
@pytest.mark.parametrize("path", ["/call", "/tools/call"])
def test_the_inputs_of_a_call_are_any_object(ask, path):
    given = {
        "text": "é\U0001f375",
        "list": [1, [2.5, None, {"a": True}]],
        "deep": {"a": {"b": [{}]}},
        "": 0,
        "$ref": "x",
    }
    status, _, answer = ask("POST", path, otc("Raw.echo", {"data": given}))
    data = json.loads(answer)
    outcome = data["output"] if path == "/call" else data["result"]
    assert (status, outcome["value"]) == (200, given)
    for other in ([], "text", 7, True):
        assert ask("POST", path, otc("Raw.echo", other))[0] == 400
