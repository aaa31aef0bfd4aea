"""OpenTool's paths where the application is mounted, and its answer when the server takes no call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from toolwire import Kind, Problem, ServerLimits, Toolkit, Value, asgi, connect_sync
from toolwire.opentool import FunctionCall, SyncOpenToolClient
from toolwire.testing.loopback import background

from .foreign_clients import ask


def build_kit() -> Toolkit:
    kit = Toolkit("Kit", version="1.2.3")

    @kit.tool(approval="auto", safe=True)
    def look() -> str:
        """Look."""
        return "tea"

    return kit


@pytest.mark.requirement("OTRPC-001", "OTRPC-002", "OTRPC-013", "A-08")
@pytest.mark.parametrize("prefix", ["", "/team", "/team/tools"])
def test_routes_exist_only_below_the_mount_path(prefix: str) -> None:
    app: Any = asgi(build_kit())
    with background(Starlette(routes=[Mount(prefix, app=app)]) if prefix else app) as url:
        for path, status in (("version", 200), ("load", 200)):
            assert ask(url, "GET", f"{prefix}/opentool/{path}").status == status
            for elsewhere in (
                f"{prefix}/{path}",
                f"/other/opentool/{path}",
                *([f"/opentool/{path}"] if prefix else []),
            ):
                assert ask(url, "GET", elsewhere).status == 404
        for base in (f"{url}{prefix}", f"{url}{prefix}/opentool"):
            with connect_sync(base, protocol="opentool", agree=lambda _: True) as remote:
                assert remote.call("look") == Value("tea")
        with SyncOpenToolClient(f"{url}{prefix}") as client:
            assert client.call(FunctionCall("1", "look")).result == {"result": "tea"}


@pytest.mark.requirement("A-14", "S-3", "R1", "A-41", "OTRPC-010")
@pytest.mark.parametrize("draining", [False, True])
def test_refused_call_is_a_503_in_call_format(draining: bool) -> None:
    app = asgi(build_kit(), limits=ServerLimits(running=1 if draining else 0))
    with background(app) as url, connect_sync(url, protocol="opentool", retries=0, agree=lambda _: True) as remote:
        if draining:
            app.drain()
        body = {"jsonrpc": "2.0", "method": "look", "id": "c7"}
        answer = ask(url, "POST", "/opentool/call", json.dumps(body).encode(), content_type="application/json")
        assert answer.status == 503
        assert int(answer.headers["retry-after"]) >= 1
        assert (answer.json["jsonrpc"], answer.json["result"]) == ("2.0", {})
        assert (answer.json["error"]["code"], answer.json["error"]["data"]["can_retry"]) == (503, True)
        refused = remote.call("look")
    assert isinstance(refused, Problem)
    assert (refused.kind, refused.can_retry) == (Kind.OVERLOADED, True)
