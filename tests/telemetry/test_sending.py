"""What is written down of a call that is sent: a span round it by a real SDK, over a real connection."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind

from tests.support.wire import HERE, AppTransport
from toolwire import Session, Toolkit, asgi, connect, connect_sync, merge_toolboxes
from toolwire.core.check import Answer
from toolwire.core.errors import ToolError
from toolwire.core.http import JSON_HEADERS, Request
from toolwire.core.model import Problem, RateLimit, Result, Value
from toolwire.telemetry.calls import Telemetry
from toolwire.testing.loopback import background

from .sdk import Sdk, attributes

CANARY = "canary-77c1e0"
OUTER = trace.SpanContext(0x4BF92F35, 0x00F067AA, is_remote=False, trace_flags=trace.TraceFlags(1))
PROTOCOLS = ("opentool", "otc", "openapi", "mcp")


def kit() -> Toolkit:
    calc = Toolkit("Calc", version="2.1.0")

    @calc.tool(approval="auto", safe=True)
    def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    @calc.tool(approval="auto", safe=True)
    def fail() -> int:
        """Fail."""
        raise ToolError("No luck.")

    @calc.tool(approval="per-call")
    def change(password: str) -> str:
        """Change something."""
        return f"token={password}"

    @calc.tool(approval="auto", safe=True, rate_limit=RateLimit(max=1, window="1h"))
    def rare() -> int:
        """Be called once."""
        return 1

    return calc


@pytest.fixture(scope="module")
def traced_server() -> Iterator[tuple[str, Sdk]]:
    """A server whose own spans go to an SDK of their own."""
    sdk = Sdk()
    with background(asgi(kit(), telemetry=sdk.telemetry)) as url:
        yield url, sdk


def call(url: str, sdk: Sdk, tool: str, arguments: Any = None, protocol: str = "otc", **options: Any) -> Result:
    session = Session(telemetry=options.pop("telemetry", sdk.telemetry))
    with connect_sync(url, protocol=protocol, agree=lambda _: True, session=session, retries=0, **options) as remote:
        return remote.call(tool, arguments or {})


@pytest.mark.requirement("OB-3")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_client_call_has_a_span_that_contains_the_server_span(traced_server: tuple[str, Sdk], protocol: str) -> None:
    url, server = traced_server
    server.spans.clear()
    sdk = Sdk()
    assert call(url, sdk, "add", {"a": 2}, protocol) == Value(3)
    reply = attributes(sdk.span)
    assert sdk.span.kind is SpanKind.CLIENT
    assert sdk.span.name == ("tools/call add" if protocol == "mcp" else "execute_tool add")
    assert (reply["server.address"], reply["server.port"]) == ("127.0.0.1", int(url.rpartition(":")[2]))
    assert (reply["gen_ai.tool.name"], reply["toolwire.protocol"]) == ("add", protocol)
    assert (reply["toolwire.approval"], reply["toolwire.attempt"]) == ("auto", 1)
    assert (reply["network.transport"], reply["network.protocol.name"]) == ("tcp", "http")
    assert ("jsonrpc.request.id" in reply) is (protocol in ("opentool", "mcp"))
    assert (reply.get("mcp.method.name"), reply.get("mcp.protocol.version")) == (
        ("tools/call", "2026-07-28") if protocol == "mcp" else (None, None)
    )
    assert sdk.span.status.is_unset
    below = server.span
    assert below.context.trace_id == sdk.span.context.trace_id
    assert below.parent is not None
    assert below.parent.span_id == sdk.span.context.span_id


def test_asynchronous_client_call_has_the_same_span(traced_server: tuple[str, Sdk]) -> None:
    sdk = Sdk()

    async def story() -> None:
        async with connect(
            traced_server[0], protocol="mcp", agree=lambda _: True, session=Session(telemetry=sdk.telemetry)
        ) as remote:
            with trace.use_span(trace.NonRecordingSpan(OUTER)):
                assert await remote.call("add", {"a": 1}) == Value(2)
                assert trace.get_current_span().get_span_context() == OUTER

    asyncio.run(story())
    assert sdk.span.parent == OUTER
    assert not trace.get_current_span().get_span_context().is_valid


@pytest.mark.parametrize(
    ("answer", "approval", "decision"),
    [
        (Answer(allowed=True), "per_call", "allowed"),
        (Answer(allowed=False), "denied", "denied"),
        (Answer(allowed=False, reason="timeout"), "denied", "timeout"),
    ],
)
def test_approval_decision_is_an_attribute_and_a_count(
    traced_server: tuple[str, Sdk], answer: Answer, approval: str, decision: str
) -> None:
    sdk = Sdk()
    call(traced_server[0], sdk, "change", {"password": CANARY}, approve=lambda _: answer)
    reply = attributes(sdk.span)
    assert reply["toolwire.approval"] == approval
    assert reply.get("error.type") == (None if answer.allowed else "approval_denied")
    assert [(each.value, dict(each.attributes)) for each in sdk.points("toolwire.approvals")] == [
        (1, {"decision": decision})
    ]
    assert CANARY not in sdk.span.to_json()


@pytest.mark.requirement("OB-6")
def test_arguments_and_results_are_recorded_only_if_enabled_and_without_secrets(
    traced_server: tuple[str, Sdk],
) -> None:
    sdk = Sdk()
    reply = {}
    for contents in (False, True):
        telemetry = Telemetry(
            tracer_provider=sdk.tracers, meter_provider=sdk.meters, descriptions=contents, contents=contents
        )
        allowed = {"approve": lambda _: Answer(allowed=True), "telemetry": telemetry}
        call(traced_server[0], sdk, "change", {"password": CANARY}, **allowed)
        call(traced_server[0], sdk, "add", {"a": 41}, telemetry=telemetry)
        reply[contents] = [attributes(span) for span in sdk.spans.get_finished_spans()]
        assert CANARY not in "".join(span.to_json() for span in sdk.spans.get_finished_spans())
        sdk.spans.clear()
    content = ("gen_ai.tool.description", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result")
    assert not any(name in each for each in reply[False] for name in content)
    assert [tuple(each[name] for name in content) for each in reply[True]] == [
        ("Change something.", '{"password":"***"}', '"token=***"'),
        ("Add two numbers.", '{"a":41}', "42"),
    ]


@pytest.mark.parametrize(("protocol", "code"), [("mcp", None), ("opentool", "500"), ("otc", None)])
def test_failed_client_call_records_the_response_code(
    traced_server: tuple[str, Sdk], protocol: str, code: str | None
) -> None:
    sdk = Sdk()
    result = call(traced_server[0], sdk, "fail", protocol=protocol)
    assert isinstance(result, Problem)
    reply = attributes(sdk.span)
    assert (reply["error.type"], reply.get("rpc.response.status_code")) == ("tool_error", code)
    assert not sdk.span.status.is_ok
    counted = sdk.points("mcp.client.operation.duration")
    assert [dict(point.attributes) for point in counted] == (
        [{"mcp.method.name": "tools/call", "gen_ai.tool.name": "fail", "error.type": "tool_error"}]
        if protocol == "mcp"
        else []
    )


def test_rate_limit_result_is_recorded_as_allowed_or_limited(traced_server: tuple[str, Sdk]) -> None:
    sdk = Sdk()
    with connect_sync(
        traced_server[0], protocol="otc", agree=lambda _: True, session=Session(telemetry=sdk.telemetry), retries=0
    ) as remote:
        assert [remote.call("rare").ok for _ in range(2)] == [True, False]
    results = [attributes(span)["toolwire.ratelimit.result"] for span in sdk.spans.get_finished_spans()]
    assert results == ["allowed", "limited"]


@pytest.mark.requirement("GW-06", "OB-3", "PL-04")
def test_gateway_span_names_its_upstream_and_contains_the_upstream_span(traced_server: tuple[str, Sdk]) -> None:
    url, server = traced_server
    server.spans.clear()
    sdk = Sdk()

    async def story() -> None:
        session = Session(telemetry=sdk.telemetry)
        async with connect(url, protocol="otc", agree=lambda _: True, session=session, name="sums") as upstream:
            transport = AppTransport(asgi(merge_toolboxes([upstream]), telemetry=sdk.telemetry))
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 5}}}
            answer = await transport.send(Request("POST", f"{HERE}/mcp", JSON_HEADERS, json.dumps(call).encode()))
            assert json.loads(answer.body)["result"]["content"][0]["text"] == "6"

    asyncio.run(story())
    sent, here = sdk.spans.get_finished_spans()
    assert (sent.kind, here.kind) == (SpanKind.CLIENT, SpanKind.INTERNAL)
    assert sent.parent == here.context
    assert server.span.parent is not None
    assert server.span.parent.span_id == sent.context.span_id
    reply = attributes(here)
    assert (reply["toolwire.upstream"], reply["gen_ai.tool.type"]) == ("sums", "extension")
    assert attributes(sent)["gen_ai.tool.type"] == "function"


def test_client_without_an_sdk_does_not_load_opentelemetry(traced_server: tuple[str, Sdk]) -> None:
    code = (
        "import sys; from toolwire import connect_sync\n"
        f"with connect_sync({traced_server[0]!r}, protocol='otc', agree=lambda _: True) as remote:\n"
        "    assert remote.call('add', {'a': 1}).ok\n"
        "    assert remote._connection.observer.spans is None\n"
        "assert 'opentelemetry' not in sys.modules and 'toolwire.telemetry.spans' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
