"""The clients of the other SDKs against our server, with a tool that has a document and one that has none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from toolwire.opentool import OpenToolServer

from .conftest import DOCUMENT, QUICK, Notes, Serve
from .foreign_clients import DOTNET, SDKS, Failed, Sdk, ask


@pytest.fixture(params=SDKS, ids=lambda sdk: sdk.name)
def sdk(request: pytest.FixtureRequest) -> Sdk:
    found: Sdk = request.param
    return found


class Site(NamedTuple):
    tool: Notes
    url: str


@pytest.fixture(scope="module", params=[DOCUMENT, None], ids=["described", "not described"])
def lasting_site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """A tool and where it is served, for all tests of this page."""
    tool = Notes(request.param)
    with OpenToolServer(tool, port=0, deadlines=QUICK) as server:
        yield Site(tool, server.url)


@pytest.fixture
def site(lasting_site: Site) -> Site:
    """The same, as new."""
    lasting_site.tool.texts.clear()
    return lasting_site


@pytest.fixture(scope="module", params=[DOCUMENT, None], ids=["described", "not described"])
def locked_server(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where a tool is served that needs a key."""
    with OpenToolServer(Notes(request.param), port=0, deadlines=QUICK, api_keys=["K1", "K2"]) as server:
        yield server.url


def post(url: str, body: Any, **headers: str) -> Any:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return ask(url, "POST", "/opentool/call", text, **{"content_type": "application/json", **headers})


@pytest.mark.requirement("OTRPC-004", "OTRPC-006", "OTRPC-007", "OTRPC-008", "OTRPC-009", "OTRPC-011", "A-18")
def test_every_sdk_receives_the_tool_result(sdk: Sdk, site: Site) -> None:
    assert sdk.call(site.url, "create", {"text": "héllo"}) == {"id": 1}
    assert sdk.call(site.url, "read", {"id": 1}) == {"text": "héllo"}
    assert sdk.call(site.url, "count", None) == {"count": 1}


@pytest.mark.requirement("OTRPC-010", "A-13", "A-14", "S-3")
def test_every_sdk_receives_the_error_without_secrets(sdk: Sdk, site: Site) -> None:
    with pytest.raises(Failed, match=r"^Fatal error occurred in run\(\)$"):
        sdk.call(site.url, "break", {})
    with pytest.raises(Failed, match=r"^Function Not Supported: nope$"):
        sdk.call(site.url, "nope", {})
    with pytest.raises(Failed, match="fail failed") as failed:
        sdk.call(site.url, "fail", {})
    assert "hunter2" not in str(failed.value)


@pytest.mark.requirement("OTRPC-002", "OTRPC-003", "S-2")
def test_every_sdk_reads_the_version(sdk: Sdk, serve: Serve) -> None:
    assert sdk.version(serve(Notes(DOCUMENT)).url) == "2.3.4"
    assert sdk.version(serve(Notes(), version="7.0.1").url) == "7.0.1"


@pytest.mark.requirement("OTRPC-013", "A-01", "S-2")
def test_every_sdk_loads_the_document_with_references_resolved(sdk: Sdk, serve: Serve) -> None:
    loaded = sdk.document(serve(Notes(DOCUMENT)).url)
    assert [function["name"] for function in loaded["functions"]] == ["create", "read", "count", "break", "fail"]
    assert loaded["info"] == DOCUMENT["info"]
    assert loaded["functions"][1]["parameters"][0]["schema"]["type"] == "integer"
    assert "$ref" not in json.dumps(loaded)


@pytest.mark.requirement("OTRPC-013")
def test_unknown_document_members_are_served(serve: Serve) -> None:
    loaded = ask(serve(Notes(DOCUMENT)).url, "GET", "/opentool/load").json
    assert loaded["server"] == DOCUMENT["server"]
    assert loaded["opentool"] == "1.1.0"
    assert loaded["functions"][0]["x-icon"] == "pencil"


@pytest.mark.requirement("OTRPC-014", "OTRPC-021", "A-21")
def test_load_without_a_document_returns_an_empty_object(sdk: Sdk, serve: Serve) -> None:
    server = serve(Notes())
    assert ask(server.url, "GET", "/opentool/load").body == b"{}"
    nothing = {"opentool": None, "info": None, "functions": None}
    assert sdk.document(server.url) in (None, nothing)


@pytest.mark.requirement("OTRPC-029", "S-7", "A-25")
def test_every_sdk_needs_a_valid_key(sdk: Sdk, locked_server: str) -> None:
    for key in ("K1", "K2"):
        assert sdk.call(locked_server, "count", {}, key) == {"count": 0}
    for wrong in (None, "K3"):
        for use in (sdk.version, sdk.document):
            with pytest.raises(Failed, match="Unauthorized"):
                use(locked_server, wrong)
        with pytest.raises(Failed, match="Unauthorized"):
            sdk.call(locked_server, "count", {}, wrong)


@pytest.mark.parametrize(
    "headers",
    [{"authorization": "bearer K1"}, {"authorization": "K1"}, {"x_api_key": "K1"}, {"oxp_api_key": "K1"}],
    ids=str,
)
@pytest.mark.requirement("S-7", "A-25")
def test_key_is_accepted_in_every_header_form(headers: dict[str, str], locked_server: str) -> None:
    assert ask(locked_server, "GET", "/opentool/version", **headers).status == 200


@pytest.mark.requirement("OTRPC-012", "OTRPC-008", "A-15")
def test_response_has_jsonrpc_2_0_and_the_request_id_with_its_type(site: Site) -> None:
    for id_ in ("c1", "é", 7, 0):
        answer = post(site.url, {"jsonrpc": "2.0.0", "method": "count", "params": None, "id": id_})
        reply = json.dumps(id_, ensure_ascii=False)
        assert answer.body.decode() == f'{{"jsonrpc":"2.0","result":{{"count":0}},"error":null,"id":{reply}}}'


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{not json", -32700),
        ({"jsonrpc": "2.0", "method": "count", "params": {}}, -32600),
        ({"jsonrpc": "1.0", "method": "count", "id": "1"}, -32600),
        ({"jsonrpc": "2.0", "id": "1"}, -32600),
        ({"jsonrpc": "2.0", "method": 7, "id": "1"}, -32600),
        ([{"jsonrpc": "2.0", "method": "count", "id": "1"}], -32600),
    ],
    ids=["not json", "no id", "1.0", "no method", "method 7", "batch"],
)
@pytest.mark.requirement("OTRPC-005", "OTRPC-010", "A-16", "A-17", "S-5")
def test_invalid_call_is_400_with_a_json_error(body: Any, code: int, site: Site) -> None:
    answer = post(site.url, body)
    assert answer.status == 400
    assert answer.headers["content-type"] == "application/json"
    assert answer.json["error"]["code"] == code
    assert answer.json["result"] == {}


@pytest.mark.requirement("OTRPC-007", "A-19")
def test_params_that_are_a_list_are_refused(site: Site) -> None:
    answer = post(site.url, {"jsonrpc": "2.0", "method": "count", "params": [1], "id": "1"})
    assert (answer.status, answer.json["error"]["code"], answer.json["id"]) == (200, -32602, "1")


@pytest.mark.requirement("OTRPC-001", "S-17", "A-28")
def test_routes_exist_only_below_the_prefix_and_stop_is_absent(serve: Serve) -> None:
    server = serve(Notes())
    for method, path in (("GET", "/version"), ("GET", "/load"), ("POST", "/stop"), ("POST", "/opentool/stop")):
        assert ask(server.url, method, path, b"" if method == "POST" else None).status == 404, path
    assert DOTNET.version(server.url) == "1.0.0"
