"""What is written down of a call: a span and metrics by a real SDK, and a line in the log."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import subprocess
import sys

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased

from toolwire.core.model import ANONYMOUS, Call, Context, Kind, Problem, Result, Value
from toolwire.core.toolbox import Notify, ignore_progress
from toolwire.telemetry.calls import LOG, Observer, Telemetry, create_observer
from toolwire.telemetry.logs import JsonLines
from toolwire.telemetry.names import BUCKETS_S, ERROR_TYPES
from toolwire.telemetry.propagation import add_current_trace, add_trace, current_traceparent

from .sdk import TOOL, Sdk, attributes

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.requirement("OB-3")
def test_call_is_recorded_as_one_span_with_its_attributes() -> None:
    sdk = Sdk()
    assert sdk.run(Context(principal="ada")) == Value(1)
    assert sdk.span.name == "execute_tool add"
    assert sdk.span.kind is trace.SpanKind.INTERNAL
    reply = attributes(sdk.span)
    digest = reply.pop("user.id")
    assert reply == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "c1",
        "toolwire.protocol": "otc",
        "toolwire.tool.id": "Calc.add@2.1.0",
        "toolwire.tool.version": "2.1.0",
        "toolwire.toolkit": "Calc",
        "toolwire.execution": "inline",
        "toolwire.idempotency": "none",
        "toolwire.approval": "auto",
    }
    assert len(digest) == 16
    assert "ada" not in digest
    assert sdk.span.status.is_unset


@pytest.mark.requirement("OB-3")
def test_failure_has_a_short_error_type_independent_of_the_http_status() -> None:
    problem = Problem(kind=Kind.TOOL_FAILED, message="No milk for Ada.")
    sdk = Sdk()
    ended = sdk.run(result=problem)
    assert isinstance(ended, Problem)
    assert ended.developer_message == f"trace {sdk.inside.trace_id:032x}"
    assert attributes(sdk.span)["error.type"] == "tool_error"
    assert not sdk.span.status.is_ok
    assert sdk.span.status.description is None
    assert "milk" not in sdk.span.to_json()


@pytest.mark.requirement("OB-3")
def test_every_kind_of_problem_has_an_error_type() -> None:
    assert set(ERROR_TYPES) == set(Kind)


@pytest.mark.requirement("OTC-020", "OB-4")
@pytest.mark.parametrize("trace_id", [TRACE, "4bf92f35-77b3-4da6-a3ce-929d0e0e4736"])
def test_a_trace_id_of_the_caller_is_the_trace_of_the_span(trace_id: str) -> None:
    sdk = Sdk()
    sdk.run(Context(trace_id=trace_id))
    assert f"{sdk.span.context.trace_id:032x}" == TRACE
    assert sdk.span.parent is not None
    assert (sdk.span.parent.is_remote, sdk.span.parent.span_id != 0) == (True, True)
    assert sdk.call.context.trace_id == TRACE


@pytest.mark.requirement("OTC-020", "OB-4")
def test_caller_trace_id_in_another_form_becomes_an_attribute() -> None:
    sdk = Sdk()
    sdk.run(Context(trace_id="my trace " + "x" * 200))
    assert attributes(sdk.span)["toolwire.client_trace_id"] == ("my trace " + "x" * 200)[:128]
    assert sdk.span.parent is None


@pytest.mark.requirement("OB-4")
def test_traceparent_takes_precedence_over_a_trace_id() -> None:
    sdk = Sdk()
    sdk.run(Context(trace_id="f" * 32, traceparent=PARENT))
    assert sdk.span.parent is not None
    assert (f"{sdk.span.context.trace_id:032x}", f"{sdk.span.parent.span_id:016x}") == (TRACE, SPAN)


@pytest.mark.requirement("OB-4")
def test_traceparent_of_the_protocol_takes_precedence_over_that_of_http() -> None:
    own = add_trace(Context(trace_id="a" * 32, traceparent=f"00-{'a' * 32}-{SPAN}-01"), PARENT)
    assert own.trace_id == "a" * 32
    assert add_trace(ANONYMOUS, PARENT) == Context(trace_id=TRACE, traceparent=PARENT)
    assert add_trace(Context(trace_id="mine"), PARENT) == Context(trace_id="mine", traceparent=PARENT)
    assert add_trace(ANONYMOUS, "nonsense") is ANONYMOUS
    assert add_trace(ANONYMOUS, "") is ANONYMOUS


@pytest.mark.requirement("OB-4")
def test_different_active_trace_is_linked_and_the_same_one_is_the_parent() -> None:
    sdk = Sdk()
    with sdk.tracers.get_tracer("http").start_as_current_span("POST") as outer:
        sdk.run(Context(traceparent=PARENT))
        sdk.run()
    linked, child, _ = sdk.spans.get_finished_spans()
    assert f"{linked.context.trace_id:032x}" == TRACE
    assert [link.context for link in linked.links] == [outer.get_span_context()]
    assert child.parent == outer.get_span_context()


def test_server_sampler_decides_about_a_trace_without_flags() -> None:
    for sampler, stored in ((None, 1), (ParentBased(ALWAYS_OFF), 0)):
        sdk = Sdk(sampler)
        sdk.run(Context(trace_id=TRACE))
        assert len(sdk.spans.get_finished_spans()) == stored


def test_outgoing_calls_of_a_tool_are_traced_below_its_span() -> None:
    sdk = Sdk()
    sdk.run()
    assert sdk.inside == sdk.span.context
    assert sdk.sent.startswith(f"00-{sdk.inside.trace_id:032x}-{sdk.inside.span_id:016x}-0")
    with trace.use_span(trace.NonRecordingSpan(sdk.inside)):
        sent = add_current_trace(Call(TOOL, {}, "c"))
    assert (sent.context.trace_id, sent.context.traceparent) == (f"{sdk.inside.trace_id:032x}", sdk.sent)
    assert add_current_trace(Call(TOOL, {}, "c")).context is ANONYMOUS
    assert current_traceparent() == ""


@pytest.mark.requirement("OB-5")
def test_durations_are_counted_by_tool_protocol_and_error() -> None:
    sdk = Sdk()
    sdk.run()
    sdk.run(result=Problem(kind=Kind.TIMEOUT, message="late"))
    points = sdk.points("gen_ai.execute_tool.duration")
    assert sorted(str(point.attributes.get("error.type")) for point in points) == ["None", "timeout"]
    for point in points:
        assert (point.attributes["gen_ai.tool.name"], point.attributes["toolwire.protocol"]) == ("add", "otc")
        assert point.count == 1
        assert tuple(point.explicit_bounds) == BUCKETS_S
    assert [point.value for point in sdk.points("toolwire.inflight_calls")] == [0]


@pytest.mark.requirement("OB-5")
@pytest.mark.parametrize(
    ("problem", "name", "labels"),
    [
        (Problem(kind=Kind.OVERLOADED, message=""), "toolwire.shed", {"reason": "busy"}),
        (Problem(kind=Kind.OVERLOADED, message="", retry_after_ms=5_000), "toolwire.shed", {"reason": "stopping"}),
        (Problem(kind=Kind.RATE_LIMITED, message=""), "toolwire.rate_limited", {"tool": "add"}),
        (Problem(kind=Kind.DENIED, message=""), "toolwire.approvals", {"decision": "denied"}),
        (Problem(kind=Kind.UNCONFIRMED, message=""), "toolwire.approvals", {"decision": "asked"}),
    ],
)
def test_refused_calls_are_counted_by_reason(problem: Problem, name: str, labels: dict[str, str]) -> None:
    sdk = Sdk()
    sdk.run(result=problem)
    assert [(point.value, dict(point.attributes)) for point in sdk.points(name)] == [(1, labels)]


@pytest.mark.requirement("OB-5")
@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        (Value(1), "new"),
        (Problem(kind=Kind.CONFLICT, message=""), "conflict"),
        (Problem(kind=Kind.INTERRUPTED, message=""), "interrupted"),
    ],
)
def test_idempotency_outcomes_are_counted(result: Result, outcome: str) -> None:
    sdk = Sdk()
    sdk.run(result=result, key="k")
    assert attributes(sdk.span)["toolwire.idempotency"] == outcome
    assert [(each.value, dict(each.attributes)) for each in sdk.points("toolwire.idempotency")] == [
        (1, {"outcome": outcome})
    ]


def test_abandoned_call_is_recorded_as_cancelled() -> None:
    sdk = Sdk()

    async def for_ever(call: Call, notify: Notify) -> tuple[Result, float]:
        started.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def within() -> None:
        task = asyncio.ensure_future(sdk.observer.run_call(for_ever, Call(TOOL, {}), ignore_progress, "mcp"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    started = asyncio.Event()
    asyncio.run(within())
    assert attributes(sdk.span)["error.type"] == "cancelled"
    assert attributes(sdk.span)["mcp.method.name"] == "tools/call"
    assert [point.value for point in sdk.points("toolwire.inflight_calls")] == [0]


def test_telemetry_without_an_sdk_does_not_load_opentelemetry() -> None:
    assert create_observer(Telemetry()) is None
    code = (
        "import sys; from toolwire import Toolkit, asgi; asgi(Toolkit('T')); "
        "from toolwire.telemetry.calls import Telemetry, create_observer; assert create_observer(Telemetry()) is None; "
        "from toolwire.telemetry.propagation import current_traceparent; assert current_traceparent() == ''; "
        "assert 'opentelemetry' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.requirement("OB-6")
def test_call_is_logged_as_one_json_line() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    level = LOG.level
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    try:
        found = create_observer(Telemetry())
        assert isinstance(found, Observer)

        async def failing(call: Call, notify: Notify) -> tuple[Result, float]:
            return Problem(kind=Kind.TIMEOUT, message="late for Ada"), 1.0

        call = Call(TOOL, {"a": "an argument"}, "c1", Context(principal="ada", trace_id=TRACE))
        asyncio.run(found.run_call(failing, call, ignore_progress, "otc"))
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(level)
    line = json.loads(stream.getvalue())
    assert {name: line[name] for name in ("event", "level", "logger", "call_id", "tool", "protocol", "trace_id")} == {
        "event": "call of Calc.add@2.1.0: timeout",
        "level": "info",
        "logger": "toolwire.calls",
        "call_id": "c1",
        "tool": "Calc.add@2.1.0",
        "protocol": "otc",
        "trace_id": TRACE,
    }
    assert (line["outcome"], line["error_type"]) == ("error", "timeout")
    assert line["timestamp"].endswith("+00:00")
    assert line["duration_ms"] >= 0
    assert not any(word in stream.getvalue() for word in ("ada", "Ada", "argument"))
