"""A tool that cannot do without its caller's user says so to clients that cannot ask one, also through a gateway."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from tests.support.upstreams import connect_without_user
from toolwire import Context, Session, ToolError, Toolkit, asgi, connect_sync
from toolwire.core.catalog import Catalog
from toolwire.core.model import Approval, Call, Kind, Problem, Result, Tool
from toolwire.core.no_user_input import REQUIRED_CAPABILITIES
from toolwire.core.toolbox import Notify, ignore_progress
from toolwire.testing import background

pytestmark = pytest.mark.requirement("I-29")


@dataclass
class Size:
    size: int


def build_kit() -> Toolkit:
    kit = Toolkit("Shop")

    @kit.tool(approval="auto", safe=True)
    async def choose(context: Context) -> str:
        """Choose a size."""
        answer = await context.ask(Size, "Which size?")
        if not answer:
            raise ToolError(answer.message)
        return f"size {answer.size}"

    return kit


def call(url: str, version: str, capabilities: dict[str, Any]) -> httpx2.Response:
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": version}
    params: dict[str, Any] = {"name": "choose", "arguments": {}}
    if version == "2026-07-28":
        headers |= {"mcp-method": "tools/call", "mcp-name": "choose"}
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientInfo": {"name": "host", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return httpx2.post(f"{url}/mcp", json=message, headers=headers)


class Needy:
    """A tool of a server that needs the model of its caller."""

    def __init__(self) -> None:
        self._catalog = Catalog(title="Needy", tools=(Tool(name="choose", approval=Approval.AUTO, safe=True),))

    def catalog(self) -> Catalog:
        return self._catalog

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        details = {REQUIRED_CAPABILITIES: {"sampling": {}}}
        return Problem(kind=Kind.MISSING_REQUIREMENTS, message="This needs sampling.", details=details)


def check(url: str, needed: dict[str, Any], said: str) -> None:
    refused = call(url, "2026-07-28", {})
    assert refused.status_code == 400, refused.text
    error = refused.json()["error"]
    assert (error["code"], error["data"]) == (-32021, {"requiredCapabilities": needed})
    assert said in error["message"]


def test_client_of_2026_is_told_which_capability_a_tool_needs() -> None:
    with background(asgi(build_kit())) as url:
        check(url, {"elicitation": {"form": {}}}, "cannot ask its user")
        assert call(url, "2026-07-28", {"elicitation": {}}).json()["result"]["resultType"] == "input_required"
        # Older clients know no such error: the model reads the sentence.
        assert call(url, "2025-11-25", {}).json()["result"]["isError"] is True
        with connect_sync(url, protocol="mcp", agree=lambda _: True) as remote:
            result = remote.call("choose")
            assert isinstance(result, Problem)
            assert result.kind is Kind.MISSING_REQUIREMENTS
            assert "cannot ask its user" in result.message


def test_gateway_passes_on_which_capability_its_upstream_needs() -> None:
    with background(asgi(Needy())) as upstream:
        remote = connect_without_user(upstream, Session(), protocol="mcp", agree=lambda _: True)
        with background(asgi(remote)) as url:
            check(url, {"sampling": {}}, "This needs sampling.")
