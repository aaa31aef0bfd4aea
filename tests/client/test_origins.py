"""Calls go to the site's own origin, and to another only where a person allowed it by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolwire import Context, Kind, Problem, Secret, Value, connect_sync
from toolwire.client.transport.limits import TransportLimits
from toolwire.client.transport.request_rules import RequestRules, SendRequest
from toolwire.client.transport.url_policy import AllowedOrigins
from toolwire.core.http import Request, Response


def document(server: str, *, requires_key: bool) -> bytes:
    """Return the document of a site whose one operation is on ``server``."""
    operation = {
        "operationId": "read",
        "x-llm": {"approval": "auto"},
        "x-toolwire": {"requirements": {"secrets": [{"id": "KEY"}]}} if requires_key else {},
        "servers": [{"url": server}],
    }
    paths = {
        "/read": {"get": {**operation, "responses": {"200": {"description": "", "content": {"application/json": {}}}}}}
    }
    return json.dumps(
        {"openapi": "3.1.0", "info": {"title": "Box", "version": "1"}, "x-llm": {}, "paths": paths}
    ).encode()


@pytest.fixture(params=[False])
def sites(request: pytest.FixtureRequest, listen: Any, encode_response: Any) -> Any:
    """Two listeners: a site whose document sends its calls to the other, and requires a secret if it is asked to."""
    other = listen(encode_response(b"[1]", "content-type: application/json"))
    kind = "content-type: application/json"
    home = listen(
        lambda seen: [
            encode_response(document(other.origin, requires_key=request.param), kind)
            if "/openapi.json" in seen.line
            else encode_response(b"{}", status="404 No")
        ]
    )
    return home, other


@pytest.mark.requirement("D-07")
def test_document_with_another_server_origin_causes_no_request_there(sites: Any) -> None:
    home, other = sites
    with connect_sync(home.origin, api_key="secret", protocol="openapi") as remote:
        result = remote.call("read")
    assert isinstance(result, Problem)
    assert (result.kind, result.details["reason"], result.details["origin"]) == (
        Kind.UNREACHABLE,
        "origin",
        other.origin,
    )
    assert f'allow_origins=["{other.origin}"]' in result.message
    assert other.connections == 0


@pytest.mark.requirement("D-07", "D-08")
def test_an_origin_that_was_allowed_by_name_is_called_without_the_key_of_the_site(sites: Any) -> None:
    home, other = sites
    with connect_sync(home.origin, api_key="secret", protocol="openapi", allow_origins=[other.origin]) as remote:
        assert remote.call("read") == Value([1])
    assert [one.headers.get("authorization") for one in other.requests] == [None]


@pytest.mark.requirement("I-27", "D-08")
@pytest.mark.parametrize("sites", [True], indirect=True)
def test_an_allowed_origin_gets_no_token_or_secret_that_the_document_requires(sites: Any) -> None:
    home, other = sites
    mine = Context(secrets={"KEY": Secret("only-for-the-site")})
    with connect_sync(home.origin, protocol="openapi", allow_origins=[other.origin], context=mine) as remote:
        assert remote.tools[0].requirements.secrets == ("KEY",)
        assert remote.call("read") == Value([1])
    assert [one.headers.get("toolwire-context") for one in other.requests] == [None]


@pytest.mark.requirement("D-07")
@pytest.mark.parametrize("allowed", [True, False])
def test_user_is_asked_once_to_allow_another_origin(sites: Any, allowed: bool) -> None:
    home, other = sites
    asked: list[str] = []

    def agree(origin: str) -> bool:
        asked.append(origin)
        return allowed

    with connect_sync(home.origin, protocol="openapi", allow_origins=agree) as remote:
        results = [remote.call("read"), remote.call("read")]
    assert asked == [other.origin]
    assert [isinstance(result, Value) for result in results] == [allowed, allowed]
    assert len(other.requests) == 2 * allowed


def test_invalid_allowed_origin_is_refused() -> None:
    with pytest.raises(ValueError, match="origin"):
        connect_sync("https://a.test", allow_origins=["https://b.test/path"])


@pytest.mark.requirement("D-07", "D-08")
def test_network_also_refuses_origins_that_are_not_allowed() -> None:
    exchange = RequestRules(
        limits=TransportLimits(), origins=AllowedOrigins("http://127.0.0.1:1", ["http://127.0.0.1:2"])
    )
    for port in (1, 2):
        assert isinstance(next(exchange.steps(Request("GET", f"http://127.0.0.1:{port}/"), None)), SendRequest)
    with pytest.raises(StopIteration) as refused:
        next(exchange.steps(Request("GET", "http://127.0.0.1:3/"), None))
    assert refused.value.value.details == {"reason": "blocked", "sent": False}
    steps = exchange.steps(Request("GET", "http://127.0.0.1:1/"), None)
    next(steps)
    with pytest.raises(StopIteration) as ended:
        steps.send(Response(307, ((b"location", b"http://127.0.0.1:3/"),)))
    assert isinstance(ended.value.value, Problem)
