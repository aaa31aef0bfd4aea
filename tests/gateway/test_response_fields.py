"""What the header fields of an upstream's or a route's response say reaches callers, and its challenges do no harm."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.responses import JSONResponse

from toolwire import Problem, Value, connect_sync
from toolwire.core.model import Kind
from toolwire.hosting import ServeSettings, UpstreamSettings, open_gateway
from toolwire.hosting.options import RemoteOptions
from toolwire.integrations import fastapi
from toolwire.protocols import BUILTIN
from toolwire.testing.loopback import background

PROTOCOLS = [codec.name for codec in BUILTIN]
CHALLENGE = 'Bearer realm="up", resource_metadata="https://evil.example/.well-known/oauth-protected-resource"'
NARROW = 'Bearer error="insufficient_scope", scope="write"'
NEXT = '<https://things.example/things?page=2>; rel="next"'
RATE = {"ratelimit": '"day";r=3;t=7', "ratelimit-policy": '"day";q=5;w=60'}
ANSWERS: dict[str, tuple[int, dict[str, str]]] = {
    "locked": (401, {"www-authenticate": CHALLENGE}),
    "narrow": (403, {"www-authenticate": NARROW}),
    "busy": (429, {"retry-after": "7", **RATE}),
    "made": (201, {"location": "/things/7", "link": NEXT, "etag": '"v1"', **RATE}),
    "taken": (409, {"location": "/things/8"}),
}


def build_app() -> FastAPI:
    """Routes that answer with header fields, as tools that need no question."""
    app = FastAPI(title="Things")

    def add(name: str, status: int, fields: dict[str, str]) -> None:
        extra = {"x-llm": {"approval": "auto", "safe": True}}

        @app.get(f"/{name}", operation_id=name, openapi_extra=extra)
        async def answer() -> JSONResponse:
            return JSONResponse({"message": f"{name} says {status}"}, status, fields)

    for name, (status, fields) in ANSWERS.items():
        add(name, status, fields)
    return app


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The URL of the published routes."""
    app = build_app()
    fastapi.publish_tools(app)
    with background(app) as url:
        yield url


@pytest.fixture(scope="module")
def gateway(site: str) -> Iterator[str]:
    """The URL of a gateway in front of them, whose callers have keys."""
    with run_gateway(site) as url:
        yield url


@contextmanager
def run_gateway(site: str) -> Iterator[str]:
    remote = RemoteOptions(protocol="openapi")
    upstreams = [UpstreamSettings(name="things", target=site, agree=True, remote=remote)]
    with background(open_gateway(ServeSettings(upstreams=upstreams, api_keys=["key-of-ann"]))) as url:
        yield url


def call(url: str, protocol: str, name: str) -> Value | Problem:
    with connect_sync(url, protocol=protocol, api_key="key-of-ann", agree=lambda _: True, retries=0) as remote:
        return remote.call(name)


def get_fields(result: Value | Problem) -> dict[str, Any]:
    facts = result.details if isinstance(result, Problem) else result.notes or {}
    fields: Any = facts.get("headers", {})
    return dict(fields)


@pytest.mark.requirement("CR-04")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_fields_of_an_upstream_reach_callers_of_a_gateway(site: str, gateway: str, protocol: str) -> None:
    made = call(gateway, protocol, "made")
    assert made == Value({"message": "made says 201"})
    assert get_fields(made) == {"location": f"{site}/things/7", "link": NEXT, "etag": '"v1"', **RATE}
    taken, narrow = call(gateway, protocol, "taken"), call(gateway, protocol, "narrow")
    assert get_fields(taken)["location"] == f"{site}/things/8"
    assert isinstance(narrow, Problem)
    assert (narrow.kind, get_fields(narrow)["www-authenticate"]) == (Kind.FORBIDDEN, NARROW)


@pytest.mark.requirement("CR-04")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_refusal_by_an_upstream_says_nothing_of_the_credentials_of_callers(
    site: str, gateway: str, protocol: str
) -> None:
    refused = call(gateway, protocol, "locked")
    assert isinstance(refused, Problem)
    assert (refused.kind, refused.details.get("status")) == (Kind.FORBIDDEN, 401)
    assert "the server behind it refused the credentials of this one" in refused.message
    assert "evil.example" not in json.dumps(dict(refused.details))
    assert site not in json.dumps(dict(refused.details))
    # the client that is connected to the site itself sees the challenge
    direct = call(site, "openapi", "locked")
    assert isinstance(direct, Problem)
    assert (direct.kind, get_fields(direct)["www-authenticate"]) == (Kind.UNAUTHORIZED, CHALLENGE)


@pytest.mark.requirement("CR-04")
def test_no_challenge_of_an_upstream_is_a_header_field_of_the_gateway(gateway: str) -> None:
    bodies = {
        "/call": {"request": {"tool_id": "locked", "input": {}}},
        "/opentool/call": {"jsonrpc": "2.0", "id": "1", "method": "locked", "params": {}},
        "/mcp": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "locked", "arguments": {}}},
    }
    headers = {"authorization": "Bearer key-of-ann", "accept": "application/json, text/event-stream"}
    with httpx2.Client(headers=headers) as client:
        answers = [client.get(f"{gateway}/api/{name}") for name in ("locked", "narrow")]
        answers += [client.post(f"{gateway}{path}", json=body) for path, body in bodies.items()]
    for answer in answers:
        assert answer.status_code != 401
        assert "www-authenticate" not in answer.headers


@pytest.mark.requirement("CR-04")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_wait_that_an_upstream_asks_for_reaches_callers(site: str, protocol: str) -> None:
    with run_gateway(site) as url:  # the client of a gateway sends nothing more for a while
        busy = call(url, protocol, "busy")
    assert isinstance(busy, Problem)
    assert (busy.kind, busy.retry_after_ms) == (Kind.RATE_LIMITED, 7_000)
    assert get_fields(busy)["ratelimit"] == RATE["ratelimit"]


@pytest.mark.requirement("CR-04")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_fields_of_a_published_route_reach_its_callers(site: str, protocol: str) -> None:
    made, locked = call(site, protocol, "made"), call(site, protocol, "locked")
    assert get_fields(made) == {"location": f"{site}/things/7", "link": NEXT, "etag": '"v1"', **RATE}
    assert isinstance(locked, Problem)
    # the route's refusal is about the caller's own credentials
    assert (locked.kind, get_fields(locked)["www-authenticate"]) == (Kind.UNAUTHORIZED, CHALLENGE)
