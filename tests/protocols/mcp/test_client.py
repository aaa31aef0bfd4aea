"""The client half: it finds a server by a GET, opens it, and says what came of each call."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from toolwire import Audio, File, Image, read_content
from toolwire.client.discovery.discover import discover
from toolwire.core.codec import Peer
from toolwire.core.http import Request, Response, get_header
from toolwire.core.model import Call, Kind, Problem, Value
from toolwire.protocols.mcp import CODEC

URL = "https://desk.example"
JSON = ((b"content-type", b"application/json"),)
UNREACHED = Problem(kind=Kind.UNREACHABLE, message="Nobody is there.")


class Scripted:
    """A server that answers each method from a table, and remembers what it was asked."""

    def __init__(self, answers, *, look=None, session=b"", events=False):
        self.answers = answers
        self.look = look or Response(405, [(b"allow", b"POST")])
        self.session = session
        self.events = events
        self.seen: list[Request] = []

    def __call__(self, request: Request):
        self.seen.append(request)
        if request.method == "GET":
            return self.look
        data = json.loads(request.body)
        answer = self.answers.get(data["method"])
        if "id" not in data:
            return Response(202)
        if callable(answer):
            answer = answer(data)
        if isinstance(answer, Response | Problem):
            return answer
        if answer is None:
            answer = {"error": {"code": -32601, "message": "Method not found"}}
        return self._response({"jsonrpc": "2.0", "id": data["id"], **answer})

    def _response(self, body):
        session = [(b"mcp-session-id", self.session)] if self.session else []
        text = json.dumps(body).encode()
        if not self.events:
            return Response(200, [*JSON, *session], text)
        note = b'data: {"jsonrpc":"2.0","method":"notifications/progress","params":{}}\n\n'
        stream = b": hello\n\n" + note + b"event: message\r\ndata: " + text + b"\r\n\r\n"
        return Response(200, [(b"content-type", b"text/event-stream; charset=utf-8"), *session], stream)

    @property
    def methods(self):
        return [json.loads(request.body)["method"] for request in self.seen if request.method == "POST"]


def build_initialize_result(version="2025-11-25"):
    return {"result": {"protocolVersion": version, "serverInfo": {"name": "Old", "version": "1"}, "capabilities": {}}}


def tools(*names, **more):
    return {"result": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names], **more}}


def build_call_result(**result):
    return {"result": {"content": [], **result}}


def old_server(call=None, **options):
    answers = {"initialize": build_initialize_result(), "tools/list": tools("get"), "tools/call": call}
    return Scripted(answers, **options)


@pytest.fixture
def connect(drive):
    def find(door, url=URL) -> Peer:
        peer = drive(CODEC.find(url), door).peer
        assert peer is not None
        return peer

    return find


@pytest.fixture
def outcome(drive, connect):
    """What came of calling ``get`` on a server that answers so."""

    def result(answer, **options):
        server = old_server(answer, **options)
        peer = connect(server)
        return drive(CODEC.send(peer, Call(peer.catalog.names["get"], {"a": 1}, "id-1")), server)

    return result


@pytest.mark.parametrize("url", [URL, f"{URL}/", f"{URL}/mcp", f"{URL}/mcp/", f"{URL}/mcp#top"])
def test_discovery_finds_our_server_at_any_pasted_url(serve, connect, catalog, url):
    peer = connect(serve(), url)
    assert (peer.protocol, peer.url, peer.site) == ("mcp", f"{URL}/mcp", "Desk")
    assert list(peer.catalog.names) == list(catalog.names)


@pytest.mark.requirement("XL-005")
def test_discovery_records_every_probe_and_starts_with_get(serve, drive):
    requests = []

    def door(request):
        requests.append(request)
        return serve()(request)

    finding = drive(CODEC.find(URL), door)
    assert [request.method for request in requests] == ["GET", "POST", "POST"]
    assert finding.probes[0].status == 405
    assert finding.probes[-1].accepted
    assert all(probe.url == f"{URL}/mcp" and probe.protocol == "mcp" for probe in finding.probes)


@pytest.mark.parametrize(
    "look",
    [
        UNREACHED,
        Response(404),
        Response(200, [(b"content-type", b"text/html")], b"<html>"),
        Response(405, [(b"allow", b"GET, HEAD")]),
        Response(400, JSON, b'{"detail": "no"}'),
        Response(401),
        Response(500, JSON, b'{"jsonrpc":"2.0","id":null,"error":{}}'),
    ],
)
@pytest.mark.requirement("XL-005")
def test_discovery_posts_nothing_if_a_get_shows_no_sign_of_mcp(drive, look):
    server = Scripted({"initialize": build_initialize_result()}, look=look)
    finding = drive(CODEC.find(URL), server)
    assert finding.peer is None
    assert len(finding.probes) == len(server.seen) == 1


def test_server_behind_a_key_is_reported_to_need_one(drive):
    assert "key" in drive(CODEC.find(URL), Scripted({}, look=Response(401))).probes[0].meaning
    locked = Scripted({"server/discover": Response(401), "initialize": build_initialize_result()})
    finding = drive(CODEC.find(URL), locked)
    assert finding.peer is None
    assert (finding.probes[-1].status, finding.probes[-1].meaning) == (401, "needs a key")


@pytest.mark.requirement("O-38")
@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ({"n": 1}, None),
        ({"n": "one"}, 'it breaks "type" of its output schema at n'),
        ({}, 'it breaks "required" of its output schema'),
    ],
)
def test_a_result_that_breaks_its_own_schema_comes_with_a_note(drive, connect, said, fault):
    listed = tools("get")
    listed["result"]["tools"][0]["outputSchema"] = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
    }
    server = Scripted(
        {
            "initialize": build_initialize_result(),
            "tools/list": listed,
            "tools/call": build_call_result(structuredContent=said),
        }
    )
    peer = connect(server)
    result = drive(CODEC.send(peer, Call(peer.catalog.names["get"], {}, "id-1")), server)
    assert result == Value(said)
    assert (result.notes or {}).get("schema_fault") == fault


@pytest.mark.requirement("O-38")
def test_a_result_that_is_too_large_to_be_checked_is_not_said_to_break_its_schema(drive, connect):
    listed = tools("get")
    lists = [{"type": "array", "items": {"type": "integer", "minimum": least}} for least in range(200)]
    listed["result"]["tools"][0]["outputSchema"] = {"type": "object", "properties": {"v": {"anyOf": lists}}}
    replies = {"v": list(range(100_000))}
    called = build_call_result(structuredContent=replies)
    server = Scripted({"initialize": build_initialize_result(), "tools/list": listed, "tools/call": called})
    peer = connect(server)
    result = drive(CODEC.send(peer, Call(peer.catalog.names["get"], {}, "id-1")), server)
    assert result == Value(replies)
    assert "schema_fault" not in (result.notes or {})


@pytest.mark.requirement("MC-02")
def test_program_that_starts_slowly_is_opened_by_its_late_answer_to_discovery(drive):
    """The official SDK 2 serves a stream by the revision that began it, and then refuses the older handshake."""
    late = {
        "code": -32022,
        "message": "no handshake here",
        "data": {"supported": ["2026-07-28"], "requested": "2025-11-25"},
    }
    discovered = {"result": {"supportedVersions": ["2026-07-28"], "capabilities": {}, "resultType": "complete"}}
    asked = []

    def discover_late(said):
        asked.append(said)
        return discovered if len(asked) > 1 else Response(400)

    server = Scripted({"server/discover": discover_late, "initialize": {"error": late}, "tools/list": tools("get")})
    peer = drive(CODEC.find(URL), server).peer
    assert list(peer.catalog.names) == ["get"]
    assert server.methods == ["server/discover", "initialize", "server/discover", "tools/list"]


@pytest.mark.parametrize("look", [Response(404), Response(200, [(b"content-type", b"text/html")], b"<html>")])
@pytest.mark.requirement("XL-005")
def test_server_without_signs_of_mcp_is_posted_to_after_every_get_failed(drive, look):
    named = old_server(look=look)
    peer = drive(discover(URL, protocol="mcp"), named).peer
    assert list(peer.catalog.names) == ["get"]
    assert "initialize" in named.methods
    unnamed = old_server(look=look)
    assert list(drive(discover(URL), unnamed).peer.catalog.names) == ["get"]
    posts = [request.method == "POST" for request in unnamed.seen]
    assert posts == sorted(posts)  # no GET after the first POST
    assert {request.url for request in unnamed.seen if request.method == "POST"} == {f"{URL}/mcp"}


def test_discovery_posts_nothing_to_an_unreachable_server(drive):
    sent = []
    drive(discover(URL), lambda request: sent.append(request.method) or UNREACHED)
    assert set(sent) == {"GET"}


def test_named_server_that_refuses_post_without_credentials_is_probed_once(drive):
    locked = Scripted({"server/discover": Response(401), "initialize": build_initialize_result()}, look=Response(404))
    finding = drive(CODEC.find_explicit(URL), locked)
    assert (finding.peer, [probe.status for probe in finding.probes]) == (None, [401])
    assert locked.methods == ["server/discover"]


@pytest.mark.parametrize("url", [f"{URL}/", f"{URL}/docs", f"{URL}/docs?team=7#top"])
def test_named_server_is_found_at_its_exact_url(drive, url):
    server, missed = old_server(), []

    def door(request):
        if request.url.partition("?")[0].endswith("/mcp"):
            missed.append(request.url)
            return Response(404)
        return server(request)

    peer = drive(CODEC.find_explicit(url), door).peer
    assert peer.url == url.partition("#")[0]
    assert missed
    assert {request.url for request in server.seen} == {peer.url}


@pytest.mark.parametrize("url", [f"{URL}/mcp", f"{URL}/mcp/", f"{URL}/mcp?team=7"])
def test_missing_named_server_is_asked_once_for_each_handshake(drive, url):
    server = Scripted({"server/discover": Response(404), "initialize": Response(404)})
    assert drive(CODEC.find_explicit(url), server).peer is None
    assert server.methods == ["server/discover", "initialize"]


def test_named_server_with_an_invalid_url_is_reported(drive):
    finding = drive(CODEC.find_explicit("https://[::1"), old_server())
    assert (finding.peer, finding.probes[0].meaning) == (None, "is not a URL")


@pytest.mark.parametrize(
    "look",
    [
        Response(405, [(b"allow", b"post, delete")]),
        Response(405, JSON, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Method not allowed."}}'),
        Response(406, JSON, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Not Acceptable"}}'),
        Response(400, (), b"Invalid or missing session ID"),
        Response(400, (), b"Accept must contain 'text/event-stream' for GET requests"),
        Response(200, [(b"content-type", b"text/event-stream")]),
    ],
)
def test_signs_of_an_mcp_endpoint_are_recognized(drive, look):
    assert drive(CODEC.find(URL), old_server(look=look)).peer is not None


def test_an_older_server_is_opened_by_the_handshake(connect):
    server = old_server(session=b"session-7")
    peer = connect(server)
    assert server.methods == ["server/discover", "initialize", "notifications/initialized", "tools/list"]
    for request in server.seen[-2:]:
        assert get_header(request.headers, b"mcp-session-id") == "session-7"
        assert get_header(request.headers, b"mcp-protocol-version") == "2025-11-25"
    assert get_header(server.seen[2].headers, b"mcp-protocol-version") == ""
    assert "session-7" not in repr(peer)


@pytest.mark.parametrize("session", [b"a\x7fb", b"x" * 2_000, "ü".encode()])
def test_invalid_session_id_is_not_sent_as_a_header(connect, session):
    server = old_server(session=session)
    connect(server)
    assert get_header(server.seen[-1].headers, b"mcp-session-id") == ""


@pytest.mark.parametrize("version", ["1999-01-01", None, 7, {}, "2026-07-28"])
def test_server_with_an_unknown_revision_is_no_peer(drive, version):
    finding = drive(
        CODEC.find(URL), Scripted({"initialize": build_initialize_result(version), "tools/list": tools("get")})
    )
    assert finding.peer is None


def test_every_page_of_tools_is_read(connect):
    pages = {None: tools("a", nextCursor="2"), "2": tools("b", nextCursor="3"), "3": tools("c")}
    server = old_server()
    server.answers["tools/list"] = lambda said: pages[said["params"].get("cursor")]
    assert list(connect(server).catalog.names) == ["a", "b", "c"]


def test_repeated_page_cursor_ends_the_tool_list(connect):
    server = old_server()
    server.answers["tools/list"] = tools("a", nextCursor="again")
    assert list(connect(server).catalog.names) == ["a"]
    assert server.methods.count("tools/list") == 2


def test_tool_list_ends_after_100_pages(connect):
    server = old_server()
    server.answers["tools/list"] = lambda said: tools(f"t{said['id']}", nextCursor=str(said["id"]))
    assert len(connect(server).catalog.tools) == 100


def test_tool_list_is_limited_to_10000_tools(connect):
    server = old_server()
    server.answers["tools/list"] = lambda said: tools(
        *(f"t{said['id']}_{number}" for number in range(4_000)), nextCursor=str(said["id"])
    )
    assert len(connect(server).catalog.tools) == 10_000


@pytest.mark.parametrize("answer", [{"result": {"tools": {}}}, UNREACHED, Response(500), None])
def test_unreadable_tool_list_is_no_peer(drive, answer):
    server = old_server()
    server.answers["tools/list"] = answer
    finding = drive(CODEC.find(URL), server)
    assert finding.peer is None
    assert not any(probe.accepted for probe in finding.probes)


@pytest.mark.parametrize("versions", [["2025-11-25"], [], None, 7])
def test_a_server_that_discovers_but_is_not_stateless_gets_the_handshake(connect, versions):
    server = old_server()
    server.answers["server/discover"] = {"result": {"supportedVersions": versions}}
    connect(server)
    assert "initialize" in server.methods


def build_unsupported_error(supported):
    return {"error": {"code": -32022, "message": "Unsupported protocol version", "data": {"supported": supported}}}


def test_server_that_contradicts_its_revisions_is_asked_once_more(connect):
    answers = iter([build_unsupported_error(["2026-07-28"]), {"result": {"supportedVersions": ["2026-07-28"]}}])
    server = Scripted({"server/discover": lambda _: next(answers), "tools/list": tools("get")})
    assert connect(server).memo.session.version == "2026-07-28"
    assert server.methods == ["server/discover", "server/discover", "tools/list"]


@pytest.mark.parametrize(
    ("supported", "wanted"),
    [
        (["2025-06-18", "2024-11-05"], "2025-06-18"),
        (["1999-01-01"], "2025-11-25"),
        (["2026-07-28"], "2025-11-25"),
        ([{}, None, 7], "2025-11-25"),
        ({"2025-06-18": 1}, "2025-11-25"),
        (None, "2025-11-25"),
    ],
)
def test_server_that_refuses_the_stateless_revision_gets_a_supported_handshake(connect, supported, wanted):
    server = old_server()
    server.answers["server/discover"] = build_unsupported_error(supported)
    connect(server)
    data = [json.loads(request.body) for request in server.seen if request.method == "POST"]
    assert [each["params"]["protocolVersion"] for each in data if each["method"] == "initialize"] == [wanted]
    assert server.methods.count("server/discover") <= 2


def build_marked_tool(name, mark):
    return {"name": name, "inputSchema": {"type": "object", "properties": {"a": {"type": "string", **mark}}}}


MARKED = [
    build_marked_tool("plain", {}),
    build_marked_tool("fine", {"x-mcp-header": "Region"}),
    build_marked_tool("empty", {"x-mcp-header": ""}),
    {**build_marked_tool("", {"x-mcp-header": 7}), "name": {"no": "name"}},
    "not a tool",
]


def test_tool_with_an_invalid_header_mark_is_skipped_and_reported(drive):
    discovery = {"result": {"supportedVersions": ["2026-07-28"]}}
    server = Scripted({"server/discover": discovery, "tools/list": {"result": {"tools": MARKED}}})
    finding = drive(CODEC.find(URL), server)
    assert list(finding.peer.catalog.names) == ["fine", "plain"]
    texts = [probe.meaning for probe in finding.probes if "leaves out" in probe.meaning]
    assert len(texts) == 2
    assert texts[0].startswith("leaves out the tool 'empty': it names a header")
    assert finding.probes[-1].accepted


def test_at_most_20_skipped_tools_are_reported(drive):
    wrong = [build_marked_tool(f"wrong{number}", {"x-mcp-header": " "}) for number in range(50)]
    discovery = {"result": {"supportedVersions": ["2026-07-28"]}}
    server = Scripted({"server/discover": discovery, "tools/list": {"result": {"tools": wrong}}})
    finding = drive(CODEC.find(URL), server)
    assert (finding.peer.catalog.tools, sum("leaves out" in probe.meaning for probe in finding.probes)) == ((), 20)


# As the reference server "everything" 2026.8.31 lists it and declares it.
TASK_TOOL = {
    "name": "simulate-research-query",
    "inputSchema": {"type": "object", "properties": {"topic": {"type": "string"}}, "required": ["topic"]},
    "execution": {"taskSupport": "required"},
}
TASKS = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}


@pytest.mark.parametrize(
    ("version", "capabilities", "names"),
    [
        ("2025-11-25", {"tasks": TASKS}, ["get"]),
        ("2025-11-25", {}, ["get", "simulate-research-query"]),
        ("2025-11-25", {"tasks": {"requests": {}}}, ["get", "simulate-research-query"]),
        ("2025-06-18", {"tasks": TASKS}, ["get", "simulate-research-query"]),
    ],
)
def test_tool_that_runs_only_as_a_task_is_left_out_where_its_server_has_tasks(drive, version, capabilities, names):
    server = old_server()
    server.answers["initialize"] = build_initialize_result(version)
    server.answers["initialize"]["result"]["capabilities"] = capabilities
    server.answers["tools/list"]["result"]["tools"].append(TASK_TOOL)
    finding = drive(CODEC.find(URL), server)
    assert sorted(finding.peer.catalog.names) == names
    texts = [probe.meaning for probe in finding.probes if "leaves out" in probe.meaning]
    reason = "leaves out the tool 'simulate-research-query': it runs only as a task of 2025-11-25"
    assert texts == ([reason] if names == ["get"] else [])
    found = [one for one in finding.peer.findings() if "research" in one]
    said = "the tool 'simulate-research-query' is left out: it runs only as a task of 2025-11-25"
    assert found == ([said] if names == ["get"] else [])


def test_header_marks_are_ignored_before_the_stateless_revision(connect):
    server = old_server()
    server.answers["tools/list"] = {"result": {"tools": MARKED}}
    assert list(connect(server).catalog.names) == ["empty", "fine", "plain"]


def test_unreachable_server_is_not_probed_twice(drive):
    server = Scripted({"server/discover": UNREACHED, "initialize": build_initialize_result()})
    finding = drive(CODEC.find(URL), server)
    assert finding.peer is None
    assert (server.methods, finding.probes[-1].meaning) == (["server/discover"], UNREACHED.message)


@pytest.mark.parametrize(
    ("result", "value"),
    [
        (build_call_result(structuredContent={"result": 3}), {"result": 3}),
        (build_call_result(content=[{"type": "text", "text": "7"}]), "7"),
        (build_call_result(content=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), "a\nb"),
        (build_call_result(), None),
        (build_call_result(structuredContent=None, content=[{"type": "text", "text": "x"}]), "x"),
    ],
)
def test_a_value_is_structured_content_else_text(outcome, result, value):
    assert outcome(result) == Value(value)


def build_embedded_resource(uri, **said):
    return {"type": "resource", "resource": {"uri": uri, **said}}


LINK = {"type": "resource_link", "uri": "file:///a", "name": "a"}
PAGE = {"type": "image", "data": "AA==", "mimeType": "text/html"}
HALF = {"type": "image", "data": "AA==", "mimeType": "image/png\r\nx: y"}


@pytest.mark.requirement("MC-07")
@pytest.mark.parametrize(
    ("block", "value"),
    [
        ({"type": "image", "data": "+/8=", "mimeType": "image/png"}, Image(b"\xfb\xff", "image/png")),
        ({"type": "audio", "data": "AA==", "mimeType": "audio/wav"}, Audio(b"\0", "audio/wav")),
        (build_embedded_resource("file:///a/b%20c.bin", blob="AA==", mimeType="a/b"), File(b"\0", "a/b", "b c.bin")),
        (build_embedded_resource("file:///..%2F..%2Fetc", blob="AA=="), File(b"\0", name="etc")),
        (build_embedded_resource("file://[", blob="AA=="), File(b"\0")),
        (build_embedded_resource("note:a", text="read me"), build_embedded_resource("note:a", text="read me")),
        (build_embedded_resource(7, blob="no base64!"), build_embedded_resource(7, blob="no base64!")),
        ({"type": "resource", "resource": None}, {"type": "resource", "resource": None}),
        (PAGE, PAGE),
        (HALF, HALF),
        (LINK, LINK),
    ],
)
def test_content_blocks_of_any_server_are_read_by_type(outcome, block, value):
    assert read_content(outcome(build_call_result(content=[block])).unwrap()) == value
    mixed = outcome(build_call_result(content=[{"type": "text", "text": "A dot."}, block])).unwrap()
    assert read_content(mixed) == ["A dot.", value]


def test_text_content_is_read_as_json_if_the_tool_declares_an_output_schema(drive, connect):
    server = old_server(build_call_result(content=[{"type": "text", "text": '{"x": 1}'}]))
    server.answers["tools/list"]["result"]["tools"][0]["outputSchema"] = {"type": "object"}
    peer = connect(server)
    call = Call(peer.catalog.names["get"], {})
    assert drive(CODEC.send(peer, call), server) == Value({"x": 1})
    server.answers["tools/call"] = build_call_result(content=[{"type": "text", "text": "sorry"}])
    assert drive(CODEC.send(peer, call), server) == Value("sorry")


def test_response_is_found_among_other_events(outcome):
    assert outcome(build_call_result(structuredContent={"x": 1}), events=True) == Value({"x": 1})


def test_event_above_the_limit_is_a_bad_answer(outcome):
    def send(size):
        answer = build_call_result(content=[{"type": "text", "text": "x" * size}])
        return outcome(lambda said: Response(200, [(b"content-type", b"text/event-stream")], _event(said, answer)))

    assert send(1_100_000) == Value("x" * 1_100_000)
    assert send(17_000_000).kind is Kind.BAD_ANSWER


def _event(said, answer):
    return b"data: " + json.dumps({"jsonrpc": "2.0", "id": said["id"], **answer}).encode() + b"\n\n"


def test_failed_tool_is_a_problem_with_the_text_of_the_server(outcome):
    problem = outcome(build_call_result(isError=True, content=[{"type": "text", "text": "No such city."}]))
    assert (problem.kind, problem.message) == (Kind.TOOL_FAILED, "No such city.")


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (UNREACHED, Kind.UNREACHABLE),
        (Response(401), Kind.UNAUTHORIZED),
        (Response(403), Kind.FORBIDDEN),
        (Response(404), Kind.NOT_FOUND),
        (Response(500), Kind.BAD_ANSWER),
        (Response(200, JSON, b"{"), Kind.BAD_ANSWER),
        (Response(200, (), b""), Kind.BAD_ANSWER),
        ({"error": {"code": -32602, "message": "Unknown tool"}}, Kind.INVALID_ARGUMENTS),
        ({"error": {"code": -32603, "message": "Oops"}}, Kind.BAD_ANSWER),
        ({"error": {"code": "x", "message": {}}}, Kind.BAD_ANSWER),
        ({"error": {"code": 1, "message": "No", "data": {"kind": "denied"}}}, Kind.DENIED),
        ({"result": {"resultType": "input_required", "inputRequests": {}}}, Kind.MISSING_REQUIREMENTS),
        ({"id": "other", "result": {"content": []}}, Kind.BAD_ANSWER),
    ],
)
def test_invalid_result_is_a_problem_with_a_reason(outcome, answer, kind):
    problem = outcome(answer)
    assert problem.kind is kind
    assert problem.message


def test_busy_server_states_when_to_retry(outcome):
    body = b'{"jsonrpc":"2.0","id":null,"error":{"code":503,"message":"Busy."}}'
    problem = outcome(Response(503, [*JSON, (b"retry-after", b"4")], body))
    assert (problem.kind, problem.message, problem.retry_after_ms) == (Kind.OVERLOADED, "Busy.", 4_000)


def test_call_whose_new_session_also_ends_asks_to_connect_again(outcome):
    problem = outcome(Response(404, JSON, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600}}'), session=b"s")
    assert problem.kind is Kind.UNREACHABLE
    assert "Connect to it again" in problem.message


def test_call_is_not_repeated_if_the_server_opens_no_new_session(drive, connect):
    server = old_server(Response(404), session=b"s")
    peer = connect(server)
    server.answers["initialize"] = Response(400)
    call = Call(peer.catalog.names["get"], {}, "k")
    assert "Connect to it again" in drive(CODEC.send(peer, call), server).message
    assert server.methods.count("tools/call") == 1


def test_two_calls_of_an_ended_session_leave_one_session(drive, connect):
    server = old_server({"result": {"content": [], "structuredContent": {"x": 1}}}, session=b"first")
    peer = connect(server)
    call = Call(peer.catalog.names["get"], {}, "k")
    slow = CODEC.send(peer, call)
    asked = next(slow)
    server.session = b"second"  # another call renews it while this one waits for its answer
    other = CODEC.send(peer, call)
    next(other)
    drive(_continue_flow(other, Response(404)), server)
    assert CODEC.end_session(peer).headers[-1] == (b"mcp-session-id", b"second")
    assert get_header(asked.request.headers, b"mcp-session-id") == "first"
    before = server.methods.count("initialize")
    drive(_continue_flow(slow, Response(404)), server)
    assert server.methods.count("initialize") == before  # the session of the other call serves
    assert get_header(server.seen[-1].headers, b"mcp-session-id") == "second"


def _continue_flow(flow, answer):
    """Go on with a conversation that waits for ``answer``."""
    while True:
        try:
            asked = flow.send(answer)
        except StopIteration as stop:
            return stop.value
        answer = yield asked


def test_call_uses_the_tool_name_as_the_server_wrote_it(drive, connect):
    server = old_server(build_call_result())
    server.answers["tools/list"] = tools("files.read")
    peer = connect(server)
    drive(CODEC.send(peer, Call(peer.catalog.names["files_read"], {"p": 1}, "k")), server)
    data = json.loads(server.seen[-1].body)
    assert data == {
        "jsonrpc": "2.0",
        "method": "tools/call",
        "params": {"name": "files.read", "arguments": {"p": 1}},
        "id": "k",
    }


def test_stateless_call_names_its_client_and_mirrors_marked_arguments(drive, connect):
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    server = Scripted(
        {
            "server/discover": {"result": {"supportedVersions": ["2026-07-28"], "capabilities": {}}},
            "tools/list": {"result": {"tools": [{"name": "get", "inputSchema": schema}]}},
            "tools/call": build_call_result(),
        }
    )
    peer = connect(server)
    drive(CODEC.send(peer, Call(peer.catalog.names["get"], {"region": "eu"})), server)
    headers = dict(server.seen[-1].headers)
    assert headers[b"mcp-protocol-version"] == b"2026-07-28"
    assert (headers[b"mcp-method"], headers[b"mcp-name"], headers[b"mcp-param-region"]) == (
        b"tools/call",
        b"get",
        b"eu",
    )
    meta = json.loads(server.seen[-1].body)["params"]["_meta"]
    assert meta["io.modelcontextprotocol/clientCapabilities"] == {}


@pytest.mark.parametrize("password", ["pw", "p/w", "p?w"])
def test_target_hides_secrets_of_the_url(catalog, password):
    peer = Peer(protocol="mcp", url=f"https://me:{password}@desk.example/mcp?key=abc", catalog=catalog)
    assert CODEC.target(peer, Call(catalog.names["add"], {})) == "POST https://desk.example/mcp?key=***"


def test_problem_survives_a_round_trip_unchanged(serve, drive, connect):
    sent = Problem(
        kind=Kind.RATE_LIMITED,
        message="Too many calls.",
        developer_message="only for the log",
        can_retry=True,
        retry_after_ms=250,
        additional_prompt_content="Wait a little.",
        parameter_errors={"a": "is too large"},
        details={"limit": 3},
    )
    transport = serve(run=lambda _: sent)
    peer = connect(transport)
    got = drive(CODEC.send(peer, Call(peer.catalog.names["add"], {"a": 1, "b": 2})), transport)
    assert got == replace(sent, developer_message=None)


def test_invalid_url_is_no_peer(drive):
    finding = drive(CODEC.find("http://[bad"), Scripted({}))
    assert finding.peer is None
    assert finding.probes[0].status is None
