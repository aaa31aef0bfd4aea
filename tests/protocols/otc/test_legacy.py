"""The dialect of open-tool on the wire: its list, its calls, bare values, and errors as statuses."""

import json

import pytest

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Pending, Site
from toolwire.core.http import Request, Response
from toolwire.core.model import Kind, Problem, Value
from toolwire.protocols.otc import CODEC

CALL = {"name": "Ring", "args": {}}


@pytest.mark.requirement("S-13")
def test_the_list_is_a_bare_array_of_the_newest_versions(ask):
    listed = {tool["name"]: tool for tool in json.loads(ask("/ots/tools").body)}
    assert set(listed) == {"Add", "Ring", "Send", "GetEmails"}
    assert set(listed["Add"]) == {"name", "description", "inputSchema"}
    assert listed["Add"]["description"] == "The tool Add."
    assert "$ref" not in json.dumps(list(listed.values()))


@pytest.mark.requirement("S-13")
@pytest.mark.parametrize("path", ["/ots/tools/call", "/tools/call"])
def test_legacy_value_is_answered_unwrapped(ask, path):
    reading = ask(path, CALL)
    assert isinstance(reading, Pending)
    assert reading.call.call_id == "made-1"
    assert reading.reply(Value({"a": [1]}), 1.0).body == b'{"a":[1]}'
    assert reading.reply(Value(None), 1.0).body == b"null"


@pytest.mark.parametrize(
    ("problem", "status"),
    [
        (Problem(kind=Kind.TOOL_FAILED, message="No.", developer_message="secret"), 500),
        (Problem(kind=Kind.TIMEOUT, message=""), 500),
        (Problem(kind=Kind.INVALID_ARGUMENTS, message="No."), 400),
        (Problem(kind=Kind.OVERLOADED, message="No."), 503),
        (Problem(kind=Kind.UNAUTHORIZED, message="No."), 401),
    ],
)
@pytest.mark.requirement("S-13", "OTC-029")
def test_legacy_problem_is_answered_with_status_and_detail(ask, problem, status):
    response = ask("/ots/tools/call", CALL).reply(problem, 1.0)
    assert response.status == status
    assert json.loads(response.body) == {"detail": problem.message or "The tool failed."}
    assert (b"x-should-retry", b"false") in response.headers


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "Nobody", "args": {}}, 404),
        ({"name": 7, "args": {}}, 422),
        ({"name": "Ring", "args": []}, 422),
        ({"name": "Ring"}, 422),
        (b"{", 422),
    ],
)
@pytest.mark.requirement("S-13", "S-16")
def test_invalid_legacy_call_is_refused(ask, body, status):
    response = ask("/ots/tools/call", body)
    assert isinstance(response, Response)
    assert response.status == status
    assert json.loads(response.body)["detail"]


def test_a_call_of_both_dialects_is_ours(ask):
    reading = ask("/tools/call", {**CALL, "request": {"tool_id": "Ring"}})
    assert isinstance(reading, Pending)
    assert b"result" in reading.reply(Value(1), 1.0).body
    refused = ask("/call", CALL)
    assert refused.status == 400


@pytest.mark.requirement("S-13")
def test_older_clients_are_recognized_by_user_agent_unless_switched_off():
    catalog = Catalog()
    agents = ("open-tool-sdk-py/0.0.1", "universal-tool-sdk-py/0.0.2", "Oxp/Python 0.1.1", "x", "")
    requests = [Request("GET", "/tools", ((b"user-agent", agent.encode()),)) for agent in agents]
    known = CODEC.routes(catalog, Site())["GET", "/tools"]
    assert [json.loads(known.read(request).body) == [] for request in requests] == [True, True, False, False, False]
    assert all((b"vary", b"user-agent") in known.read(request).headers for request in requests)
    off = CODEC.routes(catalog, Site(older_clients=False))["GET", "/tools"]
    assert all(json.loads(off.read(request).body)["tools"] == [] for request in requests)
    assert (b"vary", b"user-agent") not in off.read(requests[0]).headers
