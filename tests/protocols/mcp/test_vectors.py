"""Messages of real clients and servers, read by one half and written by the other where they are ours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolwire.core.codec import Peer
from toolwire.core.http import Request, Response, get_header
from toolwire.core.model import Call, Kind, Problem, Value
from toolwire.protocols.mcp import CODEC, post_message
from toolwire.protocols.mcp.post_message import Conversation, McpClientSession

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "mcp.json").read_text())
REQUESTS = {vector["name"]: vector for vector in VECTORS if vector["half"] == "request"}
RESPONSES = {vector["name"]: vector for vector in VECTORS if vector["half"] == "response"}
PICTURE = {"data": "iVBORw0KGgo=", "media_type": "image/png", "name": "", "type": "image"}


def _headers(vector):
    return [(name.encode(), value.encode()) for name, value in vector["headers"].items()]


def _response(name):
    vector = RESPONSES[name]
    return Response(vector["status"], _headers(vector), json.dumps(vector["body"]).encode())


@pytest.mark.parametrize("vector", REQUESTS.values(), ids=REQUESTS)
def test_the_server_answers_every_request_of_a_real_client(serve, vector):
    request = Request(vector["method"], vector["path"], _headers(vector), json.dumps(vector["body"]).encode())
    response = serve()(request)
    if "id" not in vector["body"]:
        assert (response.status, response.body) == (202, b"")
        return
    answer = json.loads(response.body)
    assert (response.status, answer["id"]) == (200, vector["body"]["id"])
    assert "error" not in answer
    if vector["body"]["method"] == "tools/call":
        assert answer["result"]["structuredContent"] == {"result": 3}


@pytest.mark.parametrize(
    ("name", "version", "method", "id_"),
    [
        ("list tools statelessly", "2026-07-28", "tools/list", 2),
        ("call statelessly", "2026-07-28", "tools/call", 3),
        ("call", "2025-11-25", "tools/call", 3),
        ("initialized", "2025-11-25", "notifications/initialized", None),
    ],
)
def test_client_writes_requests_like_a_real_client(name, version, method, id_):
    vector = REQUESTS[name]
    params = {key: value for key, value in vector["body"].get("params", {}).items() if key != "_meta"}
    request = post_message.write(
        McpClientSession(endpoint="https://x.example/mcp", version=version), method, params, id_
    )
    reply, known = json.loads(request.body), vector["body"]
    for body in (reply, known):
        meta = body.get("params", {}).get("_meta", {})
        meta.pop("io.modelcontextprotocol/clientInfo", None)
    known.setdefault("params", {})
    assert reply == known
    assert {name.decode(): value.decode() for name, value in request.headers} == vector["headers"]


def test_client_opens_real_stateless_and_session_servers(drive):
    for stateless in (True, False):
        discovered = _response("discovered") if stateless else Response(404)
        answers = {
            "server/discover": discovered,
            "initialize": _response("initialized"),
            "tools/list": _response("tools"),
        }

        def door(request, answers=answers):
            if request.method == "GET":
                return _response("GET refused")
            return answers.get(json.loads(request.body)["method"], Response(202))

        peer = drive(CODEC.find("https://weather.example"), door).peer
        assert (peer.site, peer.catalog.description) == ("Weather", "Use it.")
        assert list(peer.catalog.names) == ["add", "info"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("called", Value({"x": 1})),
        ("called before 2026", Value({"result": 3})),
        ("tool failed", Problem(kind=Kind.TOOL_FAILED, message="Error executing tool boom")),
        ("unknown tool", Problem(kind=Kind.INVALID_ARGUMENTS, message="Unknown tool: nope")),
        ("picture", Value(["A dot.", PICTURE])),
    ],
)
def test_the_client_reads_every_answer_of_a_real_server(drive, catalog, name, expected):
    peer = Peer(
        protocol="mcp",
        url="https://x.example/mcp",
        catalog=catalog,
        memo=Conversation(McpClientSession(endpoint="https://x.example/mcp")),
    )
    result = drive(CODEC.send(peer, Call(catalog.names["forget"], {})), lambda _: _response(name))
    assert result == expected


def test_every_vector_has_the_json_media_type():
    assert all(get_header(_headers(vector), b"content-type") == "application/json" for vector in VECTORS)
