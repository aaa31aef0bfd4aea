"""A call is one span, in the trace of its caller, on every protocol; what it calls in turn joins the same trace."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import baggage, context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.support.conformance import open_session
from tests.support.wire import AppTransport
from toolwire import Context, ToolError, Toolkit, asgi, connect_sync
from toolwire.core.codec import Codec
from toolwire.core.http import Request, Response
from toolwire.core.model import Call, Json, Problem, Value
from toolwire.telemetry.calls import Telemetry
from toolwire.testing.loopback import background

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
Ask = Callable[..., Response]


def build_tracing() -> tuple[InMemorySpanExporter, Telemetry]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter, Telemetry(tracer_provider=provider)


def tools() -> Toolkit:
    kit = Toolkit("Traced")

    @kit.tool(approval="auto")
    def which(context: Context) -> str:
        return context.trace_id

    @kit.tool(approval="auto")
    async def fails() -> str:
        raise ToolError("No.")

    return kit


def record_call_request(codec: Codec, name: str) -> Request:
    with open_session(codec, tools()) as joined:
        joined.send(Call(joined.peer.catalog.names[name], {}, "c1"))
        return joined.exchanges[-1].request


@pytest.mark.requirement("OB-3")
def test_each_protocol_gives_one_span_below_the_traceparent_of_http(codec: Codec) -> None:
    exporter, telemetry = build_tracing()
    app = asgi(tools(), telemetry=telemetry)
    requests = {name: record_call_request(codec, name) for name in ("which", "fails")}

    async def within() -> None:
        for name, request in requests.items():
            headers = (*request.headers, (b"traceparent", PARENT.encode()))
            response = await AppTransport(app).send(request._replace(headers=headers))
            assert name == "fails" or TRACE.encode() in response.body

    asyncio.run(within())
    spans = exporter.get_finished_spans()
    assert [span.name for span in spans] == ["execute_tool which", "execute_tool fails"]
    for span in spans:
        assert span.parent is not None
        assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, SPAN)
        assert dict(span.attributes or {})["toolwire.protocol"] == codec.name
    assert [dict(span.attributes or {}).get("error.type") for span in spans] == [None, "tool_error"]


@pytest.mark.requirement("OTC-020")
def test_a_trace_id_in_the_body_is_accepted_reaches_the_tool_and_is_the_trace(ask: Ask) -> None:
    exporter, telemetry = build_tracing()
    app = asgi(tools(), telemetry=telemetry)
    fields = {"content-type": "application/json"}
    for given in (TRACE, "any text at all"):
        body = {"request": {"tool_id": "Traced.which", "input": {}, "trace_id": given}}
        response = ask(app, "POST", "/call", fields, json.dumps(body).encode())
        assert response.status == 200
    joined, other = exporter.get_finished_spans()
    assert f"{joined.context.trace_id:032x}" == TRACE
    assert dict(other.attributes or {})["toolwire.client_trace_id"] == "any text at all"


@pytest.mark.requirement("OTC-020")
def test_trace_id_reaches_the_tool_without_telemetry(ask: Ask) -> None:
    kit = Toolkit("Plain")

    @kit.tool(approval="auto")
    def which(context: Context) -> list[str]:
        return [context.trace_id, context.traceparent]

    app = asgi(kit)
    body = json.dumps({"request": {"tool_id": "Plain.which", "input": {}, "trace_id": "mine"}}).encode()
    fields = {"content-type": "application/json"}
    assert json.loads(ask(app, "POST", "/call", fields, body).body)["output"]["value"] == ["mine", ""]
    anonymous = json.dumps({"request": {"tool_id": "Plain.which", "input": {}}}).encode()
    answer = ask(app, "POST", "/call", {**fields, "traceparent": PARENT}, anonymous)
    assert json.loads(answer.body)["output"]["value"] == [TRACE, PARENT]


@pytest.mark.requirement("OB-4")
@pytest.mark.parametrize("protocol", ["openapi", "opentool", "otc", "mcp"])
def test_client_call_inside_a_span_joins_its_trace(protocol: str) -> None:
    exporter, telemetry = build_tracing()
    assert isinstance(telemetry.tracer_provider, TracerProvider)
    with (
        background(asgi(tools(), telemetry=telemetry)) as url,
        connect_sync(url, protocol=protocol, agree=lambda _: True) as remote,
        telemetry.tracer_provider.get_tracer("caller").start_as_current_span("caller") as outer,
    ):
        result = remote.call("which")
    assert isinstance(result, Value), result
    assert result.value == f"{outer.get_span_context().trace_id:032x}"
    inner = exporter.get_finished_spans()[0]
    assert inner.parent is not None
    assert inner.context.trace_id == outer.get_span_context().trace_id
    assert inner.parent.span_id == outer.get_span_context().span_id


@pytest.mark.requirement("OB-4")
@pytest.mark.parametrize("protocol", ["openapi", "opentool", "otc", "mcp"])
def test_client_passes_its_trace_on_and_no_baggage(protocol: str) -> None:
    _, telemetry = build_tracing()
    assert telemetry.tracer_provider is not None
    app = asgi(tools(), telemetry=telemetry)
    seen: list[str] = []

    async def watch(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            seen.extend(name.decode() for name, _ in scope["headers"])
        await app(scope, receive, send)

    token = context.attach(baggage.set_baggage("tenant", "of-the-caller"))
    try:
        with (
            background(watch) as url,
            connect_sync(url, protocol=protocol, agree=lambda _: True) as remote,
            telemetry.tracer_provider.get_tracer("caller").start_as_current_span("caller"),
        ):
            assert isinstance(remote.call("which"), Value)
    finally:
        context.detach(token)
    assert "traceparent" in seen
    assert "baggage" not in seen


def test_progress_of_a_tool_reaches_a_caller_that_listens(ask: Ask) -> None:
    kit = Toolkit("Slow")

    @kit.tool(approval="auto")
    async def steps(context: Context) -> str:
        await context.progress({"percent": 50})
        return "done"

    body: Json = {"jsonrpc": "2.0", "id": "1", "method": "steps", "params": {}}
    answer = ask(
        asgi(kit), "POST", "/opentool/streamCall", {"content-type": "application/json"}, json.dumps(body).encode()
    )
    events = [line.removeprefix(b"event:") for line in answer.body.split(b"\n") if line.startswith(b"event:")]
    assert events == [b"start", b"progress", b"data", b"done"]
    assert b'"percent":50' in answer.body


def test_progress_is_no_part_of_a_stream_result() -> None:
    kit = Toolkit("Slow")

    @kit.tool(approval="auto")
    async def pieces(context: Context):  # type: ignore[no-untyped-def]  # what it yields is anything
        await context.progress("halfway")
        yield "a"

    received: list[Json] = []
    with background(asgi(kit)) as url, connect_sync(url, protocol="opentool", agree=lambda _: True) as remote:
        result = remote.call("pieces", notify=lambda progress: received.append(progress.value))
    assert not isinstance(result, Problem)
    assert (result.value, received) == (["a"], ["halfway", "a"])
